"""`uniform_quantize` and `uniform_dequantize` of vectors.

Quantization of f32 with one scale takes a few operations (`quantized_bits`). If it divides, x is clamped first, to
numbers that quantize to the bounds. This is equivalent, because division and rounding are monotonic. Then x / s is
computed without a division. With r = RN(1 / s), q = RN(x r) and e = x - q s (one FMA, exact), RN(q + e r) is the
correctly rounded quotient (Markstein), unless all bits of the significand of s are ones. Quotients that underflow round
to zp in any case. A sum with 1.5 * 2^23 has no fraction bits: its last bits are the integer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.kernels.scalars import bounded, converted
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import WIDTHS, Value, constant, element, lanes, like
from zeropoint.numerics.affine import QuantizeBehaviour

MAGIC = 3 * 2.0**22
MAGIC_BITS = 0x4B400000
"""The same as an integer."""
SIGN = 0x80
"""The highest bit of a byte."""
NEAR = 2.0**22
"""The greatest float that a sum with `MAGIC` rounds: it stays within 2^23 and 2^24."""


QUANTIZES = frozenset(
    (
        QuantizeBehaviour.RNE_AFTER_ZERO_POINT,
        QuantizeBehaviour.RNE_BEFORE_ZERO_POINT,
        QuantizeBehaviour.HALF_AWAY_BEFORE_ZERO_POINT,
        QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO,
        QuantizeBehaviour.RNE_RECIPROCAL,
        QuantizeBehaviour.RNE_BY_RANGE,
    )
)
"""The behaviours of `quantized`."""
_AFTER = QuantizeBehaviour.RNE_AFTER_ZERO_POINT
_MULTIPLIES = frozenset((QuantizeBehaviour.RNE_RECIPROCAL, QuantizeBehaviour.RNE_BY_RANGE))
"""The behaviours that multiply: XNNPACK's by 1 / s."""


@dataclass(frozen=True)
class Quantize:
    """Quantize a float. `scale` is 1 / scale if the behaviour multiplies.

    Per-channel scales, zero points and (with `rne-by-range`) shifts are more arguments, as floats. The numbers here are
    then those of channel 0. With `rne-by-range`, `scale` is the factor, `shift` is the number that is added, and
    `first` is the smallest integer of the dtype that holds the storage.
    """

    behaviour: QuantizeBehaviour
    scale: float
    zero_point: int
    low: int
    high: int
    shift: float = 0.0
    first: int = 0


@dataclass(frozen=True)
class Dequantize:
    """Dequantize a stored integer."""

    scale: float
    zero_point: int


def quantized(f: Function, by: Quantize, type_: str, x: Value, *parameters: Value) -> Value:
    """clamp(round(x / s + zp)) in the arithmetic of the float type. NaN becomes zp or 0. Wide bounds clamp in f64."""
    own_numbers = (constant(x.type, by.scale), constant(x.type, _in_type(x, by.zero_point)))
    scale, zero, *shifts = parameters or own_numbers
    real = f.binary("fmul" if by.behaviour in _MULTIPLIES else "fdiv", x, scale)
    if by.behaviour is QuantizeBehaviour.RNE_BY_RANGE:
        (shift,) = shifts or (constant(x.type, by.shift),)
        steps = f.intrinsic("roundeven", f.binary("fadd", real, shift))
        rounded = _widened(f, steps, by)
        rounded = f.binary("fadd", rounded, constant(rounded.type, float(by.first)))
    elif by.behaviour in (QuantizeBehaviour.RNE_AFTER_ZERO_POINT, QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO):
        rounded = f.intrinsic("roundeven", f.binary("fadd", real, zero))
        # In f64 if f32 cannot hold the bounds: 2^31 - 1 would become 2^31, and its conversion to i32 is poison.
        rounded = _widened(f, rounded, by)
    else:
        name = "round" if by.behaviour is QuantizeBehaviour.HALF_AWAY_BEFORE_ZERO_POINT else "roundeven"
        rounded = _widened(f, f.intrinsic(name, real), by)
        zero = zero if rounded.type == x.type else constant(rounded.type, by.zero_point)
        rounded = f.binary("fadd", rounded, zero)
    known = f.compare("ord", x, x)
    # x / s may also be NaN (0 / 0 or inf / inf), if the scale underflows or overflows in this type.
    known = f.binary("and", known, f.compare("ord", real, real))
    number = 0 if by.behaviour is QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO else by.zero_point
    # A per-channel zero point is an argument. The number in `by` is that of channel 0.
    own = number or (parameters and by.behaviour is not QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO)
    unknown = zero if own and rounded.type == x.type else constant(rounded.type, number)
    chosen = f.select(known, rounded, unknown)
    # Clamped before the conversion to an integer, which is poison for numbers out of range.
    inside = bounded(f, chosen, by.low, by.high)
    return converted(f, f.cast("fptosi", inside, like(x, "i32")), type_, signed=True)


