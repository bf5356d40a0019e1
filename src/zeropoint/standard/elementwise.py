"""Elementwise StableHLO and fxpmath ops on one element: a table from op to function.

In arith, some results are undefined that StableHLO or our interpreter defines: shifts by the width or more, division by
0, conversion of floats out of range. A comparison and a select give these results, unless constants prove that the case
cannot occur.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, IntegerType, i1
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.annotations import profile_of
from zeropoint.ir.chlo import ErfOp
from zeropoint.ir.constants import constant_array
from zeropoint.ir.fxpmath import (
    InterpolateOp,
    QuotientOp,
    RequantizeOp,
    RoundingDivideByPotOp,
    SaturatingAddOp,
    SaturatingRoundingDoublingHighMulOp,
    TableOp,
    WeightedSumOp,
)
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.affine import QuantizeBehaviour
from zeropoint.numerics.storage import half_range, signed_range
from zeropoint.quant_passes.affine import ScalarParameters, dequantize, quantize_as_upstream, quantize_scalar
from zeropoint.quant_passes.emitter import ElementwiseEmitter, Emitter
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.standard import fixed_point
from zeropoint.standard.arithmetic import BinaryKind, ComparisonKind
from zeropoint.standard.element_types import is_unsigned, scalar_type
from zeropoint.standard.expand_fxpmath import (
    constant_requantization,
    high_product,
    quotient,
    requantized_axis,
    rounding_divide,
    saturating_add,
)
from zeropoint.standard.powers import integer_power
from zeropoint.standard.scalars import ScalarArithmetic


@dataclass(frozen=True)
class ElementSource:
    """The context of an elementwise op: constants, the profile, and tensors as standard values."""

    weights: Weights
    profile: str | None
    tensor: Callable[[SSAValue], SSAValue]


Emit = Callable[[ScalarArithmetic, Any, Sequence[SSAValue], ElementSource], SSAValue]
"""Emits the result of an op, given its activations."""


def _kind(kind: BinaryKind) -> Emit:
    def emit(ops: ScalarArithmetic, op: Operation, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
        del op, source
        return ops.emit(kind, *args)

    return emit


def _math(function: Callable[[SSAValue], Operation]) -> Emit:
    def emit(ops: ScalarArithmetic, op: Operation, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
        if isinstance(args[0].type, IntegerType):
            raise LoweringError(f"{describe(op)}: found {op.operands[0].type}, expected floats", op)
        return ops.body.value(function(args[0]))

    return emit


def _power(ops: ScalarArithmetic, op: hlo.PowerOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    if isinstance(args[0].type, IntegerType):
        return integer_power(ops, args[0], args[1], constant_elements(op.rhs, source.weights))
    return ops.emit("power", *args)


def _shift(kind: BinaryKind) -> Emit:
    """A shift by the width or more gives 0. An arithmetic right shift fills the result with the sign bit."""

    def emit(ops: ScalarArithmetic, op: hlo.ShiftLeftOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
        amounts, width = constant_elements(op.rhs, source.weights), scalar_type(op, op.lhs).bitwidth
        if amounts is not None and ((amounts >= 0) & (amounts < width)).all():
            return ops.emit(kind, *args)
        x, amount = args
        if kind == "shift_right":
            return ops.emit(kind, x, ops.body.value(arith.MinUIOp(amount, ops.of(width - 1, amount))))
        inside = ops.body.value(arith.CmpiOp(amount, ops.of(width, amount), "ult"))
        return ops.select(inside, ops.emit(kind, x, amount), ops.of(0, x))

    return emit


def _division(kind: BinaryKind) -> Emit:
    """A quotient or remainder, of integers truncated towards 0.

    For a divisor of 0, both are 0. The least number divided by -1 wraps to itself.
    """

    def emit(ops: ScalarArithmetic, op: hlo.DivideOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
        x, y = args
        if not isinstance(x.type, IntegerType):
            return ops.emit(kind, x, y)
        made = op.rhs.owner
        divisors = constant_elements(made.rhs if isinstance(made, hlo.MaximumOp) else op.rhs, source.weights)
        if divisors is not None and (divisors > 0).all():
            return ops.emit(kind, x, y)
        # 0 and -1 are replaced by the divisor 1, because arith.divsi is undefined for them. The quotient by -1 is -x.
        none = ops.compare("eq", y, 0)
        is_minus = none if ops.unsigned else ops.compare("eq", y, -1)
        divided = ops.emit(kind, x, ops.select(is_minus, ops.of(1, y), ops.select(none, ops.of(1, y), y)))
        if not ops.unsigned and kind == "divide":
            divided = ops.select(is_minus, ops.subtract(ops.of(0, x), x), divided)
        return ops.select(none, ops.of(0, x), divided)

    return emit


def _count(function: Callable[[SSAValue], Operation]) -> Emit:
    def emit(ops: ScalarArithmetic, op: Operation, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
        del op, source
        return ops.body.value(function(args[0]))

    return emit


def _is_finite(ops: ScalarArithmetic, op: hlo.IsFiniteOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    """|x| < infinity, which is false for NaN."""
    del op, source
    return ops.compare("lt", ops.body.value(math.AbsFOp(args[0])), np.inf)


def _abs(ops: ScalarArithmetic, op: hlo.AbsOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    del op, source
    x = args[0]
    return ops.body.value(math.AbsIOp(x) if isinstance(x.type, IntegerType) else math.AbsFOp(x))


def _negate(ops: ScalarArithmetic, op: hlo.NegateOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    del op, source
    x = args[0]
    return ops.emit("subtract", ops.of(0, x), x) if isinstance(x.type, IntegerType) else ops.body.value(arith.NegfOp(x))


def _not(ops: ScalarArithmetic, op: hlo.NotOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    del op, source
    return ops.emit("xor", args[0], ops.of(-1, args[0]))


def _sign(ops: ScalarArithmetic, op: hlo.SignOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    del op, source
    x = args[0]
    below = ops.select(ops.compare("lt", x, 0), ops.of(-1, x), x if isinstance(x.type, AnyFloat) else ops.of(0, x))
    return ops.select(ops.compare("gt", x, 0), ops.of(1, x), below)


def _logistic(ops: ScalarArithmetic, op: hlo.LogisticOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    """1 / (1 + exp(-x))."""
    del op, source
    power = ops.body.value(math.ExpOp(ops.body.value(arith.NegfOp(args[0]))))
    return ops.emit("divide", ops.of(1.0, power), ops.add(power, 1.0))


def _clamp(ops: ScalarArithmetic, op: hlo.ClampOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    del op, source
    low, x, high = args
    return ops.emit("minimum", ops.emit("maximum", x, low), high)


def _compare(ops: ScalarArithmetic, op: hlo.CompareOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    del source
    if op.compare_type is not None and op.compare_type.data is hlo.ComparisonType.TOTALORDER:
        args = [_in_total_order(ops, x) for x in args]
    return ops.compare(cast("ComparisonKind", op.comparison_direction.data.value.lower()), *args)


def _bits(ops: ScalarArithmetic, op: hlo.BitcastConvertOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    """The same bits as another type of the same width."""
    del source
    wanted, x = scalar_type(op, op.result), args[0]
    if wanted.bitwidth != cast("IntegerType", x.type).bitwidth:
        raise LoweringError(f"{describe(op)}: found {op.operand.type} to {op.result.type}, expected equal widths", op)
    return x if wanted == x.type else ops.body.value(arith.BitcastOp(x, wanted))


def _in_total_order(ops: ScalarArithmetic, x: SSAValue) -> SSAValue:
    """The bits of a float as a signed integer in total order: for negative floats, all bits but the sign are
    flipped.
    """
    width = cast("AnyFloat", x.type).bitwidth
    bits = ops.body.value(arith.BitcastOp(x, IntegerType(width)))
    sign = ops.shift_right(bits, width - 1)
    return ops.emit("xor", bits, ops.emit("and", sign, ops.of(signed_range(width)[1], sign)))


def _select(ops: ScalarArithmetic, op: hlo.SelectOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    del op, source
    return ops.select(*args)


def _convert(ops: ScalarArithmetic, op: Operation, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    """Integers are converted modulo 2^width; floats to integers saturate."""
    del source
    wanted, x = scalar_type(op, op.results[0]), args[0]
    if isinstance(wanted, IntegerType) and wanted != i1 and not isinstance(x.type, IntegerType):
        return ops.saturated(x, wanted, unsigned=is_unsigned(op.results[0]))
    return ops.converted(x, wanted)


def _requantize(ops: ScalarArithmetic, op: RequantizeOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    requantization = constant_requantization(op, source.weights)
    return fixed_point.requantized(ops, args[0], requantization, scalar_type(op, op.result))


def _weighted_sum(
    ops: ScalarArithmetic, op: WeightedSumOp, args: Sequence[SSAValue], source: ElementSource
) -> SSAValue:
    del source
    return fixed_point.weighted_sum(ops, list(args), op.sum, scalar_type(op, op.result))


def _table(ops: ScalarArithmetic, op: TableOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    least = int(np.iinfo(element_dtype(element_of(op.operand))).min)
    return fixed_point.looked_up(ops, args[0], source.tensor(op.table), least)


def _interpolate(ops: ScalarArithmetic, op: InterpolateOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    return fixed_point.interpolated(ops, args[0], source.tensor(op.table), op.shift)


def _emitter(ops: ScalarArithmetic) -> ElementwiseEmitter:
    return ElementwiseEmitter(Emitter(Builder(InsertPoint.at_end(ops.body.block)), ops.body.location))


def _parameters(ops: ScalarArithmetic, op: Operation, value: SSAValue) -> ScalarParameters:
    """The scale and zero point of a quantized value, or of the element's channel.

    Raises LoweringError for a scale per block.
    """
    quantized = element_of(value)
    if not isinstance(quantized, UniformQuantizedType) or quantized.blocks:
        raise LoweringError(
            f"{describe(op)}: found {value.type}, expected scales per layer or per channel; run integer-program first",
            op,
        )
    per_channel = quantized.is_per_channel
    scale = quantized.scales.astype(np.float64) if per_channel else quantized.scale
    unknown = ScalarParameters(quantized, ops.parameter(scale, quantized.expressed_type, value), None)
    if not quantized.zero_points.any():
        return unknown
    width = quantized.storage.type.width
    wrapped = (quantized.zero_points.astype(np.int64) + half_range(width)) % (1 << width) - half_range(width)
    points = wrapped if per_channel else int(wrapped.flat[0])
    return ScalarParameters(quantized, unknown.scale, ops.parameter(points, unknown.integer, value))


def _quantize(
    ops: ScalarArithmetic, op: hlo.UniformQuantizeOp, args: Sequence[SSAValue], source: ElementSource
) -> SSAValue:
    """Quantize floats to storage integers, by the rule of the op's profile."""
    if isinstance(args[0].type, IntegerType):
        raise LoweringError(f"{describe(op)}: found {op.operand.type}, expected floats; run integer-program first", op)
    parameters = _parameters(ops, op, op.result)
    behaviour = profile_of(op, source.profile).quantize
    if behaviour is QuantizeBehaviour.TRUNCATE_NO_CLAMP:
        return quantize_as_upstream(_emitter(ops), args[0], parameters)
    return quantize_scalar(_emitter(ops), args[0], parameters, behaviour)


