"""Expands the chlo ops that StableHLO ops can express.

```mlir
%0 = chlo.broadcast_add %x, %bias : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
%1 = chlo.square %0 : tensor<2x3xf32> -> tensor<2x3xf32>
```
becomes
```mlir
%0 = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
%1 = stablehlo.add %x, %0 : tensor<2x3xf32>
%2 = stablehlo.multiply %1, %1 : tensor<2x3xf32>
```

Unary functions (`chlo.erf`, `chlo.lgamma`, ...) and `chlo.next_after` stay. The interpreter computes them, and the
lowering turns them into tables, as StableHLO's own functions. If they were expanded to polynomials, fusion would not
recognize them as functions. `chlo.mulhi`, `chlo.scan` and `chlo.ragged_dot` also stay, for the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, ComplexType, FloatAttr, TensorType, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir import chlo
from zeropoint.ir.constants import constant_op
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AbsOp,
    BroadcastInDimOp,
    CompareOp,
    ComparisonDirection,
    ComparisonType,
    ComparisonTypeAttr,
    ComplexOp,
    ConstantOp,
    ImagOp,
    IotaOp,
    MultiplyOp,
    NegateOp,
    RealOp,
    ReturnOp,
    SelectOp,
    SliceOp,
    SortOp,
    TanOp,
)
from zeropoint.ir.tensors import element_dtype, element_of, shape_of, tensor_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.quant_passes.errors import LoweringError


class ChloBuilder:
    """Collects the ops that replace one op."""

    def __init__(self, weights: Weights):
        self.weights = weights
        self.ops: list[Operation] = []

    def add(self, op: Operation) -> SSAValue:
        """Append an op and return its first result."""
        self.ops.append(op)
        return op.results[0]

    def scalar(self, number: float, element_type: Attribute) -> SSAValue:
        """A rank-0 constant."""
        array = np.asarray(number).astype(element_dtype(element_type))
        return self.add(constant_op(array, self.weights, element_type=element_type))

    def splat(self, number: float, like: SSAValue) -> SSAValue:
        """A constant with the shape and element type of a value."""
        return self.add(BroadcastInDimOp(self.scalar(number, element_of(like)), like.type, ()))

    def spread(self, value: SSAValue, shape: Sequence[int], dims: Sequence[int]) -> SSAValue:
        """`broadcast_in_dim` to `shape`, or the value itself if it has that shape."""
        if tuple(shape_of(value)) == tuple(shape):
            return value
        return self.add(BroadcastInDimOp(value, TensorType(element_of(value), shape), dims))


def _spread_operands(op: Operation, placements: Sequence[Sequence[int]], build: ChloBuilder) -> list[SSAValue]:
    shape = shape_of(op.results[0])
    if DYNAMIC_INDEX in shape or any(DYNAMIC_INDEX in shape_of(operand) for operand in op.operands):
        raise LoweringError(
            f"{describe(op)}: found a dynamic shape, expected static ones; fix the shapes of the inputs", op
        )
    return [build.spread(value, shape, dims) for value, dims in zip(op.operands, placements, strict=True)]


def _broadcast(op: chlo.BroadcastOp, build: ChloBuilder) -> Sequence[SSAValue]:
    lhs, rhs = _spread_operands(op, op.placements(), build)
    return [build.add(chlo.PLAIN[type(op)](lhs, rhs))]


def _broadcast_complex(op: chlo.BroadcastComplexOp, build: ChloBuilder) -> Sequence[SSAValue]:
    lhs, rhs = _spread_operands(op, op.placements(), build)
    return [build.add(ComplexOp(lhs, rhs))]


def _broadcast_compare(op: chlo.BroadcastCompareOp, build: ChloBuilder) -> Sequence[SSAValue]:
    lhs, rhs = _spread_operands(op, op.placements(), build)
    compare = CompareOp(lhs, rhs, op.comparison_direction.data)
    if op.compare_type is not None:
        compare.compare_type = ComparisonTypeAttr(op.compare_type.data)
    return [build.add(compare)]


def _broadcast_select(op: chlo.BroadcastSelectOp, build: ChloBuilder) -> Sequence[SSAValue]:
    pred, on_true, on_false = _spread_operands(op, op.placements(), build)
    return [build.add(SelectOp(pred, on_true, on_false))]


def _conjugate(op: chlo.ConjOp, build: ChloBuilder) -> Sequence[SSAValue]:
    if not isinstance(element_of(op.operand), ComplexType):
        return [op.operand]
    real = build.add(RealOp(op.operand))
    return [build.add(ComplexOp(real, build.add(NegateOp(build.add(ImagOp(op.operand))))))]


def _constant(op: chlo.ConstantOp, build: ChloBuilder) -> Sequence[SSAValue]:
    return [build.add(ConstantOp(op.value))]


def _constant_like(op: chlo.ConstantLikeOp, build: ChloBuilder) -> Sequence[SSAValue]:
    attribute: Any = op.value
    number = attribute.value.data
    assert isinstance(op.value, FloatAttr) or isinstance(number, int)
    scalar = build.scalar(number, element_of(op.result))
    return [build.spread(scalar, shape_of(op.result), ())]


def _is_infinite(number: float, magnitude: bool) -> Callable[[chlo.PredicateOp, ChloBuilder], Sequence[SSAValue]]:
    def legalize(op: chlo.PredicateOp, build: ChloBuilder) -> Sequence[SSAValue]:
        value = build.add(AbsOp(op.operand)) if magnitude else op.operand
        return [build.add(CompareOp(value, build.splat(number, value), ComparisonDirection.EQ))]

    return legalize


def _square(op: chlo.SquareOp, build: ChloBuilder) -> Sequence[SSAValue]:
    return [build.add(MultiplyOp(op.operand, op.operand))]


def _tangent(op: chlo.TanOp, build: ChloBuilder) -> Sequence[SSAValue]:
    return [build.add(TanOp(op.operand))]


def _top_k(op: chlo.TopKOp, build: ChloBuilder) -> Sequence[SSAValue]:
    """The k greatest elements in descending order, with their positions. Equal elements keep their order."""
    shape, element = shape_of(op.operand), element_of(op.operand)
    positions = build.add(IotaOp(with_element(op.operand, i32), len(shape) - 1))
    sort = SortOp([op.operand, positions], _descending([element, i32]), dimension=len(shape) - 1, stable=True)
    build.add(sort)
    limit = list(tensor_of(op.values).get_shape())
    start, step = [0] * len(shape), [1] * len(shape)
    return [build.add(SliceOp(result, start, limit, step)) for result in sort.results]


def _descending(elements: Sequence[Attribute]) -> Region:
    """A sort comparator: the first input's left element is greater than its right one, with floats in total order."""
    block = Block(arg_types=[TensorType(element, []) for element in elements for _ in range(2)])
    compare = CompareOp(block.args[0], block.args[1], ComparisonDirection.GT)
    if element_dtype(elements[0]).kind not in "iub":
        compare.compare_type = ComparisonTypeAttr(ComparisonType.TOTALORDER)
    assert compare.result.type == TensorType(i1, [])
    block.add_ops([compare, ReturnOp([compare.result])])
    return Region(block)