def _is_wide(by: Quantize) -> bool:
    """Whether f32 does not represent some integers of the storage."""
    # f32 does not represent all integers beyond 2^24, for example 2^31 - 1.
    return max(-by.low, by.high) > 1 << 24


def _widened(f: Function, x: Value, by: Quantize) -> Value:
    """Rounded floats in a type that represents all integers of the storage."""
    return converted(f, x, "double", signed=True) if _is_wide(by) else x


def _in_type(x: Value, number: int) -> float:
    """An integer rounded to the type of x."""
    return float(np.float32(number)) if element(x.type) == "float" else number


def dequantized(
    f: Function, by: Dequantize, type_: str, stored: Value, *, signed: bool, zero_point: int | None = None
) -> Value:
    """(float(q) - float(zp)) * s of a vector of integers. `zero_point` replaces that of the type."""
    real, zero = converted(f, stored, type_, signed=signed), by.zero_point if zero_point is None else zero_point
    if zero:
        real = f.binary("fsub", real, _in_type(real, zero))
    return f.binary("fmul", real, by.scale)


def saturating(scale: float, zero_point: int, low: int, high: int) -> tuple[float, float] | None:
    """Floats that quantize to the minimum and the maximum integer; None for scales near the limits of f32."""
    s = np.float32(scale)
    if int(s.view(np.uint32)) & 0x7FFFFF == 0x7FFFFF or not 2.0**-60 < float(s) < 2.0**60:
        return None
    least, most = (np.float32(float(s) * (bound - zero_point)) for bound in (low, high))
    # The float may be clamped first only if the clamped float quantizes to the bound.
    stored = [int(np.rint(x / s + np.float32(zero_point))) for x in (least, most)]
    return (float(least), float(most)) if stored == [low, high] else None


def in_few_steps(by: Quantize) -> bool:
    """Whether `quantized_bits` has a form: the storage is narrow enough for a sum with `MAGIC`, and NaN is zp."""
    near = max(abs(by.low), abs(by.high)) + max(abs(by.zero_point), abs(by.first)) <= NEAR
    return near and by.behaviour is not QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO


def quantized_bits(f: Function, isa: InstructionSet, x: Value, by: Quantize, offset: int = 0) -> Value:
    """Vectors of f32 as MAGIC_BITS + stored integer + offset in i32, whose low bytes are those of the integer.

    If `saturating` has no bounds, or the machine no FMA, floats are divided and clamped afterwards.
    """
    if by.behaviour in _MULTIPLIES:
        return _multiplied_bits(f, x, by, offset)
    scale, zero_point, low, high = by.scale, by.zero_point, by.low, by.high
    # The zero point is added before the rounding or after it.
    first, then = (zero_point, offset) if by.behaviour is _AFTER else (0, zero_point + offset)
    bounds = saturating(scale, zero_point, low, high) if isa.fused else None
    known = f.compare("ord", x, x)
    if bounds is None:
        x = f.select(known, x, constant(x.type, 0.0))  # NaN is stored as the zero point, like 0
        real = f.binary("fdiv", x, scale)
    else:
        inside = _between(f, x, *bounds)  # NaN becomes the lower bound
        inside = inside if zero_point == low else f.select(known, inside, constant(x.type, 0.0))
        reciprocal = constant(x.type, float(np.float32(1) / np.float32(scale)))
        quotient = f.binary("fmul", inside, reciprocal)
        # The FMA computes the remainder exactly. It corrects the quotient to the correctly rounded one.
        rest = f.intrinsic("fma", f.let(x.type, f"fneg {quotient}"), scale, inside)
        real = f.intrinsic("fma", rest, reciprocal, quotient)
    real = f.binary("fadd", real, first) if first else real
    if bounds is None:
        real = _between(f, real, low - zero_point + first, high - zero_point + first)
    if by.behaviour is QuantizeBehaviour.HALF_AWAY_BEFORE_ZERO_POINT:
        real = f.intrinsic("round", real)
    return _rounded_bits(f, real, then)


