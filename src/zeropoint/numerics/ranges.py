"""Compute scale and zero point from a range of real values.

Sources: the 2019 UniformParamsFromMinMaxSolver (`minmax_nudged`), quant.const_fake_quant and upstream's
FakeQuantSupport (`fake_quant`), "MLIR Quantization" (real zero is an exact affine value).

Ranges are f64 scalars, or arrays with one element per channel. All functions are vectorized over channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from zeropoint.numerics.fake_quantization import MOST_BITS, FakeQuantization
from zeropoint.numerics.rounding import round_half_away
from zeropoint.numerics.storage import StorageType, half_range

RealRange = tuple[float, float]
"""The minimum and the maximum."""
SCALE_FLOOR = 2.0**-60
"""The smallest scale that is ever chosen. The product of two such scales, 2^-120, is still a normal f32."""
SCALE_TYPES = ("f32", "f64", "power_of_two")
"""The types in which runtimes store scales."""
UNIT_SCALE = 1.0
"""The scale of a value that is always zero. Any scale would do; 1 avoids extreme rescale factors."""


def unit_scale(width: int) -> float:
    """The scale of an activation of `width` bits that is always zero. Its type holds -1 to 1 for any width.

    Any scale would do for the value itself. But kernels that read it need room for all that its type can hold.
    """
    return UNIT_SCALE / half_range(width)


_MAX_STEPS = 60
_STEP_TOLERANCE = 1e-15


@dataclass(frozen=True, eq=False)
class AffineParameters:
    """real = (stored - zero_point) * scale, with storage_min <= stored <= storage_max.

    `scale` is f64 and `zero_point` is int64. Both are scalars (0-d) or have one element per channel. `degenerate` marks
    ranges that were too small for a scale and got a default one (`SCALE_FLOOR`, `UNIT_SCALE`). Reports show it.
    """

    scale: FloatArray
    zero_point: IntArray
    storage_min: int
    storage_max: int
    degenerate: BoolArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", np.asarray(self.scale, dtype=np.float64))
        object.__setattr__(self, "zero_point", np.asarray(self.zero_point, dtype=np.int64))
        degenerate = False if self.degenerate is None else self.degenerate
        object.__setattr__(self, "degenerate", np.broadcast_to(degenerate, self.scale.shape))

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales as Python floats, one for a scalar."""
        return tuple(self.scale.reshape(-1).tolist())

    @property
    def zero_points(self) -> tuple[int, ...]:
        """The zero points as Python integers, one for a scalar."""
        return tuple(self.zero_point.reshape(-1).tolist())

    @property
    def centred_range(self) -> tuple[int, int]:
        """The minimum and maximum of stored - zero_point over all channels."""
        return int(self.storage_min - self.zero_point.max()), int(self.storage_max - self.zero_point.min())

    @property
    def reach(self) -> int:
        """The maximum of |stored - zero_point| over all channels."""
        low, high = self.centred_range
        return max(-low, high)


def held_scale(scale: npt.ArrayLike, scale_type: str) -> FloatArray:
    """`scale` rounded up to a scale type (`f32`, `f64`, `power_of_two`), as f64.

    Runtimes that store scales in f32 compute with the rounded number. Rounding up preserves every bound on a sum. With
    power-of-two scales, ratios such as s_in * s_w / s_out are shifts. Raises ValueError for any other type.
    """
    if scale_type not in SCALE_TYPES:
        raise ValueError(f"found scale type '{scale_type}', expected {', '.join(SCALE_TYPES)}")
    exact = np.asarray(scale, dtype=np.float64)
    if scale_type == "f64":
        return exact
    if scale_type == "power_of_two":
        fraction, exponent = np.frexp(exact)  # 0.5 <= fraction < 1
        return np.where(exact > 0, np.ldexp(np.where(fraction == 0.5, 0.5, 1.0), exponent), exact)
    # The conversion rounds to nearest, so the result may be below the scale. The next f32 is taken then.
    near = exact.astype(np.float32)
    above = np.nextafter(near, np.float32(np.inf))
    return np.where(near.astype(np.float64) < exact, above, near).astype(np.float64)


