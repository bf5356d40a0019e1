"""Annotation ops in fusion, which looks through them.

```mlir
%1 = stablehlo.add %x, %y : tensor<4xf32>
%2 = "quant.stats"(%1) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
%3 = stablehlo.maximum %2, %zero : tensor<4xf32>
```
is one kernel, as without the `quant.stats`. This op moves into the region, where it has no effect. So a program with
statistics after every op gets the same kernels and parameters as one that was fused first. Annotations of a value at a
port stay outside, after the region that defines the value. A pair of casts with `!quant.calibrated`, from element
types, is treated like a `quant.stats` and becomes one inside a region.

Source: the RFC on quantization transformations, section "Quantization region": constraints on tensors inside are not
considered. Annotations in the body of a reduction are removed as well, because its values are intermediate scalars.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    CalibratedQuantizedType,
    DequantizeCastOp,
    QuantizeCastOp,
    StatisticsOp,
    StatisticsRefOp,
)
from zeropoint.ir.quant.statements import STATES, range_readers
from zeropoint.ir.stablehlo import AllReduceOp, ReduceOp, ReduceScatterOp, ReduceWindowOp, SelectAndScatterOp
from zeropoint.ir.tensors import element_of

REDUCTIONS = (AllReduceOp, ReduceOp, ReduceScatterOp, ReduceWindowOp, SelectAndScatterOp)
Statements = dict[SSAValue, list[Operation]]
"""The annotations of each value: detached ops without uses."""


def lift_statements(program: Program) -> Statements:
    """Detach the annotation ops of the entry function, in place; their users read the annotated values directly."""
    stated: Statements = {}
    for op in list(program.entry.ops):
        if isinstance(op, STATES):
            value = op.operands[0]
            op.results[0].replace_all_uses_with(value)
            stated.setdefault(value, []).append(op)
            op.detach()
            op.operands = []
        elif isinstance(op, REDUCTIONS):
            _drop_inside(op)
        elif isinstance(op, QuantizeCastOp) and (readers := range_readers(op)):
            _lift_range(op, readers, stated)
    return stated


def _drop_inside(op: Operation) -> None:
    for inner in list(op.walk()):
        if isinstance(inner, STATES):
            inner.results[0].replace_all_uses_with(inner.operands[0])
            Rewriter.erase_op(inner)


def _lift_range(op: QuantizeCastOp, readers: list[DequantizeCastOp], stated: Statements) -> None:
    value = op.input
    for reader in readers:
        reader.result.replace_all_uses_with(value)
        reader.detach()
        reader.operands = []
    op.detach()
    op.operands = []
    stated.setdefault(value, []).extend((op, readers[0]))


def put_inside(stated: Statements, value: SSAValue, inner: SSAValue, block: Block) -> None:
    """Append the annotations of `value` to a region's block, as annotations of its copy `inner`."""
    for op in stated.pop(value, []):
        if isinstance(op, QuantizeCastOp):
            calibrated = element_of(op.result)
            assert isinstance(calibrated, CalibratedQuantizedType)
            block.add_op(StatisticsOp(inner, (calibrated.minimum, calibrated.maximum)))
        elif not isinstance(op, StatisticsRefOp | DequantizeCastOp):  # these have no meaning inside a region
            op.operands = [inner]
            block.add_op(op)


def restore_statements(program: Program, stated: Statements) -> None:
    """Reinsert the annotations of region ports after their values, in place; users read the annotated value."""
    for value, ops in stated.items():
        for op in ops:
            op.operands = [value]
            if isinstance(value.owner, Block):
                first = program.entry.first_op
                assert first is not None
                Rewriter.insert_op(op, InsertPoint.before(first))
            else:
                Rewriter.insert_op(op, InsertPoint.after(value.owner))
            value.replace_uses_with_if(op.results[0], lambda use, op=op: use.operation is not op)
            value = op.results[0]


def reroute(program: Program) -> None:
    """After unfusing, let the users of a value read it through its annotations again, in place."""
    for op in list(program.entry.ops):
        if isinstance(op, STATES) and op.results[0].first_use is None:
            value = op.operands[0]
            owner = value.owner
            op.detach()
            Rewriter.insert_op(
                op, InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
            )
            value.replace_uses_with_if(op.results[0], lambda use, op=op: use.operation is not op)
