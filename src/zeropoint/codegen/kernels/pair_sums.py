"""Sums of i16 and of their squares along a row, by products of adjacent pairs (VPMADDWD), as in layer normalization.

    sum (x^2 >> 15) 2^15 + sum (x^2 & (2^15 - 1))    =    high 2^15 + low,    p = x0^2 + x1^2

    high = sum (p >> 15),    low = sum (p & (2^15 - 1)) = sum p - high 2^15    modulo 2^32

Both sides are the sum of squares. p is at most 2^31, so it fits 32 bits without a sign. In a row of fewer than 2^16
elements, the sums on both sides are below 2^31, so `low` is known from its lowest 32 bits, and p is added unchanged.
The form is used only if nothing but this combination of the two sums is read.
"""

from __future__ import annotations

from dataclasses import replace

from zeropoint.codegen.kernels.bodies import NewBody
from zeropoint.codegen.kernels.elements import Number, Reduce, Scalar, Scalars
from zeropoint.codegen.kernels.word_scalars import PairSum
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, lanes, vector

LOW_BITS = 15
"""The number of low bits of squares that are added separately."""
LONGEST_ROW = (1 << 16) - 1
"""The maximum number of elements of a row whose sums stay below 2^31."""


def has_form(isa: InstructionSet) -> bool:
    """Whether an instruction multiplies i16 and adds pairs."""
    return isa.multiply_add is not None


def with_pair_sums(body: Scalars, length: int) -> Scalars:
    """The body of a row of `length` elements with sums of pairs in place of sums of elements."""
    found: dict[int, tuple[PairSum, int]] = {}
    totals: dict[int, dict[str, int]] = {}
    for n, i in enumerate(body):
        x = _widened(body, i.arguments[0]) if _adds(i) else None
        if x is not None:
            found[n] = PairSum("sum"), x
        squares = _squares(body, i) if length <= LONGEST_ROW else {}
        found.update(squares)
        if squares:
            totals[n] = {what.part: total for total, (what, _) in squares.items()}
    new = NewBody()
    for n, i in enumerate(body):
        i = new.moved(i)
        if n in found:
            what, x = found[n]
            i = replace(i, arguments=(new.op(what, "i32", new.numbers[x]),))
        if n in totals:
            i = replace(i, arguments=_whole(new, *(new.numbers[totals[n][part]] for part in ("high", "all"))))
        new.numbers[n] = new.append(i)
    return new.needed


def _whole(new: NewBody, high: int, every: int) -> tuple[int, int]:
    """Append high 2^15 and low in 64 bits, from the sums of p >> 15 and of p. Returns their numbers."""
    scaled = new.op("multiply", "i32", high, new.number(1 << LOW_BITS, "i32"))
    low = new.op("convert", "i64", new.op("subtract", "i32", every, scaled))
    wide = new.op("convert", "i64", high)
    return new.op("multiply", "i64", wide, new.number(1 << LOW_BITS, "i64")), low


def _adds(i: Scalar) -> bool:
    return isinstance(i.what, Reduce) and i.what.op == "add" and i.type == "i32"


def _widened(body: Scalars, n: int) -> int | None:
    """The i16 that scalar n converts to i32; None for other scalars."""
    i = body[n]
    if i.name != "convert" or i.type != "i32":
        return None
    x = body[i.arguments[0]]
    return i.arguments[0] if x.type == "i16" and x.signed else None


def _squares(body: Scalars, i: Scalar) -> dict[int, tuple[PairSum, int]]:
    """The two reductions that combine to a sum of squares, and what each adds in the other form; empty for others."""
    if i.name != "add" or i.type != "i64":
        return {}
    for first, second in (i.arguments, i.arguments[::-1]):
        scaled = body[first]
        if scaled.name != "multiply" or body[scaled.arguments[1]].what != Number(1 << LOW_BITS):
            continue
        sums = [_sum_of(body, n) for n in (scaled.arguments[0], second)]
        terms = [None if n is None else _part_of_square(body, body[n].arguments[0]) for n in sums]
        (high, x), (low, other) = (("", None) if term is None else term for term in terms)
        if (high, low) == ("high", "low") and x is not None and x == other:
            return {n: (PairSum(part), x) for n, part in zip(sums, ("high", "all"), strict=True) if n is not None}
    return {}


def _sum_of(body: Scalars, n: int) -> int | None:
    """The reduction from 0 that scalar n converts to i64, if nothing else reads either; None for other scalars."""
    i = body[n]
    if i.name != "convert" or i.type != "i64":
        return None
    total = i.arguments[0]
    reads = sum(k.arguments.count(total) for k in body), sum(k.arguments.count(n) for k in body)
    what = body[total].what
    return total if _adds(body[total]) and isinstance(what, Reduce) and what.start == 0 and reads == (1, 1) else None


def _part_of_square(body: Scalars, n: int) -> tuple[str, int] | None:
    """The i16 of whose square a scalar is a part, and which part; None for other scalars."""
    i = body[n]
    parts = {"shift_right_arithmetic": ("high", LOW_BITS), "and": ("low", (1 << LOW_BITS) - 1)}
    if i.name not in parts or body[i.arguments[1]].what != Number(parts[i.name][1]):
        return None
    product = body[i.arguments[0]]
    if product.name != "multiply" or product.arguments[0] != product.arguments[1]:
        return None
    x = _widened(body, product.arguments[0])
    return None if x is None else (parts[i.name][0], x)


def pair_sum(f: Function, isa: InstructionSet, by: PairSum, x: Value) -> Value:
    """Sums of pairs: half as many i32 as there are i16, or one for a vector of one."""
    ones = constant(x.type, 1)
    pairs = _pairs(f, isa, x, ones if by.part == "sum" else x)
    if by.part == "sum":
        return pairs
    return f.binary("lshr", pairs, LOW_BITS) if by.part == "high" else pairs


def _pairs(f: Function, isa: InstructionSet, left: Value, right: Value) -> Value:
    """The products of two vectors of i16, added in pairs."""
    count, most = lanes(left.type), 2 * isa.width
    if count == 1:
        return f.binary("mul", *(f.cast("sext", value, vector(1, "i32")) for value in (left, right)))
    if count > most:
        halves = (range(count // 2), range(count // 2, count))
        return f.concatenated(
            [_pairs(f, isa, *(f.shuffle(value, None, half) for value in (left, right))) for half in halves]
        )
    narrow = isa.of_bytes(2 * count)
    return (isa if narrow is None else narrow).pairs(f, constant(vector(count // 2, "i32"), 0), left, right)
