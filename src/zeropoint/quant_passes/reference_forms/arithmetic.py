"""Sums of two scales, and other arithmetic of two storage types, as dequantize, op, quantize.

```mlir
%2 = stablehlo.add %0, %1 : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.2>>) -> ...
```
becomes
```mlir
%2 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
%3 = stablehlo.uniform_dequantize %1 : (tensor<4x!quant.uniform<i8:f32, 0.2>>) -> tensor<4xf32>
%4 = stablehlo.add %2, %3 : tensor<4xf32>
%5 = stablehlo.uniform_quantize %4 : (tensor<4xf32>) -> ...
```
which is the specification's definition. C++ StableHLO rounds each operand of a sum to the scale of the result instead,
and other ops may not have operands of different storage there.
"""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BinaryOp,
    CaseOp,
    DivideOp,
    IfOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    SubtractOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
    WhileOp,
)
from zeropoint.ir.tensors import element_of
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, only_user, owner, per_tensor

BODIES = (CaseOp, FuncOp, IfOp, WhileOp)
"""The ops whose bodies run as they are; others have their own meaning for arithmetic of quantized values."""
OPS = (AddOp, DivideOp, MaximumOp, MinimumOp, MultiplyOp, SubtractOp)
WORD = 32


def write_arithmetic(rewrite: Rewrite, op: BinaryOp) -> None:
    """Write arithmetic in floats where C++ StableHLO does not compute it, or not as it is defined."""
    if not isinstance(op.parent_op(), BODIES) or not _is_written(type(op), op.lhs, op.rhs, op.result.type):
        return
    lhs, rhs = rewrite.add(UniformDequantizeOp(op.lhs)), rewrite.add(UniformDequantizeOp(op.rhs))
    rewrite.replace(rewrite.add(UniformQuantizeOp(rewrite.add(type(op)(lhs, rhs)), op.result.type)))


def read_sum(rewrite: Rewrite, op: UniformQuantizeOp) -> None:
    """Make a sum of dequantize, add, quantize. Other ops of two storage types would not verify."""
    added = owner(op.operand)
    if not isinstance(added, AddOp) or only_user(op.operand) is None or added.lhs is added.rhs:
        return  # x + x is a function of x
    lhs, rhs = _stored(added.lhs), _stored(added.rhs)
    if lhs is None or rhs is None or not _is_written(AddOp, lhs, rhs, op.result.type):
        return
    if len({found.storage.type for value in (lhs, rhs, op.result) if (found := per_tensor(value))}) == 1:
        rewrite.replace(rewrite.add(AddOp(lhs, rhs, op.result.type)))


def _is_written(kind: type[BinaryOp], lhs: SSAValue, rhs: SSAValue, result: Attribute) -> bool:
    """Whether arithmetic of these types is written in floats."""
    types = [_per_tensor(element_of(part)) for part in (lhs, rhs, result)]
    known = [found for found in types if found is not None]
    if len(known) < len(types):
        return False
    if issubclass(kind, AddOp):  # sums of one 32-bit type are integers
        return any(found != known[0] for found in known) or known[0].storage.type.width < WORD
    return len({found.storage for found in known}) > 1


def _stored(value: SSAValue) -> SSAValue | None:
    op = owner(value)
    return op.operand if isinstance(op, UniformDequantizeOp) and per_tensor(op.operand) is not None else None


def _per_tensor(element: Attribute) -> UniformQuantizedType | None:
    return element if isinstance(element, UniformQuantizedType) and element.is_per_layer else None
