"""From the floats of the caller to stored integers: quantizing with one scale a tensor."""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.codegen.kernels.quantize import quantized_bits
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module, Value, constant, i64, vector

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
            numbers = (self.scale, self.zero_point, self.storage_min, self.storage_max)
            stored = quantized_bits(f, isa, read, *numbers, isa.offset)
            byte = f.binary("and", stored, constant(stored.type, 255))
            shifted = f.binary("shl", byte, constant(byte.type, 8 * channel)) if channel else byte
            total = shifted if total is None else f.binary("or", total, shifted)
        assert total is not None
        f.store(total, out, place, align=1)


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

        f = module.function(name, [("ptr noalias", "in"), ("ptr noalias", "out"), ("i64", "begin"), ("i64", "end")])
        source, out, begin, end = f.arguments

        def some(count: int, here: Value, there: Value, x: Value) -> None:
            read = f.load(vector(count, "float"), here, f.mul(x, 4), align=4)
            numbers = (self.scale, self.zero_point, self.storage_min, self.storage_max)
            stored = quantized_bits(f, isa, read, *numbers, isa.offset)
            f.store(f.cast("trunc", stored, vector(count, "i8")), there, x)

        def row(index: Value, _: list[Value]) -> None:
            here, there = f.at(source, f.mul(index, self.in_row)), f.at(out, f.mul(index, self.out_row))
            whole = self.length // isa.width * isa.width
            f.loop(0, whole, isa.width, lambda x, _: some(isa.width, here, there, x))
            f.loop(whole, self.length, 1, lambda x, _: some(1, here, there, x))

        f.loop(begin, end, 1, row)
        f.ret()
