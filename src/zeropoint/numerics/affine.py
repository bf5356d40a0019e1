"""The affine map: real = (stored - zero_point) * scale, and its inverse under the named behaviours.

Sources: "MLIR Quantization" (Affine values; Real to affine), the "'quant' Dialect" document (quant.qcast),
StableHLO (uniform_quantize), ONNX QuantizeLinear, LiteRT AffineQuantize, XNNPACK, upstream's lower-quant-ops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import AnyArray, BoolArray, IntArray, blocks, part
from zeropoint.numerics.rounding import round_half_away, round_half_even, truncate
from zeropoint.numerics.storage import dtype_range, smallest_dtype


class QuantizeBehaviour(StrEnum):
    """The rule for quantizing a real value. The behaviours differ in ties and outside of the storage range."""

    RNE_AFTER_ZERO_POINT = "rne-after-zero-point"
    """clamp(rne(x / s + zp)): MLIR's quant dialect, StableHLO."""
    RNE_NAN_IS_STORED_ZERO = "rne-nan-is-stored-zero"
    """clamp(rne(x / s + zp)), with NaN stored as clamp(0): StableHLO's interpreter converts NaN to the integer 0."""
    RNE_BEFORE_ZERO_POINT = "rne-before-zero-point"
    """clamp(rne(x / s) + zp): ONNX, onnxruntime, "MLIR Quantization"."""
    HALF_AWAY_BEFORE_ZERO_POINT = "half-away-before-zero-point"
    """clamp(rha(x / s) + zp): LiteRT."""
    TRUNCATE_NO_CLAMP = "truncate-no-clamp"
    """trunc(x / s + zp), clamped only if the storage bounds are narrower than the type: upstream's lower-quant-ops.

    Beyond a full range, upstream's result is poison. Here it wraps modulo 2^width, as typical machine code does.
    """
    RNE_RECIPROCAL = "rne-reciprocal"
    """clamp(rne(x * (1 / s)) + zp): XNNPACK."""
    RNE_BY_RANGE = "rne-by-range"
    """clamp(rne(x * k - low * k) + min): OpenVINO. low = (min - zp) * s, k = (max - min) / ((max - zp) * s - low).

    min and max are those of the dtype that holds the storage, which may use only a part of it (`dtype_range`). The
    steps are in f32 at least, because the ends of the range may overflow narrower types. The scale is first rounded to
    the expressed type.
    """

    @property
    def shifts_with_zero_point(self) -> bool:
        """Whether a change of the zero point shifts all results by the same amount, because it is added after rounding.

        The other behaviours add it before rounding, so it affects the rounding.
        """
        return not _RULES[self].zero_point_first


@dataclass(frozen=True)
class _Rule:
    rounding: Callable[[AnyArray], AnyArray]
    zero_point_first: bool = False
    reciprocal: bool = False
    wraps: bool = False
    nan_is_stored_zero: bool = False
    by_range: bool = False


_RULES = {
    QuantizeBehaviour.RNE_AFTER_ZERO_POINT: _Rule(round_half_even, zero_point_first=True),
    QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO: _Rule(round_half_even, zero_point_first=True, nan_is_stored_zero=True),
    QuantizeBehaviour.RNE_BEFORE_ZERO_POINT: _Rule(round_half_even),
    QuantizeBehaviour.HALF_AWAY_BEFORE_ZERO_POINT: _Rule(round_half_away),
    QuantizeBehaviour.TRUNCATE_NO_CLAMP: _Rule(truncate, zero_point_first=True, wraps=True),
    QuantizeBehaviour.RNE_RECIPROCAL: _Rule(round_half_even, reciprocal=True),
    QuantizeBehaviour.RNE_BY_RANGE: _Rule(round_half_even, by_range=True),
}


def quantize(
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike,
    storage_min: int,
    storage_max: int,
    *,
    behaviour: QuantizeBehaviour = QuantizeBehaviour.RNE_AFTER_ZERO_POINT,
    expressed: npt.DTypeLike = np.float32,
    dtype: npt.DTypeLike | None = None,
) -> AnyArray:
    """Quantize real values to storage integers in [storage_min, storage_max].

    `scale` and `zero_point` are scalars, or arrays that broadcast with `x` (see `arrays.along_axis`). Every step before
    the rounding uses the arithmetic of `expressed` (f16, bf16, f32, f64), like a runtime that computes in this type.
    NaN becomes the zero point unless the behaviour says otherwise. Infinities are clamped under every behaviour. The
    result has `dtype`, or the smallest integer type that holds the range. Raises ValueError if the range is empty.
    """
    if storage_min > storage_max:
        raise ValueError(f"found the storage range {storage_min}..{storage_max}; expected the minimum first")
    rule = _RULES[QuantizeBehaviour(behaviour)]
    expressed = np.dtype(expressed)
    zeros = np.asarray(zero_point, dtype=np.int64)
    # Overflow to infinity is intended, because infinity is clamped. 0 / 0, if `expressed` rounds the scale to 0, is
    # NaN.
    with np.errstate(all="ignore"):
        reals = np.asarray(x)
        scales = np.asarray(scale, dtype=np.float64).astype(expressed)
    wide = np.promote_types(expressed, np.float32) if rule.by_range else expressed
    scales = scales.astype(wide, copy=False)
    shape = np.broadcast_shapes(reals.shape, scales.shape, zeros.shape)
    result = np.empty(shape, smallest_dtype(storage_min, storage_max) if dtype is None else dtype)
    whole = (reals.shape == shape, *(p.ndim in (0, len(shape)) for p in (scales, zeros)))
    with np.errstate(all="ignore"):
        for block in blocks(shape) if all(whole) else [(...,)]:
            offsets = part(zeros, block)
            # Converted by blocks, because a wide copy of the whole array may not fit into memory.
            given = reals[block].astype(expressed, copy=False).astype(wide, copy=False)
            if rule.by_range:
                rounded = _rounded_in_range(given, part(scales, block), offsets, result.dtype)
            else:
                rounded = _rounded(rule, given, part(scales, block), offsets)
            if rule.wraps and _is_full_range(storage_min, storage_max):
                result[block] = _wrap(rounded, offsets, storage_min, storage_max)
            else:
                result[block] = _clamp(rounded, offsets, storage_min, storage_max, rule)
    return result


