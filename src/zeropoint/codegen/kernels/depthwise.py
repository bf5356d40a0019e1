"""Depthwise convolution on the four-way dot product.

The bytes of four input rows of one column are interleaved, so that every 32-bit element holds four taps of one
channel: a block of four vectors of V channels is 16 in-lane unpack operations at most, and one dot product then adds
four taps of V channels. A column is interleaved once and serves every output column that reads it, in registers as x
moves on. Where the stride in y is 1, two output rows share the rows as well; the weights of the second are moved down
by one.

In-lane unpacking and in-lane packing undo each other, so channels come out in order (`channel_order` of four vectors).

Parameters of a block are weights [output row][kernel column][group of four rows][vector][channel][4], biases, and
those of the epilogue. Source: CODEGEN.md, "Depthwise on VNNI".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.kernels.requantize import GROUP, Epilogue, Output, channel_order
from zeropoint.codegen.kernels.unpack import unpack_order
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module, Value, i64, vector
from zeropoint.numerics.arrays import AnyArray, IntArray

Column = list[list[Value]]
"""An interleaved column: for every group of four rows its four vectors."""


@dataclass(frozen=True)
class Block:
    """`count` blocks of 4 V channels, from channel `first` on, for one width of vectors."""

    isa: InstructionSet
    first: int
    count: int
    before: int
    """Blocks that come earlier."""
    place: int
    """Where its parameters start."""


@dataclass(frozen=True)
class Depthwise:
    """The shape of a depthwise convolution in bytes; what its code depends on.

    `channels` is a multiple of 16. Output (y, x) is at y * out_row + x * out_pixel and reads its window from
    y * stride_y * in_row + x * stride_x * in_pixel on.
    """

    rows: int
    width: int
    channels: int
    in_row: int
    in_pixel: int
    out_row: int
    out_pixel: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    halves: int
    epilogue: Epilogue

    @property
    def paired(self) -> int:
        """Output rows that share interleaved columns."""
        return 2 if self.strides[0] == 1 and self.rows > 1 else 1

    @property
    def groups(self) -> int:
        """Groups of four input rows under the output rows of one pass."""
        return -(-(self.kernel[0] + self.paired - 1) // 4)

    @property
    def passes(self) -> int:
        """Passes over the rows; of an odd number the last computes one row again."""
        return -(-self.rows // self.paired)

    def blocks(self, isa: InstructionSet) -> list[Block]:
        """The channels in blocks, of whole vectors first and of narrower ones for the rest."""
        blocks: list[Block] = []
        first = before = place = 0
        narrow: InstructionSet | None = isa
        while first < self.channels and narrow is not None:
            count = (self.channels - first) // narrow.bytes
            if count:
                blocks.append(Block(narrow, first, count, before, place))
                first, before, place = (
                    first + count * narrow.bytes, before + count, place + count * self.block_bytes(narrow),
                )  # fmt: skip
            narrow = narrow.narrower
        return blocks

    def block_bytes(self, isa: InstructionSet) -> int:
        """Bytes of parameters of a block."""
        vectors = self.paired * self.kernel[1] * self.groups * GROUP * self.halves + GROUP
        return vectors * isa.bytes + self.epilogue.size(isa, GROUP)

    def tasks(self, isa: InstructionSet) -> int:
        """Passes times blocks: what threads share."""
        return self.passes * sum(block.count for block in self.blocks(isa))

    def pack(self, isa: InstructionSet, weights: AnyArray, bias: IntArray, output: Output) -> bytes:
        """Weights (kernel rows, kernel columns, channels) i8 and biases (channels,), as the kernel reads them."""
        channels = weights.shape[2]
        start = bias - isa.offset * weights.astype(np.int64).sum((0, 1)) + self.epilogue.rounding(output.multiplier)
        parts: list[bytes] = []
        for block in self.blocks(isa):
            for index in range(block.count):
                first = block.first + index * block.isa.bytes
                covered = np.arange(first, first + block.isa.bytes)
                covered = np.where(covered < channels, covered, -1)
                order = channel_order(GROUP, block.isa.width)
                chosen = np.where(covered < 0, 0, weights[:, :, covered])[:, :, order]
                parts.append(self._taps(chosen))
                parts.append(np.where(covered < 0, 0, start[covered])[order].astype(np.int32).tobytes())
                parts.append(self.epilogue.parameters(block.isa, output, covered, GROUP))
        return b"".join(parts)

    def _taps(self, weights: AnyArray) -> bytes:
        """(kernel rows, kernel columns, 4, V) to [output row][column][group][half][4][V][tap]."""
        rows, columns, q, width = weights.shape
        taps = np.zeros((self.paired, columns, 4 * self.groups, q, width), np.int8)
        for row in range(self.paired):
            taps[row, :, row : row + rows] = weights.transpose(1, 0, 2, 3)
        laid = taps.reshape(self.paired, columns, self.groups, 4, q, width).transpose(0, 1, 2, 4, 5, 3)
        halves = [laid] if self.halves == 1 else [laid >> 1, laid - (laid >> 1)]
        return np.ascontiguousarray(np.stack(halves, axis=3)).tobytes()

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(input, parameters, output, begin, end)`: tasks begin to end."""
        f = module.function(
            name,
            [("ptr noalias", "in"), ("ptr noalias", "w"), ("ptr noalias", "out"), ("i64", "begin"), ("i64", "end")],
        )
        blocks = self.blocks(isa)
        total = sum(block.count for block in blocks)
        source, parameters, out, begin, end = f.arguments

        def task(index: Value, _: list[Value]) -> None:
            row = f.binary("udiv", index, i64(total))
            which = f.binary("sub", index, f.mul(row, total))
            y = f.minimum(f.mul(row, self.paired), i64(self.rows - self.paired))
            here = f.at(source, f.mul(y, self.strides[0] * self.in_row))
            there = f.at(out, f.mul(y, self.out_row))

            def chosen(rest: list[Block]) -> None:
                block, *others = rest

                def emit() -> None:
                    number = f.add(which, -block.before)
                    channel = f.add(f.mul(number, block.isa.bytes), block.first)
                    place = f.add(f.mul(number, self.block_bytes(block.isa)), block.place)
                    _Row(self, block.isa, f, f.at(parameters, place)).emit(f.at(here, channel), f.at(there, channel))

                if others:
                    f.branch(f.compare("slt", which, block.before + block.count), emit, lambda: chosen(others))
                else:
                    emit()

            chosen(blocks)

        f.loop(begin, end, 1, task)
        f.ret()


