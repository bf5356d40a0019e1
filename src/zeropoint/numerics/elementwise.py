"""Addition of quantized operands with different scales.

An addition is a frozen dataclass of parameters, built by `of(...)`; `apply` computes the result. Three additions are
integer-only: `CommonScaleSum` (ours), `LiteRTAdd` (LiteRT's reference kernel) and `TosaAdd` (three rescales).
`FloatAdd` is StableHLO's dequantize_op_quantize. Operands and output are quantized per tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize
from zeropoint.numerics.arrays import AnyArray, IntArray
from zeropoint.numerics.multiplier import quantize_multiplier
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.requantize import (
    Multiplier,
    RequantizeBehaviour,
    requantize,
)
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN, multiply_by_quantized_multiplier, round_half_away
from zeropoint.numerics.storage import half_range, smallest_dtype
from zeropoint.numerics.xnnpack import sum_factors


class AddBehaviour(StrEnum):
    """The arithmetic of adding operands of different scales."""

    COMMON_SCALE = "common-scale"
    """A common fixed-point scale and a single rounding, all in int32."""
    COMMON_SCALE_16 = "common-scale-16"
    """The same with 16-bit factors, for VPMADDWD, if their error is at most 1/32 of an output step.

    Sums of 16-bit operands are also in int32 if the error of the factors is at most 8 of the 65,536 steps. This
    corresponds to a change of scale by 2^-13.
    """
    LITERT = "litert"
    """LiteRT's reference kernel: 20 (8 bits) or 15 (16 bits) guard bits, fixed32-double at every step."""
    XNNPACK = "xnnpack"
    """21-bit factors in int32 and a single rounding. `litert` if XNNPACK does not support the scales."""
    TOSA = "tosa"
    """LiteRT's scales, with TOSA rescales with DOUBLE_ROUND."""
    FLOAT32 = "float32"
    """Dequantize, add, quantize in f32."""
    FLOAT64 = "float64"
    """Dequantize, add, quantize in f64: exact, except for ties within the precision of f64."""


@dataclass(frozen=True)
class CommonScaleSum:
    """y = clamp(zp + ((sum_i (q_i - z_i) * A_i + 2^(N-1)) >> N)), A_i = round(sign_i * s_i / s_out * 2^N).

    N is the largest number with sum_i max|q_i - z_i| * |A_i| + 2^(N-1) <= 2^31 - 1. So every partial sum fits int32, in
    any order. After the shift, zp + 2^31 / 2^N also fits (N >= 1). Only the sum is rounded. Before that, it differs
    from the exact sum by at most `error_bound` output steps, because the A_i are rounded.
    """

    multipliers: tuple[int, ...]
    zero_points: tuple[int, ...]
    shift: int
    zero_point: int
    storage_min: int
    storage_max: int
    accumulator_width: int = 32

    @staticmethod
    def of(
        inputs: Sequence[AffineParameters],
        output: AffineParameters,
        signs: Sequence[int] | None = None,
        accumulator_width: int = 32,
        multiplier_width: int = 32,
    ) -> CommonScaleSum:
        """The sum of operands with the given `signs`, +1 or -1 each (default: all +1).

        64-bit accumulators are for 16-bit storage. The factors A_i must also fit signed integers of `multiplier_width`
        bits. Raises ValueError if no N >= 1 exists: an operand's scale is then about 2^22 times the output's.
        """
        scales, zeros = scalars(inputs)
        (out_scale,), (out_zero,) = scalars([output])
        ratios = np.asarray(scales) / out_scale * _signs(signs, len(inputs))
        reach = [operand.reach for operand in inputs]
        limit = (1 << min(accumulator_width - 1, 61)) - 1  # `ranges` is exact up to 2^62
        for shift in range(accumulator_width - 1, 0, -1):
            factors = [int(factor) for factor in round_half_away(np.ldexp(ratios, shift))]
            used = sum(r * abs(a) for r, a in zip(reach, factors, strict=True))
            fits = multiplier_width >= 32 or max(map(abs, factors)) < half_range(multiplier_width)
            if fits and used + (1 << (shift - 1)) <= limit:
                return CommonScaleSum(
                    tuple(factors), zeros, shift, out_zero, output.storage_min, output.storage_max, accumulator_width
                )
        raise ValueError(
            f"found operands of scales {scales} and a result of scale {out_scale}; expected a result scale above "
            f"{max(scales) / 2**22:.6g} (widen the range of the result)"
        )

    def apply(self, *operands: npt.ArrayLike) -> AnyArray:
        """Map storage integers to storage integers. Shapes broadcast."""
        word = np.int32 if self.accumulator_width == 32 else np.int64
        total = np.asarray(1 << (self.shift - 1), dtype=word)
        for operand, zero, factor in zip(operands, self.zero_points, self.multipliers, strict=True):
            total = total + (np.asarray(operand).astype(word) - word(zero)) * word(factor)
        y = np.clip((total >> self.shift) + word(self.zero_point), self.storage_min, self.storage_max)
        return y.astype(smallest_dtype(self.storage_min, self.storage_max))

    def constant_term(self, moved: Sequence[int] = ()) -> int:
        """The sum of all terms without operands as one i32, modulo 2^32: 2^(N-1) - sum_i (z_i + moved_i) * A_i.

        `moved` has the difference between stored integers and q_i of each operand, by default 0. The total sum fits
        int32, so it is exact even if this constant wraps around.
        """
        terms = zip(self.zero_points, moved or (0,) * len(self.zero_points), self.multipliers, strict=True)
        exact = (1 << (self.shift - 1)) - sum((zero + by) * factor for zero, by, factor in terms)
        return (exact - INT32_MIN) % (1 << 32) + INT32_MIN

    def error_bound(self, reach: Sequence[int]) -> float:
        """The maximum error of the sum before rounding, in output steps; reach_i = max|q_i - z_i|."""
        return sum(reach) * 0.5 / 2.0**self.shift

    def error(
        self, inputs: Sequence[AffineParameters], output: AffineParameters, signs: Sequence[int] | None = None
    ) -> float:
        """The same for these operands and signs. A factor that is exact has no error."""
        ratios = np.asarray(scalars(inputs)[0]) / scalars([output])[0][0] * _signs(signs, len(inputs))
        wrong = np.abs(np.ldexp(np.asarray(self.multipliers, np.float64), -self.shift) - ratios)
        return float((wrong * [operand.reach for operand in inputs]).sum())


