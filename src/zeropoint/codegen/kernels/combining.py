"""Combine elements in a reduction: two values, all elements of a vector, and identity elements."""

from __future__ import annotations

import math

from zeropoint.codegen.kernels.elements import Elementwise, Scalar, apply
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import FLOATS, WIDTHS, Value, constant, lanes
from zeropoint.numerics.storage import integer_range


def combined(f: Function, op: str, like: Scalar, left: Value, right: Value) -> Value:
    """Combine two values of the type of `like` by an elementwise op."""
    return apply(f, Scalar(Elementwise(op), like.type, (0, 1), like.signed), [like, like], [left, right])


def folded(f: Function, op: str, like: Scalar, total: Value) -> Value:
    """Combine all elements of a vector, first its two halves, and so on (log2(n) steps)."""
    count = lanes(total.type)
    while count > 1:
        count //= 2
        # This changes the order of elements, so it is only for ops whose order does not matter (`is_ordered`).
        low, high = (f.shuffle(total, None, range(at, at + count)) for at in (0, count))
        total = combined(f, op, like, low, high)
    return total


def filled_up(f: Function, part: Value, first: int, count: int, number: float) -> Value:
    """A vector of `count` elements: those of `part` from index `first` on, and `number` elsewhere."""
    some = lanes(part.type)
    order = [n - first if first <= n < first + some else some for n in range(count)]
    return f.shuffle(part, constant(part.type, number), order)


def is_ordered(op: str, type_: str) -> bool:
    """Whether the order of a reduction matters, as for rounded sums and products (`zeropoint.numerics.sums`)."""
    return type_ in FLOATS and op in ("add", "multiply")


def is_identity(number: float, op: str, type_: str, signed: bool) -> bool:
    """Whether a number is the identity element of `op`. For float sums, +0 is not, because -0 + +0 = +0."""
    same = identity(op, type_, signed)
    # The sign is compared, too. For a row of -0, a float sum that starts from +0 is +0, and one from -0 is -0.
    return number == same and math.copysign(1, number) == math.copysign(1, same)


def started(f: Function, op: str, like: Scalar, start: float, total: Value) -> Value:
    """The total combined with the initial value of the reduction. Without effect, no instruction is emitted."""
    if is_identity(start, op, like.type, like.signed):
        return total
    return combined(f, op, like, constant(total.type, start), total)


def identity(op: str, type_: str, signed: bool) -> float:
    """The identity element of `op`: -0 for float sums, an infinity for maximum and minimum."""
    if op in ("add", "or", "xor"):
        return -0.0 if type_ in FLOATS else 0
    if op == "multiply":
        return 1
    if type_ in FLOATS:
        return -math.inf if op in ("maximum", "greatest") else math.inf
    bits = WIDTHS[type_]
    if op == "and":
        return -1 if bits > 1 else 1
    low, high = integer_range(bits, signed=signed and bits > 1)
    return low if op == "maximum" else high