def _dequantize(
    ops: ScalarArithmetic, op: hlo.UniformDequantizeOp, args: Sequence[SSAValue], source: ElementSource
) -> SSAValue:
    del source
    return dequantize(_emitter(ops), args[0], _parameters(ops, op, op.operand))


def _same(ops: ScalarArithmetic, op: StorageCastOp, args: Sequence[SSAValue], source: ElementSource) -> SSAValue:
    del ops, op, source
    return args[0]


ELEMENTWISE: Mapping[type[Operation], Emit] = {
    ErfOp: _math(math.ErfOp),
    InterpolateOp: _interpolate,
    QuotientOp: quotient,
    RequantizeOp: _requantize,
    RoundingDivideByPotOp: rounding_divide,
    SaturatingAddOp: saturating_add,
    SaturatingRoundingDoublingHighMulOp: high_product,
    StorageCastOp: _same,
    TableOp: _table,
    WeightedSumOp: _weighted_sum,
    hlo.AbsOp: _abs,
    hlo.AddOp: _kind("add"),
    hlo.AndOp: _kind("and"),
    hlo.BitcastConvertOp: _bits,
    hlo.CbrtOp: _math(math.CbrtOp),
    hlo.CeilOp: _math(math.CeilOp),
    hlo.ClampOp: _clamp,
    hlo.CompareOp: _compare,
    hlo.ConvertOp: _convert,
    hlo.CosineOp: _math(math.CosOp),
    hlo.CountLeadingZerosOp: _count(math.CountLeadingZerosOp),
    hlo.DivideOp: _division("divide"),
    hlo.ExponentialMinusOneOp: _math(math.ExpM1Op),
    hlo.ExponentialOp: _math(math.ExpOp),
    hlo.FloorOp: _math(math.FloorOp),
    hlo.IsFiniteOp: _is_finite,
    hlo.LogOp: _math(math.LogOp),
    hlo.LogPlusOneOp: _math(math.Log1pOp),
    hlo.LogisticOp: _logistic,
    hlo.MaximumOp: _kind("maximum"),
    hlo.MinimumOp: _kind("minimum"),
    hlo.MultiplyOp: _kind("multiply"),
    hlo.NegateOp: _negate,
    hlo.NotOp: _not,
    hlo.OrOp: _kind("or"),
    hlo.PopcntOp: _count(math.CtPopOp),
    hlo.PowerOp: _power,
    hlo.RemainderOp: _division("remainder"),
    hlo.RoundNearestAfzOp: _math(math.RoundOp),
    hlo.RoundNearestEvenOp: _math(math.RoundEvenOp),
    hlo.RsqrtOp: _math(math.RsqrtOp),
    hlo.SelectOp: _select,
    hlo.ShiftLeftOp: _shift("shift_left"),
    hlo.ShiftRightArithmeticOp: _shift("shift_right"),
    hlo.ShiftRightLogicalOp: _shift("shift_right_logical"),
    hlo.SignOp: _sign,
    hlo.SineOp: _math(math.SinOp),
    hlo.SqrtOp: _math(math.SqrtOp),
    hlo.SubtractOp: _kind("subtract"),
    hlo.TanOp: _math(math.TanOp),
    hlo.TanhOp: _math(math.TanhOp),
    hlo.UniformDequantizeOp: _dequantize,
    hlo.UniformQuantizeOp: _quantize,
    hlo.XorOp: _kind("xor"),
}
"""The ops that a `linalg.generic` with parallel loops computes."""


