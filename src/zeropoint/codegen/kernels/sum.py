"""Sums of activations of different scales with one rounding: `fxpmath.weighted_sum`.

The result is clamp(zp + ((sum_i (x_i - z_i) * A_i + 2^(N-1)) >> N)). All terms without x are one constant. In-lane
unpacking widens the 8-bit values, and in-lane packing reverses its order. Two operands with 16-bit factors take one
VPMADDWD.
"""

from __future__ import annotations

from collections.abc import Sequence

from zeropoint.codegen.kernels.unpack import half_order, shorts_of, unpack_order
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant
from zeropoint.numerics import CommonScaleSum


def summed(f: Function, isa: InstructionSet, total: CommonScaleSum, read: Sequence[Value]) -> Value:
    """The weighted sum of one vector of 8-bit activations per operand."""
    # Additions wrap modulo 2^32. The total fits i32 (`CommonScaleSum`), although partial sums may not.
    start = [constant(isa.i32, total.constant_term(isa.offset))] * 4
    shorts = [shorts_of(f, isa, value) for value in read]
    if len(read) == 2 and isa.multiply_add and max(map(abs, total.multipliers)) < 1 << 15:
        sums = _pairs(f, isa, total.multipliers, shorts, start)
    else:
        sums = _wide(f, isa, total.multipliers, shorts, start)
    zero = total.zero_point + isa.offset
    shifted = [f.add(f.binary("ashr", part, total.shift), zero) for part in sums]
    packed = isa.narrow(f, isa.shorts(f, *shifted[:2]), isa.shorts(f, *shifted[2:]))
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
    f: Function, isa: InstructionSet, multipliers: Sequence[int], shorts: list[list[Value]], totals: list[Value]
) -> list[Value]:
    result = list(totals)
    extend = "zext" if isa.unsigned else "sext"
    for operand, factor in zip(shorts, multipliers, strict=True):
        for q in range(4):
            half = f.shuffle(operand[q // 2], None, half_order(isa.lanes, 8, q % 2))
            wide = f.cast(extend, half, isa.i32)
            result[q] = f.add(result[q], f.mul(wide, factor))
    return result
