"""Vectors of i32 as the nearest i16, and shifted to the left.

**Saturation.** x86 packs two vectors to one and saturates, in every 128-bit lane for itself; one shuffle of 64-bit
parts then brings the elements into their order. LLVM narrows every vector of 512 bits alone, in two instructions of the
same unit, and joins the halves.

**Shifts.** LLVM's shift by 32 is undefined, that of x86 gives 0, as the product with 2^32 does.
"""

from __future__ import annotations

from collections.abc import Callable

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, lanes, vector

PART = 4
"""Elements of a lane that stay together."""


def _by_vectors(f: Function, step: Callable[..., Value], most: int, *operands: Value) -> Value:
    """A step on vectors of at most `most` elements; longer ones are halved."""
    count = lanes(operands[0].type)
    if count <= most:
        return step(*operands)
    halves = range(count // 2), range(count // 2, count)
    return f.concatenated(
        [_by_vectors(f, step, most, *(f.shuffle(x, None, half) for x in operands)) for half in halves]
    )


def saturated(f: Function, isa: InstructionSet, x: Value) -> Value:
    """i16 of a vector of i32."""

    def packed(part: Value) -> Value:
        return _packed(f, isa, part)

    return _by_vectors(f, packed, 2 * isa.width, x)


def _packed(f: Function, isa: InstructionSet, x: Value) -> Value:
    count = lanes(x.type)
    packing = isa.of_bytes(2 * count)
    if packing is None or packing.pack_shorts is None:
        return f.cast("trunc", f.clamp(x, -(1 << 15), (1 << 15) - 1), vector(count, "i16"))
    packed = packing.shorts(f, *(f.shuffle(x, None, range(at, at + count // 2)) for at in (0, count // 2)))
    # The parts of the first half are in the even places, those of the second half in the odd ones.
    parts = [*range(0, 2 * packing.lanes, 2), *range(1, 2 * packing.lanes, 2)]
    return f.shuffle(packed, None, [PART * part + n for part in parts for n in range(PART)])


def raised(f: Function, isa: InstructionSet, x: Value, by: Value) -> Value:
    """x << by of vectors of i32; 0 for 32."""

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