def least_scale(zero_point: int, minimum: float, maximum: float, storage_min: int, storage_max: int) -> float:
    """The smallest scale with which `zero_point` covers a range, widened to include 0; 0 for the range 0..0."""
    above, below = storage_max - zero_point, zero_point - storage_min
    return max(max(maximum, 0.0) / above if above else 0.0, -min(minimum, 0.0) / below if below else 0.0)


def asymmetric(
    minimum: npt.ArrayLike,
    maximum: npt.ArrayLike,
    storage_min: int,
    storage_max: int,
    *,
    zero_range_scale: float = UNIT_SCALE,
) -> AffineParameters:
    """Map minimum..maximum, widened to include 0, to the full storage range. 0 is exactly representable.

    scale = (max - min) / (storage_max - storage_min); zero_point = round(storage_min - min / scale), clamped. A range
    of exactly 0..0 gets `zero_range_scale`, and the storage value nearest to 0 as its zero point. Raises ValueError if
    a range is not finite or is reversed, or if the storage range has fewer than two values.
    """
    low, high = _widened(minimum, maximum, storage_min, storage_max)
    scale = _extent(low, high, float(storage_max - storage_min))
    scale, degenerate = _floored(scale, low, high, zero_range_scale)
    # Rounding may push the zero point past the end for a range that touches 0, such as -1e-9..1.
    zero_point = np.clip(round_half_away(storage_min - low / scale), storage_min, storage_max)
    # A range of 0..0 does not determine the zero point. 0 needs no correction terms in sums.
    nearest_zero = min(max(0, storage_min), storage_max)
    zero_point = np.where((low == 0) & (high == 0), nearest_zero, zero_point)
    return AffineParameters(scale, zero_point.astype(np.int64), storage_min, storage_max, degenerate)


def symmetric(
    minimum: npt.ArrayLike,
    maximum: npt.ArrayLike,
    storage: StorageType,
    narrow: bool = True,
    *,
    zero_range_scale: float = SCALE_FLOOR,
    greatest: int | None = None,
) -> AffineParameters:
    """A zero point of 0, or 2^(width-1) for unsigned storage; scale = max(|min|, |max|) / steps above the zero point.

    `narrow` excludes the lowest storage value, so that both sides have the same number of steps: [-127, 127] for i8. It
    does not change the scale, which the positive side determines. `greatest` is the highest storage value if it is
    below the type's maximum: 2047 for i16<-2047:2047>. A range of exactly 0..0 gets `zero_range_scale` (use
    `UNIT_SCALE` for an activation). Raises ValueError like `asymmetric`.
    """
    storage_min = storage.narrow_min if narrow else storage.min
    storage_max = storage.max if greatest is None else greatest
    low, high = _widened(minimum, maximum, storage_min, storage_max)
    zero_point = storage.middle
    # From the positive side, also without `narrow`: with 128 steps to the maximum, the maximum itself would saturate.
    scale = np.maximum(-low, high) / float(storage_max - zero_point)
    scale, degenerate = _floored(scale, low, high, zero_range_scale)
    zero_points = np.full(scale.shape, zero_point, dtype=np.int64)
    return AffineParameters(scale, zero_points, storage_min, storage_max, degenerate)


