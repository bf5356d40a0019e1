"""The options `--io` and `--onnx-format` of the commands that write programs."""

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
