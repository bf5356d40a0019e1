"""Sums in OpenVINO: one operand in steps of the other, then quantized (`numerics.openvino`)."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import shape_of
from zeropoint.materialize import onnxruntime
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, is_of_bytes
from zeropoint.materialize.kernel import MaterializedKernel, UnroundedFloats
from zeropoint.materialize.openvino_constant_sums import constant_sum
from zeropoint.materialize.openvino_floats import REASON, fused, of_dtype, requantized, stored_again
from zeropoint.materialize.openvino_operands import is_rounded, outer, readers, readings
from zeropoint.numerics.openvino import RangeFactors, SumTerm, term_steps, term_zero
from zeropoint.numerics.storage import dtype_range
from zeropoint.targets.logical_kernels import CONTRACTIONS, PASSES_ELEMENTS, REDUCTIONS

APART = frozenset({*CONTRACTIONS, *PASSES_ELEMENTS, *REDUCTIONS})
"""Kernels that are no elementwise ops, so OpenVINO computes nothing else with them."""


def add(kernel: MaterializedKernel) -> SSAValue:
    """A sum of one operand in steps of the other, or else as in onnxruntime.

    If OpenVINO computes the sum in the convolution that makes the operand, the operand is not rounded before.
    """
    op = next(op for op in kernel.body if isinstance(op, hlo.AddOp))
    if (found := constant_sum(kernel, op)) is not None:
        return found
    convolved = _convolved_operand(kernel, op)
    term = _expressed_operand(kernel, op) if convolved is None else convolved
    if term is None or not is_of_bytes(kernel):
        return onnxruntime.add(kernel)
    run, other = FloatArithmetic(kernel, REASON), op.operands[1 - term]
    mine, theirs = (kernel.type_of(op.operands[number]) for number in (term, 1 - term))
    stored = run.to(run.plus(run.centred(kernel.values[other], theirs), theirs.zero_point), f32)
    if convolved is not None and _is_fused(kernel, op, term):
        before = kernel.unrounded[kernel.values[op.operands[term]]]
        by = SumTerm.of(of_dtype(mine), of_dtype(theirs), before.unit)
        total = run.made(hlo.AddOp(run.clamped(fused(run, before, by.factor, by.offset), by.low, by.high), stored))
    elif convolved is None and not _is_folded(kernel, op, term):
        total = _from_zero(run, op.operands[term], stored, *term_zero(of_dtype(mine), of_dtype(theirs)))
    else:
        steps, start = term_steps(of_dtype(mine), of_dtype(theirs))
        number = run.centred(kernel.values[op.operands[term]], mine)
        number = run.to(run.plus(number, mine.zero_point - dtype_range(mine.storage.dtype)[0]), f32)
        total = run.made(hlo.AddOp(run.fused(number, steps, start), stored))
    if convolved is None:
        return bounded(kernel, stored_again(run, total, np.float32(theirs.scale)))
    result = RangeFactors.of(of_dtype(kernel.output_type), np.float32(theirs.scale))
    return bounded(kernel, requantized(run, UnroundedFloats(total), result))


def _from_zero(
    run: FloatArithmetic, operand: SSAValue, stored: SSAValue, zero: np.float32, ratio: np.float32
) -> SSAValue:
    """fma(q - zero, ratio, stored), or two roundings if an elementwise op reads the operand, too.

    OpenVINO then computes the product in another kernel, which the elementwise ops of the operand share.
    """
    kernel, kind = run.kernel, run.kernel.type_of(operand)
    number = run.to(run.plus(run.centred(kernel.values[operand], kind), kind.zero_point), f32)
    moved = run.plus(number, -zero)
    others = [reader for reader in readings(kernel, operand) if reader is not kernel.region]
    if all(isinstance(reader, QuantizeRegionOp) and reader.logical_kernel.data in APART for reader in others):
        return run.fused(moved, ratio, stored)
    return run.made(hlo.AddOp(run.times(moved, ratio), stored))


def _is_folded(kernel: MaterializedKernel, op: hlo.AddOp, number: int) -> bool:
    """Whether an operand is expressed in steps of the other where it is quantized: if nothing else reads it.

    That holds for the first one only if an op of its own quantizes it.
    """
    operand = op.operands[number]
    return readers(kernel, operand) == 1 and (number == 1 or is_rounded(outer(kernel, operand)))


def _expressed_operand(kernel: MaterializedKernel, op: hlo.AddOp) -> int | None:
    """The number of the operand that a sum of two quantized values expresses in steps of the other; None for others.

    It is the one that nothing else reads, else a convolution, else the first.
    """
    if shape_of(op.lhs) != shape_of(op.rhs) or not all(operand in kernel.arguments for operand in op.operands):
        return None
    alone = [readers(kernel, operand) == 1 for operand in op.operands]
    if not any(alone):
        first, second = (kernel.values[operand] in kernel.unrounded for operand in op.operands)
        return 1 if second and not first else 0
    return 0 if alone[0] else 1


def _convolved_operand(kernel: MaterializedKernel, op: hlo.AddOp) -> int | None:
    """The number of the operand whose convolution computes the sum, or else of one that only the sum reads."""
    if shape_of(op.lhs) != shape_of(op.rhs) or not all(operand in kernel.arguments for operand in op.operands):
        return None
    found = [
        number
        for number, operand in enumerate(op.operands)
        if kernel.values[operand] in kernel.unrounded and len(list(outer(kernel, operand).uses)) == 1
    ]
    return next((number for number in found if _is_fused(kernel, op, number)), found[0] if found else None)


def _is_fused(kernel: MaterializedKernel, op: hlo.AddOp, number: int) -> bool:
    """Whether OpenVINO computes a sum in the convolution of an operand.

    The fused convolution overwrites the other operand in place. So that must not be the convolution's own input, and
    its other readers must come before the sum: those that the sum depends on.
    """
    maker, operand = defining_op(outer(kernel, op.operands[number])), op.operands[1 - number]
    assert maker is not None  # `unrounded` has results of ops only
    other = outer(kernel, operand)
    if other in maker.operands:
        return False
    before = set(readings(kernel, operand)) - {kernel.region}
    return not before or before <= _ancestors(kernel.region, other)


def _ancestors(region: Operation, start: SSAValue) -> set[Operation]:
    """The ops that a region depends on, back to the op that defines `start`."""
    found, pending = set[Operation](), [region]
    while pending:
        for operand in pending.pop().operands:
            maker = defining_op(operand)
            if maker is not None and operand is not start and maker not in found:
                found.add(maker)
                pending.append(maker)
    return found
