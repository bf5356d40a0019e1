"""`stablehlo.sort` as a sorting network: a loop over its stages, each of which is one generic over all elements.

```mlir
%y = "stablehlo.sort"(%x) <{dimension = 0}> ({ LT }) : (tensor<9xi32>) -> tensor<9xi32>
```
becomes
```mlir
%order = scf.for %s = %c0 to %c10 step %c1 iter_args(%o = %numbers) -> (tensor<9xi32>) {
  %distance = tensor.extract %distances[%s] ...
  %next = linalg.generic ... { ... the number here or the one at `distance` behind or before, by their elements of %x }
  scf.yield %next
}
%y = linalg.generic ... { ... the element of %x at the number of %order }
```
`%o` holds, at each position, the original index of the element that is there now. If neither of two elements comes
before the other, the one with the lower original index comes first. So the sort is stable, as the interpreter's is. For
a comparator that is no strict weak order, such as LT on NaN, the permutation may differ from the interpreter's.

Source: Knuth, The Art of Computer Programming, volume 3, 5.2.2, algorithm M (Batcher's merge exchange), which sorts any
number of elements in about log2(n)^2 / 2 stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.standard.bodies import scalar_results
from zeropoint.standard.lowering import Standard
from zeropoint.standard.movement import numbered
from zeropoint.standard.scalars import GenericBody


@dataclass(frozen=True)
class Stage:
    """One stage: compares each element i with `i & bit == value` with element i + `distance`."""

    bit: int
    value: int
    distance: int


def stages(count: int) -> list[Stage]:
    """The stages that sort `count` elements."""
    found: list[Stage] = []
    top = 1 << max(count - 1, 0).bit_length() - 1 if count > 1 else 0
    bit = top
    while bit:
        half, value, distance = top, 0, bit
        found.append(Stage(bit, value, distance))
        while half != bit:
            distance, half, value = half - bit, half // 2, bit
            found.append(Stage(bit, value, distance))
        bit //= 2
    return found


def lower_sort(std: Standard, op: hlo.SortOp) -> Sequence[SSAValue]:
    """`scf.for` over the stages, and a generic for each result."""
    axis, shape = op.axis(), shape_of(op.inputs[0])
    values, found = [std.value(value) for value in op.inputs], stages(shape[axis])
    if not found or 0 in shape:
        return values
    order = numbered(std, shape, axis, i32)
    tables = [std.constant(np.array(part, np.int32), i32) for part in zip(*map(astuple, found), strict=True)]
    block = Block(arg_types=[IndexType(), order.type])
    outer = GenericBody(0, op.location, block)
    stage = [_index(outer, outer.value(tensor.ExtractOp(table, [block.args[0]], i32))) for table in tables]
    body = _exchange(std, op, (block.args[1], values), stage)
    made = Standard(std.weights, std.profile, Builder(InsertPoint.at_end(block)), op.location)
    block.add_op(scf.YieldOp(made.generic(body, shape, i32)))
    low, high, step = (std.index(number) for number in (0, len(found), 1))
    (sorted_order,) = std.insert(scf.ForOp(low, high, step, [order], block)).results
    return [_permuted(std, value, sorted_order, axis) for value in values]


def _index(body: GenericBody, number: SSAValue) -> SSAValue:
    return body.value(arith.IndexCastOp(number, IndexType()))


def _element(body: GenericBody, value: SSAValue, number: SSAValue, axis: int) -> SSAValue:
    """The element of a value at index `number` along an axis, and at the loops' indices along the others."""
    indices = [number if dim == axis else body.index(dim) for dim in range(body.rank)]
    return body.value(tensor.ExtractOp(value, indices, element_of(value)))


def _permuted(std: Standard, value: SSAValue, order: SSAValue, axis: int) -> SSAValue:
    """A generic that permutes elements along an axis: it reads each at the index in `order`."""
    body = GenericBody(len(shape_of(value)), std.location)
    body.end(_element(body, value, _index(body, body.read(order)), axis))
    return std.generic(body, shape_of(value), element_of(value))


def _exchange(
    std: Standard, op: hlo.SortOp, values: tuple[SSAValue, Sequence[SSAValue]], stage: Sequence[SSAValue]
) -> GenericBody:
    """The body that computes the order after a stage. `values` are (the order before it, the inputs of the sort)."""
    (order, inputs), axis = values, op.axis()
    body = GenericBody(len(shape_of(order)), op.location)
    mine = body.read(order)
    is_first, is_second, partner = _partner(body, body.index(axis), stage, shape_of(order)[axis])
    other = _element(body, order, partner, axis)
    first = body.value(arith.SelectOp(is_second, other, mine))
    second = body.value(arith.SelectOp(is_second, mine, other))
    swap = _in_other_order(std, op, body, (inputs, first, second))
    paired = body.value(arith.OrIOp(is_first, is_second))
    body.end(body.value(arith.SelectOp(body.value(arith.AndIOp(swap, paired)), other, mine)))
    return body


def _partner(
    body: GenericBody, index: SSAValue, stage: Sequence[SSAValue], size: int
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Whether an element is the first or the second of a pair, and the index of the other one.

    Without a pair, its own index.
    """
    bit, value, distance = stage

    def begins(place: SSAValue) -> SSAValue:
        return body.value(arith.CmpiOp(body.value(arith.AndIOp(place, bit)), value, "eq"))

    after = body.value(arith.AddiOp(index, distance))
    before = body.value(arith.SubiOp(index, distance))
    fits = body.value(arith.CmpiOp(after, body.number(size, IndexType()), "slt"))
    is_first = body.value(arith.AndIOp(begins(index), fits))
    exists = body.value(arith.CmpiOp(before, body.number(0, IndexType()), "sge"))
    is_second = body.value(arith.AndIOp(begins(before), exists))
    other = body.value(arith.SelectOp(is_second, before, index))
    return is_first, is_second, body.value(arith.SelectOp(is_first, after, other))


def _in_other_order(
    std: Standard, op: hlo.SortOp, body: GenericBody, pair: tuple[Sequence[SSAValue], SSAValue, SSAValue]
) -> SSAValue:
    """Whether the second of two elements, given by their original indices, comes before the first one."""
    inputs, first, second = pair
    one, other = (
        [_element(body, value, _index(body, number), op.axis()) for value in inputs] for number in (first, second)
    )

    def before(left: Sequence[SSAValue], right: Sequence[SSAValue]) -> SSAValue:
        given = [value for both in zip(left, right, strict=True) for value in both]
        return scalar_results(std, op, op.comparator.block, body, given)[0]

    is_greater, is_less = before(other, one), before(one, other)
    earlier = body.value(arith.CmpiOp(second, first, "slt"))
    return body.value(arith.OrIOp(is_greater, body.value(arith.SelectOp(is_less, is_greater, earlier))))
