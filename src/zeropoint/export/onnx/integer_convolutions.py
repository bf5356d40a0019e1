"""Convolutions of integers as `ConvInteger`: of u8 or i8, minus a zero point each.

```mlir
%2 = stablehlo.subtract (stablehlo.convert %x), (broadcast of stablehlo.convert %zero_point)   // i32
%3 = stablehlo.convolution(%2, %weights)
```
Files of dynamic quantization are imported to it. Products of matrices need no such operator: MatMul has integers.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.onnx.contractions import channels_first, conv_attributes
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvertOp, ConvolutionOp, SubtractOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

BYTES = ("int8", "uint8")


class _Shifted(NamedTuple):
    """Integers of 8 bits, and the zero point that is subtracted from them."""

    stored: SSAValue
    point: SSAValue | None


def integer_convolution(op: ConvolutionOp, emit: OnnxEmission) -> None:
    """ConvInteger. Raises ExportError for operands that are no integers of 8 bits minus a zero point."""
    sides = [_shifted(value) for value in (op.lhs, op.rhs)]
    rank = len(op.dimension_numbers.data.input_spatial_dimensions)
    dilated = any(step != 1 for step in array_values(op.lhs_dilation, (1,) * rank))
    reverses = any(array_values(op.window_reversal, (False,) * rank))
    if None in sides or dilated or reverses or op.batch_group_count.value.data != 1:
        raise ExportError(
            "found a convolution of integers, expected one of floats, or of u8 or i8 minus a zero point: ONNX's Conv "
            "has no integers, and ConvInteger no others",
            op,
        )
    orders, name = channels_first(op.dimension_numbers.data), emit.name(op.result)
    operands: list[Tensor] = []
    points: list[str] = []
    for side, order, part in zip(filter(None, sides), orders, ("images", "weights"), strict=False):
        kind = element_of(side.stored)
        operands.append(emit.transposed(emit.operand(side.stored, kind), order, f"{name}/{part}"))
        points.append("" if side.point is None else emit.operand(side.point, kind).name)
    shape = [shape_of(op.result)[axis] for axis in orders[2]]
    while points and not points[-1]:
        points.pop()
    attributes = conv_attributes(op, operands[1].shape[2:], op)
    made = emit.direct("ConvInteger", operands, element_of(op.result), shape, name, attributes, points)
    emit.put(op.result, emit.transposed(made, [orders[2].index(axis) for axis in range(len(shape))], f"{name}/back"))


def _shifted(value: SSAValue) -> _Shifted | None:
    """The 8-bit integers that an i32 value is made of; None for any other value."""
    owner, point = value.owner, None
    if isinstance(owner, SubtractOp):
        spread = owner.rhs.owner
        if not isinstance(spread, BroadcastInDimOp) or shape_of(spread.operand):
            return None
        point, owner = _narrow(spread.operand), owner.lhs.owner
        if point is None:
            return None
    if not isinstance(owner, ConvertOp) or (stored := _narrow(owner.result)) is None:
        return None
    return _Shifted(stored, point) if point is None or element_of(point) == element_of(stored) else None


def _narrow(value: SSAValue) -> SSAValue | None:
    """The 8-bit integers that a value is converted from."""
    owner = value.owner
    found = owner.operand if isinstance(owner, ConvertOp) else None
    return found if found is not None and element_dtype(element_of(found)).name in BYTES else None
