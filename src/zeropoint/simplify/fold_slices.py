"""Takes a slice of a concatenation from the operand that contains it.

```mlir
%0 = stablehlo.concatenate %boxes, %scores, dim = 1 : (tensor<1x4x9xf32>, tensor<1x2x9xf32>) -> tensor<1x6x9xf32>
%1 = stablehlo.slice %0 [0:1, 4:6, 0:9] : (tensor<1x6x9xf32>) -> tensor<1x2x9xf32>
```
becomes `%scores`; a smaller slice becomes a slice of `%scores`. A quantized concatenation has one scale, which would be
coarser than that of the operand.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConcatenateOp, SliceOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of
from zeropoint.simplify.statements import rewrite


def _part(op: SliceOp) -> tuple[SSAValue, int, int] | None:
    """The operand of a concatenation that contains a slice, the dimension, and the operand's start in it; or None."""
    joined = op.operand.owner
    if not isinstance(joined, ConcatenateOp):
        return None
    axis = joined.dimension.value.data
    first, last = array_values(op.start_indices)[axis], array_values(op.limit_indices)[axis]
    ends = accumulate((shape_of(value)[axis] for value in joined.inputs), initial=0)
    for value, (begin, end) in zip(joined.inputs, pairwise(ends), strict=True):
        if begin <= first < last <= end:
            return value, axis, begin
    return None


class FoldSlice(RewritePattern):
    """slice(concatenate(..., x, ...)) -> slice(x), or x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter, /) -> None:
        """Rewrite one slice that lies in one operand of a concatenation."""
        found = _part(op)
        if found is None:
            return
        value, axis, begin = found
        if value.type == op.result.type and all(stride == 1 for stride in array_values(op.strides)):
            rewriter.replace(op, [], [value])
            return
        first, last = list(array_values(op.start_indices)), list(array_values(op.limit_indices))
        first[axis] -= begin
        last[axis] -= begin
        made = SliceOp(value, first, last, array_values(op.strides))
        made.location = op.location
        rewriter.replace(op, made)


def fold_slices(program: Program) -> Program:
    """A copy in which slices that lie in one operand of a concatenation are taken from that operand."""
    program = program.for_change()
    rewrite(program, FoldSlice(), again=True)
    remove_dead_ops(program.entry)
    return program
