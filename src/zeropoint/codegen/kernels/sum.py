"""Sums of activations of different scales with one rounding: `fxpmath.weighted_sum`.

clamp(zp + (sum_i (x_i - z_i) * A_i + 2^(N-1)) >> N). What does not depend on x is one constant. Bytes are widened by
in-lane unpacking, which in-lane packing undoes; two operands with factors of 16 bits are one VPMADDWD.
"""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.codegen.kernels.unpack import half_order, unpack_order, words_of
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module, Value, constant, i64


@dataclass(frozen=True)
class SumParameters:
    """The parameters of a `CommonScaleSum` of i8."""

    multipliers: tuple[int, ...]
    zero_points: tuple[int, ...]
    shift: int
    zero_point: int
    storage_min: int
    storage_max: int

    def emit(self, f: Function, isa: InstructionSet, read: list[Value]) -> Value:
        """The bytes of the sum, for one vector of activation bytes of each operand."""
        # Modulo 2^32, as the machine adds: the whole sum fits (`CommonScaleSum`), parts of it need not.
        fixed = (1 << self.shift >> 1) - sum(
            (zero + isa.offset) * factor for zero, factor in zip(self.zero_points, self.multipliers, strict=True)
        )
        fixed = (fixed + (1 << 31)) % (1 << 32) - (1 << 31)
        words = [words_of(f, isa, value) for value in read]
        totals = [constant(isa.i32, fixed)] * 4
        if len(read) == 2 and isa.multiply_add and max(map(abs, self.multipliers)) < 1 << 15:
            totals = self._pairs(f, isa, words, totals)
        else:
            totals = self._wide(f, isa, words, totals)
        zero = self.zero_point + isa.offset
        shifted = [f.add(f.binary("ashr", total, constant(isa.i32, self.shift)), zero) for total in totals]
        packed = isa.narrow(f, isa.words(f, *shifted[:2]), isa.words(f, *shifted[2:]))
        if (self.storage_min, self.storage_max) == (-128, 127):
            return packed
        kind = "u" if isa.unsigned else "s"
        bounds = [constant(isa.i8, bound + isa.offset) for bound in (self.storage_min, self.storage_max)]
        packed = f.call(isa.i8, f"llvm.{kind}max.v{isa.bytes}i8", packed, bounds[0])
        return f.call(isa.i8, f"llvm.{kind}min.v{isa.bytes}i8", packed, bounds[1])

    def _pairs(self, f: Function, isa: InstructionSet, words: list[list[Value]], totals: list[Value]) -> list[Value]:
        """(x, y) side by side as i16, times (A, B)."""
        assert isa.multiply_add is not None
        factors = f.bits(constant(isa.i32, (self.multipliers[0] & 0xFFFF) | (self.multipliers[1] << 16)), isa.i16)
        result: list[Value] = []
        for q, total in enumerate(totals):
            pair = f.shuffle(words[0][q // 2], words[1][q // 2], unpack_order(isa.lanes, 8, q % 2))
            result.append(f.add(f.call(isa.i32, isa.multiply_add, pair, factors), total))
        return result

    def _wide(self, f: Function, isa: InstructionSet, words: list[list[Value]], totals: list[Value]) -> list[Value]:
        result = list(totals)
        extend = "zext" if isa.unsigned else "sext"
        for operand, factor in zip(words, self.multipliers, strict=True):
            for q in range(4):
                half = f.shuffle(operand[q // 2], None, half_order(isa.lanes, 8, q % 2))
                wide = f.cast(extend, half, isa.i32)
                result[q] = f.add(result[q], f.mul(wide, factor))
        return result


@dataclass(frozen=True)
class WeightedSum:
    """Rows of `length` bytes (a multiple of 16) at the given strides."""

    rows: int
    length: int
    in_rows: tuple[int, ...]
    out_row: int
    parameters: SumParameters

    @property
    def pieces(self) -> int:
        """Pieces of a long row, so that threads can share one."""
        return -(-self.length // 4096) if self.rows < 8 else 1

    def tasks(self, isa: InstructionSet) -> int:
        """Rows times pieces of a row."""
        return self.rows * self.pieces

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(inputs..., output, begin, end)`."""
        count = len(self.in_rows)
        f = module.function(
            name,
            [
                *(("ptr", f"in{n}") for n in range(count)),
                ("ptr", "out"),
                ("i64", "begin"),
                ("i64", "end"),
            ],
        )
        *inputs, out, begin, end = f.arguments
        piece = -(-self.length // (self.pieces * 16)) * 16

        def task(index: Value, _: list[Value]) -> None:
            row = f.binary("udiv", index, i64(self.pieces))
            start = f.mul(f.binary("sub", index, f.mul(row, self.pieces)), piece)
            stop = f.minimum(f.add(start, piece), i64(self.length))
            sources = [f.at(x, f.mul(row, stride)) for x, stride in zip(inputs, self.in_rows, strict=True)]
            target = f.at(out, f.mul(row, self.out_row))
            self._bytes(f, isa, sources, target, start, stop)

        f.loop(begin, end, 1, task)
        f.ret()

    def _bytes(
        self, f: Function, isa: InstructionSet, sources: list[Value], out: Value, start: Value, stop: Value
    ) -> None:
        """Bytes start to stop, whole vectors first, then 16 at a time."""
        middle = f.add(start, f.binary("and", f.binary("sub", stop, start), i64(-isa.bytes)))

        def some(width: InstructionSet, place: Value) -> None:
            read = [f.load(width.i8, source, place) for source in sources]
            f.store(self.parameters.emit(f, width, read), out, place)

        f.loop(start, middle, isa.bytes, lambda place, _: some(isa, place))
        if isa.narrowest is not isa:
            f.loop(middle, stop, isa.narrowest.bytes, lambda place, _: some(isa.narrowest, place))