def channel_axis(op: Operation) -> int | None:
    """The dimension that an op's parameters belong to; None for parameters of the whole tensor."""
    if isinstance(op, hlo.UniformQuantizeOp | hlo.UniformDequantizeOp):
        element = element_of(op.result if isinstance(op, hlo.UniformQuantizeOp) else op.operand)
        return element.axis if isinstance(element, UniformQuantizedType) and element.is_per_channel else None
    return requantized_axis(op)


def activations(op: Operation) -> Sequence[SSAValue]:
    """The operands that an elementwise op reads element by element: all but multipliers, shifts and tables."""
    return op.operands[:1] if isinstance(op, InterpolateOp | RequantizeOp | TableOp) else op.operands


def constant_elements(value: SSAValue, weights: Weights) -> Array | None:
    """The array of a constant or a broadcast constant; None for any other value."""
    while isinstance(value, OpResult) and isinstance(value.op, hlo.BroadcastInDimOp):
        value = value.op.operand
    return constant_array(value, weights)


def constant_number(value: SSAValue, weights: Weights) -> float | None:
    """The number that every element of a constant equals, exactly; None for any other value."""
    array = constant_elements(value, weights)
    if array is None or not array.size or not (array == array.flat[0]).all():
        return None
    return array.flat[0].item()
