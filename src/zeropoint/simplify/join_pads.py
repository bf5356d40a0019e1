"""Replaces a sum of values that are padded with zeros and do not overlap by a concatenation.

```mlir
%0 = stablehlo.pad %boxes, %zero, low = [0, 0, 0], high = [0, 2, 0], interior = [0, 0, 0]
%1 = stablehlo.pad %scores, %zero, low = [0, 4, 0], high = [0, 0, 0], interior = [0, 0, 0]
%2 = stablehlo.add %0, %1 : tensor<1x6x9xf32>
```
becomes `stablehlo.concatenate %boxes, %scores, dim = 1`. Zeros between the values become padding of the first one;
zeros before and after both become padding of the concatenation. A sum has one scale for all its elements. As a
concatenation, later passes see that it has two parts, and that one scale may be too coarse for one of them.

The only difference is the sign of a zero: -0 + 0 is +0.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, ConcatenateOp, PadOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


@dataclass(frozen=True)
class _Padded:
    """A value that is padded with zeros along one dimension."""

    pad: PadOp
    axis: int
    before: int
    after: int

    @staticmethod
    def of(value: SSAValue, weights: Weights) -> _Padded | None:
        """The padded value if `value` is the result of such a `pad`; None otherwise."""
        pad = value.owner
        if not isinstance(pad, PadOp) or splat_value(pad.padding_value, weights) != 0.0:
            return None
        low, high = array_values(pad.edge_padding_low), array_values(pad.edge_padding_high)
        axes = [axis for axis, sides in enumerate(zip(low, high, strict=True)) if any(sides)]
        is_cut = any(array_values(pad.interior_padding)) or min(*low, *high) < 0
        if len(axes) != 1 or is_cut or shape_of(pad.result)[axes[0]] < 0:
            return None
        return _Padded(pad, axes[0], low[axes[0]], high[axes[0]])

    def padded(self, value: SSAValue, before: int, after: int) -> PadOp:
        """`value` with these numbers of zeros before and after it."""
        sides = (
            [count if axis == self.axis else 0 for axis in range(len(shape_of(value)))] for count in (before, after)
        )
        return PadOp(value, self.pad.padding_value, *sides)


@dataclass
class JoinPads(RewritePattern):
    """add(pad(x, 0), pad(y, 0)) -> concatenate(x, y), if no element of x meets one of y."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter, /) -> None:
        """Replace one sum."""
        found = [_Padded.of(value, self.weights) for value in op.operands]
        members = sorted((one for one in found if one is not None), key=lambda one: one.before)
        if len(members) < 2 or members[0].axis != members[1].axis:
            return
        first, second = members
        gap = second.before - (shape_of(op.result)[first.axis] - first.after)
        if gap < 0:
            return
        made: list[Operation] = []
        value = first.pad.operand
        if gap:
            made.append(pad := first.padded(value, 0, gap))
            value = pad.result
        made.append(joined := ConcatenateOp([value, second.pad.operand], first.axis))
        if first.before or second.after:
            made.append(first.padded(joined.result, first.before, second.after))
        for each in made:
            each.location = op.location
        rewriter.replace(op, made)


def join_pads(program: Program) -> Program:
    """A copy in which sums of values that are padded apart along one dimension are concatenations."""
    program = program.for_change()
    rewrite(program, JoinPads(program.weights), again=True)
    remove_dead_ops(program.entry)
    return program