@dataclass(frozen=True)
class LiteRTAdd:
    """LiteRT's add and sub kernels, with fixed32-double (MBQM) at each of the three steps.

    y = clamp(zp + MBQM(MBQM((a - za) << L, m1) +- MBQM((b - zb) << L, m2), mo)), with t = 2 * max(s1, s2),
    m1 = s1 / t, m2 = s2 / t, mo = t / (2^L * s_out); L is 20 for 8-bit and 15 for 16-bit storage. |q - z| << L is below
    2^28 and 2^31, respectively, and m1, m2 <= 1/2, so the sum fits int32. LiteRT keeps scales in f32, so they are
    rounded to f32 here.
    """

    left_shift: int
    multipliers: tuple[int, int, int]
    exponents: tuple[int, int, int]
    zero_points: tuple[int, int]
    sign: int
    zero_point: int
    storage_min: int
    storage_max: int

    @staticmethod
    def of(
        inputs: Sequence[AffineParameters], output: AffineParameters, signs: Sequence[int] | None = None
    ) -> LiteRTAdd:
        """The addition of two operands. `signs` may negate the second one.

        Raises ValueError if the runtime would reject the scales.
        """
        left_shift, real, zeros, sign = _guarded(inputs, output, signs)
        if real[2] >= 1.0:  # `litert_adds`
            raise ValueError(
                f"found the output multiplier {real[2]} of an add; LiteRT has one below 1 (widen the output scale)"
            )
        mantissas, exponents = quantize_multiplier(real)
        first, second, out = (int(m) for m in mantissas)
        e_first, e_second, e_out = (int(e) for e in exponents)
        return LiteRTAdd(
            left_shift,
            (first, second, out),
            (e_first, e_second, e_out),
            zeros,
            sign,
            int(output.zero_point),
            output.storage_min,
            output.storage_max,
        )

    def apply(self, *operands: npt.ArrayLike) -> AnyArray:
        """Map two arrays of storage integers to storage integers. Shapes broadcast."""
        first, second = (
            multiply_by_quantized_multiplier((np.asarray(q).astype(np.int64) - zero) << self.left_shift, m, e)
            for q, zero, m, e in zip(operands, self.zero_points, self.multipliers[:2], self.exponents[:2], strict=True)
        )
        y = multiply_by_quantized_multiplier(first + self.sign * second, self.multipliers[2], self.exponents[2])
        y = np.clip(y + self.zero_point, self.storage_min, self.storage_max)
        return y.astype(smallest_dtype(self.storage_min, self.storage_max))


