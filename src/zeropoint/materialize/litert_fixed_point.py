"""LiteRT's arithmetic in fixed point, as plain ops on i64 values: products, reciprocals and rounded powers of two."""

from __future__ import annotations

from xdsl.ir import SSAValue

from zeropoint.materialize.words import Words
from zeropoint.numerics.rounding import INT32_MAX

FIRST, SLOPE = 1515870810, -1010580540
"""48/17 and -32/17, with 29 fractional bits: the line that Newton's method starts from."""
STEPS = 3
UNIT = 1 << 29


def times(run: Words, left: SSAValue, right: SSAValue | int) -> SSAValue:
    """The product of numbers of 31 fractional bits, rounded half up."""
    return run.rounded(run.multiply(left, right), 31)


def reciprocal(run: Words, half: SSAValue) -> SSAValue:
    """1 / (2 * half) with 31 fractional bits, less than 1."""
    x = run.add(times(run, half, SLOPE), FIRST)
    for _ in range(STEPS):
        missing = run.subtract(UNIT, times(run, half, x))
        x = run.add(x, run.multiply(times(run, x, missing), 4))
        x = run.clamped(x, UNIT >> 1, INT32_MAX)
    return run.minimum(run.multiply(x, 2), INT32_MAX)


def rounded_away(run: Words, value: SSAValue, bits: int) -> SSAValue:
    """value / 2^bits, halves away from zero."""
    negative = run.shifted(value, 63)
    return run.shifted(run.add(run.add(value, negative), 1 << bits >> 1), bits)


def divided_away(run: Words, value: SSAValue, amount: SSAValue) -> SSAValue:
    """value / 2^amount, halves away from zero. The amount is from 0 to 31."""
    half = run.clamped(run.shifted(run.raised(1, amount), 1), 0, 1 << 30)
    # An exact half is rounded down if it is negative; there is none if the amount is 0.
    less = run.multiply(run.shifted(value, 63), run.minimum(half, 1))
    return run.shifted(run.add(run.add(value, less), half), amount)
