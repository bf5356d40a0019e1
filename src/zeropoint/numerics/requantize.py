"""Requantize: accumulators of scale s_in * s_w to storage integers of scale s_out, by m = s_in * s_w / s_out.

y = clamp(round(acc * m) + zero_point, storage_min, storage_max). A `RequantizeBehaviour` names how the product is
formed and rounded. A `Multiplier` is m resolved for a behaviour, one value or one per channel.

| behaviour | `multiplier` | `shift` | round(acc * m) |
|---|---|---|---|
| fixed16 | M < 2^15 | s, -6..31 | see `fixed16` (zero point and clamp are part of it) |
| fixed32 | M0 < 2^31 (2^30 if N < 0) | N, -2..62 | (acc * M0 + 2^(N-1)) >> N |
| fixed32-double | M < 2^31 | e, -31..30, left if > 0 | RDivByPOT(SRDHM(sat32(acc << max(e, 0)), M), max(-e, 0)) |
| tosa-double | multiplier < 2^31 | 2..62 | apply_scale_32 with DOUBLE_ROUND |
| float32-rne | float32(m) | none | rne(float32(acc) * float32(m)) |
| float64-away | m in f64 | none | rounded product of f64(acc) and m, ties away from zero |
| exact | m in f64 | none | round-half-even of the rational acc * m |
| pot | 1 | n, -31..62 | acc / 2^n, ties away from zero |

Sources: the lowering of quantized conv and matmul (fixed32); gemmlowp and LiteRT (fixed32-double); TOSA; onnxruntime
MlasRequantizeOutput (float32-rne); LiteRT's reference kernel of fully connected layers (float64-away); FxpMath
RoundingDivideByPot (pot). fixed16 is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from zeropoint.numerics.arrays import AnyArray, FloatArray, IntArray, along_axis, blocks, part
from zeropoint.numerics.behaviours import (
    EXACT_LIMIT,
    INT64_MAX,
    exact,
    fixed16,
    fixed32,
    fixed32_double,
    fixed32_parts,
    float32_rne,
    float64_away,
    pot,
    tosa_double,
)
from zeropoint.numerics.multiplier import (
    checked,
    fixed16_multiplier,
    fixed32_multiplier,
    pot_shift,
    quantize_multiplier,
    tosa_multiplier,
    wide_multiplier,
)
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.storage import signed_range, smallest_dtype

WIDE_STORAGE_LIMIT = 65536.0
"""The maximum real multiplier for storage wider than 16 bits."""
GUARD_BITS = 6
"""The guard bits of fixed16: its product is 64 * acc * m. This is also the maximum left shift of its accumulators."""


class RequantizeBehaviour(StrEnum):
    """The arithmetic of multiplying an accumulator by a real number and rounding the product (see the table above)."""

    FIXED16 = "fixed16"
    FIXED32 = "fixed32"
    FIXED32_DOUBLE = "fixed32-double"
    TOSA_DOUBLE = "tosa-double"
    FLOAT32_RNE = "float32-rne"
    FLOAT64_AWAY = "float64-away"
    EXACT = "exact"
    POT = "pot"


@dataclass(frozen=True, eq=False)
class Multiplier:
    """A real multiplier resolved for a behaviour, as `requantize` takes it.

    `multiplier` and `shift` are scalars (0-d) or have one element per channel; see the module's table. `multiplier` is
    int64. It is float32 for float32-rne, float64 for float64-away and exact; these have no shift.
    `Multiplier(behaviour, multiplier, shift)` rebuilds one from stored arrays. Raises ValueError if they are out of
    range for the behaviour.
    """

    behaviour: RequantizeBehaviour
    multiplier: AnyArray
    shift: IntArray | None = None

    def __post_init__(self) -> None:
        behaviour = RequantizeBehaviour(self.behaviour)
        form = _FORMS[behaviour]
        multiplier = np.asarray(self.multiplier).astype(form.dtype)
        object.__setattr__(self, "behaviour", behaviour)
        object.__setattr__(self, "multiplier", multiplier)
        _check_range(behaviour, "multiplier", multiplier, form.multipliers)
        if (self.shift is None) != (form.shifts is None):
            expected = "one" if form.shifts else "none"
            raise ValueError(f"found the shift {self.shift} beside a multiplier; '{behaviour.value}' has {expected}")
        if self.shift is not None and form.shifts is not None:
            shift = np.asarray(self.shift, dtype=np.int64)
            if shift.shape != multiplier.shape:
                raise ValueError(
                    f"found multipliers of shape {multiplier.shape} and shifts of shape {shift.shape}; "
                    "expected the same shape"
                )
            _check_range(behaviour, "shift", shift, form.shifts)
            if behaviour is RequantizeBehaviour.FIXED32 and ((shift < 0) & (multiplier >= 1 << 30)).any():
                # Then the product with an int32, shifted left by 2, fits int64.
                raise ValueError("found a multiplier of 2^30 or more with a left shift; 'fixed32' has less than 2^30")
            object.__setattr__(self, "shift", shift)

    @staticmethod
    def of(
        real_multiplier: npt.ArrayLike,
        behaviour: RequantizeBehaviour | str,
        storage_width: int,
        accumulator_width: int = 32,
    ) -> Multiplier:
        """Resolve m = s_in * s_w / s_out, one value or one per channel, for storage of `storage_width` bits.

        fixed16 becomes fixed32 for the whole op in three cases:

        - A channel has m >= 1, which needs a left shift by more than the guard bits.
        - The storage is wider than 8 bits.
        - The accumulator is wider than 32 bits.

        With 64-bit accumulators, the 32-bit forms (fixed32, fixed32-double, tosa-double) become LiteRT's 16x8 form,
        which is fixed32 with 15-bit multipliers. Raises ValueError if m is negative, not finite, not a power of two
        (pot), or too large for wide storage.
        """
        real = checked(real_multiplier)
        behaviour = RequantizeBehaviour(behaviour)
        if storage_width > 16 and (real > WIDE_STORAGE_LIMIT).any():
            # The caps on large multipliers rely on saturation, which is proved for storage of up to 16 bits.
            raise ValueError(
                f"found the real multiplier {real.max()} for storage of {storage_width} bits; expected at most 2^16"
            )
        form = _FORMS[behaviour]
        # A 31-bit multiplier times a 48-bit sum does not fit int64. That is why LiteRT's 16x8 kernels have 15-bit
        # multipliers.
        if form.integer_only and accumulator_width > 32:
            return Multiplier(RequantizeBehaviour.FIXED32, *wide_multiplier(real))
        # One behaviour for the whole op, because a vector of channels runs one instruction sequence.
        if behaviour is RequantizeBehaviour.FIXED16 and (
            storage_width > 8 or (fixed16_multiplier(real)[1] < -GUARD_BITS).any()
        ):
            return Multiplier(RequantizeBehaviour.FIXED32, *fixed32_multiplier(real))
        return Multiplier(behaviour, *form.of(real))

    @property
    def real(self) -> FloatArray:
        """The effective real multiplier after rounding m to integers, in f64."""
        m = self.multiplier.astype(np.float64)
        if self.shift is None:
            return m
        exponent = {
            RequantizeBehaviour.FIXED16: -21 - self.shift,
            RequantizeBehaviour.FIXED32_DOUBLE: self.shift - 31,
        }.get(self.behaviour, -self.shift)
        return np.ldexp(m, exponent)


@dataclass(frozen=True, eq=False)
class Requantization:
    """clamp(round(acc * m) + zero_point, storage_min, storage_max), with one multiplier, or one per index of `axis`."""

    multiplier: Multiplier
    zero_point: int
    storage_min: int
    storage_max: int
    axis: int | None = None

    def apply(self, acc: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> AnyArray:
        """Map accumulators to storage integers of `dtype`. Raises ValueError like `requantize`."""
        return requantize(
            acc, self.multiplier, self.zero_point, self.storage_min, self.storage_max, axis=self.axis, dtype=dtype
        )


def ratio_of_scales(given: npt.ArrayLike, wanted: npt.ArrayLike, *, in_f32: bool = False) -> FloatArray:
    """given / wanted, the real multiplier from one scale to another, in f64 or rounded to f32 at each step.

    The product of two f32 scales is exact in f64, so it is rounded only once here.
    """
    if not in_f32:
        return np.asarray(given, np.float64) / np.asarray(wanted, np.float64)
    return (np.asarray(given).astype(np.float32) / np.asarray(wanted).astype(np.float32)).astype(np.float64)


def accumulator_limit(multiplier: Multiplier, accumulator_width: int = 32) -> IntArray:
    """The maximum |acc| at which no step overflows, in the shape of the multiplier.

    fixed16 adds 2^(s-1) in int32 before it shifts right, so |acc| <= 2^31 - 1 - 2^(s-1), or it shifts left by -s.
    `requantize` itself is defined for every acc, as if these steps had more bits. Machine code in int32 gives the same
    result up to this limit, and may then fold the rounding term into the bias. fixed32-double shifts left in int32 and
    saturates; in the original runtime, overflow is undefined. tosa-double is specified for |acc| < 2^(shift-1); here it
    computes in 64 bits for any int32.
    """
    behaviour, shift = multiplier.behaviour, multiplier.shift
    own = signed_range(accumulator_width)[1]
    if shift is None:
        limit = np.full(multiplier.multiplier.shape, INT64_MAX)
        # Forms without a shift compute in floats, which do not overflow. `exact` is the exception: it multiplies limbs
        # in 64 bits.
        if behaviour is RequantizeBehaviour.EXACT:
            limit = np.full(multiplier.multiplier.shape, EXACT_LIMIT)
    elif behaviour is RequantizeBehaviour.FIXED16:
        limit = np.where(
            shift > 0, INT32_MAX - (np.int64(1) << np.maximum(shift - 1, 0)), INT32_MAX >> -shift.clip(max=0)
        )
    # The left shift comes before the multiplication, in int32. A larger accumulator saturates there.
    elif behaviour is RequantizeBehaviour.FIXED32_DOUBLE:
        limit = INT32_MAX >> np.maximum(shift, 0)
    # TOSA's own precondition. Beyond it, apply_scale_32 is an error in other implementations, but not here.
    elif behaviour is RequantizeBehaviour.TOSA_DOUBLE:
        limit = np.minimum((np.int64(1) << (shift - 1)) - 1, INT32_MAX)
    elif behaviour is RequantizeBehaviour.POT:
        limit = INT64_MAX >> np.maximum(-shift, 0)
    else:
        # acc * factor + rounding must fit int64. For factors of more than 17 bits and wide accumulators, the product is
        # formed in two halves, and the upper half has room for 16 more bits.
        factor, rounding, right = fixed32_parts(multiplier.multiplier, shift)
        limit = (INT64_MAX - rounding) // np.maximum(factor, 1)
        if accumulator_width > 32:
            split = ((INT64_MAX - (rounding >> 16)) // np.maximum(factor, 1) - 1) << 16
            limit = np.where(factor < 1 << 17, limit, np.where(right >= 17, split, INT64_MAX))
    return np.minimum(np.asarray(limit, dtype=np.int64), own)


def requantize(
    acc: npt.ArrayLike,
    multiplier: Multiplier,
    zero_point: npt.ArrayLike,
    storage_min: int,
    storage_max: int,
    *,
    axis: int | None = None,
    dtype: npt.DTypeLike | None = None,
) -> AnyArray:
    """Requantize accumulators (int32, or int64 for a multiplier of the 16x8 form) to storage integers.

    A multiplier or zero point with one element per channel applies along `axis`. The result has `dtype`, or the
    smallest integer type that holds storage_min..storage_max.

    Every behaviour is defined for every accumulator and never wraps around. fixed32 and pot give the exact result for
    int64, too. fixed32-double and tosa-double first saturate accumulators to 32 bits, and `exact` to +-2^44.

    Raises ValueError if fixed16 is used for storage wider than 8 bits. Also if there are several multipliers but no
    axis, or an axis of another size.
    """
    accumulator = np.asarray(acc)
    # NumPy would promote uint64 * int64 to f64 and lose the low bits.
    if accumulator.dtype.kind == "u":
        accumulator = accumulator.astype(np.int64)
    shape, rank = accumulator.shape, accumulator.ndim
    m = along_axis(multiplier.multiplier, rank, axis, "multiplier")
    shift = np.zeros((), np.int64) if multiplier.shift is None else along_axis(multiplier.shift, rank, axis, "shift")
    zeros = along_axis(np.asarray(zero_point, dtype=np.int64), rank, axis, "zero_point")
    for name, parameter in (("multiplier", m), ("zero_point", zeros)):
        if any(found not in (1, size) for found, size in zip(parameter.shape, shape, strict=False)):
            raise ValueError(f"found {parameter.size} values of {name} for a tensor of shape {shape} along axis {axis}")
    _check_storage(multiplier, storage_min, storage_max)
    function = _FORMS[multiplier.behaviour].function
    result = np.empty(shape, smallest_dtype(storage_min, storage_max) if dtype is None else dtype)
    # Block by block, so that the intermediate int64 arrays stay in the cache.
    for block in blocks(shape):
        y = function(accumulator[block], part(m, block), part(shift, block), part(zeros, block))
        # The bounds are applied in the wide type, because a conversion to the storage type would wrap around first.
        np.maximum(y, storage_min, out=y)
        np.minimum(y, storage_max, out=y)
        result[block] = y
    return result


def _check_storage(multiplier: Multiplier, storage_min: int, storage_max: int) -> None:
    # The proof that its saturation is harmless (`behaviours.fixed16`) holds for 8-bit storage only.
    past = storage_min < -128 or storage_max > 255 or storage_max - storage_min > 255
    if multiplier.behaviour is RequantizeBehaviour.FIXED16 and past:
        raise ValueError(f"found storage {storage_min}..{storage_max} for 'fixed16'; expected at most 8 bits of it")


def _check_range(behaviour: RequantizeBehaviour, name: str, values: AnyArray, bounds: tuple[float, float]) -> None:
    low, high = bounds
    wrong = ~((values >= low) & (values <= high))  # true for NaN, too
    if wrong.any():
        raise ValueError(f"found the {name} {values[wrong].flat[0]}; '{behaviour.value}' has {low} to {high}")


def _fixed16_parts(real: FloatArray) -> tuple[IntArray, IntArray]:
    """For s > 31, 64 * m < 2^-32, so a = (acc + 2^(s-1)) >> s is 0 for every int32 acc, and p = 2^14 >> 15 = 0.

    With M = 0, p is 0 for any a, which gives the same y; and s = 31 is a shift that machines support.
    """
    mantissa, shift = fixed16_multiplier(real)
    tiny = shift > 31
    return np.where(tiny, 0, mantissa), np.where(tiny, 31, shift)


def _fixed32_double_parts(real: FloatArray) -> tuple[IntArray, IntArray]:
    """TFLite shifts an int32 left by at most 30. Beyond that, the multiplier saturates, like its single-rounding
    build."""
    mantissa, exponent = quantize_multiplier(real)
    huge = exponent > 30
    return np.where(huge, INT32_MAX, mantissa), np.where(huge, 30, exponent)


def _float32_parts(real: FloatArray) -> tuple[AnyArray]:
    """m in f32, capped at the largest f32, so that 0 * m is 0 and not NaN."""
    return (np.minimum(real, float(np.finfo(np.float32).max)).astype(np.float32),)


def _float64_parts(real: FloatArray) -> tuple[AnyArray]:
    """m in f64. It is finite, so 0 * m is 0."""
    return (real,)


def _exact_parts(real: FloatArray) -> tuple[AnyArray]:
    """m capped at 2^16. Any non-zero accumulator is then outside of any 16-bit storage range, as with a larger m."""
    return (np.minimum(real, WIDE_STORAGE_LIMIT),)


def _pot_parts(real: FloatArray) -> tuple[IntArray, IntArray]:
    shift = pot_shift(real)
    return np.ones_like(shift), shift


@dataclass(frozen=True)
class _Form:
    """The functions of a behaviour: one resolves a real multiplier, the other computes round(acc * m) + zero_point."""

    of: Callable[[FloatArray], tuple[AnyArray] | tuple[AnyArray, IntArray]]
    function: Callable[[AnyArray, AnyArray, IntArray, IntArray], AnyArray]
    multipliers: tuple[float, float]
    shifts: tuple[int, int] | None
    dtype: type[np.int64] | type[np.float32] | type[np.float64] = np.int64
    integer_only: bool = True


_FORMS = {
    RequantizeBehaviour.FIXED16: _Form(_fixed16_parts, fixed16, (0, 0x7FFF), (-GUARD_BITS, 31)),
    RequantizeBehaviour.FIXED32: _Form(fixed32_multiplier, fixed32, (0, INT32_MAX), (-2, 62)),
    RequantizeBehaviour.FIXED32_DOUBLE: _Form(_fixed32_double_parts, fixed32_double, (0, INT32_MAX), (-31, 30)),
    RequantizeBehaviour.TOSA_DOUBLE: _Form(tosa_multiplier, tosa_double, (0, INT32_MAX), (2, 62)),
    RequantizeBehaviour.FLOAT32_RNE: _Form(
        _float32_parts, float32_rne, (0, float(np.finfo(np.float32).max)), None, np.float32, integer_only=False
    ),
    RequantizeBehaviour.FLOAT64_AWAY: _Form(
        _float64_parts, float64_away, (0, float(np.finfo(np.float64).max)), None, np.float64, integer_only=False
    ),
    RequantizeBehaviour.EXACT: _Form(
        _exact_parts, exact, (0, WIDE_STORAGE_LIMIT), None, np.float64, integer_only=False
    ),
    RequantizeBehaviour.POT: _Form(_pot_parts, pot, (1, 1), (-31, 62), integer_only=False),
}


def behaviour_ranges(behaviour: RequantizeBehaviour) -> tuple[tuple[float, float], tuple[int, int] | None]:
    """The minimum and maximum multiplier and shift of a behaviour. None instead of shifts if it has none."""
    form = _FORMS[behaviour]
    return form.multipliers, form.shifts
