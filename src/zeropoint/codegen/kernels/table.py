"""Table lookups of 8-bit values in registers, by an instruction with 4-bit indices that gives 0 if bit 7 is set.

A table of 256 entries has two halves of eight parts of 16 entries. A vector x is looked up in each part n of a half
with index x - 16 n, by a subtraction with signed saturation. The index is negative for values before the part and for
those of the other half. For all others, its low four bits are correct. A value thus finds an entry in its own part and
in all preceding parts of the half. Each part stores the XOR of its entries with those of the preceding part, so that
the XOR of all results is the entry of the value's own part.
"""

from __future__ import annotations

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, lanes, vector


def parts_of(f: Function, isa: InstructionSet, table: Value) -> list[Value]:
    """The 16 parts of a table of 256 entries, each repeated in all lanes of a vector."""
    entries = [f.load("<16 x i8>", table, 16 * n) for n in range(16)]
    parts = [f.binary("xor", part, entries[n - 1]) if n % 8 else part for n, part in enumerate(entries)]
    return [f.shuffle(part, None, [*range(16)] * isa.lanes) for part in parts]


def looked_up(f: Function, isa: InstructionSet, parts: list[Value], x: Value) -> Value:
    """The entries at a vector of unsigned 8-bit indices."""
    assert isa.look_up is not None
    halves = x, f.binary("xor", x, -128)
    found: list[Value] = []
    for n, entries in enumerate(parts):
        half, index = halves[n // 8], 16 * (n % 8)
        if index:
            half = f.intrinsic("ssub.sat", half, index)
        found.append(f.call(isa.i8, isa.look_up, entries, half))
    while len(found) > 1:
        found = [f.binary("xor", left, right) for left, right in zip(found[::2], found[1::2], strict=True)]
    return found[0]


def indices_of(f: Function, x: Value) -> list[Value]:
    """The elements of a vector of unsigned 16-bit indices, each as i64.

    Moving each element out of the vector takes an instruction, which would limit the rate of lookups. So four elements
    are moved at a time and separated in scalar registers.
    """
    count = lanes(x.type)
    if count % 4:
        return [f.cast("zext", f.lane(x, lane), "i64") for lane in range(count)]
    words = f.bits(x, vector(count // 4, "i64"))
    found: list[Value] = []
    for lane in range(0, count, 4):
        four = f.lane(words, lane // 4)
        # After a shift by 48, no bits are left to mask.
        found += [f.binary("and", f.binary("lshr", four, 16 * n) if n else four, 0xFFFF) for n in range(3)]
        found.append(f.binary("lshr", four, 48))
    return found
