"""Folds casts that undo each other, and merges equal casts of one value.

```mlir
%x = quant.dcast %q : !quant.uniform<i8:f32, 2.0> to f32
%r = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.0>    // %r is %q
%i = quant.scast %q : !quant.uniform<i8:f32, 2.0> to i8
%s = quant.scast %i : i8 to !quant.uniform<i8:f32, 2.0>     // %s is %q
```

`dcast(qcast(x))` stays, because it is a fake quantization, which rounds x. Upstream MLIR folds it to x, which turns a
program with simulated quantization into the float program. `fold_fake_quant` enables this here.

Source: upstream MLIR's folders of `quant.qcast`, `quant.dcast` and `quant.scast`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from zeropoint.ir.dead_code import remove_if_dead
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp


def _fold_fake_quant(op: DequantizeCastOp) -> SSAValue | None:
    """The x of `dcast(qcast(x))`; None for other casts."""
    source = op.input.op if isinstance(op.input, OpResult) else None
    same = isinstance(source, QuantizeCastOp) and source.input.type == op.result.type
    return source.input if same and isinstance(source, QuantizeCastOp) else None


@dataclass
class FoldCast(RewritePattern):
    """qcast(dcast(x)), scast(scast(x)) and, optionally, dcast(qcast(x)) -> x."""

    fold_fake_quant: bool

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite one cast."""
        value = self._folded(op)
        if value is not None:
            rewriter.replace(op, [], [value])

    def _folded(self, op: Operation) -> SSAValue | None:
        if isinstance(op, QuantizeCastOp | StorageCastOp):
            found = op.fold()
            return None if found is None else found[0]
        return _fold_fake_quant(op) if self.fold_fake_quant and isinstance(op, DequantizeCastOp) else None


def _casts(program: Program) -> list[Operation]:
    return [op for op in program.module.walk() if isinstance(op, QuantizeCastOp | DequantizeCastOp | StorageCastOp)]


def _shared(casts: list[Operation]) -> None:
    """Replace equal casts of one value by the first one in the block."""
    first: dict[tuple[object, SSAValue, object], Operation] = {}
    for op in casts:
        earlier = first.setdefault((op.parent, op.operands[0], op.results[0].type), op)
        if earlier is not op:
            op.results[0].replace_all_uses_with(earlier.results[0])


def canonicalize_quant(program: Program, fold_fake_quant: bool = False) -> Program:
    """Fold casts that undo each other, merge equal casts of one value, and remove unused casts.

    With `fold_fake_quant`, also fold `dcast(qcast(x))` to `x`, which erases simulated quantization.
    """
    program = program.for_change()
    _shared(_casts(program))
    PatternRewriteWalker(FoldCast(fold_fake_quant), apply_recursively=False).rewrite_module(program.module)
    for op in reversed(_casts(program)):
        remove_if_dead(op)
    return program
