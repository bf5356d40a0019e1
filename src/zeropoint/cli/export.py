"""`zeropoint export`: write a quantized program as a file for another runtime."""

from __future__ import annotations

from pathlib import Path

import click

from zeropoint.cli.exported import quantized_stages
from zeropoint.cli.files import INPUT_FILE, OUTPUT_FILE, check_output
from zeropoint.cli.formats import IO, ONNX_FORMAT, ONNX_WEIGHTS
from zeropoint.cli.idle import refuse_idle
from zeropoint.cli.limits import check_loops, limit_options
from zeropoint.cli.refusals import reports_errors
from zeropoint.cli.shapes import SHAPE
from zeropoint.cli.verbosity import progress, say


@click.command()
@click.argument("model", type=INPUT_FILE)
@click.option(
    "-o",
    "--output",
    required=True,
    type=OUTPUT_FILE,
    help="Where to write: NAME.tflite, .onnx, .tosa.mlir, .stablehlo.mlir or .mlirbc.",
)
@IO
@click.option(
    "--layout",
    type=click.Choice(["channels-last", "model"]),
    default="channels-last",
    show_default=True,
    help="Dimension order of images at inputs and outputs.",
)
@ONNX_FORMAT
@ONNX_WEIGHTS
@SHAPE
@limit_options
@reports_errors
def export(
    model: Path,
    output: Path,
    io: str,
    layout: str,
    onnx_format: str,
    onnx_weights: str,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
) -> None:
    """Write MODEL, the output of `quantize --emit kernels`, as a file for another runtime.

    MODEL may also be a quantized file. It is quantized again with the parameters in it, for its own target.
    """
    from zeropoint.export import EFFECTIVE, FORMATS, ExportOptions, export_program, format_suffix
    from zeropoint.frontend import load_model

    refuse_idle(*((name, format_suffix(output) not in formats, output.name) for name, formats in EFFECTIVE.items()))
    check_output(output, tuple(FORMATS), model)
    options = ExportOptions(io == "integer", layout == "channels-last", onnx_format, onnx_weights)
    program = load_model(model, dict(shapes))
    check_loops(program)
    stated = quantized_stages(model, program)
    program = program if stated is None else stated.propagated
    for path in export_program(program, output, options, progress()):
        say(f"wrote {path}")
