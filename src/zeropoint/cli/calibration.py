"""`zeropoint calibrate`: observe the ranges of a model's values, and write them to a file or into the program."""

from __future__ import annotations

from pathlib import Path

import click

from zeropoint.cli.data import PREPROCESS, data_source, loaded
from zeropoint.cli.files import INPUT_FILE, OUTPUT_FILE, check_output
from zeropoint.cli.idle import refuse_idle
from zeropoint.cli.limits import check_loops, limit_options
from zeropoint.cli.observers import OBSERVER
from zeropoint.cli.refusals import reports_errors
from zeropoint.cli.shapes import CONSTANT, SHAPE
from zeropoint.cli.verbosity import progress, say
from zeropoint.cli.workers import RESUME, work_for, workers_option

SUFFIXES = (".json", ".mlir")


@click.command()
@click.argument("model", type=INPUT_FILE)
@click.option(
    "--data", required=True, type=INPUT_FILE, help="Calibration data: .npz, a folder of .npy files or of images."
)
@PREPROCESS
@click.option(
    "-o", "--output", required=True, type=OUTPUT_FILE, help="STATISTICS.json, or NAME.mlir with quant.stats in it."
)
@click.option(
    "--target", default="cpu", show_default=True, help="Target whose kernels decide which values are observed."
)
@OBSERVER
@workers_option("that calibrate")
@RESUME
@SHAPE
@CONSTANT
@limit_options
@reports_errors
def calibrate(
    model: Path,
    data: Path,
    preprocess: str | None,
    output: Path,
    target: str,
    observer: str,
    workers: int,
    resume: bool,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    constants: tuple[tuple[str, bool | int | float], ...],
) -> None:
    """Observe the values of MODEL on data and write their ranges.

    MODEL is a float model, or a program with quant.stats_ref ops (`zeropoint opt -p 'fuse,instrument'`). A statistics
    file can be edited; the pass state-statistics inserts its ranges into such a program.
    """
    from zeropoint.calibrate import CalibrationError, collect, observer_factory, samples, state_ranges, stats_keys
    from zeropoint.calibrate.statistics import statistics_text
    from zeropoint.ir.files import save_program
    from zeropoint.ir.outputs import write_atomically
    from zeropoint.observed_ranges import check_journals, remove_journals
    from zeropoint.passes import ASKING_PASSES, FLOAT_PASSES, run_all
    from zeropoint.targets import target as named_target

    check_output(output, SUFFIXES, model, data, text=True)
    observer_factory(observer)
    named_target(target)
    source = data_source(data, preprocess)
    program = loaded(model, dict(shapes), source, dict(constants))
    check_loops(program)
    refuse_idle(("target", bool(stats_keys(program)), "a program that asks for statistics"))
    if not stats_keys(program):
        program = run_all((*FLOAT_PASSES, *ASKING_PASSES), program, {"target": target})
    if not stats_keys(program):
        raise CalibrationError(
            f"{model}: found no value whose range has to be observed, expected at least one; the model states its "
            f"ranges, or has no op that target {target} quantizes"
        )
    work = work_for(output, workers, resume)
    check_journals(work)
    report = collect(program, samples(source, program.inputs), observer=observer, progress=progress(), work=work)
    for warning in report.warnings:
        click.echo(f"zeropoint: warning: {warning}", err=True)
    if output.suffix in ("", ".json"):  # no suffix: a pipe or a device
        text = statistics_text(report, observer)
        write_atomically(output, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        say(f"wrote {output}")
    else:
        for path in save_program(state_ranges(program, report), output):
            say(f"wrote {path}")
    remove_journals(work)
    say(f"{len(report.observations)} values observed on {report.samples} samples")
