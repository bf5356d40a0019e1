"""Interpolation in tables of 16-bit functions (`zeropoint.numerics.interpolation`).

The two entries around a position are adjacent in memory, so one load of twice the width reads both.
"""

from __future__ import annotations

from zeropoint.codegen.kernels.elements import Interpolate
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, lanes, vector


def interpolated(f: Function, isa: InstructionSet, by: Interpolate, x: Value, table: Value) -> Value:
    """The results for a vector of i16, in the type of the entries of the table."""
    count, bits = lanes(x.type), 8 * by.size
    wide, narrow = vector(count, "i32"), vector(count, f"i{bits}")
    u = f.add(f.cast("sext", x, wide), 1 << 15)
    index = f.binary("lshr", u, by.shift)
    # An entry and the next one are adjacent, so one load reads both.
    if isa.gathers and by.size == 2:
        offsets = f.cast("zext", f.binary("shl", index, 1), vector(count, "i64"))
        both = f.gather(wide, table, offsets, by.size)
    else:
        pairs = f.joined(vector(count, f"i{2 * bits}"), (_pair(f, by, index, lane, table) for lane in range(count)))
        both = f.cast("sext", pairs, wide)
    low = f.binary("ashr", f.binary("shl", both, 32 - bits), 32 - bits)
    rise = f.binary("sub", f.binary("ashr", both, bits), low)
    part = f.binary("and", u, (1 << by.shift) - 1)
    product = f.add(f.binary("mul", rise, part), 1 << by.shift >> 1)
    return f.cast("trunc", f.binary("add", low, f.binary("ashr", product, by.shift)), narrow)


def _pair(f: Function, by: Interpolate, index: Value, lane: int, table: Value) -> Value:
    """The entry at an index, in the low half, and the next entry, in the high half."""
    offset = f.mul(f.cast("zext", f.lane(index, lane), "i64"), by.size)
    return f.load(f"i{16 * by.size}", table, offset)
