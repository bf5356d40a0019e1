"""Sums in OpenVINO: one operand in steps of the other, then quantized (`numerics.openvino`)."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.tensors import shape_of
from zeropoint.materialize import onnxruntime
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, is_of_bytes
from zeropoint.materialize.kernel import MaterializedKernel, UnroundedFloats
from zeropoint.materialize.openvino_constant_sums import constant_sum
from zeropoint.materialize.openvino_floats import REASON, fused, of_dtype, requantized, stored_again
from zeropoint.materialize.openvino_operands import is_moved, is_rounded, outer, readers, readings
from zeropoint.numerics.openvino import RangeFactors, SumTerm, term_steps, term_zero
from zeropoint.numerics.storage import dtype_range


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
    run = FloatArithmetic(kernel, REASON)
    values = [kernel.values[operand] for operand in op.operands]
    mine, theirs = (kernel.type_of(op.operands[number]) for number in (term, 1 - term))
    is_fused = convolved is not None and _is_fused(kernel, op, term)
    if is_fused:
        before = kernel.unrounded[values[term]]
        by = SumTerm.of(of_dtype(mine), of_dtype(theirs), before.unit)
        real = run.clamped(fused(run, before, by.factor, by.offset), by.low, by.high)
    elif convolved is None and all(readers(kernel, operand) > 1 for operand in op.operands):
        zero, ratio = term_zero(of_dtype(mine), of_dtype(theirs))
        number = run.to(run.plus(run.centred(values[term], mine), mine.zero_point), f32)
        real = run.times(run.plus(number, -zero), ratio)
    else:
        steps, start = term_steps(of_dtype(mine), of_dtype(theirs))
        number = run.plus(run.centred(values[term], mine), mine.zero_point - dtype_range(mine.storage.dtype)[0])
        real = run.fused(run.to(number, f32), steps, start)
    stored = run.to(run.plus(run.centred(values[1 - term], theirs), theirs.zero_point), f32)
    total = run.made(hlo.AddOp(real, stored))
    if convolved is None:
        return bounded(kernel, stored_again(run, total, np.float32(theirs.scale)))
    result = RangeFactors.of(of_dtype(kernel.output_type), np.float32(theirs.scale))
    return bounded(kernel, requantized(run, UnroundedFloats(total), result))


def _expressed_operand(kernel: MaterializedKernel, op: hlo.AddOp) -> int | None:
    """The number of the operand that a sum of two quantized values expresses in steps of the other; None for others.

    It is the one that nothing else reads, else the first.
    """
    if shape_of(op.lhs) != shape_of(op.rhs) or not all(operand in kernel.arguments for operand in op.operands):
        return None
    sources = [outer(kernel, operand) for operand in op.operands]
    alone = [readers(kernel, operand) == 1 for operand in op.operands]
    if all(map(is_rounded, sources)):
        return 1 if alone[1] and not alone[0] else 0
    return 0 if alone[0] and is_rounded(sources[0]) and is_moved(sources[1]) else None


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