Legalization = Callable[[Any, ChloBuilder], Sequence[SSAValue]]

LEGALIZATIONS: Mapping[type[Operation], Legalization] = {
    chlo.BroadcastCompareOp: _broadcast_compare,
    chlo.BroadcastComplexOp: _broadcast_complex,
    chlo.BroadcastSelectOp: _broadcast_select,
    chlo.ConjOp: _conjugate,
    chlo.ConstantLikeOp: _constant_like,
    chlo.ConstantOp: _constant,
    chlo.IsInfOp: _is_infinite(np.inf, True),
    chlo.IsNegInfOp: _is_infinite(-np.inf, False),
    chlo.IsPosInfOp: _is_infinite(np.inf, False),
    chlo.SquareOp: _square,
    chlo.TanOp: _tangent,
    chlo.TopKOp: _top_k,
    **dict.fromkeys(chlo.PLAIN, _broadcast),
}
"""Maps ops to their expansions, which return the values of the op's results."""


def legalize_chlo(program: Program) -> Program:
    """Expand every chlo op that StableHLO ops can express.

    Raises ValueError for a broadcasting op with dynamic shapes.
    """
    if not any(type(op) in LEGALIZATIONS for op in program.module.walk()):
        return program
    program = program.for_change()
    for op in list(program.module.walk()):
        legalization = LEGALIZATIONS.get(type(op))
        if legalization is None:
            continue
        build = ChloBuilder(program.weights)
        results = legalization(op, build)
        for new in build.ops:
            new.location = op.location
        Rewriter.replace_op(op, build.ops, results)
    return program
