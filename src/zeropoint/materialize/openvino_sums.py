"""Sums in OpenVINO: one operand in steps of the other, then quantized (`numerics.openvino`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.annotations import FLOAT_REASON, FUNCTION, KERNEL, SHARED_BIAS
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.weights import Weights
from zeropoint.materialize import elementwise, onnxruntime
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, is_of_bytes, operands_of
from zeropoint.materialize.kernel import MaterializedKernel, UnroundedFloats
from zeropoint.materialize.openvino_constant_sums import constant_sum
from zeropoint.materialize.openvino_constants import ONE
from zeropoint.materialize.openvino_floats import (
    REASON,
    above_zero,
    of_dtype,
    requantized,
    scaled,
    stored_again,
    times,
)
from zeropoint.materialize.openvino_held import CONVOLUTIONS, held_operand, held_parameters, is_stored
from zeropoint.materialize.openvino_operands import FileOperand, channel_axis, expressed, has_channels, origin
from zeropoint.numerics.openvino import HeldOperand, PerChannel, RangeFactors, SumTerm, term_steps, term_zero
from zeropoint.numerics.storage import dtype_range
from zeropoint.targets.logical_kernels import CONTRACTIONS, PASSES_ELEMENTS, REDUCTIONS

APART = frozenset({*CONTRACTIONS, *PASSES_ELEMENTS, *REDUCTIONS})
"""Kernels that are no elementwise ops, so OpenVINO computes nothing else with them."""


def add(kernel: MaterializedKernel) -> SSAValue:
    """A sum of one operand in steps of the other. A sum that is no such sum of bytes is as in onnxruntime.

    If OpenVINO computes the sum in the convolution that makes the operand, the operand is not rounded before.
    """
    op = next(op for op in kernel.body if isinstance(op, hlo.AddOp))
    if (found := constant_sum(kernel, op)) is not None:
        return found
    pair = (FileOperand(kernel, op.lhs), FileOperand(kernel, op.rhs))
    if any(operand.argument is None for operand in pair):
        return onnxruntime.add(kernel)
    if not is_of_bytes(kernel) and not has_channels(pair):
        return onnxruntime.add(kernel)
    run = FloatArithmetic(kernel, REASON, channel_axis(pair))
    total, unit = _total(run, operands_of(kernel, op), pair)
    if not any(map(_is_convolved, pair)):
        return bounded(kernel, stored_again(run, total, unit, is_stored=is_stored(kernel)))
    made, above = held_parameters(kernel)
    result = RangeFactors.of(made, unit)
    return bounded(kernel, requantized(run, UnroundedFloats(total, axis=run.axis), result, above))


def function_of_sum(kernel: MaterializedKernel) -> SSAValue:
    """A function of a sum that a convolution computes, quantized once. A leaky relu is one of steps."""
    op = next(op for op in kernel.body if isinstance(op, hlo.AddOp))
    pair = (FileOperand(kernel, op.lhs), FileOperand(kernel, op.rhs))
    if not any(map(_is_convolved, pair)):
        return elementwise.encased(kernel, REASON)
    run = FloatArithmetic(kernel, REASON)
    total, unit = _total(run, operands_of(kernel, op), pair)
    in_steps = kernel.region.attributes.get(FUNCTION) == StringAttr("leaky_relu")
    values: dict[SSAValue, SSAValue] = {op.result: total if in_steps else run.times(total, unit)}
    of = function_of(kernel, values, REASON)
    made, above = held_parameters(kernel)
    result = RangeFactors.of(made, unit if in_steps else None)
    return requantized(run, UnroundedFloats(of), result, above)


def function_of(kernel: MaterializedKernel, values: dict[SSAValue, SSAValue], reason: str) -> SSAValue:
    """What the body returns, computed in floats of the values of its arguments or ops that are given."""
    for op in kernel.body:
        if op.results[0] not in values:
            copy = kernel.builder.insert(op.clone(values))
            values.update(zip(op.results, copy.results, strict=True))
            copy.attributes[FLOAT_REASON] = StringAttr(reason)
            copy.attributes[KERNEL] = kernel.region.logical_kernel
    ((returned, _),) = kernel.returned
    return values[returned]


def subtract(kernel: MaterializedKernel) -> SSAValue:
    """A difference of one operand in steps of the other, which is quantized as a real number.

    If the second operand is in steps of the first, it is quantized in these steps.
    """
    op = next(op for op in kernel.body if isinstance(op, hlo.SubtractOp))
    pair = (FileOperand(kernel, op.lhs), FileOperand(kernel, op.rhs))
    if any(operand.argument is None for operand in pair):
        return elementwise.encased(kernel, REASON)
    if not is_of_bytes(kernel) and not has_channels(pair):
        return elementwise.encased(kernel, REASON)
    run, is_reversed = FloatArithmetic(kernel, REASON, channel_axis(pair)), bool(expressed(pair))
    total, unit = _total(run, operands_of(kernel, op), pair, is_difference=True)
    value = run.made(hlo.NegateOp(total)) if is_reversed else run.times(total, unit)
    if any(map(_is_convolved, pair)):
        made, above = held_parameters(kernel)
        by = RangeFactors.of(made, unit if is_reversed else None)
        return requantized(run, UnroundedFloats(value, axis=run.axis), by, above)
    return stored_again(run, value, unit if is_reversed else ONE, is_stored=is_stored(kernel))


def _total(
    run: FloatArithmetic,
    values: list[SSAValue],
    pair: tuple[FileOperand, FileOperand],
    *,
    is_difference: bool = False,
) -> tuple[SSAValue, PerChannel]:
    """A sum in steps of one operand, and that operand's scale; or the other operand minus that one."""
    kernel, number = run.kernel, expressed(pair)
    term, other = pair[number], pair[1 - number]
    beside, moved = held_operand(kernel, other.source, other.kind)
    stored = above_zero(run, values[1 - number], other.kind, -moved)
    if is_difference:
        stored, beside = run.made(hlo.NegateOp(stored)), -beside
    if not _is_convolved(term) and _is_convolved(other) and (is_difference or _is_fused(other, term)):
        stored = _unrounded(run, other.kind, kernel.unrounded[values[1 - number]])
        beside = HeldOperand.of(of_dtype(other.kind))
    if _is_convolved(term) and (is_difference or _is_fused(term, other)):
        before = kernel.unrounded[values[number]]
        before = before if before.axis is not None else replace(before, axis=run.axis)
        by = SumTerm.of(of_dtype(term.kind), beside, before.unit)
        total = run.made(hlo.AddOp(run.clamped(scaled(run, before, by.factor, by.offset), by.low, by.high), stored))
    elif term.is_folded:
        mine, _ = held_operand(kernel, term.source, term.kind)
        total = _folded(run, values[number], term.kind, term_steps(mine, beside), stored)
    else:
        total = _from_zero(run, values[number], term, other, (stored, beside))
    return total, beside.scale


