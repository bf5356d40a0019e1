"""Lowers loops and branches of quantized values: `while`, `if` and `case` on their integers.

```mlir
%r = stablehlo.while(%a = %x) : tensor<4x!q> cond { ... } do { %s = add %a, %b : tensor<4x!q>; return %s }
```
becomes
```mlir
%r = stablehlo.while(%i = %integers) : tensor<4xi8> cond { ... } do { (the integers of the sum) }
```
Quantized values that the regions capture are cast to integers before the op. The regions read casts of these integers.
Captured constants are copied into the regions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.builder import Builder
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from zeropoint.ir.captured import captured
from zeropoint.ir.stablehlo import CaseOp, ConstantOp, IfOp, WhileOp
from zeropoint.ir.tensors import with_element
from zeropoint.lower.bodies import lowered_body
from zeropoint.lower.context import Lowering, check_storage, quantized_element, storage_element, stored_element

CONTROL = (CaseOp, IfOp, WhileOp)
"""The ops whose regions are lowered in place."""


def is_control(op: Operation) -> bool:
    """Whether an op is a loop or a branch that computes or carries quantized values."""
    # Regions first: a check of classes, which are abstract ones, takes ten times as long.
    return (
        bool(op.regions)
        and isinstance(op, CONTROL)
        and any(stored_element(value) is not None for inner in op.walk() for value in (*inner.operands, *inner.results))
    )


def lower_control(lowering: Lowering, op: Operation) -> Sequence[SSAValue]:
    """The results of the op on integers. Results that are not quantized keep their types."""
    check_storage(op)
    # Cast before the op, because its regions may run any number of times.
    inputs = [value if quantized_element(value) is None else lowering.stored(value) for value in op.operands]
    quantized = [value for value in captured(op.regions) if stored_element(value) is not None]
    around = {value: None if isinstance(value.owner, ConstantOp) else lowering.stored(value) for value in quantized}
    words = [_word(value) for value in op.results]
    made = type(op).create(
        operands=inputs,
        result_types=[
            result.type if word is None else with_element(result, word)
            for result, word in zip(op.results, words, strict=True)
        ],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=[lowered_body(lowering, _reading(lowering, region, around), words) for region in op.regions],
    )
    return lowering.insert(made).results


def _word(value: SSAValue) -> IntegerType | None:
    kind = quantized_element(value)
    return None if kind is None else storage_element(kind)


def _reading(lowering: Lowering, region: Region, around: Mapping[SSAValue, SSAValue | None]) -> Region:
    """A copy of a region that reads casts of integers instead of captured values, and copies of captured constants."""
    made, outside = region.clone(), lowering.builder
    lowering.builder = Builder(InsertPoint.at_start(made.block))
    for value, integers in around.items():
        readers = [inner for inner in made.walk() if value in inner.operands]
        if readers:
            own = _inside(lowering, value, integers)
            for reader in readers:
                reader.operands = [own if operand is value else operand for operand in reader.operands]
    lowering.builder = outside
    return made


def _inside(lowering: Lowering, value: SSAValue, integers: SSAValue | None) -> SSAValue:
    kind = stored_element(value)
    if integers is None or kind is None:
        assert isinstance(value.owner, ConstantOp)
        return lowering.builder.insert(value.owner.clone()).output
    return lowering.quantized_again(integers, kind)
