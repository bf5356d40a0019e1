"""The float constants of OpenVINO's integer kernels for x64 (oneDNN, with post-operations by the CPU plugin).

A contraction computes in f32, with a sum acc in i32:

- v = fl(fl(acc * fl(s_in * s_w)) + fl(bias * fl(s_in * s_w)));
- q = rne(fma(v, scale, shift)), clamped. With shift 0 and one scale, it is rne(fl(v * fl(1 / fl(1 / scale)))). With a
  scale per channel, it is rne(fl(fl(v * scale) + shift)), with the first channel's shift for all. The plugin computes
  scale and shift from the ends of the result's range: `RangeFactors`.

Without a bias, or with one of zeros, the two steps become one, with acc instead of v. The ends of the range are then
divided by the scales of the accumulator, so that there is a scale per channel if the weights have some. In fully
connected layers, this holds only if all channels have one scale.

In a fully connected layer with a bias, the range is folded into the scales and the bias: q = rne(fl(acc * factor) +
addend), with a factor and an addend per channel (`BiasedFactors`). The addend is fl(fl(bias * k + shift) + least), with
the least stored integer. A layer that is a batch is computed in the two steps above if its operand has a zero point.

If nothing but a sum reads a convolution, the sum becomes part of the convolution. The convolution's result is clamped
to the range of its type, but not rounded. It is expressed in steps of the other operand:

- t = clamp(fma(v, factor, offset), low, high): `SumTerm`;
- q = rne(fma(fl(t + r), scale, shift)), with the ends of the result's range divided by the other operand's scale.

It overwrites the other operand in place. If that is the convolution's own input, or if an op that may run later reads
it, the sum is a kernel of its own. The convolution's result is rounded to q1, and then expressed in steps of the other
operand, too: t = fma(q1, `term_steps`).

So are sums of other values, which are quantized as those stored again (below), or as above if one of them is a
convolution that only the sum reads. Which operand q1 is expressed in steps of the other follows from the file
(`materialize/openvino_operands.py`). If it has other readers, or no casts of its own, the sum is
fma(fl(q1 - zero), ratio, q2), with the numbers of `term_zero`, and the product is rounded if float ops read q1. If q2
is a convolution that only the sum reads, and q1 is a product of matrices, q2 is clamped but not rounded.

A constant is expressed in steps of the other operand: c = fl(real / s1). If it is one number, or one for each element
of the first two dimensions, it moves the result's range: `moved_ends`. Any other is added, fl((q1 - z1) + c), and the
sum is stored again at the scale s1.

If nothing but a hard swish reads a convolution, and its result is not quantized in the file, the hard swish becomes
part of the convolution, too:

- t = clamp(fl(fl(v * fl(1 / 6)) + 0.5), 0, 1);
- q = rne(fma(fl(v * t), scale, shift)).

A product with positive constants is one of q1 - z1 at the scales fl(s1 * c). A product of two values is one of real
numbers, r = fma(q, `real_steps`); if z2 is 0, of the first, times s2, and of q2. With other readers, and without casts
of its own, r = fl((q - z) * s). Both products are quantized as values that are stored again.

Operands of sums and products may have a scale for each channel; these numbers are then one for each channel, too.
Stored integers that are inputs of the program have no casts of their own.

A mean divides the sum of stored integers by their number: v = fl(sum / count), or over windows fl(sum * fl(1 / count)).
Then q = rne(fma(v, scale, shift)), with the ends of the result's range divided by s_in, and fl(z_in * scale) subtracted
from the shift.

A value that is stored again with other parameters, such as an operand of a concatenation, is multiplied and shifted
with two roundings: `rescaling`. To i8 with zero point 0, it is only multiplied (`is_symmetric`). If a value with zero
point 0 is stored again, also times a constant or plus one, and no end of its type's range would move by a step, the
integers stay as they are (`keeps_integers`).

A convolution reads u8, on processors with AMX also i8 (profile `openvino-amx`). If an op needs integers of the other
signedness than the file has, the plugin computes the scale and the zero point
anew, from the ends of the range: `HeldOperand.moved`.

The plugin knows types only, not storage ranges. So the parameters here have the whole range of i8 or u8.

Sources: the CPU plugin's post-operations (dnnl_postops_composer) and fake quantization, and the low precision
transformations of Add, Multiply and Subtract, FakeQuantizeDecomposition and EliminateFakeQuantize.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zeropoint.numerics.ranges import AffineParameters

F32 = np.float32
PerChannel = np.float32 | NDArray[np.float32]
"""One number, or one number per channel."""
Zeros = NDArray[np.int64]
STEPS, ZERO = F32(255), F32(0)
DRIFT = F32(0.00005)
"""Shifts of channels that differ by less are taken as one."""
NEGLIGIBLE = F32(0.00001)
"""A shift below this share of the range is dropped."""
UNEQUAL = F32(0.0001)
"""The least distance of a shift from that of zero point 0, in steps."""
LESS_THAN_A_STEP = F32(255 / 256)
"""The greatest distance of the ends of two ranges that are taken as one."""


@dataclass(frozen=True)
class RangeFactors:
    """q = rne(fma(v, scale, shift)), or rne(fl(fl(v * scale) + shift)) with a scale per channel.

    Without a shift (`is_scale`): q = rne(fl(v * scale)).
    """

    scale: PerChannel
    shift: PerChannel

    @property
    def is_scale(self) -> bool:
        """Whether the values are only multiplied."""
        return not np.any(self.shift)

    @staticmethod
    def of(result: AffineParameters, unit: PerChannel | None = None) -> RangeFactors:
        """The factors from real numbers, or from multiples of `unit`, to an 8-bit type with one scale."""
        return RangeFactors.of_ends(*_ends(result, unit), result)

    @staticmethod
    def of_ends(low: PerChannel, high: PerChannel, result: AffineParameters) -> RangeFactors:
        """The factors from values of which `low` and `high` are the ends of the result's range."""
        scale, shift = _slope(low, high)
        shift = shift + F32(result.storage_min)
        if not np.all(abs(shift) < STEPS * NEGLIGIBLE):
            return RangeFactors(scale, shift)
        if np.size(scale) == 1:  # given as the scale of the result, by which the kernel divides
            scale = F32(1) / (F32(1) / scale)
        return RangeFactors(scale, F32(0))

    @staticmethod
    def of_stored(result: AffineParameters, unit: np.float32, zero_point: int) -> RangeFactors:
        """The factors from means of stored integers with this scale and zero point."""
        if not zero_point:
            return RangeFactors.of(result, unit)
        scale, shift = _linear(result, unit)
        return RangeFactors(scale, shift + F32(result.storage_min) - F32(zero_point) * scale)


