"""Folders of programs for several shapes: `quantize --shape x=1..8x128 -o FOLDER`, `run FOLDER`, `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zeropoint.cli.limits import check_loops
from zeropoint.cli.refusals import fail
from zeropoint.cli.verbosity import progress, say


def check_set(output: Path) -> None:
    """Reject an output that cannot be a folder of programs, before any work is done."""
    from zeropoint.ir.outputs import check_parent, is_stream

    if output.suffix or is_stream(output) or (output.exists() and not output.is_dir()):
        stem = "models" if is_stream(output) else output.stem or "models"
        fail(f"{output}: found a file for several shapes, expected the name of a folder: -o {stem}")
    check_parent(output)


def quantize_set(
    programs: Sequence[Any], sources: Sequence[Any], options: Any, output: Path, *, integer_only: bool
) -> None:
    """Quantize one network for several shapes, with one calibration, and write the programs into a folder."""
    import click

    from zeropoint.calibrate import samples
    from zeropoint.model import Model
    from zeropoint.pipeline import quantize
    from zeropoint.quantization import require_integers
    from zeropoint.report.counts import Ops
    from zeropoint.specializations import Specializations
    from zeropoint.specialize import quantize_shapes

    check_loops(*programs)

    def calibrated(program: Any, given: Any, chosen: Any) -> Any:
        held = () if sources[1] is None else samples(sources[1], program.inputs)
        return quantize(program, given, chosen, validation=held, progress=progress())

    made = quantize_shapes(programs, sources[0], options, calibrated)
    for result in made:
        if integer_only:
            require_integers(result)
    for warning in dict.fromkeys(warning for result in made for warning in result.warnings):
        click.echo(f"zeropoint: warning: {warning}", err=True)
    for path in Specializations([Model(result.integer, result) for result in made]).save(output):
        say(f"wrote {path}")
    for line in dict.fromkeys(str(Ops.of(result.integer)) for result in made):
        say(line)
    for line in dict.fromkeys(line for result in made for line in result.findings):
        say(line)


def _loaded(folder: Path, engine: str, threads: int) -> Any:
    """The programs of a folder, set up to run with the engine of that name."""
    from zeropoint.specializations import Specializations

    models = Specializations.load(folder)
    check_loops(*(model.program for model in models.models))
    if threads != 1 and engine != "native":
        fail(f"found --threads {threads} with --engine {engine}, expected --engine native")
    if engine == "native":
        return models.native(threads=threads)
    return Specializations([model.interpreted() for model in models.models]) if engine == "interp" else models


def compare_set(
    reference: Path,
    folder: Path,
    source: Any,
    constants: dict[str, Any],
    engine: str,
    threads: int,
    *,
    layers: bool,
    mask: str | None,
) -> Any:
    """Compare the programs of a folder with a reference. The shapes of a sample select the program."""
    from zeropoint.comparison import compare_all, paired

    pairs = paired(reference, _loaded(folder, engine, threads), source, constants)
    check_loops(*(first.program for first, _, _ in pairs))
    return compare_all(pairs, layers=layers, mask=mask, progress=progress())


def run_set(folder: Path, inputs: Path, engine: str, threads: int) -> dict[str, Any]:
    """Run the programs of a folder on the arrays of an .npz, and return the outputs. The shapes select the program.

    Exits with status 2 if `inputs` is not an .npz, or has no array for an input of the programs.
    """
    import numpy as np

    from zeropoint.calibrate import DataError
    from zeropoint.errors import reading

    if inputs.suffix != ".npz":
        fail(f"{inputs}: found no .npz for a folder of programs, expected one with an array for each input")
    models = _loaded(folder, engine, threads)
    names = [port.name for port in models.models[0].inputs]
    with reading(inputs, DataError), np.load(inputs) as found:
        missing = [name for name in names if name not in found]
        arrays = {name: found[name] for name in names if name in found}
    if missing:
        fail(f"{inputs}: found no array '{missing[0]}', expected one for each of {', '.join(map(repr, names))}")
    return models(**arrays)
