"""Sums of activations of different scales with one rounding: `fxpmath.weighted_sum`.

The result is clamp(zp + ((sum_i (x_i - z_i) * A_i + 2^(N-1)) >> N)). All terms without x are one constant. In-lane
unpacking widens the 8-bit values, and in-lane packing reverses its order. Two operands with 16-bit factors take one
VPMADDWD. The result of a contraction may have 16 bits (`summed_words`), which are packed already.
"""

from __future__ import annotations

from collections.abc import Sequence

from zeropoint.codegen.kernels.requantize import GROUP, packed_bytes
from zeropoint.codegen.kernels.unpack import half_order, shorts_of, unpack_order
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant
from zeropoint.numerics import CommonScaleSum


def summed(f: Function, isa: InstructionSet, total: CommonScaleSum, read: Sequence[Value]) -> Value:
    """The weighted sum of one vector of 8-bit activations per operand."""
    shorts = [shorts_of(f, isa, value) for value in read]
    sums = _sums(f, isa, total, shorts, [isa.offset] * len(read))
    return _bounded(f, isa, total, isa.narrow(f, *sums))


def summed_words(
    f: Function,
    isa: InstructionSet,
    total: CommonScaleSum,
    words: Sequence[Value],
    count: int,
    added: Value,
    number: int,
) -> Value:
    """The weighted sum of 16-bit results and 8-bit activations, as bytes in channel order.

    `words` are those of `count` vectors, packed to i16 (`requantize.packed_shorts`). Their operand has this
    number, and the other one is `added`, in channel order.
    """
    if count < GROUP:
        # Packing gives each lane four words of elements. Those that are no channels have any integers.
        order = [lane * count + q if q < count else -1 for lane in range(isa.lanes) for q in range(GROUP)]
        added = f.bits(f.shuffle(f.bits(added, isa.i32), None, order), isa.i8)
    shorts, moved = [shorts_of(f, isa, added), [words[0], words[-1]]], [isa.offset, 0]
    if number == 0:
        shorts.reverse()
        moved.reverse()
    sums = _sums(f, isa, total, shorts, moved)
    return _bounded(f, isa, total, packed_bytes(f, isa, sums, count, None))


def _sums(
    f: Function, isa: InstructionSet, total: CommonScaleSum, shorts: list[list[Value]], moved: Sequence[int]
) -> list[Value]:
    """The weighted sum of operands in two vectors of i16 each, in two such vectors, before the clamp."""
    # Additions wrap modulo 2^32. The total fits i32 (`CommonScaleSum`), although partial sums may not.
    start = [constant(isa.i32, total.constant_term(moved))] * 4
    if len(shorts) == 2 and isa.multiply_add and max(map(abs, total.multipliers)) < 1 << 15:
        sums = _pairs(f, isa, total.multipliers, shorts, start)
    else:
        sums = _wide(f, isa, total.multipliers, shorts, start, moved)
    zero = total.zero_point + isa.offset
    shifted = [f.add(f.binary("ashr", part, total.shift), zero) for part in sums]
    return [isa.shorts(f, *shifted[:2]), isa.shorts(f, *shifted[2:])]


def _bounded(f: Function, isa: InstructionSet, total: CommonScaleSum, packed: Value) -> Value:
    """Bytes between the bounds of the result. Packing has saturated them to 8 bits."""
    if (total.storage_min, total.storage_max) == (-128, 127):
        return packed
    return isa.bounded(f, packed, total.storage_min + isa.offset, total.storage_max + isa.offset)


def _pairs(
    f: Function, isa: InstructionSet, multipliers: Sequence[int], shorts: list[list[Value]], totals: list[Value]
) -> list[Value]:
    """The sums of two operands: interleaved i16 pairs (x, y) times (A, B)."""
    assert isa.multiply_add is not None
    factors = f.bits(constant(isa.i32, (multipliers[0] & 0xFFFF) | (multipliers[1] << 16)), isa.i16)
    result: list[Value] = []
    for q, total in enumerate(totals):
        pair = f.shuffle(shorts[0][q // 2], shorts[1][q // 2], unpack_order(isa.lanes, 8, q % 2))
        result.append(f.add(f.call(isa.i32, isa.multiply_add, pair, factors), total))
    return result


def _wide(
    f: Function,
    isa: InstructionSet,
    multipliers: Sequence[int],
    shorts: list[list[Value]],
    totals: list[Value],
    moved: Sequence[int],
) -> list[Value]:
    result = list(totals)
    for operand, factor, by in zip(shorts, multipliers, moved, strict=True):
        for q in range(4):
            half = f.shuffle(operand[q // 2], None, half_order(isa.lanes, 8, q % 2))
            wide = f.cast("zext" if by else "sext", half, isa.i32)
            result[q] = f.add(result[q], f.mul(wide, factor))
    return result