def minmax_nudged(
    minimum: npt.ArrayLike,
    maximum: npt.ArrayLike,
    storage_min: int,
    storage_max: int,
    *,
    zero_range_scale: float = UNIT_SCALE,
) -> AffineParameters:
    """The 2019 solver: the smallest scale that keeps 0 exact and shrinks neither end, found by bisection.

    The range is widened to include 0. With n = storage_max - storage_min steps of size d, the low end moves down to a
    multiple of d, and the high end is n steps above it. d is bisected between (max - min) / n and the same with the
    range extended by two such steps. The bisection ends when the larger overshoot is 0, or when it is positive and d
    changes by less than 1e-15, and after at most 60 iterations. If the result does not cover the range, the smallest d
    known to cover it is used (the 2019 code did not check). Raises ValueError like `asymmetric` (the 2019 solver
    reported "unsat" there, and for 0..0).
    """
    low, high = _widened(minimum, maximum, storage_min, storage_max)
    levels = float(storage_max - storage_min)
    extent = _extent(low, high, levels)
    floored, degenerate = _floored(extent, low, high, zero_range_scale)
    # A degenerate range already has its scale, so a harmless range is bisected in its place.
    low_used, high_used = np.where(degenerate, -1.0, low), np.where(degenerate, 1.0, high)
    delta = _bisect(low_used, high_used, np.where(degenerate, 2.0 / levels, extent), levels)
    scale = np.where(degenerate, floored, delta)
    zero_point = round_half_away(storage_min - np.floor(low / scale))
    zero_point = np.where((low == 0) & (high == 0), min(max(0, storage_min), storage_max), zero_point)
    zero_point = np.clip(zero_point, storage_min, storage_max).astype(np.int64)
    return AffineParameters(scale, zero_point, storage_min, storage_max, degenerate)


def fake_quant(
    minimum: npt.ArrayLike,
    maximum: npt.ArrayLike,
    num_bits: int,
    narrow_range: bool = False,
    signed: bool = False,
    compat: bool = False,
) -> AffineParameters:
    """The parameters of a fake quantization (min, max, num_bits, narrow_range, signed).

    The storage range is exactly `num_bits` wide (2 to 32). Up to 16 bits, the parameters are TensorFlow's
    (`fake_quantization`): zero points are rounded in f32, and a range that excludes 0 is shifted. For more bits, and
    for an empty range, they are those of `asymmetric`.

    With `compat`, the result is that of upstream's fakeQuantAttrsToType since 2019. The storage is the narrowest of 8,
    16 or 32 bits that holds num_bits. A range that excludes 0 is shifted, and its scale does not change. A range with
    max - min below the epsilon of f64 gets scale 1 and zero point storage_min.

    Raises ValueError for other widths, and like `asymmetric`.
    """
    if not 2 <= num_bits <= 32:
        raise ValueError(f"found {num_bits} bits of fake quantization; expected 2 to 32")
    if not compat:
        storage = StorageType(signed, num_bits)
        given = asymmetric(minimum, maximum, storage.narrow_min if narrow_range else storage.min, storage.max)
        # TensorFlow computes zero points in f32, which is not exact for integers beyond 2^24. So its rule is used up to
        # 16 bits.
        return given if num_bits > MOST_BITS else _simulated(minimum, maximum, num_bits, given, storage)
    storage = StorageType(signed, next(bits for bits in (8, 16, 32) if bits >= num_bits))
    storage_min, storage_max = storage.narrow_min if narrow_range else storage.min, storage.max
    low, high = _checked(minimum, maximum)
    # Upstream compares with the epsilon, not with 0, so tiny ranges count as empty.
    empty = np.abs(high - low) < np.finfo(np.float64).eps
    scale = np.where(empty, UNIT_SCALE, _extent(low, high, float(storage_max - storage_min)))
    from_min, from_max = storage_min - low / scale, storage_max - high / scale
    # From the end with the smaller terms, whose rounding error is smaller.
    closer_min = abs(storage_min) + np.abs(low / scale) < abs(storage_max) + np.abs(high / scale)
    zero_point = round_half_away(np.clip(np.where(closer_min, from_min, from_max), storage_min, storage_max))
    zero_point = np.where(empty, storage_min, zero_point).astype(np.int64)
    return AffineParameters(scale, zero_point, storage_min, storage_max, empty)


def _simulated(
    minimum: npt.ArrayLike, maximum: npt.ArrayLike, num_bits: int, given: AffineParameters, storage: StorageType
) -> AffineParameters:
    """TensorFlow's parameters, or those of `given` for empty ranges.

    The scale is the exact quotient, unless it rounds to another f32 than TensorFlow's.
    """
    low, high = _checked(minimum, maximum)
    found = FakeQuantization.of(low, high, num_bits, given.storage_min > storage.min)
    exact = _extent(low, high, float(found.greatest - found.least))
    scale = np.where(exact.astype(np.float32) == found.scale, exact, found.scale.astype(np.float64))
    empty = found.scale == 0
    point = found.zero_point + storage.min
    return AffineParameters(
        np.where(empty, given.scale, scale),
        np.where(empty, given.zero_point, point),
        given.storage_min,
        given.storage_max,
        given.degenerate,
    )