def dequantize(
    q: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike,
    expressed: npt.DTypeLike = np.float32,
    *,
    dtype: npt.DTypeLike | None = None,
) -> AnyArray:
    """Dequantize storage integers: (float(q) - float(zero_point)) * scale, in the arithmetic of `expressed`.

    `scale` and `zero_point` are scalars, or arrays that broadcast with `q`. The result is rounded to `dtype`, which
    defaults to `expressed`. All runtimes agree on this formula.
    """
    expressed, stored = np.dtype(expressed), np.asarray(q)
    with np.errstate(all="ignore"):
        zeros = np.asarray(zero_point, dtype=np.int64).astype(expressed)
        scales = np.asarray(scale, dtype=np.float64).astype(expressed)
        shape = np.broadcast_shapes(stored.shape, scales.shape, zeros.shape)
        result = np.empty(shape, expressed if dtype is None else dtype)
        whole = stored.shape == shape and all(p.ndim in (0, len(shape)) for p in (scales, zeros))
        for block in blocks(shape) if whole else [(...,)]:
            result[block] = (stored[block].astype(expressed) - part(zeros, block)) * part(scales, block)
    return result


def _rounded(rule: _Rule, reals: AnyArray, scales: AnyArray, zeros: IntArray) -> AnyArray:
    scaled = np.asarray(reals * (np.ones((), reals.dtype) / scales) if rule.reciprocal else reals / scales)
    if rule.zero_point_first and zeros.any():
        # In place where the shapes agree, because passes over memory take most of the time.
        scaled = np.add(scaled, zeros.astype(reals.dtype), out=scaled if zeros.ndim == 0 else None)
    return np.asarray(rule.rounding(scaled))


def range_factors(scales: AnyArray, zeros: IntArray, dtype: npt.DTypeLike) -> tuple[AnyArray, AnyArray]:
    """k and -low * k of `RNE_BY_RANGE`, with each step in the type of the scales. `dtype` holds the stored integers."""
    first, last = dtype_range(dtype)
    low, high = ((end - zeros).astype(scales.dtype) * scales for end in (first, last))
    k = np.asarray(last - first, scales.dtype) / (high - low)
    return np.asarray(k), np.asarray(-low * k)


def _rounded_in_range(reals: AnyArray, scales: AnyArray, zeros: IntArray, dtype: npt.DTypeLike) -> AnyArray:
    """The stored integers, not clamped yet, minus the zero point."""
    k, shift = range_factors(scales, zeros, dtype)
    first, last = dtype_range(dtype)
    rounded = round_half_even(reals * k + shift)
    # A 32-bit integer minus a zero point needs more bits than f32 has.
    exact = rounded.dtype if last - first < 1 << 24 else np.float64
    return np.asarray(rounded.astype(exact, copy=False) + (first - zeros).astype(exact))


def _clamp(rounded: AnyArray, zeros: IntArray, storage_min: int, storage_max: int, rule: _Rule) -> AnyArray:
    """Add the zero point if the rule adds it after rounding, and clamp. All values are exact integers in floats."""
    offsets = np.zeros((), np.int64) if rule.zero_point_first else zeros
    low, high = storage_min - offsets, storage_max - offsets
    extreme = max(int(np.abs(low).max(initial=0)), int(np.abs(high).max(initial=0)))
    # The float type must represent the bounds: f32 does not represent 2^31 - 1, and f16 does not represent 32767.
    exact = np.float32 if rounded.dtype != np.float64 and extreme <= 1 << 24 else np.float64
    values = rounded.astype(exact, copy=False)
    # The sum is NaN if there is a NaN, or infinities of both signs. Finding it takes one pass and no memory.
    if np.isnan(values.sum()):
        unknown: BoolArray = np.isnan(values)
        of_nan = np.zeros_like(zeros) if rule.nan_is_stored_zero else zeros
        values = np.where(unknown, (of_nan - offsets).astype(exact), values)
    values = np.clip(values, low.astype(exact), high.astype(exact))
    return values if rule.zero_point_first else values + offsets.astype(exact)


def _wrap(rounded: AnyArray, zeros: IntArray, storage_min: int, storage_max: int) -> AnyArray:
    values = rounded.astype(np.float64)
    finite: BoolArray = np.isfinite(values)
    # fmod is exact, so any finite value wraps like an integer of unbounded width.
    count = storage_max - storage_min + 1
    wrapped = np.fmod(np.where(finite, values, 0.0), float(count)).astype(np.int64)
    wrapped = (wrapped - storage_min) % count + storage_min
    ends = np.where(values > 0, storage_max, storage_min)
    return np.where(finite, wrapped, np.where(np.isnan(values), zeros, ends))


def _is_full_range(storage_min: int, storage_max: int) -> bool:
    """Whether the range is the full range of some storage type, signed or unsigned."""
    count = storage_max - storage_min + 1
    return count & (count - 1) == 0 and storage_min in (0, -(count >> 1))
