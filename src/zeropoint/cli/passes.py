"""`zeropoint opt`: run passes on programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from zeropoint.cli.files import INPUT_FILE, OUTPUT_FILE, check_output, program_text, weights_of
from zeropoint.cli.idle import is_given, refuse_idle
from zeropoint.cli.limits import check_loops, limit_options
from zeropoint.cli.refusals import reports_errors
from zeropoint.cli.shapes import CONSTANT, SHAPE

MODELS = (".mlirbc", ".onnx", ".tflite")
"""Suffixes of files that are imported; others are read as text."""


def _list_passes(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        click.echo(_listing())
        context.exit()


def _listing() -> str:
    from zeropoint.passes import listing

    return listing()


class _WithPasses(click.Command):
    """A command whose help ends with the list of passes."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n{_listing()}\n")


@click.command(cls=_WithPasses)
@click.argument("file", type=INPUT_FILE)
@click.option(
    "-p", "--passes", "--pass-pipeline", default="", help="Passes in order: 'simplify,fuse,propagate{target=litert}'."
)
@click.option("-o", "--output", type=OUTPUT_FILE, default=None, help="Where to write; default: standard output.")
@click.option("--split-input-file", is_flag=True, help="Process the parts between '// -----' lines separately.")
@click.option("--verify-diagnostics", is_flag=True, help="Check that errors match the expected-error comments.")
@click.option(
    "--allow-unregistered-dialect", is_flag=True, help="Accept ops of unregistered dialects, in the generic form."
)
@click.option("--mlir-print-ir-after-all", "after_all", is_flag=True, help="Print the program after each pass.")
@click.option("--generic", is_flag=True, help="Print ops in the generic form.")
@click.option("--locations", is_flag=True, help="Print locations; a file always has them.")
@click.option("--inline-weights", is_flag=True, help="Print large constants as a resource section.")
@click.option(
    "--list-passes",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_passes,
    help="List the passes and exit.",
)
@SHAPE
@CONSTANT
@limit_options
@reports_errors
def opt(
    file: Path,
    passes: str,
    output: Path | None,
    split_input_file: bool,
    verify_diagnostics: bool,
    allow_unregistered_dialect: bool,
    after_all: bool,
    generic: bool,
    locations: bool,
    inline_weights: bool,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    constants: tuple[tuple[str, bool | int | float], ...],
) -> None:
    """Run passes on the program in FILE, as mlir-opt does.

    FILE is .mlir, .mlirbc, .onnx or .tflite; '-' is standard input.

    Large constants are written beside the output, as NAME.safetensors. In output to a pipe they are inline; in output
    to a terminal they are left out without --inline-weights.
    """
    from zeropoint import opt as optimizer

    is_text = file.suffix.lower() not in MODELS
    refuse_idle(
        *((name, not is_text, file.name) for name in ("split_input_file", "verify_diagnostics")),
        ("allow_unregistered_dialect", not is_text, file.name),
        *((name, not passes, "no --passes") for name in ("after_all", "max_trips")),
        ("locations", output is not None, f"--output {output}, which has them"),
        *((name, verify_diagnostics, "--verify-diagnostics") for name in ("output", "generic", "locations")),
        ("inline_weights", verify_diagnostics, "--verify-diagnostics"),
        *((name, is_text, file.name) for name in ("shapes", "constants")),
    )
    if output is not None:
        check_output(output, (), file, text=True)
    chain = optimizer.parse_passes(passes, _show if after_all else None)
    if chain and is_given("max_trips"):
        chain.insert(0, _with_loops)
    if not is_text:
        from zeropoint.frontend import load_model

        programs = [optimizer.run_passes(load_model(file, dict(shapes), dict(constants)), chain)]
    else:
        text, name = program_text(file)
        reading = optimizer.Reading(name, split_input_file, allow_unregistered_dialect)
        if verify_diagnostics:
            problems = optimizer.verify_diagnostics(text, chain, reading)
            for problem in problems:
                click.echo(problem, err=True)
            raise SystemExit(1 if problems else 0)
        programs = list(optimizer.optimized(text, chain, reading, weights_of(file)))
    _write(programs, output, generic=generic, locations=locations, inline_weights=inline_weights)


def _with_loops(program: Any) -> Any:
    """A pass that changes nothing. Rejects `--max-trips` for a program without loops."""
    check_loops(program)
    return program


def _show(name: str, program: Any) -> None:
    """Print the program after a pass to standard error, as mlir-opt does, without its weights."""
    from zeropoint.ir.text import print_program

    click.echo(f"// -----// IR Dump After {name} //----- //\n{print_program(program, names=True)}", err=True)


def _write(programs: list[Any], output: Path | None, *, generic: bool, locations: bool, inline_weights: bool) -> None:
    from zeropoint.ir.files import save_program
    from zeropoint.ir.outputs import is_stream, write_atomically
    from zeropoint.ir.text import resource_handles
    from zeropoint.opt import printed

    stream = output is not None and is_stream(output)
    if output is not None and len(programs) == 1 and not stream:
        save_program(programs[0], output, inline_weights=inline_weights, generic=generic)
        return
    known = all(resource_handles(program.module).keys() <= program.weights.keys() for program in programs)
    inline = inline_weights or (known and (output is not None or not sys.stdout.isatty()))
    text = printed(programs, generic=generic, locations=locations or stream, inline_weights=inline, names=True)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_atomically(output, lambda temporary: temporary.write_text(text, encoding="utf-8"))