def _bisect(low: FloatArray, high: FloatArray, extent: FloatArray, levels: float) -> FloatArray:
    # At `lower`, the range falls short or fits exactly, because its n steps are no wider than high - low. At `upper`,
    # it never falls short. It has room for two more initial steps, and aligning the low end takes less than one of its
    # own steps. These are at most twice the initial ones for n >= 2 (a single step cannot reach both sides of 0).
    # The expressions are those of the 2019 code: other forms of the same number differ in the last bit and end on
    # another step.
    lower, upper = extent, (levels * extent + 2 * extent) / levels
    middle, previous = extent, np.zeros_like(extent)
    active = np.ones(extent.shape, dtype=np.bool_)
    for _ in range(_MAX_STEPS):
        # Channels that are done keep their step, so that the result of a channel does not depend on the other channels.
        middle = np.where(active, (lower + upper) / 2.0, middle)
        overshoot = _overshoot(low, high, middle, levels)
        active &= ~((overshoot == 0) | ((overshoot > 0) & (np.abs(middle - previous) < _STEP_TOLERANCE)))
        if not active.any():
            break
        lower = np.where(active & (overshoot <= 0), middle, lower)
        upper = np.where(active & (overshoot > 0), middle, upper)
        previous = np.where(active, middle, previous)
    # The 2019 code could end on a step that falls short, next to a jump of floor(low / delta).
    return np.where(_overshoot(low, high, middle, levels) < 0, upper, middle)


def _overshoot(low: FloatArray, high: FloatArray, delta: FloatArray, levels: float) -> FloatArray:
    """How far the nudged range exceeds the given one at the worse end; negative if an end falls short."""
    # The zero point has to be an integer, so the low end is a whole number of steps below 0.
    nudged_low = delta * np.floor(low / delta)
    above, below = nudged_low + levels * delta - high, low - nudged_low
    return np.where(above < 0, above, np.where(below < 0, below, np.maximum(above, below)))


def _checked(minimum: npt.ArrayLike, maximum: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    low, high = np.asarray(minimum, dtype=np.float64), np.asarray(maximum, dtype=np.float64)
    low, high = np.broadcast_arrays(low, high)
    wrong = ~(np.isfinite(low) & np.isfinite(high) & (low <= high))
    if wrong.any():
        raise ValueError(
            f"found the range [{low[wrong].flat[0]}, {high[wrong].flat[0]}]; expected finite bounds, the minimum first"
        )
    return low, high


def _widened(
    minimum: npt.ArrayLike, maximum: npt.ArrayLike, storage_min: int, storage_max: int
) -> tuple[FloatArray, FloatArray]:
    if storage_min >= storage_max:
        raise ValueError(f"found the storage range {storage_min}..{storage_max}; expected at least two values")
    low, high = _checked(minimum, maximum)
    return np.minimum(low, 0.0), np.maximum(high, 0.0)


def _extent(low: FloatArray, high: FloatArray, steps: float) -> FloatArray:
    """(high - low) / steps, without overflow if the difference exceeds the largest f64."""
    with np.errstate(over="ignore"):
        difference = high - low
    # f64 ranges such as -1.7e308..1.7e308 are legal. Two quotients have two roundings, so they are used only where
    # needed.
    return np.where(np.isfinite(difference), difference / steps, high / steps - low / steps)


def _floored(
    scale: AnyArray, low: FloatArray, high: FloatArray, zero_range_scale: float
) -> tuple[FloatArray, BoolArray]:
    # A smaller scale would make products of scales subnormal in f32. Runtimes flush these to 0.
    degenerate = scale < SCALE_FLOOR
    # All-zero weights get the smallest scale, which keeps the scale of the bias fine. All-zero activations get a
    # harmless one.
    stated = np.where((low == 0) & (high == 0), zero_range_scale, SCALE_FLOOR)
    return np.where(degenerate, stated, scale), degenerate
