"""The affine map as arith and math ops, with the formulas of `zeropoint.numerics.affine`.

Source: the "'quant' Dialect" document, `quantize` and `dequantize` of `quant.qcast` and `quant.dcast`; rounding and
clamping follow a numerics profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.arith import (
    AddfOp,
    CmpfOp,
    DivfOp,
    ExtFOp,
    MaximumfOp,
    MaxSIOp,
    MaxUIOp,
    MinimumfOp,
    MinSIOp,
    MinUIOp,
    MulfOp,
    SelectOp,
    SubfOp,
    TruncFOp,
)
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, f64
from xdsl.dialects.math import RoundEvenOp, RoundOp
from xdsl.ir import SSAValue

from zeropoint.ir.floats import float_format
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.numerics.affine import QuantizeBehaviour
from zeropoint.numerics.storage import dtype_range
from zeropoint.quant_passes.emitter import ElementwiseEmitter


@dataclass(frozen=True)
class ScalarParameters:
    """Scale and zero point of a conversion, as scalar values; a constant zero point of 0 is None."""

    quantized: UniformQuantizedType
    scale: SSAValue
    zero_point: SSAValue | None

    @property
    def expressed(self) -> AnyFloat:
        """The float type of the arithmetic."""
        return self.quantized.expressed_type

    @property
    def integer(self) -> IntegerType:
        """The signless storage type."""
        return cast("IntegerType", self.quantized.storage.mlir_type)

    @property
    def is_signed(self) -> bool:
        """Whether the storage is signed."""
        return self.quantized.storage.type.signed


def dequantize(ops: ElementwiseEmitter, stored: SSAValue, parameters: ScalarParameters) -> SSAValue:
    """(float(stored) - float(zero_point)) * scale, in the expressed type."""
    emit, expressed, signed = ops.emitter, parameters.expressed, parameters.is_signed
    scale = ops.splat(parameters.scale)
    value = ops.to_float(stored, expressed, signed)
    if parameters.zero_point is not None:
        zero_point = ops.to_float(ops.splat(parameters.zero_point), expressed, signed)
        value = emit.value(SubfOp(value, zero_point))
    return emit.value(MulfOp(value, scale))


def quantize_as_upstream(ops: ElementwiseEmitter, value: SSAValue, parameters: ScalarParameters) -> SSAValue:
    """trunc(x / scale + zero_point). The integer is clamped only if the bounds are narrower than the storage type."""
    emit, expressed, signed = ops.emitter, parameters.expressed, parameters.is_signed
    scaled = emit.value(DivfOp(value, ops.splat(parameters.scale)))
    if parameters.zero_point is not None:
        zero_point = ops.to_float(ops.splat(parameters.zero_point), expressed, signed)
        scaled = emit.value(AddfOp(scaled, zero_point))
    stored = ops.to_integer(scaled, parameters.integer, signed)
    storage = parameters.quantized.storage
    if storage.is_full_range:
        return stored
    bounds = [emit.integer(bound, parameters.integer) for bound in (storage.minimum, storage.maximum)]
    low, high = [ops.splat(bound) for bound in bounds]
    at_least, at_most = (MaxSIOp, MinSIOp) if signed else (MaxUIOp, MinUIOp)
    return emit.value(at_most(emit.value(at_least(stored, low)), high))


@dataclass(frozen=True)
class _Rule:
    """A row of the table of quantize behaviours in `zeropoint.numerics.affine`."""

    rounding: type[RoundEvenOp] | type[RoundOp] = RoundEvenOp
    zero_point_first: bool = False
    reciprocal: bool = False
    nan_is_stored_zero: bool = False
    by_range: bool = False


_RULES = {
    QuantizeBehaviour.RNE_AFTER_ZERO_POINT: _Rule(zero_point_first=True),
    QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO: _Rule(zero_point_first=True, nan_is_stored_zero=True),
    QuantizeBehaviour.RNE_BEFORE_ZERO_POINT: _Rule(),
    QuantizeBehaviour.HALF_AWAY_BEFORE_ZERO_POINT: _Rule(RoundOp),
    QuantizeBehaviour.RNE_RECIPROCAL: _Rule(reciprocal=True),
    QuantizeBehaviour.RNE_BY_RANGE: _Rule(by_range=True),
}


def clamping_type(quantized: UniformQuantizedType) -> AnyFloat:
    """The expressed type if it holds sums and differences of storage integers exactly, otherwise f64."""
    least, greatest = quantized.storage.range
    return (
        quantized.expressed_type
        if 2 * (greatest - least) < 1 << float_format(quantized.expressed_type).precision
        else f64
    )


def quantize_scalar(
    ops: ElementwiseEmitter, value: SSAValue, parameters: ScalarParameters, behaviour: QuantizeBehaviour
) -> SSAValue:
    """Scale, round, clamp and convert a number by a behaviour of `numerics.affine`.

    Infinities are clamped. NaN becomes the zero point, or 0 if the behaviour says so. The clamp precedes the
    conversion to an integer, because this gives poison for a number out of range.
    """
    emit, expressed, signed = ops.emitter, parameters.expressed, parameters.is_signed
    rule, exact = _RULES[behaviour], clamping_type(parameters.quantized)
    zero_point = None
    if parameters.zero_point is not None:
        zero_point = ops.to_float(parameters.zero_point, exact, signed)
    if rule.by_range:
        return _quantized_by_range(ops, value, parameters)
    scaled = _scaled(ops, value, parameters, rule)
    if rule.zero_point_first and parameters.zero_point is not None:
        # The behaviour adds the zero point in the expressed type, so the sum is rounded there.
        addend = zero_point if exact == expressed else ops.to_float(parameters.zero_point, expressed, signed)
        scaled = emit.value(AddfOp(scaled, cast("SSAValue", addend)))
    rounded = emit.value(rule.rounding(scaled))
    if exact != expressed:
        rounded = emit.value(ExtFOp(rounded, exact))
    storage = parameters.quantized.storage
    low, high = [emit.real(float(bound), exact) for bound in (storage.minimum, storage.maximum)]
    if zero_point is None or rule.zero_point_first:
        of_nan = None if rule.nan_is_stored_zero else zero_point
        return ops.to_integer(_clamped(ops, rounded, of_nan, low, high), parameters.integer, signed)
    low, high = [emit.value(SubfOp(bound, zero_point)) for bound in (low, high)]
    stored = emit.value(AddfOp(_clamped(ops, rounded, None, low, high), zero_point))
    return ops.to_integer(stored, parameters.integer, signed)


def _quantized_by_range(ops: ElementwiseEmitter, value: SSAValue, parameters: ScalarParameters) -> SSAValue:
    """`RNE_BY_RANGE`: counts steps from the range's minimum in f32 or f64, clamps them, and adds the least integer."""
    emit, storage = ops.emitter, parameters.quantized.storage
    whole = dtype_range(storage.dtype)
    wide = parameters.expressed if parameters.expressed in (f32, f64) else f32
    # f64 holds 32-bit integers and their differences exactly.
    exact = wide if whole[1] - whole[0] < 1 << 24 else f64
    value, scale = (x if x.type == wide else emit.value(ExtFOp(x, wide)) for x in (value, parameters.scale))
    ends = [emit.real(float(end), exact) for end in whole]
    zero = emit.real(0.0, exact)
    if parameters.zero_point is not None:
        zero = ops.to_float(parameters.zero_point, exact, parameters.is_signed)
        ends = [emit.value(SubfOp(end, zero)) for end in ends]
    if exact != wide:
        ends = [emit.value(TruncFOp(end, wide)) for end in ends]
    low, high = (emit.value(MulfOp(end, scale)) for end in ends)
    factor = emit.value(DivfOp(emit.real(float(whole[1] - whole[0]), wide), emit.value(SubfOp(high, low))))
    steps = emit.value(SubfOp(emit.value(MulfOp(value, factor)), emit.value(MulfOp(low, factor))))
    rounded = emit.value(RoundEvenOp(steps))
    if exact != wide:
        rounded = emit.value(ExtFOp(rounded, exact))
    least = emit.real(float(whole[0]), exact)
    bounds = [emit.real(float(end - whole[0]), exact) for end in (storage.minimum, storage.maximum)]
    inside = _clamped(ops, rounded, emit.value(SubfOp(zero, least)), *bounds)
    return ops.to_integer(emit.value(AddfOp(inside, least)), parameters.integer, parameters.is_signed)


def _scaled(ops: ElementwiseEmitter, value: SSAValue, parameters: ScalarParameters, rule: _Rule) -> SSAValue:
    """The value divided by the scale, or multiplied by its reciprocal."""
    emit = ops.emitter
    if not rule.reciprocal:
        return emit.value(DivfOp(value, parameters.scale))
    factor = emit.value(DivfOp(emit.real(1.0, parameters.expressed), parameters.scale))
    return emit.value(MulfOp(value, factor))


def _clamped(
    ops: ElementwiseEmitter, value: SSAValue, of_nan: SSAValue | None, low: SSAValue, high: SSAValue
) -> SSAValue:
    """The value clamped to two bounds; NaN becomes `of_nan`, or 0 if that is None."""
    emit = ops.emitter
    if of_nan is None:
        of_nan = emit.real(0.0, cast("AnyFloat", value.type))
    number = emit.value(SelectOp(emit.value(CmpfOp(value, value, "uno")), of_nan, value))
    return emit.value(MinimumfOp(emit.value(MaximumfOp(number, low)), high))
