"""Elements of a row in even places and those in odd places apart, as i32 of half as many lanes.

An instruction multiplies i16 and adds the products of pairs. With one factor of a pair 0, it is a product of one
element of each pair, widened where it is: nothing is moved. Both results are packed to i16 at the end, and one shuffle
inside of 128-bit lanes brings them into their order.
"""

from __future__ import annotations

from zeropoint.codegen.kernels.elements import Reduce, Scalars
from zeropoint.codegen.kernels.word_scalars import EveryOther, Interleaved, PairProduct, PairSum
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, element, lanes, vector


def halved(body: Scalars) -> list[bool]:
    """Whether there is one number of each scalar for two elements of a row."""
    found: list[bool] = []
    for i in body:
        halves = isinstance(i.what, EveryOther | PairProduct | PairSum) or any(found[n] for n in i.arguments)
        found.append(halves and not isinstance(i.what, Interleaved | Reduce))
    return found


def every_other(f: Function, x: Value, first: int) -> Value:
    """The elements of a vector from the first (0) or the second (1) one on; a vector of one itself."""
    count = lanes(x.type)
    return x if count == 1 else f.shuffle(x, None, range(first, count, 2))


def pair_product(f: Function, isa: InstructionSet, x: Value, factors: Value, total: Value) -> Value:
    """total + x0 f0 + x1 f1, modulo 2^32, for the pairs of i16 of x and of i32 factors."""
    words = x if element(x.type) == "i16" else f.bits(x, vector(2 * lanes(x.type), "i16"))
    count = lanes(words.type)
    if count == 1:
        # An element without a second one: the lower half is its factor.
        wide = [f.cast("sext", each, total.type) for each in (words, f.cast("trunc", factors, words.type))]
        return f.binary("add", total, f.binary("mul", *wide))
    if count > 2 * isa.width:
        parts = [(range(at, at + count // 2), range(at // 2, (at + count // 2) // 2)) for at in (0, count // 2)]
        return f.concatenated(
            [
                pair_product(f, isa, *(f.shuffle(v, None, by) for v, by in ((words, pairs), (factors, n), (total, n))))
                for pairs, n in parts
            ]
        )
    narrow = isa.of_bytes(2 * count)
    return (isa if narrow is None else narrow).pairs(f, total, words, f.bits(factors, words.type))


def interleaved(f: Function, isa: InstructionSet, count: int, even: Value, odd: Value) -> Value:
    """The first `count` elements of two vectors of i32 in turns, each as the nearest i16."""
    width = lanes(even.type)
    if width > isa.width:
        halves = range(width // 2), range(width // 2, width)
        parts = [(f.shuffle(even, None, by), f.shuffle(odd, None, by)) for by in halves]
        return f.concatenated([interleaved(f, isa, count // 2, *part) for part in parts])
    packing = isa.of_bytes(4 * width)
    if packing is not None and packing.pack_shorts is not None:
        # A lane has four elements of each.
        order = [8 * lane + n // 2 + n % 2 * 4 for lane in range(packing.lanes) for n in range(8)]
        return f.shuffle(packing.shorts(f, even, odd), None, order)
    words = [f.cast("trunc", f.clamp(v, -(1 << 15), (1 << 15) - 1), vector(width, "i16")) for v in (even, odd)]
    return f.shuffle(words[0], words[1], [n // 2 + n % 2 * width for n in range(count)])