@dataclass(frozen=True)
class BiasedFactors:
    """q = rne(fl(acc * factors) + addends): the linear function of a range, folded into the scales and the bias."""

    factors: NDArray[np.float32]
    scale: np.float32
    shift: np.float32
    """Of the steps above the least stored integer."""
    least: np.float32
    """The least stored integer."""

    @staticmethod
    def of(result: AffineParameters, scales: NDArray[np.float32]) -> BiasedFactors:
        """The factors to an 8-bit type with one scale, from sums of the given scales."""
        scale, shift = _linear(result, None)
        return BiasedFactors(scales * F32(scale), F32(scale), F32(shift), F32(result.storage_min))

    def addends(self, biases: NDArray[np.float32]) -> NDArray[np.float32]:
        """What is added for biases as real numbers: steps above the least stored integer, rounded, and that integer."""
        return (biases * self.scale + self.shift) + self.least


@dataclass(frozen=True)
class HeldOperand:
    """An operand of a sum as OpenVINO holds it: real = (stored - zero) * scale, with low <= stored <= high."""

    scale: PerChannel
    zero: PerChannel
    low: int
    high: int

    @staticmethod
    def of(kind: AffineParameters) -> HeldOperand:
        """An operand whose integers OpenVINO stores as the file does."""
        return HeldOperand(F32(kind.scale), F32(kind.zero_point), kind.storage_min, kind.storage_max)

    @staticmethod
    def moved(kind: AffineParameters, steps: int) -> HeldOperand:
        """An operand whose integers OpenVINO stores greater by `steps`.

        Its scale and zero point follow from the ends of its range. So the zero point may be a fraction.
        """
        low, high = kind.storage_min + steps, kind.storage_max + steps
        least, greatest = _ends(kind, None)
        zero = (F32(low) * greatest - F32(high) * least) / (greatest - least)
        return HeldOperand(F32(moved_scale(kind)), F32(zero), low, high)

    def __neg__(self) -> HeldOperand:
        """The operand that is added instead of subtracting this one: its integers are negated."""
        return replace(self, zero=F32(-self.zero))


def moved_scale(kind: AffineParameters) -> PerChannel:
    """The scale of 8-bit integers that OpenVINO stores greater than the file does: it follows from the range's ends."""
    least, greatest = _ends(kind, None)
    return (greatest - least) / STEPS


@dataclass(frozen=True)
class SumTerm:
    """t = clamp(fma(v, factor, offset), low, high): a term of a sum, in steps of the other operand.

    With a factor per channel, the product is rounded before the offset is added.
    """

    factor: PerChannel
    offset: PerChannel
    low: PerChannel
    high: PerChannel

    @staticmethod
    def of(term: AffineParameters, other: HeldOperand, unit: PerChannel | None = None) -> SumTerm:
        """The term with the range of type `term`, from real numbers or from multiples of `unit`. t + r has the scale of
        `other`."""
        scale, shift = _linear(term, unit)
        steps, start = term_steps(HeldOperand.of(term), other)
        low, high = F32(start), F32(F32(STEPS * steps) + start)
        factor, offset = scale * steps, shift * steps + start
        negligible = np.all(abs(offset) < (high - low) * NEGLIGIBLE)
        return SumTerm(factor, F32(0) if negligible else offset, low, high)


