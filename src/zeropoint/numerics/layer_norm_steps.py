"""The steps of an integer layer normalization (`layer_norm.py`), for whatever does arithmetic.

`materialize` emits an op for each step, native code finds the steps among those of a kernel: both run this definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from zeropoint.numerics.layer_norm import LINE, NEWTON_STEPS, LayerNorm

W = TypeVar("W")


class RowWords(Protocol[W]):
    """Ops on integers of rows, and on numbers that rows have one of. A Python integer is the same in all places."""

    def total(self, values: W) -> W:
        """The sum of a row."""
        ...

    def wide(self, value: W) -> W:
        """An i64 of the same value."""
        ...

    def word(self, value: W) -> W:
        """An i32 of the same value."""
        ...

    def every(self, number: W) -> W:
        """A number of a row as an i32 beside each of its elements."""
        ...

    def add(self, left: W | int, right: W | int) -> W:
        """left + right."""
        ...

    def subtract(self, left: W | int, right: W | int) -> W:
        """left - right."""
        ...

    def multiply(self, left: W | int, right: W | int) -> W:
        """left * right."""
        ...

    def divide(self, left: W | int, right: W | int) -> W:
        """left / right, rounded towards zero."""
        ...

    def maximum(self, left: W | int, right: W | int) -> W:
        """The greater number."""
        ...

    def both(self, left: W, right: W | int) -> W:
        """The bits that are set in both."""
        ...

    def shifted(self, value: W, amount: W | int) -> W:
        """value >> amount, filled with the sign; the value itself for the number 0."""
        ...

    def raised(self, value: W | int, amount: W) -> W:
        """value << amount."""
        ...

    def leading_zeros(self, value: W) -> W:
        """The number of zero bits above the highest set bit."""
        ...


@dataclass(frozen=True)
class NormalizationSteps(Generic[W]):
    """mu, l, rho and G of a row, i64, and the normalized values t, i32."""

    mean: W
    left: W
    rho: W
    factor: W
    normalized: W


def row_steps(run: RowWords[W], norm: LayerNorm, q: W) -> NormalizationSteps[W]:
    """`LayerNorm.normalized` of rows of i32.

    Squares are summed in two parts of 15 bits, in i32, which takes fewer instructions than i64. The factor is i32 until
    it is multiplied, so that the product is one of 32-bit numbers.
    """
    n = norm.terms
    total = run.wide(run.total(q))
    square = run.multiply(q, q)
    high = run.wide(run.total(run.shifted(square, 15)))
    low = run.wide(run.total(run.both(square, (1 << 15) - 1)))
    squares = run.add(run.multiply(high, 1 << 15), low)
    spread = run.subtract(run.multiply(squares, n), run.multiply(total, total))
    v = run.maximum(run.add(spread, norm.epsilon) if norm.epsilon else spread, n)
    z = run.both(run.leading_zeros(v), ~1)
    m = run.shifted(run.raised(v, run.subtract(z, 2)), 30)
    factor = run.shifted(run.multiply(_reciprocal_root(run, m), n), norm.log + 1)
    left = run.add(run.shifted(z, 1), norm.log - norm.reach - 2)
    mean = run.subtract(run.divide(run.add(total, n * (1 << 15) + n // 2), n), 1 << 15)
    rest = run.subtract(total, run.multiply(mean, n))
    rho = run.divide(run.raised(rest, left), n)
    unit = run.raised(1, left)
    c = run.subtract(run.multiply(run.subtract(q, run.every(mean)), run.every(unit)), run.every(rho))
    product = run.multiply(run.wide(c), run.wide(run.every(factor)))
    t = run.shifted(run.add(run.word(run.shifted(product, 32)), 1 << 8), 9)
    return NormalizationSteps(mean, left, rho, factor, t)


def _reciprocal_root(run: RowWords[W], m: W) -> W:
    """`reciprocal_root`."""
    y = run.subtract(LINE[0], run.shifted(run.multiply(m, LINE[1]), 15))
    for _ in range(NEWTON_STEPS):
        square = run.shifted(run.multiply(y, y), 30)
        rest = run.subtract(3 << 30, run.shifted(run.multiply(m, square), 30))
        y = run.shifted(run.multiply(y, rest), 31)
    return y
