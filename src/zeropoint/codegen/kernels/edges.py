"""Between the floats of the caller and stored integers: `uniform_quantize`, `uniform_dequantize`, one scale a tensor.

quantize is clamp(rne(x / s + zp)) in f32, NaN becoming zp. x / s is exact without a division: with r = RN(1 / s), q =
RN(x r) and e = RN(x - q s) (one FMA, exact), RN(q + e r) is the quotient correctly rounded (Markstein), where the
significand of s is not all ones and nothing overflows; quotients that underflow round to zp. Machines without FMA
divide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module, Value, constant, i64, lanes, vector

Some = Callable[[Function, int, Value, Value, Value], None]
"""Writes the work on so many elements: (function, count, source, target, index of the first)."""


def float_literal(value: float) -> str:
    """An f32 as LLVM writes it: the bits of the f64 of the same value."""
    return f"0x{int(np.float64(np.float32(value)).view(np.uint64)):016X}"


def floats(type_: str, value: float) -> Value:
    """An f32 literal, repeated over a vector."""
    return Value(type_, f"splat (float {float_literal(value)})" if type_.startswith("<") else float_literal(value))


AHEAD = 2048
"""Bytes of an image's plane that are fetched ahead: inputs come from far."""


@dataclass(frozen=True)
class QuantizeImage:
    """N, C, H, W floats to activation bytes as N, H, W with `pitch` = 4 bytes a pixel, C of them the channels (C <= 4).

    Rows are (image, y); `plane`, `in_row`, `in_image`, `out_row` and `out_image` are bytes.
    """

    images: int
    rows: int
    width: int
    channels: int
    in_image: int
    plane: int
    in_row: int
    out_image: int
    out_row: int
    scale: float
    zero_point: int
    storage_min: int
    storage_max: int

    def tasks(self, isa: InstructionSet) -> int:
        """One a row."""
        return self.images * self.rows

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(floats, bytes, begin, end)`."""
        f = module.function(name, [("ptr noalias", "in"), ("ptr noalias", "out"), ("i64", "begin"), ("i64", "end")])
        source, out, begin, end = f.arguments

        def row(index: Value, _: list[Value]) -> None:
            image = f.binary("udiv", index, i64(self.rows))
            y = f.binary("sub", index, f.mul(image, self.rows))
            here = f.at(f.at(source, f.mul(image, self.in_image)), f.mul(y, self.in_row))
            there = f.at(f.at(out, f.mul(image, self.out_image)), f.mul(y, self.out_row))
            whole = self.width // isa.width * isa.width
            f.loop(0, whole, isa.width, lambda x, _: self._pixels(f, isa, isa.width, here, there, x))
            f.loop(whole, self.width, 1, lambda x, _: self._pixels(f, isa, 1, here, there, x))

        f.loop(begin, end, 1, row)
        f.ret()

    def _pixels(self, f: Function, isa: InstructionSet, count: int, source: Value, out: Value, x: Value) -> None:
        """`count` pixels from x on: their channels as the bytes of a 32-bit word each."""
        total: Value | None = None
        place = f.mul(x, 4)
        for channel in range(self.channels):
            read = f.load(vector(count, "float"), source, f.add(place, channel * self.plane), align=4)
            if count > 1:
                f.prefetch(source, f.add(place, channel * self.plane + AHEAD))
            stored = quantized(f, isa, read, self.scale, self.zero_point, self.storage_min, self.storage_max)
            byte = f.binary("and", stored, constant(stored.type, 255))
            shifted = f.binary("shl", byte, constant(byte.type, 8 * channel)) if channel else byte
            total = shifted if total is None else f.binary("or", total, shifted)
        assert total is not None
        f.store(total, out, place, align=1)


def quantized(
    f: Function, isa: InstructionSet, x: Value, scale: float, zero_point: int, storage_min: int, storage_max: int
) -> Value:
    """A vector of f32 as i32 whose low bytes are activation bytes; what stands above them means nothing.

    x is bounded before it is divided, by floats that are stored as the storage bounds themselves (the map is monotone),
    and a sum with 3 * 2^22 has no room for a fraction: it is rounded to even, and its low byte is the integer.
    """
    known = f.let(x.type.replace("float", "i1"), f"fcmp ord {x}, {x.name}")
    x = f.select(known, x, floats(x.type, 0.0))  # NaN is stored as the zero point, as 0 is
    bounds = saturating(scale, zero_point, storage_min, storage_max) if isa.fused else None
    x = bounded(f, x, *bounds) if bounds else x
    real = divided(f, x, scale) if bounds else f.binary("fdiv", x, floats(x.type, scale))
    real = f.binary("fadd", real, floats(x.type, zero_point))
    if bounds is None:
        real = bounded(f, real, storage_min, storage_max)
    return f.bits(f.binary("fadd", real, floats(x.type, 3 * 2.0**22 + isa.offset)), x.type.replace("float", "i32"))


def saturating(scale: float, zero_point: int, storage_min: int, storage_max: int) -> tuple[float, float] | None:
    """Floats that are stored as the least and the greatest integer; None for scales at the ends of what f32 holds.

    `divided` needs a scale whose significand is not all ones, and no quotient that over- or underflows.
    """
    s = np.float32(scale)
    if int(s.view(np.uint32)) & 0x7FFFFF == 0x7FFFFF or not 2.0**-60 < float(s) < 2.0**60:
        return None
    wanted = np.array([storage_min, storage_max], np.float32)
    ends = ((wanted - np.float32(zero_point)) * s).astype(np.float32)
    if not np.array_equal(np.rint(ends / s + np.float32(zero_point)), wanted):
        return None
    return float(ends[0]), float(ends[1])


def bounded(f: Function, x: Value, low: float, high: float) -> Value:
    """x between two floats; x is no NaN."""
    for predicate, bound in (("ogt", low), ("olt", high)):
        limit = floats(x.type, bound)
        inside = f.let(x.type.replace("float", "i1"), f"fcmp {predicate} {x}, {limit.name}")
        x = f.select(inside, x, limit)
    return x


def divided(f: Function, x: Value, scale: float) -> Value:
    """x / s, correctly rounded (see `saturating` for which s); s as f32."""
    s = np.float32(scale)
    type_ = x.type
    of = f"v{lanes(type_)}f32"
    reciprocal = floats(type_, float(np.float32(1) / s))
    q = f.binary("fmul", x, reciprocal)
    rest = f.call(type_, f"llvm.fma.{of}", f.let(type_, f"fneg {q}"), floats(type_, float(s)), x)
    return f.call(type_, f"llvm.fma.{of}", rest, reciprocal, q)


@dataclass(frozen=True)
class QuantizeRows:
    """Rows of `length` f32 side by side to rows of activation bytes; strides are bytes."""

    rows: int
    length: int
    in_row: int
    out_row: int
    scale: float
    zero_point: int
    storage_min: int
    storage_max: int

    def tasks(self, isa: InstructionSet) -> int:
        """One a row."""
        return self.rows

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(floats, bytes, begin, end)`."""

        def some(f: Function, count: int, source: Value, out: Value, x: Value) -> None:
            read = f.load(vector(count, "float"), source, f.mul(x, 4), align=4)
            stored = quantized(f, isa, read, self.scale, self.zero_point, self.storage_min, self.storage_max)
            f.store(f.cast("trunc", stored, vector(count, "i8")), out, x)

        _rows(module, name, isa, self, some)


@dataclass(frozen=True)
class DequantizeRows:
    """Rows of activation bytes to rows of f32 side by side: (q - zp) * s in f32; strides are bytes."""

    rows: int
    length: int
    in_row: int
    out_row: int
    scale: float
    zero_point: int

    def tasks(self, isa: InstructionSet) -> int:
        """One a row."""
        return self.rows

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(bytes, floats, begin, end)`."""

        def some(f: Function, count: int, source: Value, out: Value, x: Value) -> None:
            integers, reals = vector(count, "i32"), vector(count, "float")
            read = f.cast("zext" if isa.unsigned else "sext", f.load(vector(count, "i8"), source, x), integers)
            difference = f.cast("sitofp", f.add(read, -(self.zero_point + isa.offset)), reals)
            f.store(f.binary("fmul", difference, floats(reals, self.scale)), out, f.mul(x, 4), align=4)

        _rows(module, name, isa, self, some)


def _rows(module: Module, name: str, isa: InstructionSet, shape: QuantizeRows | DequantizeRows, some: Some) -> None:
    """Every row of a task, whole vectors first, then one element at a time."""
    f = module.function(name, [("ptr noalias", "in"), ("ptr noalias", "out"), ("i64", "begin"), ("i64", "end")])
    source, out, begin, end = f.arguments

    def row(index: Value, _: list[Value]) -> None:
        here, there = f.at(source, f.mul(index, shape.in_row)), f.at(out, f.mul(index, shape.out_row))
        whole = shape.length // isa.width * isa.width
        f.loop(0, whole, isa.width, lambda x, _: some(f, isa.width, here, there, x))
        f.loop(whole, shape.length, 1, lambda x, _: some(f, 1, here, there, x))

    f.loop(begin, end, 1, row)
    f.ret()