def term_steps(term: HeldOperand, other: HeldOperand) -> tuple[PerChannel, PerChannel]:
    """One step of `term`, in steps of `other`, and the minimum of `term`, with the zero point of `other` subtracted."""
    zero, ratio = term_zero(term, other)
    low, high = (F32(F32(F32(end) - zero) * ratio) for end in (term.low, term.high))
    return F32(F32(high - low) / STEPS), low


def term_zero(term: HeldOperand, other: HeldOperand) -> tuple[PerChannel, PerChannel]:
    """A stored integer q of `term` is fl(fl(q - zero) * ratio) in steps of `other`, whose zero point is subtracted."""
    moved = F32(other.zero * other.scale) / term.scale
    return F32(term.zero + moved), F32(term.scale / other.scale)


def _ends(result: AffineParameters, unit: PerChannel | None) -> tuple[PerChannel, PerChannel]:
    """The minimum and maximum real number of a type, in multiples of `unit` if it is given."""
    scale, zero = result.scale.astype(F32), result.zero_point.astype(np.int64)
    if scale.size == 1:
        scale, zero = F32(scale.item()), zero.reshape(())
    low, high = ((end - zero).astype(F32) * scale for end in (result.storage_min, result.storage_max))
    return (low, high) if unit is None else (low / unit, high / unit)


def _linear(result: AffineParameters, unit: PerChannel | None) -> tuple[PerChannel, PerChannel]:
    """The steps per unit of a type's range, and the distance of 0 from its minimum in steps."""
    return _slope(*_ends(result, unit))


def _slope(low: PerChannel, high: PerChannel) -> tuple[PerChannel, PerChannel]:
    """Scale and shift, as one number each if channels have the same. Shifts that differ little are the first."""
    scale, shift = STEPS / (high - low), (-low * STEPS) / (high - low)
    same, near = scale == np.ravel(scale)[0], abs(shift - np.ravel(shift)[0]) < DRIFT
    return (
        F32(np.ravel(scale)[0]) if np.all(same) else scale,
        F32(np.ravel(shift)[0]) if np.all(near) else shift,
    )


def real_steps(kind: AffineParameters, factor: PerChannel) -> tuple[PerChannel, PerChannel]:
    """The real number of one step of a type, and that of its least stored integer, times a factor."""
    unit, zero = F32(F32(kind.scale) * factor), kind.zero_point
    low, high = (F32(F32(end - zero) * unit) for end in (kind.storage_min, kind.storage_max))
    return F32(F32(high - low) / STEPS), low


def rescaling(low: PerChannel, high: PerChannel) -> tuple[PerChannel, PerChannel]:
    """k and shift: rne(fl(fl(k * v) + shift)) are the steps of a result above its least stored integer. `low` and
    `high` are the ends of its range in units of `v`."""
    k = STEPS / (high - low)
    return k, -low * k


def is_symmetric(shift: PerChannel, result: AffineParameters) -> bool:
    """Whether nothing is added before a result of i8 is rounded: the shift is that of zero point 0."""
    return result.storage_min < 0 and bool(np.all(abs(shift + F32(result.storage_min)) < UNEQUAL))


def keeps_integers(low: PerChannel, high: PerChannel, result: AffineParameters) -> bool:
    """Whether stored integers with zero point 0 stay as they are. `low` and `high` are the ends of the result's range
    in units of these integers."""
    ends = ((low, result.storage_min), (high, result.storage_max))
    return all(bool(np.all(abs(found - F32(end)) <= LESS_THAN_A_STEP)) for found, end in ends)


def moved_ends(result: AffineParameters, unit: PerChannel, steps: PerChannel = ZERO) -> tuple[PerChannel, PerChannel]:
    """The ends of a result's range in multiples of `unit`, for values to which constant steps are added."""
    low, high = _ends(result, unit)
    return low - steps, high - steps


def rescaled(stored: NDArray[np.integer], given: AffineParameters, result: AffineParameters) -> NDArray[np.int32]:
    """Stored integers of one type in another, whose range has to be that of its dtype."""
    k, shift = rescaling(*moved_ends(result, F32(given.scale.item())))
    steps = (stored.astype(np.int32) - given.zero_point).astype(F32) * k + shift
    return np.rint(np.clip(steps, F32(0), STEPS)).astype(np.int32) + np.int32(result.storage_min)


def stored_constants(real: NDArray[np.floating], ends: tuple[int, int], scale: PerChannel, zero: Zeros) -> Zeros:
    """The integers of constants that a file quantizes: by FakeQuantize from one end of the type's range to the other.

    `ends` are the least and the greatest integer of the type. `scale` and `zero`, the zero point, broadcast to `real`.
    NaN becomes the zero point.
    """
    first, last = ends
    low, high = ((end - zero).astype(F32) * scale for end in ends)
    steps = np.rint((np.clip(real.astype(F32), low, high) - low) / (high - low) * F32(last - first))
    return np.where(np.isnan(real), zero, np.nan_to_num(steps).astype(np.int64) + first)
