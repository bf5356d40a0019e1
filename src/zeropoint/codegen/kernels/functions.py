"""Elementary functions in LLVM: the steps of `zeropoint.numerics.elementary` on vectors; no library is called.

The interpreter takes the same steps on arrays, so results are equal in every bit. LLVM fuses no multiplication with an
addition unless it is asked to, and changes the order of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from zeropoint.codegen.kernels.scalars import compared, filled, intrinsic, like
from zeropoint.codegen.llvm.text import Function, Value, element, lanes, vector
from zeropoint.numerics.approximations import BINARY, IN_DOUBLE, IN_FLOAT
from zeropoint.numerics.steps import Steps


class VectorSteps:
    """`Steps` on vectors of f32 and i32, or of f64 and i64."""

    def __init__(self, f: Function):
        self._f = f

    def number(self, like: Value, value: float) -> Value:
        return filled(like.type, value)

    integer = number

    def _both(self, instruction: str, a: Value, b: Value | float) -> Value:
        return self._f.binary(instruction, a, b if isinstance(b, Value) else filled(a.type, b))

    def plus(self, a: Value, b: Value | float) -> Value:
        return self._both("fadd", a, b)

    def minus(self, a: Value, b: Value | float) -> Value:
        return self._both("fsub", a, b)

    def times(self, a: Value, b: Value | float) -> Value:
        return self._both("fmul", a, b)

    def over(self, a: Value, b: Value) -> Value:
        return self._both("fdiv", a, b)

    def root(self, x: Value) -> Value:
        return intrinsic(self._f, "sqrt", x)

    def negated(self, x: Value) -> Value:
        return self._f.let(x.type, f"fneg {x}")

    def magnitude(self, x: Value) -> Value:
        return intrinsic(self._f, "fabs", x)

    def signed(self, x: Value, sign: Value) -> Value:
        return intrinsic(self._f, "copysign", x, sign)

    def nearest(self, x: Value) -> Value:
        return intrinsic(self._f, "roundeven", x)

    def towards_zero(self, x: Value) -> Value:
        return intrinsic(self._f, "trunc", x)

    def _compared(self, instruction: str, a: Value, b: Value | float) -> Value:
        return compared(self._f, instruction, a, b if isinstance(b, Value) else filled(a.type, b))

    def is_less(self, a: Value, b: Value | float) -> Value:
        return self._compared("fcmp olt", a, b)

    def is_greater(self, a: Value, b: Value | float) -> Value:
        return self._compared("fcmp ogt", a, b)

    def is_equal(self, a: Value, b: Value | float) -> Value:
        return self._compared("fcmp oeq", a, b)

    def is_nan(self, x: Value) -> Value:
        return self._compared("fcmp uno", x, x)

    def both(self, a: Value, b: Value) -> Value:
        return self._f.binary("and", a, b)

    def either(self, a: Value, b: Value) -> Value:
        return self._f.binary("or", a, b)

    def inverse(self, mask: Value) -> Value:
        return self._f.binary("xor", mask, Value(mask.type, "splat (i1 true)"))

    def select(self, mask: Value, yes: Value, no: Value) -> Value:
        return self._f.select(mask, yes, no)

    def bits(self, x: Value) -> Value:
        return self._f.bits(x, like(x, "i32" if element(x.type) == "float" else "i64"))

    def of_bits(self, n: Value) -> Value:
        return self._f.bits(n, like(n, "float" if element(n.type) == "i32" else "double"))

    def to_integers(self, x: Value) -> Value:
        # Few machines convert to 64 bits at once.
        short = self._f.cast("fptosi", x, like(x, "i32"))
        return short if element(x.type) == "float" else self._f.cast("sext", short, like(x, "i64"))

    def to_floats(self, n: Value) -> Value:
        return self._f.cast("sitofp", n, like(n, "float" if element(n.type) == "i32" else "double"))

    def of_short(self, n: Value) -> Value:
        if element(n.type) == "i32":
            return self.to_floats(n)
        return self._f.cast("sitofp", self._f.cast("trunc", n, like(n, "i32")), like(n, "double"))

    def added(self, a: Value, b: Value | int) -> Value:
        return self._both("add", a, b)

    def subtracted(self, a: Value, b: Value) -> Value:
        return self._both("sub", a, b)

    def multiplied(self, a: Value, b: Value) -> Value:
        return self._both("mul", a, b)

    def upper_product(self, a: Value, b: Value) -> Value:
        f, wide = self._f, vector(lanes(a.type), "i128")
        product = f.binary("mul", f.cast("zext", a, wide), f.cast("zext", b, wide))
        return f.cast("trunc", f.binary("lshr", product, filled(wide, 64)), a.type)

    def masked(self, a: Value, b: int) -> Value:
        return self._both("and", a, b)

    def merged(self, a: Value, b: Value | int) -> Value:
        return self._both("or", a, b)

    def up(self, n: Value, count: int) -> Value:
        return self._both("shl", n, count)

    def down(self, n: Value, count: int) -> Value:
        return self._both("lshr", n, count)

    def halved(self, n: Value, count: int) -> Value:
        return self._both("ashr", n, count)

    def window(self, words: Sequence[int], start: Value, count: int) -> list[Value]:
        f, table = self._f, self._f.module.table(words)
        index, shift = self.down(start, 6), self.masked(start, 63)
        read = [f.gather(start.type, table, self.up(f.add(index, n), 3), 8) for n in range(count + 1)]
        return [intrinsic(f, "fshl", read[n], read[n + 1], shift) for n in range(count)]

    def is_below(self, a: Value, b: Value) -> Value:
        return compared(self._f, "icmp ult", a, b)

    def is_set(self, n: Value, bit: int) -> Value:
        return self._f.compare("ne", self.masked(n, bit), 0)

    def bounded(self, n: Value, low: int, high: int) -> Value:
        raised = intrinsic(self._f, "smax", n, filled(n.type, low))
        return intrinsic(self._f, "smin", raised, filled(n.type, high))


def of_vectors(function: Callable[..., Value], f: Function, *operands: Value) -> Value:
    """An elementary function of vectors."""
    steps: Steps[Value] = VectorSteps(f)
    return function(steps, *operands)


FLOAT_FUNCTIONS: dict[str, Callable[..., Value]] = {
    name: partial(of_vectors, function) for name, function in IN_FLOAT.items()
}
"""Functions that f32 has in f32, by StableHLO's and chlo's names: function(f, operand)."""

DOUBLE_FUNCTIONS: dict[str, Callable[..., Value]] = {
    name: partial(of_vectors, function) for name, function in IN_DOUBLE.items()
}
"""Functions of f64."""

DOUBLE_BINARY: dict[str, Callable[..., Value]] = {
    name: partial(of_vectors, function) for name, function in BINARY.items()
}
"""Functions of two f64."""


def power_of_two(f: Function, n: Value) -> Value:
    """2^n of integers -1022..1023 (i64), as double."""
    bits = f.binary("shl", f.add(n, 1023), filled(n.type, 52))
    return f.bits(bits, like(n, "double"))
