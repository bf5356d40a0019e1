"""Requantization by fixed32-double in 32 bits: LiteRT's SaturatingRoundingDoublingHighMul and RoundingDivideByPOT.

With x = acc 2^l, where l or k is 0, and 0 <= M < 2^31:

    h = (x M + 2^30) >> 31                                  ties up
    y = (h + 2^(k-1) - [h < 0]) >> k, or h for k = 0        ties away from zero

AArch64 has an instruction for each of the two roundings. Elsewhere, the upper half of one product gives both, if
accumulators have room for a left shift. Let L = max l + 2, X = acc 2^L and H = (X M) >> 32. Then 2^(L-l) times the
rounding term of h is a multiple of 2^32, so the lower half of the product does not affect h = (H + 2^(L-l-2)) >>
(L-l-1). A shift of a shift is one shift: for k > 0, where l is 0,

    y = (H + 2^(L-2) + 2^(L+k-2) - [acc < 0] 2^(L-1)) >> (L+k-1)

acc < 0 may stand for h < 0: they differ only where acc < 0 and h = 0, and then y is 0 both times.

|H| < 2^30, so for L + k < 32 no sum exceeds 32 bits. For greater k, y is 0, because |h| < 2^(31-L) is less than half of
2^k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.kernels.high_products import upper_half
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.rounding import INT32_MAX


def lift_of(exponents: IntArray, reach: IntArray) -> int | None:
    """The L of |acc| <= `reach`; None if accumulators have no room for it."""
    lift = int(np.max(exponents, initial=0)) + 2
    return lift if lift < 31 and int(np.max(reach, initial=0)) << lift <= INT32_MAX else None


@dataclass(frozen=True)
class Parts:
    """y = (H + term) >> shift with H = (acc 2^L factor) >> 32, per channel. Negative accumulators have another term."""

    factors: IntArray
    terms: IntArray
    terms_below: IntArray
    shifts: IntArray

    @staticmethod
    def of(multipliers: IntArray, exponents: IntArray, lift: int) -> Parts:
        """The parts of multipliers M and exponents l, or -k, with the L of `lift_of`."""
        left, right, one = np.maximum(exponents, 0), np.maximum(-exponents, 0), np.int64(1)
        rounds, vanishes = right > 0, right + lift > 31
        # Results that are 0 get a factor of 0, and terms of 0 or more.
        right = np.where(vanishes, 0, right)
        terms = np.where(vanishes, 0, (one << (lift - left - 2)) + rounds * (one << (lift + right - 2)))
        below = np.where(vanishes, 0, terms - rounds * (one << (lift - 1)))
        return Parts(np.where(vanishes, 0, multipliers), terms, below, lift - left - 1 + right)


def rounded(f: Function, isa: InstructionSet, acc: Value, lift: int, parts: tuple[Value, Value, Value, Value]) -> Value:
    """y of a vector of accumulators, whose `parts` are those of `Parts`."""
    factor, term, below, shift = parts
    high = upper_half(f, isa, f.binary("shl", acc, lift), factor)
    return f.binary("ashr", f.add(high, f.select(f.compare("slt", acc, 0), below, term)), shift)


def has_instructions(isa: InstructionSet) -> bool:
    """Whether each of the two roundings is an instruction."""
    return isa.doubling_high is not None and isa.rounding_shift is not None


def rounded_by_instructions(
    f: Function, isa: InstructionSet, acc: Value, multiplier: Value, exponent: Value, *, left: bool
) -> Value:
    """y of any accumulators. `left` says whether an exponent is above 0. Then accumulators saturate in the shift."""
    assert isa.doubling_high is not None
    assert isa.rounding_shift is not None
    if left:
        acc = f.intrinsic("sshl.sat", acc, f.intrinsic("smax", exponent, 0))
        exponent = f.intrinsic("smin", exponent, 0)
    high = f.call(acc.type, isa.doubling_high, acc, multiplier)
    # The shift rounds ties up. A negative number with a shift to the right is less by one.
    lower = f.binary("ashr", f.binary("and", high, exponent), 31)
    return f.call(acc.type, isa.rounding_shift, f.binary("add", high, lower), exponent)
