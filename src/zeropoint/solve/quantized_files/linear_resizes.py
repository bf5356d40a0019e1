"""Linear resizes that a quantized model computes in floats, with the bits of onnxruntime.

```mlir
%1 = stablehlo.dot_general %0, %rows {zeropoint.resized = 2} ...      and its transpose
%2 = stablehlo.dot_general %1, %columns {zeropoint.resized = 3} ...
```
becomes the sum, from left to right, of the four neighbours of each position times their weights:
```mlir
%2 = %nw * (wx2 * wy2) + %ne * (wx1 * wy2) + %sw * (wx2 * wy1) + %se * (wx1 * wy1)
```
All numbers are f32. The products of `dot_general` round elsewhere, so a cast behind them would take another integer for
values in the middle of two. At the last element, both neighbours are that element, with weights of 1/2.

Source: onnxruntime's kernels `UpsampleBilinear` and `UpsampleTrilinear` (core/providers/cpu/tensor/upsample.cc).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import FLOAT_REASON, RESIZED
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, GatherOp, MultiplyOp
from zeropoint.ir.stablehlo.dimensions import GatherDimensions
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.limits import afford

AXES = {2: (0, 1), 3: (0, 1, 2), 5: (2, 3, 4)}
"""The dimensions that onnxruntime interpolates by rank, also if their size stays. Of rank 4, two neighbouring ones."""


@dataclass(frozen=True)
class Neighbours:
    """The two neighbours of each position along a dimension, and their weights."""

    axis: int
    places: tuple[Array, Array]
    weights: tuple[Array, Array]

    @staticmethod
    def kept(axis: int, size: int) -> Neighbours:
        """The neighbours along a dimension whose size stays: each element, with the next one at a weight of 0."""
        places, weights = np.arange(size), np.ones(size, np.float32)
        weights[-1:] = 0.5
        return Neighbours(
            axis, (places, np.minimum(places + 1, size - 1)), (weights, np.where(weights == 1, 0, weights))
        )

    @staticmethod
    def of(axis: int, matrix: Array) -> Neighbours:
        """The neighbours whose weights are the columns of a matrix, in which one or two are not 0."""
        last = len(matrix) - 1
        first = (matrix != 0).argmax(axis=0)
        second = np.minimum(first + 1, last)
        columns = np.arange(len(matrix[0]))
        alone = first == second
        weights = tuple(np.where(alone, np.float32(0.5), matrix[place, columns]) for place in (first, second))
        return Neighbours(axis, (first, second), (weights[0], weights[1]))


@dataclass
class _Resize:
    """The regions of one resize, and the matrix of each dimension that it changes."""

    source: SSAValue
    regions: list[QuantizeRegionOp]
    matrices: dict[int, Array]

    @property
    def result(self) -> SSAValue:
        return self.regions[-1].outputs[0]

    def axes(self) -> Sequence[int] | None:
        """The dimensions that onnxruntime interpolates; None if it has no kernel for this resize."""
        rank = len(shape_of(self.source))
        axes = AXES.get(rank)
        if rank == 4:
            axes = (1, 2) if 1 in self.matrices else (2, 3)
        return axes if axes is not None and set(self.matrices) <= set(axes) else None


def weigh_neighbours(program: Program, floats: Collection[QuantizeRegionOp]) -> None:
    """Replace the linear resizes among regions that stay float, in place."""
    for found in list(_resizes(program, floats)):
        axes = found.axes()
        if axes is None:
            continue
        matrices, shape = found.matrices, shape_of(found.source)
        afford([max(shape[axis] for axis in axes)], 32, "weights of interpolation")
        along = [
            Neighbours.of(axis, matrices[axis]) if axis in matrices else Neighbours.kept(axis, shape[axis])
            for axis in axes
        ]
        made = _Weighing(program, found).sum(along)
        found.result.replace_all_uses_with(made)
        for region in reversed(found.regions):
            Rewriter.erase_op(region)


def _resizes(program: Program, floats: Collection[QuantizeRegionOp]) -> Iterator[_Resize]:
    taken = set[Operation]()
    for region in program.entry.ops:
        if region in taken or region not in floats or not isinstance(region, QuantizeRegionOp):
            continue
        found = _Resize(region.inputs[0], [], {})
        following: QuantizeRegionOp | None = region
        while following is not None and (axis := _resized(following)) is not None and axis not in found.matrices:
            matrix = constant_array(following.inputs[1], program.weights)
            chain = _moved_back(following, axis)
            if (
                matrix is None
                or chain is None
                or following.inputs[0] is not (found.result if found.regions else found.source)
            ):
                break
            found.matrices[axis] = matrix
            found.regions += chain
            following = _only_reader(found.result)
        if found.regions:
            taken.update(found.regions)
            yield found


def _resized(region: QuantizeRegionOp) -> int | None:
    """The dimension that a region resizes; None for any other region."""
    for op in region.body.block.ops:
        if isinstance(axis := op.attributes.get(RESIZED), IntegerAttr):
            return axis.value.data
    return None


def _moved_back(region: QuantizeRegionOp, axis: int) -> list[QuantizeRegionOp] | None:
    """A region that resizes a dimension, with the transpose that moves this dimension back; None if it has none."""
    if axis == len(shape_of(region.outputs[0])) - 1:
        return [region]
    reader = _only_reader(region.outputs[0])
    return None if reader is None or reader.logical_kernel.data != "transpose" else [region, reader]


def _only_reader(value: SSAValue) -> QuantizeRegionOp | None:
    readers = [use.operation for use in value.uses]
    return readers[0] if len(readers) == 1 and isinstance(readers[0], QuantizeRegionOp) else None


@dataclass
class _Weighing:
    """The ops that replace a resize, inserted before its first region."""

    program: Program
    found: _Resize

    def sum(self, along: Sequence[Neighbours]) -> SSAValue:
        """The sum of the neighbours along all dimensions, outer ones first, times the products of their weights."""
        afford([each.weights[0].size for each in along], 4 * 2 ** len(along), "weights of interpolation")
        taken: dict[tuple[int, ...], SSAValue] = {(): self.found.source}
        terms: list[SSAValue] = []
        for sides in product((0, 1), repeat=len(along)):
            # The weights are multiplied from the innermost dimension outwards.
            weights = [each.weights[side] for each, side in zip(along, sides, strict=True)]
            combined = reduce(lambda inner, outer: np.multiply.outer(outer, inner), reversed(weights))
            if not combined.any():
                continue
            for count, each in enumerate(along, 1):
                if sides[:count] not in taken:
                    taken[sides[:count]] = self._gathered(taken[sides[: count - 1]], each, sides[count - 1])
            factors = constant_op(combined.astype(np.float32), self.program.weights)
            self._insert(factors)
            repeated = BroadcastInDimOp(factors.output, taken[sides].type, [each.axis for each in along])
            terms.append(self._inserted(MultiplyOp(taken[sides], self._inserted(repeated))))
        return reduce(lambda total, term: self._inserted(AddOp(total, term)), terms)

    def _gathered(self, value: SSAValue, each: Neighbours, side: int) -> SSAValue:
        """The neighbours of one side along a dimension."""
        shape, axis, places = shape_of(value), each.axis, each.places[side]
        if np.array_equal(places, np.arange(shape[axis])):
            return value
        indices = constant_op(places.astype(np.int64), self.program.weights)
        self._insert(indices)
        kept = tuple(other for other in range(len(shape)) if other != axis)
        dimensions = GatherDimensions(kept, (axis,), start_index_map=(axis,), index_vector_dim=1)
        sizes = [1 if other == axis else size for other, size in enumerate(shape)]
        return self._inserted(GatherOp(value, indices.output, dimensions, sizes))

    def _inserted(self, op: Operation) -> SSAValue:
        op.attributes[FLOAT_REASON] = self.found.regions[0].attributes[FLOAT_REASON]
        self._insert(op)
        return op.results[0]

    def _insert(self, op: Operation) -> None:
        op.location = self.found.regions[0].location
        self.program.entry.insert_ops_before([op], self.found.regions[0])
