"""Unpack 8-bit to 16-bit elements inside 128-bit lanes, in the order that in-lane packing reverses."""

from __future__ import annotations

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value


def unpack_order(lanes: int, per_lane: int, high: int) -> list[int]:
    """Shuffle indices that interleave the lower (0) or upper (1) halves of each lane of two vectors."""
    half, total = per_lane // 2, lanes * per_lane
    starts = [lane * per_lane + high * half for lane in range(lanes)]
    return [index for start in starts for n in range(start, start + half) for index in (n, total + n)]


def half_order(lanes: int, per_lane: int, high: int) -> list[int]:
    """Shuffle indices of the lower (0) or upper (1) half of each lane."""
    half = per_lane // 2
    return [lane * per_lane + high * half + n for lane in range(lanes) for n in range(half)]


def interleaved(f: Function, isa: InstructionSet, rows: list[Value]) -> list[Value]:
    """Four vectors of bytes as four vectors whose 32-bit elements hold one byte of each.

    In-lane packing reverses the order of these elements.
    """
    result: list[Value] = []
    for high in (0, 1):
        first, second = (
            f.bits(f.shuffle(a, b, unpack_order(isa.lanes, 16, high)), isa.i16) for a, b in (rows[:2], rows[2:])
        )
        result += [f.bits(f.shuffle(first, second, unpack_order(isa.lanes, 8, part)), isa.i8) for part in (0, 1)]
    return result


def shorts_of(f: Function, isa: InstructionSet, value: Value) -> list[Value]:
    """A vector of 8-bit activations as two vectors of i16: the lower and the upper halves of its lanes."""
    if isa.unsigned:
        zero = Value(isa.i8, "zeroinitializer")
        return [f.bits(f.shuffle(value, zero, unpack_order(isa.lanes, 16, high)), isa.i16) for high in (0, 1)]
    return [f.cast("sext", f.shuffle(value, None, half_order(isa.lanes, 16, high)), isa.i16) for high in (0, 1)]