class _Row:
    """Writes the loop over x of one block of channels, for one output row or two."""

    def __init__(self, shape: Depthwise, isa: InstructionSet, f: Function, parameters: Value):
        self.shape, self.isa, self.f, self.parameters = shape, isa, f, parameters
        self.block_type = vector(4 * isa.width, "i8")
        self.kept = max(shape.kernel[1] - shape.strides[1], 0)

    def emit(self, source: Value, out: Value) -> None:
        """All columns; `kept` interleaved ones go from each output to the next."""
        f, shape = self.f, self.shape
        each = 2 if shape.width > 7 else shape.width
        rounds = shape.width // each
        kept = [self._column(source, x) for x in range(self.kept)]
        flat = _flat(kept)
        step = shape.strides[1] * shape.in_pixel

        def some(index: Value, carried: list[Value]) -> list[Value]:
            here = f.at(source, f.mul(index, each * step))
            there = f.at(out, f.mul(index, each * shape.out_pixel))
            return _flat(self._columns(each, here, there, self._nested(carried)))

        if rounds > 1:
            flat = f.loop(0, rounds, 1, some, flat, entered=True)
            done = rounds * each
        else:
            done = 0
        rest = shape.width - done
        if rest:
            self._columns(rest, f.at(source, done * step), f.at(out, done * shape.out_pixel), self._nested(flat))

    def _nested(self, flat: list[Value]) -> list[Column]:
        size = GROUP * self.shape.groups
        return [
            [flat[at + GROUP * g : at + GROUP * (g + 1)] for g in range(self.shape.groups)]
            for at in range(0, self.kept * size, size)
        ]

    def _columns(self, count: int, source: Value, out: Value, kept: list[Column]) -> list[Column]:
        """`count` output columns; the columns kept for the next."""
        shape = self.shape
        columns = list(kept)
        for x in range(count):
            while len(columns) < x * shape.strides[1] + shape.kernel[1]:
                columns.append(self._column(source, len(columns)))
            window = columns[x * shape.strides[1] : x * shape.strides[1] + shape.kernel[1]]
            for row in range(shape.paired):
                self._output(row, window, out, row * shape.out_row + x * shape.out_pixel)
        start = count * shape.strides[1]
        return columns[start : start + self.kept]

    def _output(self, row: int, window: list[Column], out: Value, offset: int) -> None:
        f, isa, shape = self.f, self.isa, self.shape
        per_row = shape.kernel[1] * shape.groups * shape.halves * GROUP
        biases = shape.paired * per_row
        sums = [f.load(isa.i32, self.parameters, (biases + q) * isa.bytes, align=isa.bytes) for q in range(GROUP)]
        for kx, column in enumerate(window):
            for g, group in enumerate(column):
                for half in range(shape.halves):
                    at = row * per_row + ((kx * shape.groups + g) * shape.halves + half) * GROUP
                    for q in range(GROUP):
                        weight = f.load(isa.i8, self.parameters, (at + q) * isa.bytes, align=isa.bytes)
                        sums[q] = isa.dot(f, sums[q], group[q], weight)
        parameters = f.at(self.parameters, (biases + GROUP) * isa.bytes)
        f.store(shape.epilogue.emit(f, isa, sums, parameters), out, offset)

    def _column(self, source: Value, x: int) -> Column:
        """Column x of every input row of this pass, interleaved by fours."""
        f, shape = self.f, self.shape
        rows = shape.kernel[0] + shape.paired - 1
        loaded = [f.load(self.block_type, source, y * shape.in_row + x * shape.in_pixel) for y in range(rows)]
        zero = Value(self.block_type, "zeroinitializer")
        loaded += [zero] * (4 * shape.groups - rows)
        return [self._interleaved(loaded[4 * g : 4 * g + 4]) for g in range(shape.groups)]

    def _interleaved(self, rows: list[Value]) -> list[Value]:
        f, isa = self.f, self.isa
        result: list[Value] = []
        for high in (0, 1):
            first, second = (
                f.bits(f.shuffle(a, b, unpack_order(isa.lanes, 16, high)), isa.i16) for a, b in (rows[:2], rows[2:])
            )
            result += [f.bits(f.shuffle(first, second, unpack_order(isa.lanes, 8, part)), isa.i8) for part in (0, 1)]
        return result


def _flat(columns: list[Column]) -> list[Value]:
    return [value for column in columns for group in column for value in group]
