"""The options `--io`, `--onnx-format` and `--onnx-weights` of the commands that write programs."""

from __future__ import annotations

import click

IO = click.option(
    "--io",
    type=click.Choice(["float", "integer"]),
    default="float",
    show_default=True,
    help="Inputs and outputs: floats, or storage integers.",
)
ONNX_FORMAT = click.option(
    "--onnx-format",
    type=click.Choice(["qdq", "qoperator"]),
    default="qdq",
    show_default=True,
    help="Form of .onnx files: float ops between casts, which runtimes fuse, or integer operators.",
)
ONNX_WEIGHTS = click.option(
    "--onnx-weights",
    type=click.Choice(["auto", "exact", "i8", "u8"]),
    default="auto",
    show_default=True,
    help="8-bit weights of .onnx files: i8 (fast), u8 (exact on every processor), or exact: i8 where that is exact, "
    "too. auto is exact, and i8 for target openvino.",
)
