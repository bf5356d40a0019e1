"""Lowers casts between floats, quantized values and integers: those of the `quant` dialect, and `uniform_quantize`."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import PROFILE
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from zeropoint.ir.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import with_element
from zeropoint.lower.context import Lowering, quantized_element, storage_element, stored_element
from zeropoint.lower.normalization import lower_quantized_floats
from zeropoint.lower.tables import function_source, integer_source, lower_converted, lower_table
from zeropoint.numerics.profile import CAST_PROFILE


def state_cast_profiles(program: Program) -> None:
    """Attach a profile to each `quant.qcast` of a program without one.

    StableHLO's semantics, the default, hold for its own ops only.
    """
    for op in program.module.walk():
        if isinstance(op, QuantizeCastOp) and PROFILE not in op.attributes:
            op.attributes[PROFILE] = StringAttr(CAST_PROFILE)


def as_stablehlo(block: Block) -> None:
    """Replace `quant` casts around float ops by the StableHLO ops, which have a lowering.

    Casts of sub-channel types stay, because StableHLO does not have these types, and so do those of a model's
    constraints, such as `!quant.calibrated`.
    """
    for op in list(block.ops):
        if isinstance(op, QuantizeCastOp | DequantizeCastOp):
            quantizes = isinstance(op, QuantizeCastOp)
            value = op.operands[0]
            kind = quantized_element(op.results[0] if quantizes else value)
            if kind is None or kind.is_sub_channel:
                continue
            made = UniformQuantizeOp(value, op.results[0].type) if quantizes else UniformDequantizeOp(value)
            made.location = op.location
            made.attributes.update(op.attributes)
            Rewriter.replace_op(op, made)


def lower_quantize(lowering: Lowering, op: UniformQuantizeOp) -> SSAValue | None:
    """The integers of a quantized float, by a table if the float is a function of few integers."""
    integers = integer_source(op)
    # First, because converted integers have no dequantization from which `function_source` could start.
    converted = None if integers is None else lower_converted(lowering, op, integers)
    if converted is not None:
        return converted
    # Before general functions, because a batch norm has a table for each channel.
    normalized = lower_quantized_floats(lowering, op)
    if normalized is not None:
        return normalized
    source = function_source(op, lowering)
    return _signed_quantize(lowering, op) if source is None else lower_table(lowering, op, source)


def _signed_quantize(lowering: Lowering, op: UniformQuantizeOp) -> SSAValue | None:
    """Quantize a float value of unsigned type directly to signed integers, if the profile's rounding allows it."""
    kind = stored_element(op.result)
    # Only under such a profile does a zero point that is 128 less give integers that are 128 less.
    if kind is None or kind.storage.type.signed or not lowering.profile.quantize.shifts_with_zero_point:
        return None
    made = UniformQuantizeOp(op.operand, with_element(op.result, kind.signed))
    made.attributes.update(op.attributes)
    return lowering.cast(lowering.insert(made).result)


def stored_bits(lowering: Lowering, op: StorageCastOp) -> SSAValue | None:
    """The integers that a cast of a lowered quantized value gives; None for other casts.

    The cast of a value that is not lowered is recorded, so that later readers use its integers.
    """
    kind = stored_element(op.input)
    if kind is None:
        return None
    if op.input not in lowering.values:
        maker, integers = op.input.owner, with_element(op.input, storage_element(kind))
        is_near = isinstance(maker, Operation) and maker.parent is op.parent
        if is_near and kind.storage.type.signed and op.result.type == integers:
            lowering.values[op.input] = op.result  # later readers need no second cast
        return None
    stored = lowering.stored(op.input)
    # Inside the program, all integers are signed. Flipping the highest bit subtracts half of the range.
    return stored if kind.storage.type.signed else lowering.flipped(stored)
