"""Layer normalization in integers: exact sums, one reciprocal square root per row, one multiplier per channel.

For a row of n stored integers q of scale s (at most 16 bits; the zero point cancels), with epsilon, gamma, beta:

    S = sum(q), Q = sum(q q)                                        exact
    V = max(n Q - S S + round(epsilon n^2 / s^2), n)                n^2 times the variance, in steps squared
    z = leading zeros of V, rounded down to an even number
    m = (V << (z - 2)) >> 30                                        in 2^30..2^32
    y = 2^30 / sqrt(m / 2^30)                                       a line, then three Newton steps
    G = (n y) >> (nb + 1), l = z / 2 + nb - b - 2                   nb = floor(log2 n), b = ceil(log2(n) / 2)
    mu = S / n to nearest, rho = ((S - n mu) << l) / n
    c = (q - mu) 2^l - rho                                          q minus the mean, with l fraction bits
    t = (((c G) >> 32) + 2^8) >> 9                                  the normalized value, F = 17 - b fraction bits
    result = clamp((t Gamma + B) >> N)                              Gamma, B, N one a channel

Gamma = round(gamma / s_out 2^(N - F)), B = round((beta / s_out + zero_point) 2^N) + 2^(N - 1).

**No overflow.** q, c, t and the result are i32. The sums, the values computed once per row, and c G are i64:

- |q| <= 2^15 and n <= 2^14, so n Q <= 2^58. Epsilon adds at most n^2 2^32, so V < 2^61 and z >= 2.
- m < 2^32 and y < 2^30.2 throughout, so y y, m (y y >> 30) < 2^62.5 and y (3 2^30 - ...) < 2^62 fit i64.
- V >= n gives l <= 29; V < n^2 2^33 gives l >= 0.
- |q - mean| <= 2^b sqrt(V) / n, and sqrt(V) < 2^(32 - z/2), so |c| < 2^30; (q - mu) 2^l < 2^30 + 2^28.
- G <= 2^30, so |c G| < 2^60; |t| <= 2^17 + 1 as |(q - mean) / deviation| <= sqrt(n - 1).
- |Gamma| < 2^13 and |B| <= 2^30 - 2^14 by the choice of N, so |t Gamma + B| < 2^31.

**Error.** y has a relative error below 2^-23. Rounding changes t by at most 0.52, and Gamma and B by at most 0.5. So
the error of a result has three parts. The final rounding adds half a step. t and B add `ChannelMaps.error` steps. Gamma
adds 2^(F - N - 1) times the normalized value, which is at most sqrt(n - 1) (`ChannelMaps.factor_error`). N is the
largest number up to 15 for which Gamma fits 13 bits and the bias fits 29.

All of this is for the V above. Rounding epsilon, and V >= n, change it by at most 1, which changes the normalized value
by at most its 1 / (2 V) part. V is at least n D, with D the sum of squares of q - mean, so this shows only in rows
whose elements differ by a step or two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.numerics.arrays import FloatArray, IntArray

MOST_TERMS = 1 << 14
"""The longest supported row."""
LINE = (1144608784, 4981)
"""The first guess of 2^30 / sqrt(x) for 1 <= x < 4 is LINE[0] - LINE[1] x 2^15. Its relative error is below 9 %."""
NEWTON_STEPS = 3
GREATEST_FACTOR = (1 << 13) - 1
GREATEST_BIAS = (1 << 30) - (1 << 14)
GREATEST_SHIFT = 15
GREATEST_EPSILON = 1 << 32
"""The maximum epsilon in steps squared. It is far beyond the variance of any 16-bit row."""


@dataclass(frozen=True)
class LayerNorm:
    """The constants for all rows: n, and epsilon as n^2 epsilon / s^2."""

    terms: int
    epsilon: int

    @staticmethod
    def of(scale: float, terms: int, epsilon: float) -> LayerNorm:
        """The constants for rows of `terms` integers of a scale. `epsilon` is in real units.

        Raises ValueError for rows of more than 16,384 values, or for an epsilon above 2^32 steps squared.
        """
        steps = epsilon / scale**2
        if not 1 <= terms <= MOST_TERMS:
            raise ValueError(f"found rows of {terms} elements, expected 1 to {MOST_TERMS}")
        if not 0 <= steps <= GREATEST_EPSILON:
            raise ValueError(f"found epsilon {epsilon} for scale {scale}, expected at most 2^32 steps squared")
        return LayerNorm(terms, round(steps * terms * terms))

    @property
    def log(self) -> int:
        """nb: floor(log2 n)."""
        return self.terms.bit_length() - 1

    @property
    def reach(self) -> int:
        """b: normalized values are at most 2^b."""
        return ((self.terms - 1).bit_length() + 1) // 2

    @property
    def fraction(self) -> int:
        """F: fraction bits of normalized values."""
        return 17 - self.reach

    @property
    def most_left(self) -> int:
        """The greatest l, that of the least V."""
        z = (64 - max(self.epsilon, self.terms).bit_length()) & ~1
        return (z >> 1) + self.log - self.reach - 2

    def normalized(self, q: IntArray, axis: int = -1) -> IntArray:
        """(q - mean) / sqrt(variance + epsilon) along an axis, with `fraction` fraction bits. `q` is i64."""
        n = self.terms
        total = q.sum(axis=axis, keepdims=True)
        # n Q - S S is exact in integers, where the float formula would cancel. The zero point cancels, too. V is at
        # least n, because the variance of a row of equal values is 0.
        v = np.maximum(n * (q * q).sum(axis=axis, keepdims=True) - total * total + self.epsilon, n)
        # Even, so that the square root of 2^z is a power of two.
        z = _leading_zeros(v) & ~1
        # Normalized to 2^30..2^32, so that the first guess and three Newton steps have the same accuracy for every row.
        m = (v << (z - 2)) >> 30
        # The factor n turns the root of n^2 variance into that of the variance. The shift by floor(log2 n) + 1 keeps G
        # within 30 bits for every n.
        factor = (n * reciprocal_root(m)) >> (self.log + 1)
        # As many fraction bits as fit: rows of small variance get more of them.
        left = (z >> 1) + (self.log - self.reach - 2)
        # The numerator is made non-negative, so that the division rounds half up in C as in Python.
        mean = (total + (n * (1 << 15) + n // 2)) // n - (1 << 15)
        rest = total - n * mean
        # A division of magnitudes, which truncates like C's.
        rho = np.sign(rest) * ((np.abs(rest) << left) // n)
        c = (q - mean) * (np.int64(1) << left) - rho
        # The high half of a product of two 32-bit numbers is one instruction.
        return (((c * factor) >> 32) + 256) >> 9


def reciprocal_root(m: IntArray) -> IntArray:
    """2^45 / sqrt(m) for m in 2^30..2^32: a number in 2^29..2^30 with a relative error below 2^-23."""
    # Each Newton step squares the relative error and multiplies it by 3/2: 9 %, 1.2 %, 2.2e-4, 7e-8, which is below
    # 2^-23.
    y = LINE[0] - ((m * LINE[1]) >> 15)
    for _ in range(NEWTON_STEPS):
        # The shifts keep each product below 2^63. Their order is fixed, because each of them rounds down.
        y = (y * ((3 << 30) - ((m * ((y * y) >> 30)) >> 30))) >> 31
    return y


def _leading_zeros(v: IntArray) -> IntArray:
    """The number of leading zeros of a positive i64."""
    # In halves of 32 bits, because an f64 would round a larger integer up to the next power of two.
    halves = np.where(v >> 32 > 0, v >> 32, v)
    bits = np.frexp(halves.astype(np.float64))[1].astype(np.int64)
    return 64 - bits - np.where(v >> 32 > 0, 32, 0)


@dataclass(frozen=True, eq=False)
class ChannelMaps:
    """Gamma, B and N of every channel, and the bounds of the result."""

    factor: IntArray
    bias: IntArray
    shift: IntArray
    low: int
    high: int

    @staticmethod
    def of(
        gamma: FloatArray, beta: FloatArray, fraction: int, scale: float, zero_point: int, low: int, high: int
    ) -> ChannelMaps:
        """The constants for results of a scale and a zero point, from normalized values with `fraction` fraction bits.

        `gamma` and `beta` are real, one per channel. `low` and `high` bound the stored results. Raises ValueError if
        gamma is so large that not even one fraction bit of a result fits.
        """
        real = np.asarray(gamma, np.float64) / scale * 2.0**-fraction
        offset = np.asarray(beta, np.float64) / scale + zero_point
        shift = np.full(real.shape, GREATEST_SHIFT)
        for _ in range(GREATEST_SHIFT - 1):
            # 13 bits of Gamma and 18 bits of t make 31. The bias gets 29 bits, which leaves room for half a step of
            # rounding.
            fits = (np.rint(np.abs(real) * 2.0**shift) <= GREATEST_FACTOR) & (np.abs(offset) * 2.0**shift < 1 << 29)
            shift = np.where(fits, shift, np.maximum(shift - 1, 1))
        factor = np.rint(real * 2.0**shift)
        if not np.isfinite(factor).all() or np.abs(factor).max(initial=0) > GREATEST_FACTOR:
            raise ValueError(
                f"found gamma up to {np.abs(gamma).max()}, expected at most {2.0 ** (fraction + 12) * scale:g}"
            )
        # A beta beyond the bounds saturates every result of the channel, and so does the clipped beta.
        bias = np.clip(np.rint(offset * 2.0**shift), -GREATEST_BIAS, GREATEST_BIAS) + 2.0 ** (shift - 1)
        return ChannelMaps(factor.astype(np.int64), bias.astype(np.int64), shift.astype(np.int64), low, high)

    @property
    def error(self) -> FloatArray:
        """The maximum error in steps of the result, per channel, from rounding normalized values and the bias."""
        return (np.abs(self.factor) * 0.52 + 0.5) / 2.0**self.shift

    def factor_error(self, fraction: int) -> FloatArray:
        """The same from rounding Gamma, per unit of a normalized value with `fraction` fraction bits."""
        return np.asarray(2.0 ** (fraction - 1.0 - self.shift), np.float64)

    def apply(self, t: IntArray) -> IntArray:
        """The stored results, i64, for normalized values whose last dimension is the channel."""
        return np.clip((t * self.factor + self.bias) >> self.shift, self.low, self.high)