@dataclass(frozen=True, eq=False)
class TosaAdd:
    """Three TOSA rescales with DOUBLE_ROUND: each operand by 2^L * s_i / t to int32, add, and t / (2^L * s_out).

    L and t are as in LiteRT, but the guard bits are in the multiplier, so results may differ from LiteRT's by one.
    """

    operand_multipliers: tuple[Multiplier, Multiplier]
    output_multiplier: Multiplier
    zero_points: tuple[int, int]
    sign: int
    zero_point: int
    storage_min: int
    storage_max: int

    @staticmethod
    def of(inputs: Sequence[AffineParameters], output: AffineParameters, signs: Sequence[int] | None = None) -> TosaAdd:
        """The addition of two operands. `signs` may negate the second one."""
        left_shift, real, zeros, sign = _guarded(inputs, output, signs)
        behaviour = RequantizeBehaviour.TOSA_DOUBLE
        first, second = (Multiplier.of(m * 2.0**left_shift, behaviour, 16) for m in real[:2])
        return TosaAdd(
            (first, second),
            Multiplier.of(real[2], behaviour, 16),
            zeros,
            sign,
            int(output.zero_point),
            output.storage_min,
            output.storage_max,
        )

    def apply(self, *operands: npt.ArrayLike) -> AnyArray:
        """Map two arrays of storage integers to storage integers. Shapes broadcast."""
        first, second = (
            requantize(np.asarray(q).astype(np.int64) - zero, m, 0, -INT32_MAX, INT32_MAX, dtype=np.int64)
            for q, zero, m in zip(operands, self.zero_points, self.operand_multipliers, strict=True)
        )
        total = first + self.sign * second
        return requantize(total, self.output_multiplier, self.zero_point, self.storage_min, self.storage_max)


@dataclass(frozen=True, eq=False)
class FloatAdd:
    """Dequantize each operand, add from left to right, and quantize, all in `expressed` (dequantize_op_quantize)."""

    inputs: tuple[AffineParameters, ...]
    output: AffineParameters
    signs: tuple[int, ...]
    quantize: QuantizeBehaviour
    expressed: str

    @staticmethod
    def of(
        inputs: Sequence[AffineParameters],
        output: AffineParameters,
        signs: Sequence[int] | None = None,
        quantize: QuantizeBehaviour = QuantizeBehaviour.RNE_AFTER_ZERO_POINT,
        expressed: str = "float32",
    ) -> FloatAdd:
        """The addition in a float type. `expressed` is the name of a NumPy float dtype."""
        return FloatAdd(tuple(inputs), output, tuple(_signs(signs, len(inputs)).tolist()), quantize, expressed)

    def apply(self, *operands: npt.ArrayLike) -> AnyArray:
        """Map storage integers to storage integers. Shapes broadcast."""
        dtype = np.dtype(self.expressed)
        total = np.zeros((), dtype)
        for operand, parameters, sign in zip(operands, self.inputs, self.signs, strict=True):
            real = dequantize(operand, parameters.scale, parameters.zero_point, dtype)
            total = total + real if sign > 0 else total - real
        out = self.output
        return quantize(
            total,
            out.scale,
            out.zero_point,
            out.storage_min,
            out.storage_max,
            behaviour=self.quantize,
            expressed=dtype,
        )


NARROW_ERROR = 1 / 32
"""The maximum accepted error of the factors of common-scale-16, in output steps before rounding."""
NARROW_ERROR_OF_WORDS = 8
"""The same for sums with 16-bit storage."""

Addition = CommonScaleSum | LiteRTAdd | TosaAdd | FloatAdd


def addition(
    behaviour: AddBehaviour,
    inputs: Sequence[AffineParameters],
    output: AffineParameters,
    signs: Sequence[int] | None = None,
    quantize: QuantizeBehaviour = QuantizeBehaviour.RNE_AFTER_ZERO_POINT,
) -> Addition:
    """The addition of `behaviour` for these operands and signs (+1 or -1 each). `.apply(*arrays)` computes it.

    common-scale uses 64-bit accumulators if storage is wider than 8 bits. common-scale-16 uses 32 bits, and becomes
    common-scale if its factors would be too coarse. Only the float behaviours use `quantize`.
    """
    if behaviour is AddBehaviour.COMMON_SCALE_16:
        narrow = _narrow_sum(inputs, output, signs)
        if narrow is not None:
            return narrow
        behaviour = AddBehaviour.COMMON_SCALE
    if behaviour is AddBehaviour.COMMON_SCALE:
        return CommonScaleSum.of(inputs, output, signs, 32 if _is_8_bit(inputs, output) else 64)
    if behaviour is AddBehaviour.XNNPACK:
        found = _xnnpack_sum(inputs, output, signs)
        if found is not None:
            return found
    if behaviour in (AddBehaviour.LITERT, AddBehaviour.XNNPACK):
        return LiteRTAdd.of(inputs, output, signs)
    if behaviour is AddBehaviour.TOSA:
        return TosaAdd.of(inputs, output, signs)
    return FloatAdd.of(inputs, output, signs, quantize, behaviour.value)


