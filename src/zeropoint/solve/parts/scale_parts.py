"""Scale the operands of a concatenation to similar ranges, if the weights of its readers compensate for the ranges.

```mlir
%b = "quant.region"(%x, %w) ({ convolution })                observed in [-1, 1], %a in [-100, 100]
%c = "quant.region"(%a, %b) ({ concatenate })
%d = "quant.region"(%c, %v) ({ convolution })                its weights are 100 times as large for the channels of %b
```
becomes
```mlir
%b = "quant.region"(%x, %w * 64) ({ convolution })           in [-64, 64]
%c = "quant.region"(%a, %b) ({ concatenate })
%d = "quant.region"(%c, %v) ({ convolution })                %v / 64 for the channels of %b
```
A contraction reads all of a concatenation, which has one scale. At this scale, `%b` would become -1, 0 or 1. Factors
are powers of two, so the float program computes the same numbers and the scaled ranges are exact. The pass chooses the
factors with the least expected error of the contractions' results (`equalizable.py`). It applies them if they at least
halve this error. All readers must be contractions, which may read the concatenation through poolings and transposes. An
operand is scaled only if it comes from a contraction with constants of its own, directly or through a relu, poolings
and movements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, StringAttr, TensorType, f32
from xdsl.ir import SSAValue

from zeropoint.ir.annotations import EQUALIZED, EXTREMES, QUANTILES
from zeropoint.ir.constants import splat_value
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, StatisticsOp
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ConstantOp,
    DivideOp,
    MaximumOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights, inline_array
from zeropoint.solve.drop_inner_statistics import drop_inner_statistics
from zeropoint.solve.equalizable import (
    POWERS,
    bounds_of,
    expected_noise,
    input_axis,
    matrix_of,
    own_array,
    own_contraction,
    readers_of,
    replace_constant,
    spread_factors,
)
from zeropoint.solve.parts.cuts import Cut
from zeropoint.solve.parts.divided import Divided
from zeropoint.solve.parts.leaves import JOIN, Join, Leaf, is_even, join_of, known_range, span
from zeropoint.solve.parts.part_readers import RealRange, is_open
from zeropoint.targets import Target

GAIN = 0.5
"""Factors are applied if they reduce the expected error to less than this share."""
COMMUTES = (
    "average_pool",
    "broadcast",
    "max_pool",
    "mean",
    "reduce_max",
    "relu",
    "reshape",
    "reverse",
    "slice",
    "sum",
    "transpose",
)
"""Kernels of one value that commute with a positive factor."""
LINEAR_STEPS = (
    BroadcastInDimOp,
    ConstantOp,
    DivideOp,
    MaximumOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    ReverseOp,
    ReturnOp,
    SliceOp,
    TransposeOp,
)


@dataclass(frozen=True, eq=False)
class _Source:
    """The contraction that an operand comes from, and the statistics between them. A factor applies to both."""

    maker: QuantizeRegionOp
    stated: Sequence[StatisticsOp]


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A concatenation, its operands' ranges, and the contractions that read it, directly or through other kernels."""

    join: Join
    leaves: Sequence[Leaf]
    sources: Sequence[_Source | None]
    readers: Sequence[QuantizeRegionOp]
    stated: Sequence[StatisticsOp]
    weights: Weights

    @staticmethod
    def of(join: Join, weights: Weights, target: Target) -> _Scaled | None:
        """None if the operands have similar ranges, none of them can be scaled, or a reader cannot take factors."""
        ranges = [known_range(value, weights, target) for value in join.values]
        leaves = [Leaf(value, one) for value, one in zip(join.values, ranges, strict=True) if one is not None]
        if len(leaves) < len(ranges) or is_even(leaves) or len(set(join.values)) < len(ranges):
            return None
        readers: list[QuantizeRegionOp] = []
        stated: list[StatisticsOp] = []
        if not _absorb(join.op.results[0], join.axis, weights, readers, stated) or not readers:
            return None
        sources = [_source(value, weights) for value in join.values]
        return _Scaled(join, leaves, sources, readers, stated, weights) if any(sources) else None

    def factors(self) -> Array | None:
        """The factors of the operands with the least expected error; None if they gain too little."""
        sizes = np.array([max(map(abs, leaf.range)) for leaf in self.leaves])
        is_fixed = np.array([source is None or not size for source, size in zip(self.sources, sizes, strict=True)])
        whole = sizes[is_fixed].max(initial=0.0) or sizes.max()
        matrices = [matrix_of(reader, self.weights) for reader in self.readers]
        if any(matrix is None for matrix in matrices):
            return None

        def noise(factors: Array) -> float:
            channels = [shape_of(leaf.value)[self.join.axis] for leaf in self.leaves]
            ranges = np.repeat([leaf.range for leaf in self.leaves], channels, axis=0)
            repeated = np.repeat(factors, channels)
            return sum(expected_noise(matrix, ranges, repeated) for matrix in matrices if matrix is not None)

        def by(power: float) -> Array:
            return np.where(is_fixed, 1.0, 2.0 ** np.round(power * np.log2(np.where(is_fixed, 1.0, sizes / whole))))

        best = min(map(by, POWERS), key=noise)
        return best if noise(best) < GAIN * noise(np.ones(sizes.size)) else None

    def apply(self, factors: Array) -> None:
        """Divide the operands by the factors, and multiply the weights that read them by the factors."""
        for source, factor in zip(self.sources, factors.tolist(), strict=True):
            if source is None or factor == 1.0:
                continue
            for index, value in enumerate(source.maker.inputs[1:], start=1):
                array = own_array(value, self.weights)
                assert array is not None
                replace_constant(source.maker, index, array / np.float32(factor), self.weights)
            for op in source.stated:
                _scale(op, 1 / factor)
            source.maker.attributes[EQUALIZED] = StringAttr(f"all channels multiplied by {1 / factor:.6g}")
        channels = [shape_of(leaf.value)[self.join.axis] for leaf in self.leaves]
        for reader in self.readers:
            weight = own_array(reader.inputs[1], self.weights)
            assert weight is not None
            replace_constant(reader, 1, weight * spread_factors(reader, np.repeat(factors, channels)), self.weights)
        bound = span(
            [(one.range[0] / f, one.range[1] / f) for one, f in zip(self.leaves, factors.tolist(), strict=True)]
        )
        for op in self.stated:
            # The result of a pooling is within the range of the concatenation.
            _state(op, bound)


