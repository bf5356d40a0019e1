"""Remove the statistics inside kernels: a kernel computes its inner values exactly, so they have no effect.

```mlir
%1 = "quant.region"(%x, %w) ({
  %c = stablehlo.convolution(%x, %w) ...
  %s = "quant.stats"(%c) {layerStats = dense<[-3.0, 2.0]> : tensor<2xf32>} ...
  %r = stablehlo.maximum %c, %zero
  quant.return %r
})
```
becomes
```mlir
%1 = "quant.region"(%x, %w) ({
  %c = stablehlo.convolution(%x, %w) ...
  %r = stablehlo.maximum %c, %zero
  quant.return %r
})
```
So later passes treat an annotated program like a plain one. Two kinds are kept, because they are also observed in a
plain program. The first are those of the variances of the rows that a normalization divides by. The second are those in
a user's composites, which may be split into kernels.

Source: the RFC on quantization transformations, section "Quantization region": constraints on tensors inside are not
considered.
"""

from __future__ import annotations

from xdsl.ir import Block
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.normalizations import stated_variances
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.quant.statements import STATES
from zeropoint.solve.composed import is_composed


def drop_inner_statistics(program: Program) -> Program:
    """A copy of the program in which kernels have statistics only at their ports, apart from the two kinds that are
    kept."""
    program = program.for_change()
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp) and not is_composed(op, program.weights):
            _drop(op)
    return program


def _drop(region: QuantizeRegionOp) -> None:
    kept = stated_variances(region)
    for op in list(region.body.block.ops):
        if isinstance(op, STATES) and op is not kept:
            op.results[0].replace_all_uses_with(op.operands[0])
            Rewriter.erase_op(op)
    if kept is not None:
        _read_through(kept)


def _read_through(kept: StatisticsOp) -> None:
    """Move statistics right after the op that produces their value, and let the readers of the value read it through
    them."""
    maker = kept.arg.owner
    kept.detach()
    Rewriter.insert_op(kept, InsertPoint.at_start(maker) if isinstance(maker, Block) else InsertPoint.after(maker))
    kept.arg.replace_uses_with_if(kept.res, lambda use: use.operation is not kept)
