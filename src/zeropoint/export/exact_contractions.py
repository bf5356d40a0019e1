"""Contractions of integers as contractions of floats whose sums are exact, for formats without one that returns i32.

```mlir
%2 = stablehlo.convolution(%0, %1) : (tensor<1x8x5x5xi32>, tensor<4x8x3x3xi32>) -> tensor<1x4x5x5xi32>
```
becomes, if the integers of %0 and %1 are so small that no sum of products has more than 24 bits,
```mlir
%3 = stablehlo.convert %0 : (tensor<1x8x5x5xi32>) -> tensor<1x8x5x5xf32>
%4 = quant.region "convolution"(%3, constant) ({ stablehlo.convolution }) : ... -> tensor<1x4x5x5xf32>
%2 = stablehlo.convert %4 : (tensor<1x4x5x5xf32>) -> tensor<1x4x5x5xi32>
```
f32 holds each of these sums, in any order. If one may have more bits, the terms are cut into several contractions,
whose results are added in i32. Files of dynamic quantization are imported to such contractions: of u8 or i8, minus a
zero point. What is not known to be small stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.expand.emission import Emission
from zeropoint.export.small_integers import SmallIntegers
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import AddOp, ConvolutionOp, DotGeneralOp, SliceOp
from zeropoint.ir.tensors import Array, element_of, shape_of, with_element
from zeropoint.ir.weights import Weights

EXACT = 1 << 24
"""The greatest integer up to which f32 holds every one."""


def contract_in_float(program: Program) -> Program:
    """The program with exact float contractions instead of those of small integers; itself if it has none."""
    if not any(map(contracts_integers, program.entry.ops)):
        return program
    program = program.for_change()
    for op in list(program.entry.ops):
        if isinstance(op, ConvolutionOp | DotGeneralOp) and contracts_integers(op):
            _rewrite(op, program.weights)
    remove_dead_ops(program.entry)
    return program


def contracts_integers(op: Operation) -> bool:
    """Whether an op is a convolution or matrix product of i32 values with a result of that type."""
    kinds = [element_of(value) for value in (*op.operands, *op.results)] if _contracts(op) else ()
    return bool(kinds) and all(kind == i32 for kind in kinds)


def _contracts(op: Operation) -> bool:
    return isinstance(op, ConvolutionOp | DotGeneralOp)


@dataclass(frozen=True)
class _Terms:
    """The terms of each sum: how the operands are cut along the dimension of `axes`, and bounds of the sums."""

    axes: tuple[int, int]
    """The dimension of the terms in each operand."""
    largest: Array
    """For each index of this dimension, the greatest sum of the magnitudes of its terms."""

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of indices whose sums are at most `EXACT`, if no index alone exceeds it."""
        start, total = 0, 0.0
        for index, size in enumerate(self.largest):
            if total + size > EXACT:
                yield start, index
                start, total = index, 0.0
            total += size
        yield start, len(self.largest)


def _rewrite(op: ConvolutionOp | DotGeneralOp, weights: Weights) -> None:
    known = SmallIntegers(weights)
    terms = _terms(op, known)
    if terms is None or terms.largest.max(initial=0) > EXACT:
        return
    emit = Emission(Builder(InsertPoint.before(op)), weights, op.location)
    operands = [_in_float(value, known, emit) for value in op.operands]
    blocks = list(terms.blocks())
    parts = [operands]
    if len(blocks) > 1:
        cuts = [
            [_cut(value, axis, block, emit) for block in blocks]
            for value, axis in zip(operands, terms.axes, strict=True)
        ]
        parts = [list(sides) for sides in zip(*cuts, strict=True)]
    sums = [emit.converted(_contraction(op, sides, emit), i32) for sides in parts]
    Rewriter.replace_op(op, [], [reduce(lambda total, part: emit.add(AddOp(total, part)), sums)])


def _in_float(value: SSAValue, known: SmallIntegers, emit: Emission) -> SSAValue:
    array = known.array(value)
    return emit.converted(value, f32) if array is None else emit.constant(array.astype(np.float32))


def _cut(value: SSAValue, axis: int, block: tuple[int, int], emit: Emission) -> SSAValue:
    shape = shape_of(value)
    array = emit.array(value)
    if array is not None:
        return emit.constant(np.ascontiguousarray(np.take(array, range(*block), axis)))
    start, limit = [0] * len(shape), list(shape)
    start[axis], limit[axis] = block
    return emit.add(SliceOp(value, start, limit, [1] * len(shape)))


def _contraction(op: ConvolutionOp | DotGeneralOp, sides: list[SSAValue], emit: Emission) -> SSAValue:
    """The contraction of floats; a convolution is a kernel, as those of a model's floats are."""
    kind = with_element(op.results[0], f32)
    properties = dict(op.properties)
    if isinstance(op, DotGeneralOp):
        return emit.add(DotGeneralOp.create(operands=sides, result_types=[kind], properties=properties))
    block = Block(arg_types=[side.type for side in sides])
    inner = ConvolutionOp.create(operands=block.args, result_types=[kind], properties=properties)
    inner.location = emit.location
    block.add_ops([inner, ReturnOp([inner.results[0]])])
    name = "convolution" if op.feature_group_count.value.data == 1 else "depthwise_convolution"
    return emit.add(QuantizeRegionOp(sides, [kind], name, [f32] * len(sides), [f32], Region(block)))


def _terms(op: ConvolutionOp | DotGeneralOp, known: SmallIntegers) -> _Terms | None:
    """The terms of an op; None if a bound of its integers is not known, or if it has another form."""
    reach = [known.reach(value) for value in op.operands]
    if None in reach:
        return None
    left, right = (float(bound or 0) for bound in reach)
    if isinstance(op, ConvolutionOp):
        return _terms_of_convolution(op, left, known)
    numbers = op.dot_dimension_numbers.data
    axes = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    if len(axes[0]) != 1:
        return None
    count = shape_of(op.lhs)[axes[0][0]]
    bounds = np.full(count, left * right)
    for value, (axis,), other in zip(op.operands, axes, (right, left), strict=True):
        array = known.array(value)
        if array is not None:
            rest = tuple(i for i in range(array.ndim) if i != axis)
            bounds = np.minimum(bounds, np.abs(array.astype(np.float64)).max(rest, initial=0) * other)
    return _Terms((axes[0][0], axes[1][0]), bounds)


def _terms_of_convolution(op: ConvolutionOp, reach: float, known: SmallIntegers) -> _Terms | None:
    array, layout = known.array(op.rhs), op.dimension_numbers.data
    if array is None or op.batch_group_count.value.data != 1:
        return None
    axes = layout.input_feature_dimension, layout.kernel_input_feature_dimension
    window = tuple(layout.kernel_spatial_dimensions)
    sums = np.abs(array.astype(np.float64)).sum(window, keepdims=True) * reach
    others = tuple(i for i in range(array.ndim) if i != axes[1])
    largest = sums.max(others, initial=0)
    # Groups read different channels, so their terms are not cut: they are one index.
    return _Terms(axes, largest if op.feature_group_count.value.data == 1 else largest.sum(keepdims=True))
