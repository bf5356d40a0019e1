"""Proof obligations of integer ops: every intermediate number has to fit the type that it is computed in.

An op that computes in one step has one obligation, its result. For a contraction, all partial sums must fit, in any
order of the terms. A requantization multiplies in 64 bits; a weighted sum adds in 32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.annotations import DOT_FORM
from zeropoint.ir.contractions import ContractionOp, stored_zero
from zeropoint.ir.fxpmath import RequantizeOp, WeightedSumOp
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import element_dtype, element_of
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.dot_forms import BYTE_MAX, dot_form
from zeropoint.numerics.requantize import EXACT_LIMIT, RequantizeBehaviour
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN
from zeropoint.ranges.analysis import Ranges, width_of
from zeropoint.ranges.bodies import bodies
from zeropoint.ranges.contraction import combined, reduction_sums, sums_of
from zeropoint.ranges.control import ops_of
from zeropoint.ranges.fixed_point import channels_of, requantization_of, weighted_terms
from zeropoint.ranges.interval import EXACT, Interval


@dataclass(frozen=True)
class Obligation:
    """A number that an op computes, its range, and the number of bits it is computed in."""

    op: Operation
    what: str
    range: Interval
    bits: int
    unsigned: bool = False

    @property
    def holds(self) -> bool:
        """Whether the number fits."""
        if self.unsigned:
            return self.range.within(0, (1 << self.bits) - 1) and self.range.is_bounded
        return self.range.fits(self.bits)

    @property
    def needed(self) -> IntArray:
        """The number of bits that the number needs, including the sign, per channel; more than 64 if it is unbounded.

        Unsigned numbers need no sign bit. A negative number fits no unsigned type, so it counts as one bit too many.
        """
        signed = np.where(self.range.magnitude > EXACT, 66, bits_of(self.range))
        return np.where(self.range.low < 0, np.maximum(signed, self.bits + 1), signed - 1) if self.unsigned else signed

    @property
    def headroom(self) -> IntArray:
        """The number of unused bits per channel; negative if there are too few."""
        return self.bits - self.needed


def bits_of(interval: Interval) -> IntArray:
    """The width of the smallest signed integer that can represent a range, per channel."""
    # x >= 0 and -x - 1 both need bit_length(x) + 1 bits.
    magnitude = np.maximum(interval.high, -interval.low - 1).clip(min=0).astype(np.uint64)
    bits = np.ones(magnitude.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        above = magnitude >= np.uint64(1) << np.uint64(step)
        bits += np.where(above, step, 0)
        magnitude = np.where(above, magnitude >> np.uint64(step), magnitude)
    return bits + (magnitude > 0)


def _in_type(op: Operation, what: str, found: Interval) -> Obligation:
    """The obligation that numbers fit the type of the result."""
    element = element_of(op.results[0])
    return Obligation(op, what, found, width_of(element), element_dtype(element).kind == "u")


def _result(what: str) -> Callable[[Ranges, Any], list[Obligation]]:
    """The obligation of an op that computes its result in one step."""

    def found(ranges: Ranges, op: Operation) -> list[Obligation]:
        kind = element_of(op.results[0])
        if not isinstance(kind, UniformQuantizedType):
            return [_in_type(op, what, ranges.computed(op))]
        # The interpreter and native code add quantized accumulators in 64 bits, then saturate. Other quantized ops have
        # obligations after `lower`, when their steps are known.
        plain = not kind.zero_points.any() and all(element_of(value) == kind for value in op.operands)
        return [Obligation(op, what, ranges.computed(op), 64)] if plain else []

    return found


def _none(ranges: Ranges, op: Operation) -> list[Obligation]:
    """No obligations besides those of the body."""
    del ranges, op
    return []


def _contraction(ranges: Ranges, op: ContractionOp) -> list[Obligation]:
    pairs = pair_sums(ranges, op)
    return [_in_type(op, "sums of products", sums_of(ranges, op).partial), *([] if pairs is None else [pairs])]


def pair_sums(ranges: Ranges, op: ContractionOp) -> Obligation | None:
    """The obligation on sums of two products, for dot forms that add them in 16 bits; None for other forms."""
    name, weights = op.attributes.get(DOT_FORM), ranges.array(op.rhs)
    form = dot_form(name.data) if isinstance(name, StringAttr) else None
    if form is None or not form.pairs:
        return None
    # Weights that are not constant may have a zero point subtracted, and then need more than 8 bits.
    found = ranges.of(op.rhs).magnitude if weights is None else np.abs(weights.astype(np.int64))
    greatest = int(found.max(initial=0))
    # VPMADDUBSW saturates the sum of two products of u8 by i8 to 16 bits. Split weights are halved, rounded up.
    weight = 2 * (-(-greatest // 2) if form.split else greatest)
    pair = Interval.of(-weight * BYTE_MAX, weight * BYTE_MAX)
    if stored_zero(op.lhs, ranges.splat) is None:
        # The left operand is no stored i8, so no instruction computes this. The interpreter adds the form's offset to
        # it.
        moved = ranges.of(op.lhs).hull + Interval.of(form.offset, form.offset)
        pair = moved * Interval.of(-weight, weight)
    return Obligation(op, "sums of two products", pair, 16)


def _reduction(ranges: Ranges, op: hlo.ReduceOp | hlo.ReduceWindowOp) -> list[Obligation]:
    """The partial sums of a reduction.

    An extreme is one of the elements. The ops of other bodies have their own obligations.
    """
    if combined(op) in ("maximum", "minimum"):
        return []
    return [_in_type(op, "sums", reduction_sums(ranges, op).partial)]


def _convert(ranges: Ranges, op: hlo.ConvertOp) -> list[Obligation]:
    source = element_dtype(element_of(op.operand)).kind
    return [_in_type(op, "numbers", ranges.of(op.operand))] if source in "biu" else []


def _requantize(ranges: Ranges, op: RequantizeOp) -> list[Obligation]:
    """The integers that a behaviour computes in 64 bits. `fixed16` has none, because it saturates to 16 bits first."""
    steps, acc = requantization_of(ranges, op), ranges.of(op.accumulator)
    if steps is None:
        return []
    multiplier, factor = steps.multiplier, steps.multiplier.multiplier
    if multiplier.behaviour is RequantizeBehaviour.EXACT and not acc.fits(32):
        return [Obligation(op, "accumulators", acc, EXACT_LIMIT.bit_length())]
    rule = _PRODUCTS.get(multiplier.behaviour)
    if rule is None or multiplier.shift is None:
        return []
    found = rule(acc, channels_of(op, factor), channels_of(op, multiplier.shift))
    return [Obligation(op, "products with the multiplier", found, 64)]


def _constants(numbers: IntArray) -> Interval:
    return Interval(numbers, numbers)


def _half(shift: IntArray) -> IntArray:
    """2^(shift - 1), the term that rounds half up; 0 without a right shift."""
    return (np.int64(1) << np.maximum(shift, 0)) >> 1


def _fixed32(acc: Interval, factor: IntArray, shift: IntArray) -> Interval:
    """acc * M0 + 2^(N-1). A negative shift is a left shift, so it is a part of the factor.

    Beyond 64 bits, the implementation multiplies the high half of acc for N >= 31, and saturates acc for others.
    """
    factor, rounding = factor << np.maximum(-shift, 0), _half(shift)
    whole = acc * _constants(factor) + _constants(rounding)
    if acc.is_bounded and whole.fits(64):
        return whole
    high, long = acc.mapped(lambda bounds: bounds >> np.int64(31)), np.where(shift >= 31, factor, 0)
    return high * _constants(long) + Interval(rounding >> 31, long + (rounding >> 31))


def _fixed32_double(acc: Interval, factor: IntArray, shift: IntArray) -> Interval:
    """sat32(acc << e) * M + 2^30."""
    shifted = acc * _constants(np.int64(1) << np.maximum(shift, 0))
    return shifted.clamped(INT32_MIN, INT32_MAX) * _constants(factor) + Interval.of(1 << 30, 1 << 30)


def _tosa_double(acc: Interval, factor: IntArray, shift: IntArray) -> Interval:
    """sat32(acc) * M + 2^(shift-1). For shifts above 31, 2^30 is added, or -2^30 to negative accumulators."""
    acc = acc.clamped(INT32_MIN, INT32_MAX)
    total = acc * _constants(factor) + _constants(_half(shift))
    extra = np.where(shift > 31, np.int64(1 << 30), np.int64(0))
    ends = [np.where(bounds >= 0, extra, -extra) for bounds in (acc.low, acc.high)]
    return total.join(total + Interval.made(*ends))


def _pot(acc: Interval, factor: IntArray, shift: IntArray) -> Interval:
    """acc << -n, before any rounding. 64-bit accumulators saturate first."""
    del factor
    return (acc * _constants(np.int64(1) << np.maximum(-shift, 0))).clamped(-EXACT, EXACT)


_PRODUCTS: Mapping[RequantizeBehaviour, Callable[[Interval, IntArray, IntArray], Interval]] = {
    RequantizeBehaviour.FIXED32: _fixed32,
    RequantizeBehaviour.FIXED32_DOUBLE: _fixed32_double,
    RequantizeBehaviour.TOSA_DOUBLE: _tosa_double,
    RequantizeBehaviour.POT: _pot,
}
"""For each behaviour, the numbers that it computes in 64 bits from accumulators, multipliers and shifts."""


def _quotient(ranges: Ranges, op: hlo.DivideOp) -> list[Obligation]:
    """Only the least number of a type divided by -1 exceeds the type, so other divisors have no obligation."""
    divisor = ranges.of(op.rhs).hull
    return _result("quotients")(ranges, op) if divisor.least <= -1 <= divisor.greatest else []


def _weighted_sum(ranges: Ranges, op: WeightedSumOp) -> list[Obligation]:
    half = 1 << (int(op.shift.value.data) - 1)
    # The rounding term is added first.
    partial = Interval.of(half, half)
    for term in weighted_terms(ranges, op):
        partial = partial + term.with_zero()
    return [Obligation(op, "weighted sums", partial.with_zero(), 32)]


OBLIGATIONS: Mapping[type[Operation], Callable[[Ranges, Any], list[Obligation]]] = {
    hlo.AbsOp: _result("magnitudes"),
    hlo.AddOp: _result("sums"),
    hlo.AllReduceOp: _result("sums"),
    hlo.ConvertOp: _convert,
    hlo.ConvolutionOp: _contraction,
    hlo.DivideOp: _quotient,
    hlo.DotGeneralOp: _contraction,
    hlo.DynamicConvOp: _result("sums of products"),
    hlo.MapOp: _none,
    hlo.MultiplyOp: _result("products"),
    hlo.NegateOp: _result("negated numbers"),
    hlo.PowerOp: _result("powers"),
    hlo.ReduceOp: _reduction,
    hlo.ReduceScatterOp: _result("sums"),
    hlo.ReduceWindowOp: _reduction,
    hlo.ScatterOp: _result("sums"),
    hlo.SelectAndScatterOp: _result("sums"),
    hlo.ShiftLeftOp: _result("shifted numbers"),
    hlo.SortOp: _none,
    hlo.SubtractOp: _result("differences"),
    RequantizeOp: _requantize,
    WeightedSumOp: _weighted_sum,
}
"""Ops that may overflow. Other ops only move, compare or look up numbers that fit already."""


def obligations(ranges: Ranges, op: Operation) -> list[Obligation]:
    """The obligations of an op and of its bodies; empty for an op that computes no integers."""
    rule = OBLIGATIONS.get(type(op))
    if rule is None:
        return []
    integer = len(op.results) == 1 and element_dtype(element_of(op.results[0])).kind in "iu"
    found = rule(ranges, op) if integer else []
    inner = [each for block in bodies(ranges, op) for each in ops_of(block)]
    return [*found, *(shown for each in inner for shown in obligations(ranges, each))]
