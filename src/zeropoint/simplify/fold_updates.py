"""Turn dynamic slices and updates at constant positions into slices and concatenations.

```mlir
%0 = stablehlo.dynamic_slice %x, %two, %zero, sizes = [1, 8] : (tensor<6x8xf32>, ...) -> tensor<1x8xf32>
%1 = stablehlo.dynamic_update_slice %none, %a, %zero, %zero : (tensor<2x8xf32>, tensor<1x8xf32>, ...)
%2 = stablehlo.dynamic_update_slice %1, %b, %one, %zero : (tensor<2x8xf32>, tensor<1x8xf32>, ...)
```
becomes
```mlir
%0 = stablehlo.slice %x [2:3, 0:8]
%2 = stablehlo.concatenate %a, %b, dim = 0
```
Loops that are written out (`unroll_loops.py`) read and write their rows in this form. An update whose sizes differ from
those of the operand in more than one dimension stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import constant_array
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConcatenateOp, DynamicSliceOp, DynamicUpdateSliceOp, SliceOp
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


def _starts(indices: Sequence[SSAValue], sizes: Sequence[int], whole: Sequence[int], weights: Weights) -> list[int]:
    """The start in each dimension, clamped as the op clamps it; empty if one is not constant."""
    found: list[int] = []
    for index, size, most in zip(indices, sizes, whole, strict=True):
        array = constant_array(index, weights)
        if array is None:
            return []
        found.append(min(max(int(array), 0), most - size))
    return found


@dataclass
class FoldDynamicSlice(RewritePattern):
    """A dynamic slice at constant positions -> a slice."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DynamicSliceOp, rewriter: PatternRewriter, /) -> None:
        """Rewrite one dynamic slice."""
        sizes = shape_of(op.result)
        starts = _starts(op.start_indices, sizes, shape_of(op.operand), self.weights)
        if starts:
            ends = [start + size for start, size in zip(starts, sizes, strict=True)]
            made = SliceOp(op.operand, starts, ends, [1] * len(starts))
            made.location = op.location
            rewriter.replace(op, made)


@dataclass(frozen=True)
class UpdatedPart:
    """An update of an operand: where it begins along the dimension in which it is smaller."""

    axis: int
    begin: int
    value: SSAValue


@dataclass
class FoldUpdates(RewritePattern):
    """The last of some updates at constant positions -> a concatenation of the updates and what is left between."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DynamicUpdateSliceOp, rewriter: PatternRewriter, /) -> None:
        """Rewrite one chain of updates."""
        last = self._part(op)
        if last is None or self._continues(op, last.axis):
            return
        parts, source = self._chain(op)
        axis = last.axis
        made: list[Operation] = []
        pieces = _pieces(parts, source, axis, made)
        if len(pieces) > 1:
            made.append(ConcatenateOp(pieces, axis))
        for each in made:
            each.location = op.location
        rewriter.replace(op, made, pieces if len(pieces) == 1 else [made[-1].results[0]])

    def _part(self, op: DynamicUpdateSliceOp) -> UpdatedPart | None:
        whole, sizes = shape_of(op.operand), shape_of(op.update)
        starts = _starts(op.start_indices, sizes, whole, self.weights)
        axes = [axis for axis in range(len(whole)) if sizes[axis] != whole[axis]]
        if not starts or len(axes) > 1 or not whole:
            return None
        axis = axes[0] if axes else 0
        return UpdatedPart(axis, starts[axis], op.update)

    def _chain(self, op: DynamicUpdateSliceOp) -> tuple[list[UpdatedPart], SSAValue]:
        """The updates that lead to `op`, the last one first, along one dimension; and what the first one updates."""
        found: list[UpdatedPart] = []
        value: SSAValue = op.result
        while isinstance(value, OpResult) and isinstance(value.op, DynamicUpdateSliceOp):
            part = self._part(value.op)
            if part is None or (found and part.axis != found[0].axis) or (found and not value.has_one_use()):
                break
            found.append(part)
            value = value.op.operand
        return found, value

    def _continues(self, op: DynamicUpdateSliceOp, axis: int) -> bool:
        """Whether only another update of the chain reads the result."""
        if not op.result.has_one_use():
            return False
        (use,) = op.result.uses
        reader = use.operation
        part = self._part(reader) if isinstance(reader, DynamicUpdateSliceOp) and use.index == 0 else None
        return part is not None and part.axis == axis


def _pieces(parts: Sequence[UpdatedPart], source: SSAValue, axis: int, made: list[Operation]) -> list[SSAValue]:
    """The values along a dimension, in order. Of two updates at one place, the first in `parts` is used."""
    left = [_Segment(0, shape_of(source)[axis], source, 0)]
    for part in reversed(parts):
        end = part.begin + shape_of(part.value)[axis]
        left = [piece for segment in left for piece in segment.outside(part.begin, end)]
        left.append(_Segment(part.begin, end, part.value, 0))
    left.sort(key=lambda segment: segment.begin)
    return [_slice(one.value, axis, one.offset, one.offset + one.end - one.begin, made) for one in left]


@dataclass(frozen=True)
class _Segment:
    """Positions `begin` to `end` along the dimension, which have a value from its position `offset` on."""

    begin: int
    end: int
    value: SSAValue
    offset: int

    def outside(self, begin: int, end: int) -> list[_Segment]:
        """What is left of it without the positions `begin` to `end`."""
        found = ((self.begin, min(self.end, begin)), (max(self.begin, end), self.end))
        return [
            _Segment(first, last, self.value, self.offset + first - self.begin) for first, last in found if first < last
        ]


def _slice(value: SSAValue, axis: int, first: int, last: int, made: list[Operation]) -> SSAValue:
    """A part of a value along a dimension; the value itself if the part is all of it."""
    sizes = shape_of(value)
    if (first, last) == (0, sizes[axis]):
        return value
    starts = [first if at == axis else 0 for at in range(len(sizes))]
    ends = [last if at == axis else size for at, size in enumerate(sizes)]
    op = SliceOp(value, starts, ends, [1] * len(sizes))
    made.append(op)
    return op.result


def fold_updates(program: Program) -> Program:
    """A copy in which dynamic slices and updates at constant positions are slices and concatenations."""
    program = program.for_change()
    rewrite(program, FoldDynamicSlice(program.weights), FoldUpdates(program.weights))
    remove_dead_ops(program.entry)
    return program
