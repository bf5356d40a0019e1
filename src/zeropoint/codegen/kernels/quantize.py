"""`uniform_quantize` of f32 with one scale: clamp(rne(x / s + zp)), NaN becoming zp, in a few operations.

x is bounded first, by numbers that become the bounds themselves: division and rounding are monotonic. Then x / s is
exact without a division: with r = RN(1 / s), q = RN(x r) and e = x - q s (one FMA, exact), RN(q + e r) is the quotient
correctly rounded (Markstein), where the significand of s is not all ones; quotients so small that they underflow round
to zp. A sum with 3 * 2^22 has no room for a fraction: its last bits are the integer.
"""

from __future__ import annotations

import numpy as np

from zeropoint.codegen.kernels.elements import Quantize, Scalar, apply
from zeropoint.codegen.kernels.scalars import WIDTHS, compared, filled, intrinsic, like
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Value, constant, element, lanes
from zeropoint.numerics.affine import QuantizeBehaviour

MAGIC = 3 * 2.0**22
MAGIC_BITS = 0x4B400000
"""The same as an integer."""


def saturating(scale: float, zero_point: int, low: int, high: int) -> tuple[float, float] | None:
    """Floats that are stored as the least and the greatest integer; None for scales at the ends of what f32 holds."""
    s = np.float32(scale)
    if int(s.view(np.uint32)) & 0x7FFFFF == 0x7FFFFF or not 2.0**-60 < float(s) < 2.0**60:
        return None
    least, most = (np.float32(float(s) * (bound - zero_point)) for bound in (low, high))
    stored = [int(np.rint(x / s + np.float32(zero_point))) for x in (least, most)]
    return (float(least), float(most)) if stored == [low, high] else None


def quantized_bits(
    f: Function, isa: InstructionSet, x: Value, scale: float, zero_point: int, low: int, high: int, offset: int = 0
) -> Value:
    """Vectors of f32 as MAGIC_BITS + stored integer + offset, in i32: the low bytes are the integer's own.

    Where `saturating` has no bounds, or the machine no FMA, floats are divided and bounded afterwards.
    """
    bounds = saturating(scale, zero_point, low, high) if isa.fused else None
    known = compared(f, "fcmp ord", x, x)
    if bounds is None:
        x = f.select(known, x, filled(x.type, 0.0))  # NaN is stored as the zero point, as 0 is
        real = f.binary("fadd", f.binary("fdiv", x, filled(x.type, scale)), filled(x.type, zero_point))
        real = _between(f, real, low, high)
    else:
        inside = _between(f, x, *bounds)  # NaN becomes the least
        inside = inside if zero_point == low else f.select(known, inside, filled(x.type, 0.0))
        reciprocal = filled(x.type, float(np.float32(1) / np.float32(scale)))
        quotient = f.binary("fmul", inside, reciprocal)
        rest = intrinsic(f, "fma", f.let(x.type, f"fneg {quotient}"), filled(x.type, scale), inside)
        real = intrinsic(f, "fma", rest, reciprocal, quotient)
        real = f.binary("fadd", real, filled(x.type, zero_point)) if zero_point else real
    return f.bits(f.binary("fadd", real, filled(x.type, MAGIC + offset)), like(x, "i32"))


def _between(f: Function, x: Value, low: float, high: float) -> Value:
    """x between two bounds; the lower one for NaN."""
    least, most = filled(x.type, low), filled(x.type, high)
    x = f.select(compared(f, "fcmp ogt", x, least), x, least)
    return f.select(compared(f, "fcmp olt", x, most), x, most)


def quantized(f: Function, isa: InstructionSet, i: Scalar, by: Quantize, x: Value) -> Value:
    """What `by` makes of a vector of floats."""
    if element(x.type) != "float" or by.behaviour is not QuantizeBehaviour.RNE_AFTER_ZERO_POINT:
        return apply(f, i, (), [x])
    bits = quantized_bits(f, isa, x, by.scale, by.zero_point, by.low, by.high)
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
