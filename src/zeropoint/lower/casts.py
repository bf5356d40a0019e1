"""Casts between floats, quantized values and integers: those of the `quant` dialect, and `uniform_quantize`."""

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
    """Name the profile of each `quant.qcast` of a program without one: StableHLO's holds for StableHLO's ops only."""
    for op in program.module.walk():
        if isinstance(op, QuantizeCastOp) and PROFILE not in op.attributes:
            op.attributes[PROFILE] = StringAttr(CAST_PROFILE)


def as_stablehlo(block: Block) -> None:
    """Replace `quant` casts that the model has around float ops by the StableHLO ops, which have a lowering.

    Casts of sub-channel types stay: StableHLO does not have these types.
    """
    for op in list(block.ops):
        if isinstance(op, QuantizeCastOp | DequantizeCastOp):
            quantizes = isinstance(op, QuantizeCastOp)
            value = op.operands[0]
            kind = quantized_element(op.results[0] if quantizes else value)
            if kind is not None and kind.is_sub_channel:
                continue
            made = UniformQuantizeOp(value, op.results[0].type) if quantizes else UniformDequantizeOp(value)
            made.location = op.location
            made.attributes.update(op.attributes)
            Rewriter.replace_op(op, made)


def lower_quantize(lowering: Lowering, op: UniformQuantizeOp) -> SSAValue | None:
    """The integers of a quantized float: by a table if it is a function of few integers."""
    integers = integer_source(op)
    # Before the table of a function: converted integers have no dequantization that a function could start from.
    converted = None if integers is None else lower_converted(lowering, op, integers)
    if converted is not None:
        return converted
    # Before general functions: a batch norm has one table per channel, not one for all.
    normalized = lower_quantized_floats(lowering, op)
    if normalized is not None:
        return normalized
    source = function_source(op, lowering)
    return _signed_quantize(lowering, op) if source is None else lower_table(lowering, op, source)


def _signed_quantize(lowering: Lowering, op: UniformQuantizeOp) -> SSAValue | None:
    """Quantize a float value of unsigned type directly to signed integers, if the profile's rounding allows it."""
    kind = stored_element(op.result)
    # Only then is the result with a zero point moved by 128 the same integer moved by 128.
    if kind is None or kind.storage.type.signed or not lowering.profile.quantize.shifts_with_zero_point:
        return None
    made = UniformQuantizeOp(op.operand, with_element(op.result, kind.signed))
    made.attributes.update(op.attributes)
    return lowering.cast(lowering.insert(made).result)


def stored_bits(lowering: Lowering, op: StorageCastOp) -> SSAValue | None:
    """The integers from a cast of a lowered quantized value; None for a cast to one, or for other values.

    Of another value, this is the cast that later readers take their integers from.
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
    # Integers are signed everywhere inside; 128 less is the highest bit flipped.
    return stored if kind.storage.type.signed else lowering.flipped(stored)