def is_computed_in_convolution(kernel: MaterializedKernel) -> bool:
    """Whether OpenVINO computes a sum in the convolution of one of its operands."""
    op = next(op for op in kernel.body if isinstance(op, hlo.AddOp))
    pair = (FileOperand(kernel, op.lhs), FileOperand(kernel, op.rhs))
    return any(
        is_alone_behind_convolution(term.outer, kernel.weights) and _is_fused(term, other)
        for term, other in (pair, pair[::-1])
    )


def is_alone_behind_convolution(value: SSAValue, weights: Weights) -> bool:
    """Whether a convolution computes a value that one op reads, with the whole range of its type."""
    maker = defining_op(value)
    if not isinstance(maker, QuantizeRegionOp) or maker.logical_kernel.data not in CONVOLUTIONS:
        return False
    if SHARED_BIAS in maker.attributes:
        return False
    kind = maker.output_specs.data[0]
    if not isinstance(kind, UniformQuantizedType) or not kind.is_per_layer or not kind.storage.is_full_range:
        return False
    bounds = Bounds()
    for op in maker.body.block.ops:
        bounds.then(op, weights)
    return bounds == Bounds() and len(list(value.uses)) == 1


def _unrounded(run: FloatArithmetic, kind: UniformQuantizedType, of: UnroundedFloats) -> SSAValue:
    """The result of a convolution in steps of its type, clamped but not rounded."""
    by = RangeFactors.of(of_dtype(kind), of.unit)
    steps = times(run, of, by.scale).value if by.is_scale else scaled(run, of, by.scale, by.shift)
    return run.clamped(steps, *map(np.float32, dtype_range(kind.storage.dtype)))


def _folded(
    run: FloatArithmetic,
    value: SSAValue,
    kind: UniformQuantizedType,
    expressed_by: tuple[PerChannel, PerChannel],
    stored: SSAValue,
) -> SSAValue:
    """fma(q - minimum, steps, start) + stored, with `expressed_by` = (steps, start)."""
    steps, start = expressed_by
    number = above_zero(run, value, kind, dtype_range(kind.storage.dtype)[0])
    return run.made(hlo.AddOp(run.fused(number, steps, start), stored))


def _from_zero(
    run: FloatArithmetic,
    value: SSAValue,
    term: FileOperand,
    other: FileOperand,
    beside: tuple[SSAValue, HeldOperand],
) -> SSAValue:
    """fma(q - zero, ratio, stored), or two roundings if an elementwise op reads the operand, too.

    OpenVINO then computes the product in another kernel, which the elementwise ops of the operand share. It does not
    if one of the operands is read as stored integers, or comes from the kernel of a convolution, product or pool.
    """
    stored, held = beside
    mine, steps = held_operand(run.kernel, term.source, term.kind)
    zero, ratio = term_zero(mine, held)
    moved = run.plus(above_zero(run, value, term.kind, -steps), -zero)
    others = [reader for reader in term.readings if reader is not run.kernel.region]
    is_apart = all(isinstance(reader, QuantizeRegionOp) and reader.logical_kernel.data in APART for reader in others)
    if is_apart or term.is_apart or other.is_apart:
        return run.fused(moved, ratio, stored)
    return run.made(hlo.AddOp(run.times(moved, ratio), stored))


def _is_convolved(operand: FileOperand) -> bool:
    """Whether a convolution that only the sum reads, and reads once, computes an operand."""
    kernel, argument = operand.kernel, operand.argument
    return (
        argument is not None
        and kernel.values[argument] in kernel.unrounded
        and len(list(operand.outer.uses)) == 1
        and len(list(argument.uses)) == 1
    )


def _is_fused(term: FileOperand, other: FileOperand) -> bool:
    """Whether OpenVINO computes a sum in the convolution of a term.

    The fused convolution overwrites the other operand in place. So that must have the shape of the sum. It must not be
    the convolution's own input, and its other readers must come before the sum: those that the sum depends on.
    """
    maker, region = defining_op(term.outer), term.kernel.region
    assert maker is not None  # `unrounded` has results of ops only
    if term.is_repeated or other.is_repeated or other.source in map(origin, maker.operands):
        return False
    before = set(other.readings) - {region}
    return not before or before <= _ancestors(region, other.outer)


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
