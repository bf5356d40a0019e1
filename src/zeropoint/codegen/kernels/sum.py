"""Sums of activations of different scales with one rounding: `fxpmath.weighted_sum`.

clamp(zp + (sum_i (x_i - z_i) * A_i + 2^(N-1)) >> N). What does not depend on x is one constant. Bytes are widened by
in-lane unpacking, which in-lane packing undoes; two operands with factors of 16 bits are one VPMADDWD.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeropoint.codegen.kernels.unpack import half_order, unpack_order, words_of
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module, Value, constant, i64
from zeropoint.numerics import CommonScaleSum
from zeropoint.numerics.rounding import INT32_MIN


def summed(f: Function, isa: InstructionSet, total: CommonScaleSum, read: Sequence[Value]) -> Value:
    """The bytes of a sum of i8, for one vector of activation bytes of each operand."""
    # Modulo 2^32, as the machine adds: the whole sum fits (`CommonScaleSum`), parts of it need not.
    fixed = (1 << total.shift >> 1) - sum(
        (zero + isa.offset) * factor for zero, factor in zip(total.zero_points, total.multipliers, strict=True)
    )
    start = [constant(isa.i32, (fixed - INT32_MIN) % (1 << 32) + INT32_MIN)] * 4
    words = [words_of(f, isa, value) for value in read]
    if len(read) == 2 and isa.multiply_add and max(map(abs, total.multipliers)) < 1 << 15:
        sums = _pairs(f, isa, total.multipliers, words, start)
    else:
        sums = _wide(f, isa, total.multipliers, words, start)
    zero = total.zero_point + isa.offset
    shifted = [f.add(f.binary("ashr", part, constant(isa.i32, total.shift)), zero) for part in sums]
    packed = isa.narrow(f, isa.words(f, *shifted[:2]), isa.words(f, *shifted[2:]))
    if (total.storage_min, total.storage_max) == (-128, 127):
        return packed
    kind = "u" if isa.unsigned else "s"
    bounds = [constant(isa.i8, bound + isa.offset) for bound in (total.storage_min, total.storage_max)]
    packed = f.call(isa.i8, f"llvm.{kind}max.v{isa.bytes}i8", packed, bounds[0])
    return f.call(isa.i8, f"llvm.{kind}min.v{isa.bytes}i8", packed, bounds[1])


def _pairs(
    f: Function, isa: InstructionSet, multipliers: Sequence[int], words: list[list[Value]], totals: list[Value]
) -> list[Value]:
    """(x, y) side by side as i16, times (A, B)."""
    assert isa.multiply_add is not None
    factors = f.bits(constant(isa.i32, (multipliers[0] & 0xFFFF) | (multipliers[1] << 16)), isa.i16)
    result: list[Value] = []
    for q, total in enumerate(totals):
        pair = f.shuffle(words[0][q // 2], words[1][q // 2], unpack_order(isa.lanes, 8, q % 2))
        result.append(f.add(f.call(isa.i32, isa.multiply_add, pair, factors), total))
    return result


def _wide(
    f: Function, isa: InstructionSet, multipliers: Sequence[int], words: list[list[Value]], totals: list[Value]
) -> list[Value]:
    result = list(totals)
    extend = "zext" if isa.unsigned else "sext"
    for operand, factor in zip(words, multipliers, strict=True):
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
    total: CommonScaleSum

    @property
    def pieces(self) -> int:
        """Pieces of a long row, so that threads can share one."""
        return -(-self.length // 4096) if self.rows < 8 else 1

    def tasks(self, isa: InstructionSet) -> int:
        """Rows times pieces of a row."""
        return self.rows * self.pieces

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(inputs..., output, begin, end)`."""
        f = module.kernel(name, *(f"in{n}" for n in range(len(self.in_rows))), "out")
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
            f.store(summed(f, width, self.total, read), out, place)

        f.loop(start, middle, isa.bytes, lambda place, _: some(isa, place))
        if isa.narrowest is not isa:
            f.loop(middle, stop, isa.narrowest.bytes, lambda place, _: some(isa.narrowest, place))
