"""Reductions of quantized values as reductions of their storage integers.

```mlir
%1 = stablehlo.reduce(%0 init: %v) applies stablehlo.add across dimensions = [1] : (tensor<2x3x!quant.uniform<..>>, ...)
```
becomes
```mlir
%1 = stablehlo.bitcast_convert %0 : (tensor<2x3x!quant.uniform<i32:f32, 0.5>>) -> tensor<2x3xi32>
%2 = stablehlo.reduce(%1 init: %v) applies stablehlo.add across dimensions = [1] : (tensor<2x3xi32>, tensor<i32>) -> ...
%3 = stablehlo.bitcast_convert %2 : (tensor<2xi32>) -> tensor<2x!quant.uniform<i32:f32, 0.5>>
```
Sums have zero point 0 and 32 bits, which `ranges` proves to be enough. The order of integers is that of the numbers.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, BinaryOp, BitcastConvertOp, MaximumOp, MinimumOp, ReduceOp, ReduceWindowOp
from zeropoint.ir.stablehlo.bodies import binary_body, body_op
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, only_user, owner, per_tensor

ReducingOp = ReduceOp | ReduceWindowOp


def write_reduction(rewrite: Rewrite, op: ReducingOp) -> None:
    """Write a sum, maximum or minimum of quantized values on storage integers. Extremes in windows stay."""
    kind, body = per_tensor(op.operands[0]), body_op(op.body)
    if len(op.operands) != 2 or kind is None or body is None or not _is_uniform(op, kind):
        return
    start = constant_array(op.operands[1], rewrite.weights)
    is_sum = body is AddOp and kind.zero_point == 0 and kind.storage.type.width == 32
    is_extreme = body in (MaximumOp, MinimumOp) and isinstance(op, ReduceOp)
    if start is None or not (is_sum or is_extreme) or not kind.storage.type.signed:
        return
    word = IntegerType(kind.storage.type.width)
    stored = rewrite.add(BitcastConvertOp(op.operands[0], with_element(op.operands[0], word)))
    made = _on(op, stored, rewrite.constant(start, element=word), word)
    rewrite.replace(rewrite.add(BitcastConvertOp(rewrite.add(made), op.results[0].type)))


def read_reduction(rewrite: Rewrite, op: BitcastConvertOp) -> None:
    """Make a reduction of quantized values of one between two bit casts."""
    made, kind = owner(op.operand), per_tensor(op.result)
    if not isinstance(made, ReduceOp | ReduceWindowOp) or kind is None or len(made.operands) != 2:
        return
    before, body = owner(made.operands[0]), body_op(made.body)
    start = constant_array(made.operands[1], rewrite.weights)
    if not isinstance(before, BitcastConvertOp) or element_of(before.operand) != kind or start is None:
        return
    if body in (AddOp, MaximumOp, MinimumOp) and only_user(op.operand) is not None:
        rewrite.replace(rewrite.add(_on(made, before.operand, rewrite.constant(start, kind), kind)))


def _is_uniform(op: ReducingOp, kind: UniformQuantizedType) -> bool:
    """Whether operands, results and body have one type."""
    values = (*op.operands, *op.results, *op.body.block.args)
    return all(element_of(value) == kind for value in values)


def _on(op: ReducingOp, operand: SSAValue, start: SSAValue, element: Attribute) -> ReducingOp:
    """The reduction of another operand, whose element type the body has."""
    body = cast("type[BinaryOp]", body_op(op.body))
    made = type(op).create(
        operands=[operand, start],
        result_types=[with_element(op.results[0], element)],
        properties=dict(op.properties),
        regions=[binary_body(body, element)],
    )
    assert isinstance(made, ReduceOp | ReduceWindowOp)
    return made
