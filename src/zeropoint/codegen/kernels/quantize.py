"""`uniform_quantize` of f32 with one scale: clamp(rne(x / s + zp)), NaN becoming zp, in a few operations.

x is bounded first, by numbers that become the bounds themselves: division and rounding are monotonic. Then x / s is
exact without a division: with r = RN(1 / s), q = RN(x r) and e = x - q s (one FMA, exact), RN(q + e r) is the quotient
correctly rounded (Markstein), where the significand of s is not all ones; quotients so small that they underflow round
to zp. A sum with 3 * 2^22 has no room for a fraction: its last bits are the integer.
"""

from __future__ import annotations

import numpy as np

from zeropoint.codegen.kernels.elements import Instruction, apply
from zeropoint.codegen.kernels.scalars import WIDTHS, compared, filled, intrinsic, like
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Value, constant, element, lanes
from zeropoint.numerics.affine import QuantizeBehaviour

MAGIC = 3 * 2.0**22
MAGIC_BITS = 0x4B400000
"""The same as an integer."""


def quantized(f: Function, isa: InstructionSet, i: Instruction, x: Value) -> Value:
    """What a `quantize` instruction makes of a vector of floats."""
    scale, zero, low, high = np.float32(i.extra[1]), *map(int, i.extra[2:])
    bounds = [np.float32(float(scale) * (bound - zero)) for bound in (low, high)]
    exact = (
        isa.fused
        and element(x.type) == "float"
        and i.extra[0] == QuantizeBehaviour.RNE_AFTER_ZERO_POINT.value
        and 2.0**-60 < float(scale) < 2.0**60
        and int(scale.view(np.uint32)) & 0x7FFFFF != 0x7FFFFF
        and [int(np.rint(x / scale + np.float32(zero))) for x in bounds] == [low, high]
    )
    if not exact:
        return apply(f, i, [Instruction("read", element(x.type))], [x])
    least, most = (filled(x.type, float(bound)) for bound in bounds)
    # NaN is not above the least.
    inside = f.select(compared(f, "fcmp ogt", x, least), x, least)
    inside = f.select(compared(f, "fcmp olt", inside, most), inside, most)
    if zero != low:
        inside = f.select(compared(f, "fcmp ord", x, x), inside, filled(x.type, 0.0))
    reciprocal = filled(x.type, float(np.float32(1) / scale))
    quotient = f.binary("fmul", inside, reciprocal)
    rest = intrinsic(f, "fma", f.let(x.type, f"fneg {quotient}"), filled(x.type, float(scale)), inside)
    real = intrinsic(f, "fma", rest, reciprocal, quotient)
    if zero:
        real = f.binary("fadd", real, filled(x.type, zero))
    magic = f.binary("fadd", real, filled(x.type, MAGIC))
    bits = f.bits(magic, like(x, "i32"))
    if i.type == "i8" and isa.pack_words is not None and isa.pack_bytes is not None and lanes(x.type) % isa.bytes == 0:
        return _packed(f, isa, bits)
    return f.cast("trunc", bits, like(x, i.type)) if WIDTHS[i.type] < 32 else f.add(bits, -MAGIC_BITS)


def _packed(f: Function, isa: InstructionSet, bits: Value) -> Value:
    """The low bytes of four vectors of words each, by the packing of lanes."""
    order = [4 * lane + q for q in range(4) for lane in range(isa.lanes)]
    stored: list[Value] = []
    for start in range(0, lanes(bits.type), isa.bytes):
        parts = [f.shuffle(bits, None, range(start + q * isa.width, start + (q + 1) * isa.width)) for q in range(4)]
        parts = [f.add(part, isa.offset - MAGIC_BITS) for part in parts]
        words = [isa.words(f, *parts[:2]), isa.words(f, *parts[2:])]
        packed = f.bits(isa.narrow(f, *words), isa.i32)
        stored.append(f.bits(f.shuffle(packed, None, order), isa.i8))
    while len(stored) > 1:
        both = [*range(2 * lanes(stored[0].type))]
        stored = [f.shuffle(low, high, both) for low, high in zip(stored[::2], stored[1::2], strict=True)]
    return f.binary("xor", stored[0], constant(stored[0].type, -128)) if isa.offset else stored[0]
