"""`zeropoint compile`: an integer program to an object or a shared library."""

from __future__ import annotations

from pathlib import Path

import click

from zeropoint.cli.files import INPUT_FILE, OUTPUT_FILE, check_output
from zeropoint.cli.limits import check_loops, limit_options
from zeropoint.cli.refusals import reports_errors
from zeropoint.cli.verbosity import progress, say


@click.command("compile")
@click.argument("model", type=INPUT_FILE)
@click.option("-o", "--output", required=True, type=OUTPUT_FILE, help="Where to write: libNAME.so, or NAME.o.")
@click.option(
    "--cpu", default=None, metavar="NAME", help="LLVM's name of the processor to compile for.  [default: this one]"
)
@click.option("--isa", default=None, metavar="NAME", help="The instruction set to compile for: avx2, portable, ...")
@click.option("--triple", default=None, metavar="TRIPLE", help="Compile for another system: aarch64-unknown-linux-gnu.")
@click.option("--name", default=None, help="Prefix of the C functions.  [default: the file's name]")
@limit_options
@reports_errors
def compile_(model: Path, output: Path, cpu: str | None, isa: str | None, triple: str | None, name: str | None) -> None:
    """Compile the integer program MODEL to an object or a shared library, with a C header NAME.h beside it.

    A folder of programs for several shapes becomes one library that shares their weights, and NAME_find(sizes) of its
    header selects the function. A shared library is linked with the C compiler named by $CC, else cc.
    """
    from zeropoint.frontend import load_model
    from zeropoint.model import Model
    from zeropoint.specializations import Specializations

    check_output(output, (".o", ".so"), model)
    made = Specializations.load(model) if model.is_dir() else Model(load_model(model))
    check_loops(*(one.program for one in (made.models if isinstance(made, Specializations) else [made])))
    for path in made.compile(output, name=name, isa=isa, cpu=cpu, triple=triple, progress=progress()):
        say(f"wrote {path}")
