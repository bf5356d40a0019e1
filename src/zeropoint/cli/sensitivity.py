"""`zeropoint sensitivity`: which kernels cost accuracy."""

from __future__ import annotations

from pathlib import Path

import click

from zeropoint.cli.data import PREPROCESS, data_source, loaded
from zeropoint.cli.effort import effort_option
from zeropoint.cli.files import INPUT_FILE
from zeropoint.cli.idle import is_given
from zeropoint.cli.limits import check_loops, limit_options
from zeropoint.cli.mask import MASK
from zeropoint.cli.observers import OBSERVER
from zeropoint.cli.refusals import reports_errors
from zeropoint.cli.shapes import CONSTANT, SHAPE
from zeropoint.cli.verbosity import progress
from zeropoint.cli.workers import check_workers, workers_option


@click.command()
@click.argument("model", type=INPUT_FILE)
@click.option(
    "--data", required=True, type=INPUT_FILE, help="Calibration data: .npz, a folder of .npy files or of images."
)
@PREPROCESS
@click.option(
    "--target",
    default="cpu",
    show_default=True,
    help="Target whose kernels are used: see `zeropoint targets`; or a .toml or .py (its Python code is run).",
)
@OBSERVER
@MASK
@effort_option("Corrections to apply first, as in quantize.")
@click.option(
    "--exact",
    is_flag=True,
    help="Also measure the outputs of four samples with only one kernel in 16 bits, or in float where the target has "
    "no 16 bits, and with only one in 8 bits; quantizes the network once or twice per kernel.",
)
@workers_option("for calibration and --exact")
@click.option(
    "--worst",
    type=click.IntRange(1),
    default=None,
    metavar="N",
    help="Print only the N worst kernels.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@SHAPE
@CONSTANT
@limit_options
@reports_errors
def sensitivity(
    model: Path,
    data: Path,
    preprocess: str | None,
    target: str,
    observer: str,
    mask: str | None,
    effort: str,
    exact: bool,
    workers: int,
    worst: int | None,
    as_json: bool,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    constants: tuple[tuple[str, bool | int | float], ...],
) -> None:
    """Quantize MODEL and print, for each kernel, the noise that it adds and inherits, and the gain from 16 bits."""
    import json

    from zeropoint.calibrate import Work, samples
    from zeropoint.options import Options, check_options
    from zeropoint.pipeline import sensitivity

    options = Options(target, observer=observer, effort=effort, mask=mask)
    check_options(options)
    source = data_source(data, preprocess)
    program = loaded(model, dict(shapes), source, dict(constants))
    check_loops(program)
    check_workers(workers)
    work, given = Work(workers) if workers != 1 else None, samples(source, program.inputs)
    chosen = is_given("observer")
    found = sensitivity(program, given, options, exact=exact, progress=progress(), work=work, observer=chosen)
    listed = found if worst is None else found.worst(worst)
    click.echo(json.dumps([one.record() for one in listed], indent=2) if as_json else str(listed))
