"""Folds a `pad` with zeros into the convolutions that are its only users.

```mlir
%0 = stablehlo.pad %x, %zero, low = [0, 0, 0, 0], high = [0, 0, 1, 1], interior = [0, 0, 0, 0]
%1 = stablehlo.convolution(%0, %w) ... window = {pad = [[0, 0], [0, 0]]}
```
becomes a convolution of `%x` with `pad = [[0, 1], [0, 1]]`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from zeropoint.ir.constants import splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvolutionOp, PadOp
from zeropoint.ir.stablehlo.contraction import padding_attribute, padding_values
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


@dataclass
class FoldPad(RewritePattern):
    """convolution(pad(x, 0)) -> convolution(x) with more padding, if only spatial dimensions are padded."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvolutionOp, rewriter: PatternRewriter) -> None:
        """Rewrite one convolution."""
        pad = op.lhs.owner
        if not isinstance(pad, PadOp) or splat_value(pad.padding_value, self.weights) != 0.0:
            return
        low, high = pad.edge_padding_low.get_values(), pad.edge_padding_high.get_values()
        spatial = op.dimension_numbers.data.input_spatial_dimensions
        others = set(range(len(shape_of(pad.operand)))) - set(spatial)
        if any(pad.interior_padding.get_values()) or any(low[i] or high[i] for i in others) or op.lhs_dilation:
            return
        if min(*low, *high) < 0:  # it crops; a sum with the op's own could undo this
            return
        own = padding_values(op.padding, len(spatial))
        merged = [(int(low[d]) + lo, int(high[d]) + hi) for d, (lo, hi) in zip(spatial, own, strict=True)]
        convolution = op.clone({op.lhs: pad.operand})
        convolution.padding = padding_attribute(merged)
        rewriter.replace(op, convolution)


def fold_padding(program: Program) -> Program:
    """A copy in which pads with zeros are part of the convolutions that are their only users."""
    program = program.for_change()
    rewrite(program, FoldPad(program.weights))
    remove_dead_ops(program.entry)
    return program
