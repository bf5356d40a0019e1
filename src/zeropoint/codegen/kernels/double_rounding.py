"""Requantization by fixed32-double in 32 bits: LiteRT's SaturatingRoundingDoublingHighMul and RoundingDivideByPOT.

With x = acc 2^l, where l or k is 0, and 0 <= M < 2^31:

    h = (x M + 2^30) >> 31                                  ties up
    y = (h + 2^(k-1) - [h < 0]) >> k, or h for k = 0        ties away from zero

AArch64 has an instruction for each of the two roundings. Elsewhere, the upper half of one product gives both, if
accumulators have room for a left shift. Let L = max l + 2, X = acc 2^L and H = (X M) >> 32. The rounding term of h,
times 2^(L-l), is a multiple of 2^32. So the lower half of the product has no effect on h, which is (H + 2^(L-l-2)) >>
(L-l-1). A shift of a shift is one shift: for k > 0, where l is 0,

    y = (H + 2^(L-2) + 2^(L+k-2) - [acc < 0] 2^(L-1)) >> (L+k-1)

acc < 0 may stand for h < 0: they differ only where acc < 0 and h = 0, and then y is 0 both times. If the zero point is
the lower bound, as after a ReLU, all y <= 0 give the same result. Then negative accumulators have the same term.

|H| < 2^30, so for L + k < 32 no sum exceeds 32 bits. For greater k, y is 0, because |h| < 2^(31-L) is less than half of
2^k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.kernels.high_products import upper_half
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value
from zeropoint.numerics import Multiplier, Requantization
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.rounding import INT32_MAX


@dataclass(frozen=True)
class Lifted:
    """y plus the zero point as (H + term) >> shift, for accumulators with room for the left shift.

    Parameters per channel: M, terms, terms of negative accumulators if `below`, shifts; then the zero point if `apart`.
    """

    lift: int
    """L."""
    below: bool
    """Whether results below the zero point matter, so that negative accumulators have a term of their own."""
    apart: bool
    """Whether the zero point is added after the shift. Otherwise terms contain it."""

    @staticmethod
    def of(output: Requantization, reach: IntArray, zero: int) -> Lifted | None:
        """The form for |acc| <= `reach` and the zero point `zero` of what the kernel stores; None if there is none."""
        exponents = output.multiplier.shift
        assert exponents is not None
        lift = int(np.max(exponents, initial=0)) + 2
        if lift > 30 or int(np.max(reach, initial=0)) << lift > INT32_MAX:
            return None
        if abs(zero) > 1 << 30:
            return None  # results saturate: |y| < 2^30
        below = output.storage_min < output.zero_point
        together = Lifted(lift, below, apart=False)
        _, *terms, _ = together.parts(output.multiplier.multiplier, exponents, zero)
        # H takes 2^30 of the range of i32.
        fits = all(bool((np.abs(each) <= 1 << 30).all()) for each in terms)
        return together if fits else Lifted(lift, below, apart=True)

    def parts(self, multipliers: IntArray, exponents: IntArray, zero: int) -> list[IntArray]:
        """The parameters of channels with multipliers M and exponents l, or -k."""
        left, right, one = np.maximum(exponents, 0), np.maximum(-exponents, 0), np.int64(1)
        rounds, vanishes = right > 0, right + self.lift > 31
        right = np.where(vanishes, 0, right)
        shifts = self.lift - left - 1 + right
        terms = (one << (self.lift - left - 2)) + rounds * (one << (self.lift + right - 2))
        both = [terms, terms - rounds * (one << (self.lift - 1))] if self.below else [terms]
        moved = 0 if self.apart else np.int64(zero) << shifts
        return [np.where(vanishes, 0, multipliers), *(np.where(vanishes, 0, each) + moved for each in both), shifts]

    def vectors(self, count: int) -> int:
        """The number of vectors of parameters of `count` vectors of accumulators."""
        return (3 + self.below) * count + self.apart

    def emit(
        self, f: Function, isa: InstructionSet, sums: Sequence[Value], take: Callable[[str], Value]
    ) -> list[Value]:
        """Results as i32, with the zero point. `take` reads a vector of parameters."""
        factors, terms = ([take(isa.i32) for _ in sums] for _ in range(2))
        below = [take(isa.i32) for _ in sums] if self.below else terms
        shifts, results = [take(isa.i32) for _ in sums], list[Value]()
        for acc, factor, term, other, shift in zip(sums, factors, terms, below, shifts, strict=True):
            high = upper_half(f, isa, f.binary("shl", acc, self.lift), factor)
            added = f.select(f.compare("slt", acc, 0), other, term) if self.below else term
            results.append(f.binary("ashr", f.add(high, added), shift))
        zero = take(isa.i32) if self.apart else None
        return results if zero is None else [f.add(result, zero) for result in results]


def has_instructions(isa: InstructionSet) -> bool:
    """Whether each of the two roundings is an instruction."""
    return isa.doubling_high is not None and isa.rounding_shift is not None


def shifts_left(multiplier: Multiplier) -> bool:
    """Whether any accumulators are shifted left."""
    return multiplier.shift is not None and bool((multiplier.shift > 0).any())


def by_instructions(
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
