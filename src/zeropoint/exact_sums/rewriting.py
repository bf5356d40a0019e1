"""Sums of dequantized values and of their squares, computed of integers: exact in any order of the terms.

```mlir
%x = ... a kernel with a result in !quant.uniform<i8:f32, 0.5:3>
%1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x96xf32>, ...)
```
becomes
```mlir
%u = stablehlo.floor(%x * 2.0 + 0.5)                        the stored integers minus 3
%2 = stablehlo.reduce(%u init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x96xf32>, ...)
%1 = stablehlo.multiply %2, 0.5
```
Runtimes add the terms of a float sum in orders of their own, which depend on the processor. Their results differ in the
last bits, and then a layer norm gives another integer wherever it is near the middle of two. f32 holds the sum of
integers if it is at most 2^24, and longer sums have exact parts (`integers.py`). Layer and RMS norms are written with
such sums (`normalizations.py`). Inverse square roots become divisions by square roots: functions for the inverse
root are approximations on some processors.

Source: IEEE 754-2019, clause 5.4.1: division and square root are rounded correctly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue, Use
from xdsl.rewriter import Rewriter

from zeropoint.exact_sums.integers import Writer, levels, squares
from zeropoint.exact_sums.normalizations import write_normalization
from zeropoint.exact_sums.scaled_integers import scaled_integers
from zeropoint.ir.constants import splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.normalizations import NORMALIZATIONS
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, DivideOp, MultiplyOp, ReduceOp, ReshapeOp, RsqrtOp, SqrtOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.solve import is_quantized
from zeropoint.targets import Target

REWRITTEN = (*NORMALIZATIONS, "sum")
"""The kernels whose float ops are written one by one in files. Others are operators of runtimes, such as means."""


@dataclass(frozen=True)
class _Sum:
    """A float sum of a value over dimensions, from 0."""

    value: SSAValue
    dimensions: tuple[int, ...]

    @property
    def terms(self) -> int:
        return prod(shape_of(self.value)[dimension] for dimension in self.dimensions)


def _sum(op: ReduceOp, program: Program) -> _Sum | None:
    if len(op.inputs) != 1 or body_op(op.body) is not AddOp or element_of(op.inputs[0]) != f32:
        return None
    if splat_value(op.init_values[0], program.weights) != 0:
        return None
    return _Sum(op.inputs[0], array_values(op.dimensions))


def _squared(value: SSAValue) -> SSAValue | None:
    owner = value.owner
    return owner.lhs if isinstance(owner, MultiplyOp) and owner.lhs is owner.rhs else None


def _write_sum(op: ReduceOp, program: Program) -> None:
    """sum(x), or sum(x^2), of integers."""
    found = _sum(op, program)
    if found is None or found.terms < 3:  # a sum of two terms is the same in both orders
        return
    squared = _squared(found.value)
    value = found.value if squared is None else squared
    steps = scaled_integers(value)
    if steps is None:
        return
    write, shape = Writer(op, program), shape_of(value)
    if squared is None:
        by = levels(shape, found.dimensions, steps.reach)
        total = None if by is None else write.summed(write.integers(value, steps), by)
    else:
        pairs = squares(shape, found.dimensions, steps.reach)
        total = None if pairs is None else write.summed_squares(write.integers(value, steps), pairs)
    if total is not None:
        scale = steps.scale if squared is None else steps.scale * steps.scale
        Rewriter.replace_op(op, [], [write.times(total, scale)])


def _write_root(op: RsqrtOp, program: Program, target: Target) -> None:
    """Division by a square root. onnxruntime divides where a file multiplies by 1 / x, and OpenVINO the reverse."""
    write = Writer(op, program)
    root = write.add(SqrtOp(op.operand))
    for use in [] if target.fuses_products else list(op.result.uses):
        _divide(use, root, program)
    if list(op.result.uses):
        op.result.replace_all_uses_with(write.inverse(root))


def _divide(use: Use, root: SSAValue, program: Program) -> None:
    """x * (1 / root) as x / root, through broadcasts."""
    reader = use.operation
    write = Writer(reader, program)
    if isinstance(reader, ReshapeOp | BroadcastInDimOp):
        moved = write.add(reader.clone({reader.operands[0]: root}))
        for each in list(reader.results[0].uses):
            _divide(each, moved, program)
    elif isinstance(reader, MultiplyOp) and reader.lhs is not reader.rhs:
        other = reader.operands[1 - use.index]
        Rewriter.replace_op(reader, [], [write.add(DivideOp(other, root))])


def exact_sums(program: Program, target: Target) -> Program:
    """A copy in which float sums of dequantized values are computed of integers.

    The program itself if the target's runtime does not run the float ops of a file (`between_casts`).
    """
    if not target.between_casts:
        return program
    program = program.for_change()
    regions = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp) and not is_quantized(op)]
    for region in regions:
        if region.logical_kernel.data in NORMALIZATIONS:
            write_normalization(region, program, target)
    for block in (program.entry, *(region.body.block for region in regions if region.logical_kernel.data in REWRITTEN)):
        for op in list(block.ops):
            if isinstance(op, ReduceOp):
                _write_sum(op, program)
            elif isinstance(op, RsqrtOp) and element_of(op.result) == f32:
                _write_root(op, program, target)
        remove_dead_ops(block)
    return program
