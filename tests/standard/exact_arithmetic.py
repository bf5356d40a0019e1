"""What each requantization behaviour means, in exact integers: the texts of gemmlowp, TOSA and the fxpmath page.

The functions take integers of any kind that have Python's operators and do not wrap: Python's own, or wide bit vectors.
`mul` multiplies by the multiplier, `choose(c, a, b)` is a if c holds and otherwise b.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Integer = Any
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True)
class Exact:
    """The arithmetic of one kind of integers."""

    mul: Callable[[Integer], Integer]
    choose: Callable[[Any, Integer, Integer], Integer]

    def clamp(self, x: Integer, low: int, high: int) -> Integer:
        return self.choose(x < low, low, self.choose(x > high, high, x))

    def quotient(self, x: Integer, power: int) -> Integer:
        """x / 2^power, towards 0, as C divides."""
        return self.choose(x >= 0, x >> power, -(-x >> power))


def fixed32(of: Exact, x: Integer, shift: int) -> Integer:
    """floor(x * M / 2^N + 1/2)."""
    product = of.mul(x)
    return (product + (1 << (shift - 1))) >> shift if shift > 0 else product << -shift


def fixed32_double(of: Exact, x: Integer, exponent: int) -> Integer:
    """gemmlowp: RoundingDivideByPOT(SaturatingRoundingDoublingHighMul(x << left, M), right)."""
    left, right = max(exponent, 0), max(-exponent, 0)
    shifted = of.clamp(x << left, INT32_MIN, INT32_MAX)
    product = of.mul(shifted)
    nudge = of.choose(product >= 0, 1 << 30, 1 - (1 << 30))
    high = of.quotient(product + nudge, 31)
    mask = (1 << right) - 1
    threshold = of.choose(high < 0, (mask >> 1) + 1, mask >> 1)
    return (high >> right) + of.choose((high & mask) > threshold, 1, 0)


def tosa_double(of: Exact, x: Integer, shift: int) -> Integer:
    """TOSA: round = 1 << (shift - 1); with shift > 31, plus or minus 1 << 30 by the sign of the value."""
    rounding: Integer = 1 << (shift - 1)
    if shift > 31:
        rounding = of.choose(x >= 0, rounding + (1 << 30), rounding - (1 << 30))
    return (of.mul(x) + rounding) >> shift


def pot(of: Exact, x: Integer, shift: int) -> Integer:
    """x / 2^n to nearest, ties away from zero: the magnitude plus half, towards 0."""
    if shift <= 0:
        return x << -shift
    half = 1 << (shift - 1)
    return of.choose(x >= 0, (x + half) >> shift, -((-x + half) >> shift))


def fixed16(of: Exact, x: Integer, shift: int, zero_point: int) -> Integer:
    """a = sat16(half up (x / 2^s)); p = half up (a * M / 2^15); half up ((p + 64 * zero_point) / 64)."""
    scaled = (x + (1 << (shift - 1))) >> shift if shift > 0 else x << -shift
    product = (of.mul(of.clamp(scaled, -32768, 32767)) + (1 << 14)) >> 15
    return (product + 64 * zero_point + 32) >> 6


FORMS: dict[str, tuple[Callable[..., Integer], range, int]] = {
    "fixed16": (fixed16, range(-6, 32), 15),
    "fixed32": (fixed32, range(63), 31),
    "fixed32-double": (fixed32_double, range(-31, 31), 31),
    "tosa-double": (tosa_double, range(2, 63), 31),
    "pot": (pot, range(-31, 63), 0),
}
"""Each behaviour's function, its shifts, and the bits of its multipliers."""


def requantized(behaviour: str, of: Exact, x: Integer, shift: int, zero_point: int, bounds: tuple[int, int]) -> Integer:
    """The stored integer of an accumulator."""
    if behaviour == "fixed16":
        return of.clamp(fixed16(of, x, shift, zero_point), *bounds)
    return of.clamp(FORMS[behaviour][0](of, x, shift) + zero_point, *bounds)