def _xnnpack_sum(
    inputs: Sequence[AffineParameters], output: AffineParameters, signs: Sequence[int] | None
) -> CommonScaleSum | None:
    """The sum of 8-bit operands with XNNPACK's factors, or None if XNNPACK does not support the scales."""
    scales, zeros = scalars(inputs)
    (out_scale,), (out_zero,) = scalars([output])
    found = sum_factors(scales, out_scale) if _is_8_bit(inputs, output) else None
    if found is None:
        return None
    factors = tuple(int(f * s) for f, s in zip(found[0], _signs(signs, len(inputs)), strict=True))
    return CommonScaleSum(factors, zeros, found[1], out_zero, output.storage_min, output.storage_max)


def _narrow_sum(
    inputs: Sequence[AffineParameters], output: AffineParameters, signs: Sequence[int] | None
) -> CommonScaleSum | None:
    """The sum in int32, with 16-bit factors for 8-bit operands; None if the error of the factors is too large."""
    scales, _ = scalars(inputs)
    (out_scale,), _ = scalars([output])
    if max(scales) >= 2**12 * out_scale:
        return None
    narrow = _is_8_bit(inputs, output)
    if not narrow and _is_8_bit([], output):
        found = CommonScaleSum.of(list(map(_as_held, inputs)), output, signs, multiplier_width=16)
        if found.error(inputs, output, signs) <= NARROW_ERROR:
            return found
    # Storage such as i16<-4096:4095> is in words whose bounds the sum has to hold, too.
    held = inputs if narrow else [_in_words(operand) for operand in inputs]
    found = CommonScaleSum.of(held, output, signs, multiplier_width=16 if narrow else 32)
    most = NARROW_ERROR if narrow else NARROW_ERROR_OF_WORDS
    return found if found.error_bound([operand.reach for operand in inputs]) <= most else None


def _as_held(operand: AffineParameters) -> AffineParameters:
    """The operand with the bounds of the words that its integers are stored in; one of 8 bits as it is."""
    return operand if _is_8_bit([operand], operand) else _in_words(operand)


def _in_words(operand: AffineParameters) -> AffineParameters:
    """The operand with the bounds of the words that its integers are stored in."""
    low, high = min(operand.storage_min, -half_range(16)), max(operand.storage_max, half_range(16) - 1)
    return replace(operand, storage_min=low, storage_max=high)


def _is_8_bit(inputs: Sequence[AffineParameters], output: AffineParameters) -> bool:
    return all(p.storage_max - p.storage_min <= 255 for p in [*inputs, output])


def litert_adds(inputs: Sequence[AffineParameters], output: AffineParameters) -> bool:
    """Whether LiteRT's add and sub kernels accept these scales.

    No operand's scale may be 2^14 times that of the result (2^19 at 8 bits).
    """
    _, (_, _, multiplier), _, _ = _guarded(inputs, output, None)
    return multiplier < 1.0


def _guarded(
    inputs: Sequence[AffineParameters], output: AffineParameters, signs: Sequence[int] | None
) -> tuple[int, list[float], tuple[int, int], int]:
    """LiteRT's guard bits L, its three real multipliers, the operands' zero points, and the second operand's sign."""
    if len(inputs) != 2:
        raise ValueError(f"found {len(inputs)} operands; expected 2 (add them two by two)")
    sign_first, sign_second = (int(sign) for sign in _signs(signs, 2))
    if sign_first != 1:
        raise ValueError("found a negated first operand; expected a + b or a - b")
    (first, second), zeros = scalars(inputs)
    (out_scale,), _ = scalars([output])
    left_shift = 20 if all(p.storage_max - p.storage_min <= 255 for p in inputs) else 15
    first, second, out_scale = (float(np.float32(scale)) for scale in (first, second, out_scale))
    twice = 2.0 * max(first, second)
    real = [first / twice, second / twice, twice / (2.0**left_shift * out_scale)]
    return left_shift, real, (zeros[0], zeros[1]), sign_second


def scalars(parameters: Sequence[AffineParameters]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """The scales and the zero points of operands. Raises ValueError if one has several."""
    for found in parameters:
        if found.scale.size != 1 or found.zero_point.size != 1:
            raise ValueError(f"found {found.scale.size} scales of one operand; expected per-tensor quantization")
    return tuple(float(p.scale.item()) for p in parameters), tuple(int(p.zero_point.item()) for p in parameters)


def _signs(signs: Sequence[int] | None, count: int) -> IntArray:
    found = np.ones(count, dtype=np.int64) if signs is None else np.asarray(signs, dtype=np.int64)
    if found.shape != (count,) or not (np.abs(found) == 1).all():
        raise ValueError(f"found the signs {signs}; expected +1 or -1 for each of {count} operands")
    return found
