"""Lowers casts between floats, quantized values and integers: those of the `quant` dialect, and `uniform_quantize`."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import FLOAT_REASON, PROFILE
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp, quantize
from zeropoint.ir.stablehlo import SelectOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.lower.context import Lowering, quantized_element, signed_integers, storage_element, stored_element
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
    """The integers of a quantized float, by a table if the float is a function of few integers.

    Of two constants that a predicate selects from (an attention mask), the integers are selected.
    """
    integers = integer_source(op)
    # First, because converted integers have no dequantization from which `function_source` could start.
    converted = None if integers is None else lower_converted(lowering, op, integers)
    if converted is not None:
        return converted
    selected = _selected_numbers(lowering, op)
    if selected is not None:
        return selected
    # Before general functions, because a batch norm has a table for each channel.
    normalized = lower_quantized_floats(lowering, op)
    if normalized is not None:
        return normalized
    # A table has one result for each integer, not one for each channel.
    kind = stored_element(op.result)
    source = None if kind is None or kind.is_per_channel else function_source(op, lowering)
    return _signed_quantize(lowering, op) if source is None else lower_table(lowering, op, source)


def _selected_numbers(lowering: Lowering, op: UniformQuantizeOp) -> SSAValue | None:
    """A selection of the integers of two constants, for the quantized selection of these constants; None for others."""
    select, kind = op.operand.owner, stored_element(op.result)
    if not isinstance(select, SelectOp) or FLOAT_REASON in select.attributes:
        return None
    if kind is None or not kind.is_per_layer or DYNAMIC_INDEX in shape_of(op.result):
        return None
    arrays = [_numbers(value, lowering) for value in (select.on_true, select.on_false)]
    if any(array is None for array in arrays):
        return None
    integers = (signed_integers(quantize(array, kind, lowering.profile.name)) for array in arrays if array is not None)
    chosen = [lowering.constant(each) for each in integers]
    spread = [each if shape_of(each) else lowering.spread(each, op.result, []) for each in chosen]
    return lowering.insert(SelectOp(select.pred, *spread)).result


def _numbers(value: SSAValue, lowering: Lowering) -> Array | None:
    """The array of a constant, or the one number of it; None if the value is not constant."""
    number = splat_value(value, lowering.weights)
    if number is None:
        return constant_array(value, lowering.weights)
    return np.array(number, element_dtype(element_of(value)))


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
