"""Elementary functions in LLVM: the steps of `zeropoint.numerics.elementary` on vectors, without library calls.

The interpreter runs the same steps on arrays, so that results are equal bit for bit. By default, LLVM neither fuses
multiplications with additions nor reorders float operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, element, lanes, like, vector
from zeropoint.numerics.approximations import BINARY, IN_DOUBLE, IN_FLOAT
from zeropoint.numerics.steps import Steps


def _op(method: Callable[..., Value], name: str) -> Callable[..., Value]:
    """A step that is one op of its operands: an instruction (`binary`), a comparison, or an intrinsic."""

    def step(steps: VectorSteps, *operands: Value | float) -> Value:
        return method(steps.f, name, *operands)

    return step


class VectorSteps:
    """`Steps` on vectors of f32 and i32, or of f64 and i64."""

    def __init__(self, f: Function):
        self.f = f

    def whole(self, name: str, x: Value) -> None:
        del name, x

    def number(self, like: Value, value: float) -> Value:
        return constant(like.type, value)

    integer = number

    plus = _op(Function.binary, "fadd")
    minus = _op(Function.binary, "fsub")
    times = _op(Function.binary, "fmul")
    over = _op(Function.binary, "fdiv")
    root = _op(Function.intrinsic, "sqrt")
    magnitude = _op(Function.intrinsic, "fabs")
    signed = _op(Function.intrinsic, "copysign")
    nearest = _op(Function.intrinsic, "roundeven")
    towards_zero = _op(Function.intrinsic, "trunc")
    is_less = _op(Function.compare, "olt")
    is_greater = _op(Function.compare, "ogt")
    is_equal = _op(Function.compare, "oeq")
    both = masked = _op(Function.binary, "and")
    either = merged = _op(Function.binary, "or")
    added = _op(Function.binary, "add")
    subtracted = _op(Function.binary, "sub")
    multiplied = _op(Function.binary, "mul")
    up = _op(Function.binary, "shl")
    down = _op(Function.binary, "lshr")
    halved = _op(Function.binary, "ashr")
    is_below = _op(Function.compare, "ult")

    def negated(self, x: Value) -> Value:
        return self.f.let(x.type, f"fneg {x}")

    def is_nan(self, x: Value) -> Value:
        return self.f.compare("uno", x, x)

    def inverse(self, mask: Value) -> Value:
        return self.f.binary("xor", mask, Value(mask.type, "splat (i1 true)"))

    def select(self, mask: Value, yes: Value, no: Value) -> Value:
        return self.f.select(mask, yes, no)

    def bits(self, x: Value) -> Value:
        return self.f.bits(x, like(x, "i32" if element(x.type) == "float" else "i64"))

    def of_bits(self, n: Value) -> Value:
        return self.f.bits(n, like(n, "float" if element(n.type) == "i32" else "double"))

    def to_integers(self, x: Value) -> Value:
        # Few machines have a direct conversion to 64-bit integers.
        short = self.f.cast("fptosi", x, like(x, "i32"))
        return short if element(x.type) == "float" else self.f.cast("sext", short, like(x, "i64"))

    def to_floats(self, n: Value) -> Value:
        return self.f.cast("sitofp", n, like(n, "float" if element(n.type) == "i32" else "double"))

    def of_short(self, n: Value) -> Value:
        if element(n.type) == "i32":
            return self.to_floats(n)
        # Few machines convert vectors of 64-bit integers to f64. Exponents fit 32 bits.
        return self.f.cast("sitofp", self.f.cast("trunc", n, like(n, "i32")), like(n, "double"))

    def upper_product(self, a: Value, b: Value) -> Value:
        f, wide = self.f, vector(lanes(a.type), "i128")
        product = f.binary("mul", f.cast("zext", a, wide), f.cast("zext", b, wide))
        return f.cast("trunc", f.binary("lshr", product, 64), a.type)

    def words_from(self, words: Sequence[int], start: Value, count: int) -> list[Value]:
        f, table = self.f, self.f.module.table(words)
        index, shift = self.down(start, 6), self.masked(start, 63)
        read = [f.gather(start.type, table, self.up(f.add(index, n), 3), 8) for n in range(count + 1)]
        return [f.intrinsic("fshl", read[n], read[n + 1], shift) for n in range(count)]

    def is_set(self, n: Value, bit: int) -> Value:
        return self.f.compare("ne", self.masked(n, bit), 0)

    def bounded(self, n: Value, low: int, high: int) -> Value:
        return self.f.clamp(n, low, high)


def of_vectors(function: Callable[..., Value], f: Function, *operands: Value) -> Value:
    """Emit an elementary function on vectors."""
    steps: Steps[Value] = VectorSteps(f)
    return function(steps, *operands)


def _on_vectors(functions: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Value]]:
    return {name: partial(of_vectors, function) for name, function in functions.items()}


FLOAT_FUNCTIONS = _on_vectors(IN_FLOAT)
"""The functions of f32 that are computed in f32, as function(f, operand), by StableHLO or CHLO name."""

DOUBLE_FUNCTIONS = _on_vectors(IN_DOUBLE)
"""The functions of f64, in the same form."""

DOUBLE_BINARY = _on_vectors(BINARY)
"""The functions of two f64."""


def power_of_two(f: Function, n: Value) -> Value:
    """2^n as f64, for i64 n in -1022..1023."""
    bits = f.binary("shl", f.add(n, 1023), 52)
    return f.bits(bits, like(n, "double"))