def _multiplied_bits(f: Function, x: Value, by: Quantize, offset: int) -> Value:
    """`quantized_bits` of the behaviours that multiply."""
    real, first = f.binary("fmul", x, by.scale), by.zero_point
    if by.behaviour is QuantizeBehaviour.RNE_BY_RANGE:
        real, first = f.binary("fadd", real, by.shift), by.first
    bits = _rounded_bits(f, _between(f, real, by.low - first, by.high - first), first + offset)
    # The product is NaN for NaN, and for infinity times 0.
    return f.select(f.compare("ord", real, real), bits, constant(bits.type, MAGIC_BITS + by.zero_point + offset))


def _rounded_bits(f: Function, real: Value, added: int) -> Value:
    """MAGIC_BITS + a float rounded to even + an integer."""
    # A sum of this size has no fraction bits, so the addition rounds to even and leaves the integer in the low bits.
    # With an odd number added at once, ties would round to odd.
    even = added - added % 2
    bits = f.bits(f.binary("fadd", real, MAGIC + even), like(real, "i32"))
    return f.add(bits, 1) if added % 2 else bits


def _between(f: Function, x: Value, low: float, high: float) -> Value:
    """x clamped to two bounds. NaN becomes the lower bound."""
    least, most = constant(x.type, low), constant(x.type, high)
    x = f.select(f.compare("ogt", x, least), x, least)
    return f.select(f.compare("olt", x, most), x, most)


def stored_by(f: Function, isa: InstructionSet, by: Quantize, type_: str, x: Value) -> Value:
    """A vector of floats quantized by `by` to integers of `type_`, in the fastest form for the machine."""
    if element(x.type) != "float" or not in_few_steps(by):
        return quantized(f, by, type_, x)
    bits = quantized_bits(f, isa, x, by)
    if type_ == "i8" and isa.pack_shorts is not None and isa.pack_bytes is not None and lanes(x.type) % isa.bytes == 0:
        return _packed(f, isa, bits, SIGN if by.high >= SIGN else 0)
    return f.cast("trunc", bits, like(x, type_)) if WIDTHS[type_] < 32 else f.add(bits, -MAGIC_BITS)


def _packed(f: Function, isa: InstructionSet, bits: Value, middle: int) -> Value:
    """The low bytes of the words of four vectors, by in-lane packing, which saturates.

    `middle` is 128 for integers of 0 to 255, and 0 for those of -128 to 127.
    """
    order = [4 * lane + q for q in range(4) for lane in range(isa.lanes)]
    stored: list[Value] = []
    for start in range(0, lanes(bits.type), isa.bytes):
        parts = [f.shuffle(bits, None, range(start + q * isa.width, start + (q + 1) * isa.width)) for q in range(4)]
        parts = [f.add(part, isa.offset - middle - MAGIC_BITS) for part in parts]
        shorts = [isa.shorts(f, *parts[:2]), isa.shorts(f, *parts[2:])]
        packed = f.bits(isa.narrow(f, *shorts), isa.i32)
        stored.append(f.bits(f.shuffle(packed, None, order), isa.i8))
    whole = f.concatenated(stored)
    # The bytes are the integers + offset - middle, each of which is 0 or 128.
    return f.binary("xor", whole, -SIGN) if isa.offset != middle else whole
