"""Reductions in the types of their bodies, and windows without padding.

```mlir
%y = "stablehlo.reduce_window"(%x, %v) ({ body on i32 }) {padding = [[1, 1]], ...} : (tensor<6xi8>, tensor<i8>) -> ...
```
becomes
```mlir
%0 = stablehlo.convert %x : tensor<6xi32>
%1 = stablehlo.convert %v : tensor<i32>
%2 = stablehlo.pad %0, %1, low = [1], high = [1], interior = [0]       (by select, if %v is computed)
%3 = "stablehlo.reduce_window"(%2, %1) ({ body on i32 }) ...
%y = stablehlo.convert %3
```
Sums, products, maxima and minima of one operand stay: loop nests convert and pad.

Source: the RFC "StableHLO quantization for reduction ops", conversions (F) and (G).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Operation, SSAValue

from zeropoint.expand.emission import Emission
from zeropoint.expand.padding import padded
from zeropoint.ir.constants import is_constant
from zeropoint.ir.stablehlo import (
    AddOp,
    AndOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    OrOp,
    ReduceOp,
    ReduceWindowOp,
)
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.ir.window_padding import padding_of, pads

ORDER_ONLY = (MaximumOp, MinimumOp)
"""Bodies that do not round, so that the order of elements does not matter."""
SINGLE = (AddOp, AndOp, MultiplyOp, OrOp, *ORDER_ONLY)
"""Bodies that loop nests of native code compute."""


def is_single(op: ReduceOp | ReduceWindowOp) -> bool:
    """Whether loop nests compute a reduction: one op of `SINGLE` on one operand, no sum or product of f16 and bf16."""
    body = body_op(op.body)
    if len(op.operands) != 2 or body is None or not issubclass(body, SINGLE):
        return False
    return issubclass(body, ORDER_ONLY) or not isinstance(element_of(op.body.block.args[0]), BFloat16Type | Float16Type)


def is_converting(op: ReduceOp) -> bool:
    """Whether a reduction's types differ from those of its body, and no loop nest computes it."""
    return not is_single(op) and converts(op)


def reduction(emit: Emission, op: ReduceOp) -> Sequence[SSAValue]:
    """The reduction in the types of its body."""
    return reduced(emit, op, inside(emit, op), ())


def window(emit: Emission, op: ReduceWindowOp) -> Sequence[SSAValue] | None:
    """`reduce_window` on padded operands, in the types of the body; None if a loop nest computes it unchanged."""
    if is_single(op) and (not pads(op) or is_constant(op.init_values[0])):
        return None
    return padded_window(emit, op) if pads(op) or converts(op) else None


def in_one_type(emit: Emission, op: ReduceOp | ReduceWindowOp) -> Sequence[SSAValue] | None:
    """`reduce` or `reduce_window` in the types of the body; None if it has these types already."""
    if not converts(op):
        return None
    return reduction(emit, op) if isinstance(op, ReduceOp) else padded_window(emit, op)


def padded_window(emit: Emission, op: ReduceWindowOp) -> Sequence[SSAValue]:
    """`reduce_window` on padded operands, in the types of the body."""
    values, count = inside(emit, op), len(op.inputs)
    for n, (value, start) in enumerate(zip(values[:count], values[count:], strict=True)):
        values[n] = padded(emit, value, start, *padding_of(op)) if pads(op) else value
    return reduced(emit, op, values, ("padding", "base_dilations"))


def converts(op: ReduceOp | ReduceWindowOp) -> bool:
    """Whether the element types of the body differ from those of operands or results."""
    pairs = [*zip(op.operands, op.body.block.args, strict=True), *zip(op.results, op.body.block.args, strict=False)]
    return any(element_of(value) != element_of(argument) for value, argument in pairs)


def inside(emit: Emission, op: ReduceOp | ReduceWindowOp) -> list[SSAValue]:
    """The operands and initial values, converted to the types of the body."""
    return [
        emit.converted(value, element_of(argument))
        for value, argument in zip(op.operands, op.body.block.args, strict=True)
    ]


def reduced(
    emit: Emission, op: ReduceOp | ReduceWindowOp, values: Sequence[SSAValue], without: Sequence[str]
) -> Sequence[SSAValue]:
    """A copy of the op on other operands, without some properties.

    Its results are converted to the op's result types.
    """
    kinds = [element_of(argument) for argument in op.body.block.args[: len(op.results)]]
    made: Operation = type(op).create(
        operands=values,
        result_types=[with_element(result, kind) for result, kind in zip(op.results, kinds, strict=True)],
        properties={name: found for name, found in op.properties.items() if name not in without},
        regions=[op.body.clone()],
    )
    return [
        emit.converted(value, element_of(result)) for value, result in zip(emit.several(made), op.results, strict=True)
    ]
