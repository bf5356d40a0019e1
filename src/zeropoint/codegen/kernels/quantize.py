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
from zeropoint.codegen.llvm.text import Function, Value, element
from zeropoint.numerics.affine import QuantizeBehaviour

MAGIC = 3 * 2.0**22


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
    bits = f.bits(f.binary("fadd", real, filled(x.type, MAGIC)), like(x, "i32"))
    return f.cast("trunc", bits, like(x, i.type)) if WIDTHS[i.type] < 32 else bits
