"""Lowers ops that move several values together, or combine some of them by a body: sorts, scatters, barriers.

```mlir
%0:2 = stablehlo.sort(%x, %i) dimension = 1 : tensor<4x5x!q>, tensor<4x5xi32>
   (%a, %b, %c, %d) { %less = compare LT, %a, %b : tensor<!q>; return %less }
```
becomes, because stored integers have the order of the real values,
```mlir
%0:2 = stablehlo.sort(%x, %i) dimension = 1 : tensor<4x5xi8>, tensor<4x5xi32>
   (%a, %b, %c, %d) { %less = compare LT, %a, %b : tensor<i8>; return %less }
```
Bodies are lowered op by op, as in reductions (`bodies.py`). If the body of a scatter has another type than its
operands, these are first requantized to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, Region, SSAValue

from zeropoint.ir.stablehlo import GetDimensionSizeOp, ScatterOp, SortOp
from zeropoint.ir.tensors import with_element
from zeropoint.lower.arithmetic import requantized
from zeropoint.lower.bodies import lowered_body
from zeropoint.lower.context import Lowering, check_storage, quantized_element, storage_element


def lower_together(lowering: Lowering, op: Operation) -> Sequence[SSAValue]:
    """The op on the integers of its quantized operands. It computes nothing, so each value keeps its type."""
    check_storage(op)
    return _made(lowering, op, [_stored(lowering, value) for value in op.operands], [])


def lower_sort(lowering: Lowering, op: SortOp) -> Sequence[SSAValue]:
    """The sort of integers, with the comparator on integers."""
    check_storage(op)
    words = [_word(value) for value in op.inputs for _ in range(2)]
    stored = [_stored(lowering, value) for value in op.inputs]
    return _made(lowering, op, stored, [lowered_body(lowering, op.comparator, words)])


def lower_scatter(lowering: Lowering, op: ScatterOp) -> Sequence[SSAValue]:
    """The scatter on integers of the body's types."""
    check_storage(op)
    arguments = op.update_computation.block.args
    combined = [
        _as_argument(lowering, op, value, argument)
        for value, argument in zip((*op.inputs, *op.updates), arguments, strict=True)
    ]
    count = len(op.inputs)
    operands = [*combined[:count], op.scatter_indices, *combined[count:]]
    words = [_word(argument) for argument in arguments]
    return _made(lowering, op, operands, [lowered_body(lowering, op.update_computation, words)])


def lower_size(lowering: Lowering, op: GetDimensionSizeOp) -> SSAValue | None:
    """`get_dimension_size` of the stored integers; None for a value that is not quantized."""
    if quantized_element(op.operand) is None:
        return None
    (size,) = _made(lowering, op, [lowering.stored(op.operand)], [])
    return size


def _made(
    lowering: Lowering, op: Operation, operands: Sequence[SSAValue], regions: Sequence[Region]
) -> Sequence[SSAValue]:
    words = [(result, _word(result)) for result in op.results]
    made = type(op).create(
        operands=operands,
        result_types=[result.type if word is None else with_element(result, word) for result, word in words],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=regions,
    )
    return lowering.insert(made).results


def _word(value: SSAValue) -> IntegerType | None:
    """The type of a value's integers; None if it is not quantized."""
    kind = quantized_element(value)
    return None if kind is None else storage_element(kind)


def _stored(lowering: Lowering, value: SSAValue) -> SSAValue:
    return value if quantized_element(value) is None else lowering.stored(value)


def _as_argument(lowering: Lowering, op: Operation, value: SSAValue, argument: SSAValue) -> SSAValue:
    """A value as the integers of a body's argument."""
    given, inside = quantized_element(value), quantized_element(argument)
    if given is None or inside is None:
        return value
    return requantized(lowering, op, lowering.stored(value), given, inside)
