"""Saturation of i32 vectors to i16, and left shifts of i32 vectors.

**Saturation.** x86 has an instruction that packs two vectors to one and saturates, within each 128-bit lane. One
shuffle of 64-bit parts then restores the order. LLVM instead narrows each 512-bit vector alone, in two instructions of
the same execution unit, and joins the halves.

**Shifts.** LLVM's shift by 32 is undefined. x86's gives 0, which equals the product with 2^32 modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Callable

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, lanes, vector

PART = 4
"""The number of elements of a lane that stay together."""


def _by_vectors(f: Function, step: Callable[..., Value], most: int, *operands: Value) -> Value:
    """Apply a step to vectors of at most `most` elements. Longer vectors are halved."""
    count = lanes(operands[0].type)
    if count <= most:
        return step(*operands)
    halves = range(count // 2), range(count // 2, count)
    return f.concatenated(
        [_by_vectors(f, step, most, *(f.shuffle(x, None, half) for x in operands)) for half in halves]
    )


def saturated(f: Function, isa: InstructionSet, x: Value) -> Value:
    """Convert a vector of i32 to i16 with saturation."""

    def packed(part: Value) -> Value:
        return _packed(f, isa, part)

    return _by_vectors(f, packed, 2 * isa.width, x)


def _packed(f: Function, isa: InstructionSet, x: Value) -> Value:
    count = lanes(x.type)
    packing = isa.of_bytes(2 * count)
    if packing is None or packing.pack_shorts is None:
        return f.cast("trunc", f.clamp(x, -(1 << 15), (1 << 15) - 1), vector(count, "i16"))
    packed = packing.shorts(f, *(f.shuffle(x, None, range(at, at + count // 2)) for at in (0, count // 2)))
    # The parts of the first half are in even places, those of the second half in odd places.
    parts = [*range(0, 2 * packing.lanes, 2), *range(1, 2 * packing.lanes, 2)]
    return f.shuffle(packed, None, [PART * part + n for part in parts for n in range(PART)])


def raised(f: Function, isa: InstructionSet, x: Value, by: Value) -> Value:
    """x << by, for vectors of i32. A shift by 32 gives 0."""

    def shifted(part: Value, amounts: Value) -> Value:
        return _shifted(f, isa, part, amounts)

    return _by_vectors(f, shifted, isa.width, x, by)


def _shifted(f: Function, isa: InstructionSet, x: Value, by: Value) -> Value:
    shifting = isa.of_bytes(4 * lanes(x.type))
    if shifting is not None and shifting.shift_left is not None:
        return f.call(x.type, shifting.shift_left, x, by)
    return f.select(f.compare("ult", by, 32), f.binary("shl", x, by), constant(x.type, 0))


def rebased(f: Function, x: Value, by: Value, off: Value) -> Value:
    """x by - off of vectors of i16."""
    return f.binary("sub", f.binary("mul", x, by), off)
