"""`zeropoint quantize`: quantize a float model to an integer program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from zeropoint.cli.data import PREPROCESS, data_sources, loaded
from zeropoint.cli.effort import effort_option
from zeropoint.cli.files import INPUT_FILE, OUTPUT, OUTPUT_FILE, OUTPUT_FOLDER, check_output
from zeropoint.cli.formats import IO, ONNX_FORMAT, ONNX_WEIGHTS
from zeropoint.cli.idle import is_given, refuse_idle
from zeropoint.cli.limits import check_loops, limit_options
from zeropoint.cli.mask import MASK
from zeropoint.cli.observers import OBSERVER
from zeropoint.cli.refusals import reports_errors
from zeropoint.cli.report import MODEL_EXPLORER, check_report, write_quantization
from zeropoint.cli.shape_sets import check_set, quantize_set
from zeropoint.cli.shapes import CONSTANT, SHAPES, combined
from zeropoint.cli.verbosity import progress, say
from zeropoint.cli.workers import RESUME, work_for, workers_option

SINGLE = ("emit", "save_stages", "report", "model_explorer", "inline_weights", "workers", "resume")
"""Options about one program, which have no effect with several shapes."""


@click.command()
@click.argument("model", type=INPUT_FILE)
@click.option(
    "--data",
    type=INPUT_FILE,
    default=None,
    help="Calibration data: .npz, a folder of .npy files or of images. Not needed if the model states all ranges.",
)
@PREPROCESS
@click.option(
    "-o",
    "--output",
    required=True,
    type=OUTPUT,
    help="Where to write: NAME.mlir, NAME.tflite, NAME.onnx, NAME.tosa.mlir, NAME.stablehlo.mlir, NAME.mlirbc; for "
    "several shapes, a folder.",
)
@click.option(
    "--target",
    default="cpu",
    show_default=True,
    help="Target whose kernels are used: see `zeropoint targets`; or a .toml or .py (its Python code is run).",
)
@click.option("--profile", default=None, help="Numerics profile: how every step rounds.  [default: the target's]")
@OBSERVER
@click.option("--recipe", "recipe_file", type=INPUT_FILE, default=None, help="Rules for parts of the model: .yaml.")
@click.option(
    "--least-sqnr",
    type=float,
    default=None,
    metavar="DB",
    help="Minimum output SQNR against float, in dB; uses wider kernels where needed, and fails if it is missed.",
)
@click.option(
    "--budget",
    "limits",
    default=None,
    metavar="LIMITS",
    help="Limits separated by commas: quality=DB, size=BYTES, latency=MS. A search widens kernels, or keeps them in "
    "float, to meet them.",
)
@effort_option("How many corrections to try, to bring the outputs closer to float.")
@click.option(
    "--correct",
    "corrections",
    default=None,
    metavar="NAMES",
    help="Corrections to try, separated by commas; replaces --effort.",
)
@click.option(
    "--validation",
    type=INPUT_FILE,
    default=None,
    help="Data to judge corrections on.  [default: a quarter of the calibration data, held back]",
)
@MASK
@IO
@click.option(
    "--emit",
    type=click.Choice(["integer", "stablehlo", "kernels"]),
    default="integer",
    show_default=True,
    help="What to write: the integer program, the quantized StableHLO before it, or the kernels with their types.",
)
@ONNX_FORMAT
@ONNX_WEIGHTS
@click.option("--integer-only", is_flag=True, help="Fail if any op stays in float, and list them.")
@click.option(
    "--save-stages",
    type=OUTPUT_FOLDER,
    default=None,
    metavar="DIR",
    help="Also write the program after every stage; `zeropoint opt` resumes from any of them.",
)
@click.option(
    "--report",
    type=OUTPUT_FILE,
    default=None,
    metavar="FILE",
    help="Also write a page about the result, REPORT.html (docs/report.md), compared on --validation or --data.",
)
@MODEL_EXPLORER
@click.option("--inline-weights", is_flag=True, help="One self-contained .mlir file instead of .mlir + .safetensors.")
@workers_option("that calibrate")
@RESUME
@SHAPES
@CONSTANT
@limit_options
@reports_errors
def quantize(
    model: Path,
    data: Path | None,
    preprocess: str | None,
    output: Path,
    target: str,
    profile: str | None,
    observer: str,
    recipe_file: Path | None,
    least_sqnr: float | None,
    limits: str | None,
    effort: str,
    corrections: str | None,
    validation: Path | None,
    mask: str | None,
    io: str,
    emit: str,
    onnx_format: str,
    onnx_weights: str,
    integer_only: bool,
    save_stages: Path | None,
    report: Path | None,
    model_explorer: Path | None,
    inline_weights: bool,
    workers: int,
    resume: bool,
    shapes: tuple[tuple[str, list[tuple[int, ...]]], ...],
    constants: tuple[tuple[str, bool | int | float], ...],
) -> None:
    """Calibrate MODEL on data and write it as an integer program."""
    from zeropoint.export import ExportOptions, check_target, export_program, format_suffix
    from zeropoint.ir.files import save_program
    from zeropoint.observed_ranges import remove_journals
    from zeropoint.options import Options, check_options
    from zeropoint.quantization import check_used, require_integers
    from zeropoint.recipe import load_recipe
    from zeropoint.targets import target as named_target

    every = combined(shapes)
    _check_output(output, (model, data, validation, recipe_file), several=len(every) > 1, inline=inline_weights)
    check_report(report, model, data, validation, recipe_file, output)
    is_text = format_suffix(output) is None
    refuse_idle(
        *((name, output.suffix != ".onnx", output.name) for name in ("onnx_format", "onnx_weights")),
        ("inline_weights", not is_text, output.name),
        ("emit", not is_text, output.name),
        ("io", is_text and emit != "integer", f"--emit {emit}"),
        ("effort", corrections is not None, "--correct"),
        (
            "validation",
            effort == "none" and corrections is None and limits is None and least_sqnr is None,
            "--effort none",
        ),
        ("preprocess", data is None and validation is None, "no --data"),
        *((name, len(every) > 1, "several shapes") for name in SINGLE),
    )
    recipe = None if recipe_file is None else load_recipe(recipe_file)
    options = Options(
        target,
        profile,
        observer,
        io == "integer",
        recipe,
        least_sqnr=least_sqnr,
        effort=effort,
        corrections=None if corrections is None else corrections.split(","),
        budget=_budget(limits),
        mask=mask,
    )
    check_options(options)
    check_target(output, named_target(target).name)
    sources = data_sources(preprocess, data, validation)
    if len(every) > 1:
        programs = [loaded(model, given, sources[0], dict(constants)) for given in every]
        quantize_set(programs, sources, options, output, integer_only=integer_only)
        return
    program = loaded(model, every[0], sources[0], dict(constants))
    check_loops(program)
    work = work_for(output, workers, resume)
    result = _quantized(program, sources[0], sources[1], options, work)
    check_used(result, options, replace(work, journal=None), observer=is_given("observer"))
    for warning in result.warnings:
        click.echo(f"zeropoint: warning: {warning}", err=True)
    for path in result.save_stages(save_stages) if save_stages is not None else ():
        say(f"wrote {path}")
    if integer_only:
        require_integers(result)
    if not is_text:
        settings = ExportOptions(integer_io=io == "integer", onnx_format=onnx_format, onnx_weights=onnx_weights)
        for path in export_program(result.propagated, output, settings, progress()):
            say(f"wrote {path}")
    else:
        for path in save_program(result.emitted(emit), output, inline_weights=inline_weights):
            say(f"wrote {path}")
    remove_journals(work)
    for line in (_summary(result), *result.findings):
        say(line)
    held = (data, sources[0]) if validation is None else (validation, sources[1])
    write_quantization(result, report, model_explorer, output.name, program, *held, mask)


def _check_output(output: Path, inputs: tuple[Path | None, ...], *, several: bool, inline: bool) -> None:
    """Reject an output that cannot be written, before any work is done."""
    from zeropoint.export import FORMATS, format_suffix
    from zeropoint.ir.files import check_weights_file
    from zeropoint.ir.outputs import is_stream

    if several:
        check_set(output)
        return
    check_output(output, (".mlir", *FORMATS), *inputs, text=True)
    if format_suffix(output) is None and not inline and not is_stream(output):
        check_weights_file(output)


def _budget(limits: str | None) -> Any:
    from zeropoint.budget import Budget

    return None if limits is None else Budget.parse(limits)


def _quantized(program: Any, data: Any, validation: Any, options: Any, work: Any) -> Any:
    from zeropoint.calibrate import samples
    from zeropoint.pipeline import quantize

    held = () if validation is None else samples(validation, program.inputs)
    given = None if data is None else samples(data, program.inputs)
    return quantize(program, given, options, validation=held, progress=progress(), work=work, keep_journals=True)


def _summary(result: Any) -> str:
    from zeropoint.ir.annotations import RESCALE_COUNTS
    from zeropoint.report.counts import Ops, counted

    moved = result.propagated.module.attributes.get(RESCALE_COUNTS)
    ops = Ops.of(result.integer)
    before = ops.counts.rescales if moved is None else moved.data["before"].value.data
    shown = counted(ops.counts.rescales, "rescale")
    both = f"{shown} ({before} before they were moved)"
    return str(ops) if before == ops.counts.rescales else str(ops).replace(shown, both, 1)