def _absorb(
    value: SSAValue,
    axis: int,
    weights: Weights,
    readers: list[QuantizeRegionOp],
    stated: list[StatisticsOp],
) -> bool:
    """Collect the contractions that read a value and the statistics between them. Returns whether all readers take
    factors."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, StatisticsOp):
            stated.append(op)
            if not _absorb(op.res, axis, weights, readers, stated):
                return False
        elif isinstance(op, QuantizeRegionOp) and is_open(op) and op not in readers and _is_only_input(op, value):
            if input_axis(op, weights) == axis and op.inputs[0] is value:
                readers.append(op)
                continue
            along = _output_axis(op, axis, weights)
            if along is None or not _absorb(op.outputs[0], along, weights, readers, stated):
                return False
        else:
            return False
    return True


def _is_only_input(region: QuantizeRegionOp, value: SSAValue) -> bool:
    return all(one is value or isinstance(one.owner, ConstantOp) for one in region.inputs)


def _commutes(region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether a region of one operand commutes with a positive factor."""
    if region.logical_kernel.data not in COMMUTES or len(region.inputs) != 1 or len(region.outputs) != 1:
        return False
    maxima = [op for op in region.body.block.ops if isinstance(op, MaximumOp)]
    is_relu = all(any(splat_value(one, weights) == 0 for one in op.operands) for op in maxima)
    return is_open(region) and is_relu and all(isinstance(op, LINEAR_STEPS) for op in region.body.block.ops)


def _output_axis(region: QuantizeRegionOp, axis: int, weights: Weights) -> int | None:
    """The dimension of the result that has the channels of the operand; None if the region changes or mixes them."""
    if not _commutes(region, weights):
        return None
    whole = Cut(axis, np.arange(shape_of(region.inputs[0])[axis]))
    for along, size in enumerate(shape_of(region.outputs[0])):
        found = Divided.of(region, along, whole.chosen, weights) if size == whole.chosen.size else None
        if found is not None and whole.agrees(found.operand_cut(0)):
            return along
    return None


def _source(value: SSAValue, weights: Weights) -> _Source | None:
    """The contraction that an operand comes from; None if there is none, or if it cannot be scaled for this operand
    alone."""
    stated: list[StatisticsOp] = []
    while True:
        op = value.owner
        if isinstance(op, StatisticsOp):
            stated.append(op)
            value = op.arg
            continue
        readers = list(readers_of(value))
        if not isinstance(op, QuantizeRegionOp) or len(readers) != 1 or not is_open(op) or len(op.outputs) != 1:
            return None
        if own_contraction(op, weights) is not None:
            bounds = bounds_of(op, weights)
            return _Source(op, stated) if bounds and bounds.low in (-inf, 0.0) and bounds.high == inf else None
        if not _commutes(op, weights):
            return None
        value = op.inputs[0]


def _state(op: StatisticsOp, bound: RealRange) -> None:
    op.layer_stats = DenseIntOrFPElementsAttr.from_list(TensorType(f32, [2]), bound)
    op.axis_stats = op.axis = None
    for name in (QUANTILES, EXTREMES):
        op.attributes.pop(name, None)


def _scale(op: StatisticsOp, factor: float) -> None:
    low, high = (inline_array(op.layer_stats) * factor).tolist()
    lists = {name: cast("DenseIntOrFPElementsAttr | None", op.attributes.get(name)) for name in (QUANTILES, EXTREMES)}
    _state(op, (low, high))
    op.attributes |= {name: _floats(inline_array(one) * factor) for name, one in lists.items() if one is not None}


def _floats(values: Array) -> DenseIntOrFPElementsAttr:
    return DenseIntOrFPElementsAttr.from_list(TensorType(f32, [values.size]), values.tolist())


def scale_parts(program: Program, target: Target) -> Program:
    """A copy of the calibrated program in which contractions read concatenations of operands with similar ranges."""
    program = drop_inner_statistics(program)  # a copy
    for op in list(program.entry.ops):
        join = join_of(op.results[0]) if isinstance(op, QuantizeRegionOp) and len(op.results) == 1 else None
        found = None if join is None or JOIN not in target.by_kernel else _Scaled.of(join, program.weights, target)
        factors = None if found is None else found.factors()
        if found is not None and factors is not None:
            found.apply(factors)
    return program
