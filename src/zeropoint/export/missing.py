"""The error for an op that stays float and that a format lacks."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from xdsl.dialects.builtin import AnyFloat, StringAttr
from xdsl.ir import Operation

from zeropoint.export.errors import ExportError
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import element_of

TABLES: Mapping[str, tuple[str, str]] = {
    "ONNX": ("zeropoint.export.onnx.floats", "--target onnxruntime -o model.onnx"),
    "LiteRT": ("zeropoint.export.litert.floats", "--target litert -o model.tflite"),
    "TOSA": ("zeropoint.export.tosa.floats", "--target tosa -o model.tosa.mlir"),
}
"""For each format, the module whose `OPERATORS` lists its float ops, and the options that write the format."""


def missing_in_float(op: Operation, format_name: str) -> ExportError:
    """An error that names the op, the reason why it stays float, and the formats that have it."""
    reason = op.attributes.get(FLOAT_REASON)
    why = f" (it stays float: {reason.data})" if isinstance(reason, StringAttr) else ""
    others = [options for name, (module, options) in TABLES.items() if name != format_name and _has(module, op)]
    use = f"use {' or '.join(others)}, " if others else ""
    found = f"found {op.name}, expected an op that {format_name} has in float"
    if isinstance(op, ConvolutionOp | DotGeneralOp) and not isinstance(kind := element_of(op.results[0]), AnyFloat):
        found = f"found a contraction of {kind} values, expected i32 values that are 8-bit integers minus a zero point"
        if isinstance(op, ConvolutionOp):
            found += ", constant weights, and sums of at most 24 bits in each group"
        use = f"use {TABLES['ONNX'][1]}, "
    elif isinstance(op, ConvolutionOp):
        found = f"found computed weights of a convolution, expected constant ones for {format_name}"
    return ExportError(
        f"{found}{why}; {use}replace it in the model, or run the model with --target cpu",
        op,
    )


def _has(module: str, op: Operation) -> bool:
    """Whether the table of a format has an op. The table is imported here, because its module imports this one."""
    return type(op) in cast("Mapping[type[Operation], object]", import_module(module).OPERATORS)
