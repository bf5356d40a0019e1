"""The options `--io`, `--onnx-format` and `--onnx-weights` of the commands that write programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click


def choice_option(name: str, choices: Sequence[str], text: str) -> Callable[..., Any]:
    """An option that takes one of `choices`. The first one is the default, which `--help` shows."""
    return click.option(name, type=click.Choice(choices), default=choices[0], show_default=True, help=text)


IO = choice_option("--io", ["float", "integer"], "Inputs and outputs: floats, or storage integers.")
ONNX_FORMAT = choice_option(
    "--onnx-format",
    ["qdq", "qoperator"],
    "Form of .onnx files. qdq: float ops between quantize and dequantize ops, which runtimes fuse. qoperator: integer "
    "ops.",
)
ONNX_WEIGHTS = choice_option(
    "--onnx-weights",
    ["auto", "exact", "i8", "u8"],
    "Type of 8-bit weights in .onnx files. u8: the same results on every processor. i8: faster. exact: i8 where it "
    "gives the same results on every processor, else u8. auto: i8 for target openvino, else exact.",
)
