"""The primitive steps of elementary functions, and their implementation on arrays.

`zeropoint.numerics.elementary` and `zeropoint.numerics.trigonometry` are written in these steps. `ARRAYS` computes them
with NumPy, for the interpreter and for tables. Native code emits the same steps in LLVM (`zeropoint.codegen.kernels`).
Each step is one operation that IEEE 754 or two's complement arithmetic defines completely, so the results are
bit-identical. There is no fused multiply-add, because not every machine has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from zeropoint.numerics.arrays import AnyArray

V = TypeVar("V")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Steps(Protocol[V]):
    """Operations on floats (f32 or f64), on integers of the same width, and on masks.

    An operand that is a Python number is rounded to the other operand's type.
    """

    def whole(self, name: str, x: V, /) -> V | None:
        """A function of this name as one step; None if it has to be composed of several. See `in_one_step`."""
        ...

    def number(self, like: V, value: float, /) -> V:
        """A number in the type of `like`."""
        ...

    def plus(self, a: V, b: V | float, /) -> V:
        """a + b, rounded to nearest. So are all following operations."""
        ...

    def minus(self, a: V, b: V | float, /) -> V:
        """a - b."""
        ...

    def times(self, a: V, b: V | float, /) -> V:
        """a b."""
        ...

    def over(self, a: V, b: V, /) -> V:
        """a / b."""
        ...

    def root(self, x: V, /) -> V:
        """The square root."""
        ...

    def negated(self, x: V, /) -> V:
        """-x."""
        ...

    def magnitude(self, x: V, /) -> V:
        """|x|."""
        ...

    def signed(self, x: V, sign: V, /) -> V:
        """|x| with the sign of another float."""
        ...

    def nearest(self, x: V, /) -> V:
        """The nearest integer, ties to even, as a float."""
        ...

    def towards_zero(self, x: V, /) -> V:
        """The integer part, as a float."""
        ...

    def is_less(self, a: V, b: V | float, /) -> V:
        """a < b. False for NaN, like the next two."""
        ...

    def is_greater(self, a: V, b: V | float, /) -> V:
        """a > b."""
        ...

    def is_equal(self, a: V, b: V | float, /) -> V:
        """a = b."""
        ...

    def is_nan(self, x: V, /) -> V:
        """Whether x is NaN."""
        ...

    def both(self, a: V, b: V, /) -> V:
        """Both masks."""
        ...

    def either(self, a: V, b: V, /) -> V:
        """Either mask."""
        ...

    def inverse(self, mask: V, /) -> V:
        """not mask."""
        ...

    def select(self, mask: V, yes: V, no: V, /) -> V:
        """`yes` where the mask holds, else `no`."""
        ...

    def bits(self, x: V, /) -> V:
        """The bits of floats as integers."""
        ...

    def of_bits(self, n: V, /) -> V:
        """The floats with the given bits."""
        ...

    def to_integers(self, x: V, /) -> V:
        """Floats with integer values of at most 31 bits, as integers. Unspecified for all other values."""
        ...

    def to_floats(self, n: V, /) -> V:
        """The floats of the same width that are nearest to the integers."""
        ...

    def of_short(self, n: V, /) -> V:
        """Integers with values of at most 31 bits, as floats of their width."""
        ...

    def integer(self, like: V, value: int, /) -> V:
        """An integer in the integer type of `like`."""
        ...

    def added(self, a: V, b: V | int, /) -> V:
        """a + b for integers, modulo 2^width. So are the next two."""
        ...

    def subtracted(self, a: V, b: V, /) -> V:
        """a - b for integers."""
        ...

    def multiplied(self, a: V, b: V, /) -> V:
        """a b for integers."""
        ...

    def upper_product(self, a: V, b: V, /) -> V:
        """The upper half of the product of unsigned 64-bit integers."""
        ...

    def masked(self, a: V, b: int, /) -> V:
        """Bitwise a and b."""
        ...

    def merged(self, a: V, b: V | int, /) -> V:
        """Bitwise a or b."""
        ...

    def up(self, n: V, count: int, /) -> V:
        """Left shift."""
        ...

    def down(self, n: V, count: int, /) -> V:
        """Logical right shift."""
        ...

    def halved(self, n: V, count: int, /) -> V:
        """Arithmetic right shift."""
        ...

    def words_from(self, words: Sequence[int], start: V, count: int, /) -> list[V]:
        """`count` 64-bit words of a table, starting at bit `start`."""
        ...

    def is_below(self, a: V, b: V, /) -> V:
        """a < b for unsigned integers."""
        ...

    def is_set(self, n: V, bit: int, /) -> V:
        """Whether a bit of the integers is set."""
        ...

    def bounded(self, n: V, low: int, high: int, /) -> V:
        """Signed integers clamped to low..high."""
        ...


def in_one_step(name: str) -> Callable[[FunctionT], FunctionT]:
    """Decorate function(steps, x): it is one step where the steps have it whole, as programs have ops."""

    def decorate(function: FunctionT) -> FunctionT:
        @wraps(function)
        def chosen(s: Any, x: Any) -> Any:
            found = s.whole(name, x)
            return function(s, x) if found is None else found

        return cast("FunctionT", chosen)

    return decorate


class _ArraySteps:
    """`Steps` on NumPy arrays. The caller silences warnings."""

    def whole(self, name: str, x: AnyArray) -> None:
        del name, x

    def number(self, like: AnyArray, value: float) -> AnyArray:
        return np.asarray(value, like.dtype)

    integer = number

    def plus(self, a: AnyArray, b: AnyArray | float) -> AnyArray:
        return np.asarray(a + b)

    added = plus

    def minus(self, a: AnyArray, b: AnyArray | float) -> AnyArray:
        return np.asarray(a - b)

    subtracted = minus

    def times(self, a: AnyArray, b: AnyArray | float) -> AnyArray:
        return np.asarray(a * b)

    multiplied = times

    def over(self, a: AnyArray, b: AnyArray) -> AnyArray:
        return np.asarray(a / b)

    def root(self, x: AnyArray) -> AnyArray:
        return np.asarray(np.sqrt(x))

    def negated(self, x: AnyArray) -> AnyArray:
        return np.asarray(-x)

    def magnitude(self, x: AnyArray) -> AnyArray:
        return np.asarray(np.abs(x))

    def signed(self, x: AnyArray, sign: AnyArray) -> AnyArray:
        return np.asarray(np.copysign(x, sign))

    def nearest(self, x: AnyArray) -> AnyArray:
        return np.asarray(np.rint(x))

    def towards_zero(self, x: AnyArray) -> AnyArray:
        return np.asarray(np.trunc(x))

    def is_less(self, a: AnyArray, b: AnyArray | float) -> AnyArray:
        return np.asarray(a < b)

    def is_greater(self, a: AnyArray, b: AnyArray | float) -> AnyArray:
        return np.asarray(a > b)

    def is_equal(self, a: AnyArray, b: AnyArray | float) -> AnyArray:
        return np.asarray(a == b)

    def is_nan(self, x: AnyArray) -> AnyArray:
        return np.asarray(x != x)

    def both(self, a: AnyArray, b: AnyArray) -> AnyArray:
        return np.asarray(a & b)

    def masked(self, a: AnyArray, b: int) -> AnyArray:
        return np.asarray(a & b)

    def either(self, a: AnyArray, b: AnyArray | int) -> AnyArray:
        return np.asarray(a | b)

    merged = either

    def inverse(self, mask: AnyArray) -> AnyArray:
        return np.asarray(~mask)

    def select(self, mask: AnyArray, yes: AnyArray, no: AnyArray) -> AnyArray:
        return np.where(mask, yes, no)

    def bits(self, x: AnyArray) -> AnyArray:
        return x.view(f"i{x.dtype.itemsize}")

    def of_bits(self, n: AnyArray) -> AnyArray:
        return n.view(f"f{n.dtype.itemsize}")

    def to_integers(self, x: AnyArray) -> AnyArray:
        return x.astype(f"i{x.dtype.itemsize}")

    def to_floats(self, n: AnyArray) -> AnyArray:
        return n.astype(f"f{n.dtype.itemsize}")

    of_short = to_floats

    def upper_product(self, a: AnyArray, b: AnyArray) -> AnyArray:
        low = 0xFFFFFFFF
        (a1, a0), (b1, b0) = ((x.view(np.uint64) >> 32, x.view(np.uint64) & low) for x in (a, b))
        middle = a1 * b0 + (a0 * b0 >> 32)
        return np.asarray(a1 * b1 + (middle >> 32) + (a0 * b1 + (middle & low) >> 32)).view(np.int64)

    def up(self, n: AnyArray, count: int) -> AnyArray:
        return np.asarray(n << count)

    def down(self, n: AnyArray, count: int) -> AnyArray:
        return np.asarray(n.view(f"u{n.dtype.itemsize}") >> count).view(n.dtype)

    def halved(self, n: AnyArray, count: int) -> AnyArray:
        return np.asarray(n >> count)

    def words_from(self, words: Sequence[int], start: AnyArray, count: int) -> list[AnyArray]:
        table = np.array(words, np.int64).view(np.uint64)
        index, shift = start >> 6, (start & 63).astype(np.uint64)
        # NumPy does not define a shift by 64, so shift by 1 and by 63 - shift.
        parts = [(table[index + n] << shift) | (table[index + n + 1] >> 1 >> (63 - shift)) for n in range(count)]
        return [np.asarray(part).view(np.int64) for part in parts]

    def is_below(self, a: AnyArray, b: AnyArray) -> AnyArray:
        return np.asarray(a.view(np.uint64) < b.view(np.uint64))

    def is_set(self, n: AnyArray, bit: int) -> AnyArray:
        return np.asarray(n & bit != 0)

    def bounded(self, n: AnyArray, low: int, high: int) -> AnyArray:
        return np.clip(n, low, high)


ARRAYS: Steps[AnyArray] = _ArraySteps()
"""The steps on NumPy arrays."""
