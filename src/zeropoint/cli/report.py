"""`zeropoint report`: write a page about an integer program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from zeropoint.cli.data import PREPROCESS, data_source
from zeropoint.cli.exported import quantized_stages
from zeropoint.cli.files import INPUT_FILE, OUTPUT_FILE, OUTPUT_FOLDER, check_output
from zeropoint.cli.idle import refuse_idle
from zeropoint.cli.limits import check_loops, limit_options
from zeropoint.cli.mask import MASK
from zeropoint.cli.refusals import reports_errors
from zeropoint.cli.shapes import CONSTANT, SHAPE
from zeropoint.cli.verbosity import progress, say

MODEL_EXPLORER = click.option(
    "--model-explorer",
    type=OUTPUT_FOLDER,
    default=None,
    metavar="DIR",
    help="Also write the program's graph and node data for Google's Model Explorer.",
)
TIMING = click.option("--timing/--no-timing", default=True, show_default=True, help="Compile and time every kernel.")
TRIALS = click.option(
    "--trials/--no-trials",
    default=True,
    show_default=True,
    help="Measure recipe rules for the kernels that add most noise.",
)


@click.command()
@click.argument("model", type=INPUT_FILE)
@click.option(
    "-o", "--output", required=True, type=OUTPUT_FILE, help="REPORT.html, or REPORT.json: the data of the page."
)
@click.option("--name", default=None, help="Title of the page; by default the name of MODEL.")
@click.option("--reference", type=INPUT_FILE, default=None, help="The float model, to compare with.")
@click.option(
    "--data", type=INPUT_FILE, default=None, help="Data to compare on: .npz, a folder of .npy files or of images."
)
@PREPROCESS
@MASK
@click.option(
    "--stages",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    metavar="DIR",
    help="The folder of quantize --save-stages: weight scales, and recipe rules to try.",
)
@click.option(
    "--target",
    default=None,
    metavar="TABLE",
    help="The target of MODEL if it is a file of your own: .toml or .py (its Python code is run).",
)
@MODEL_EXPLORER
@TIMING
@TRIALS
@SHAPE
@CONSTANT
@limit_options
@reports_errors
def report(
    model: Path,
    output: Path,
    name: str | None,
    reference: Path | None,
    data: Path | None,
    preprocess: str | None,
    mask: str | None,
    stages: Path | None,
    target: str | None,
    model_explorer: Path | None,
    timing: bool,
    trials: bool,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    constants: tuple[tuple[str, bool | int | float], ...],
) -> None:
    """Write a page about the integer program MODEL, the output of quantize: graph, noise, values, bounds, times.

    For a quantized .tflite, .onnx, .mlirbc or .stablehlo.mlir file, the page shows the program that it states.

    The page is one file that needs no network. Sections without data name the option they need: --reference, --data or
    --stages. `quantize --report` writes the same page with all sections.
    """
    from zeropoint.calibrate import samples
    from zeropoint.frontend import load_model
    from zeropoint.frontend.sources import load_alike
    from zeropoint.measure import (
        SUFFIXES,
        ReportSources,
        measured_report,
        saved_stages,
        stages_of,
        write_model_explorer,
        write_report,
    )
    from zeropoint.options import check_masked

    no_data, no_float = "no --data", "neither --reference nor --stages"
    refuse_idle(
        ("preprocess", data is None, no_data),
        ("mask", data is None, no_data),
        ("shapes", reference is None and model.suffix == ".mlir", "no --reference"),
        ("constants", reference is None, "no --reference"),
        ("data", reference is None and stages is None, no_float),
        ("target", reference is None and (stages is None or data is None), no_float if stages is None else no_data),
        ("trials", data is None, no_data),
    )
    check_output(output, SUFFIXES, model, reference, data, text=True)
    program = load_model(model, dict(shapes) if reference is None else {})
    made = quantized_stages(model, program, target)
    refuse_idle(
        ("reference", made is not None and data is None, no_data),
        ("trials", made is None and stages is None, "no --stages"),
    )
    program = program if made is None else made.integer
    check_loops(program)
    source = ReportSources() if made is None else stages_of(made)
    source = source if stages is None else saved_stages(stages)
    if target is not None:
        source = replace(source, table=target)
    if reference is not None:
        source = replace(source, reference=load_alike(reference, program.inputs, dict(shapes), dict(constants)))
    if data is not None:
        inputs = (source.reference or source.fused or program).inputs
        given = samples(data_source(data, preprocess), inputs)
        check_masked(given, program, mask)
        source = replace(source, data=given, data_name=data.name, mask=mask)
    document = measured_report(program, name or model.name, source, timing=timing, trials=trials, progress=progress())
    write_report(document, output)
    say(f"wrote {output}")
    for path in write_model_explorer(document, program, model_explorer) if model_explorer is not None else ():
        say(f"wrote {path}")


def check_report(report: Path | None, *inputs: Path | None) -> None:
    """Reject a report that cannot be written, before any work is done."""
    if report is not None:
        from zeropoint.measure import SUFFIXES

        check_output(report, SUFFIXES, *inputs, text=True)


def write_quantization(
    result: Any,
    report: Path | None,
    model_explorer: Path | None,
    name: str,
    reference: Any,
    data: Path | None,
    source: Any,
    mask: str | None,
) -> None:
    """Write the report of a program that was just quantized, its files for Model Explorer, or both.

    Both compare the program with `reference`, the float program, on `source`; `data` is the path of `source`.
    """
    if report is None and model_explorer is None:
        return
    from zeropoint.calibrate import samples
    from zeropoint.measure import measured_report, stages_of, write_model_explorer, write_report

    given = None if source is None else samples(source, reference.inputs)
    known = stages_of(result, reference, given, "" if data is None else data.name, mask)
    document = measured_report(result.integer, name, known, progress=progress())
    if report is not None:
        write_report(document, report)
        say(f"wrote {report}")
    for path in write_model_explorer(document, result.integer, model_explorer) if model_explorer is not None else ():
        say(f"wrote {path}")
