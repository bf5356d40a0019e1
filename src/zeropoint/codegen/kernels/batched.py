"""Products of two activations, batch by batch: the contraction kernel, with weights that are packed at run time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from zeropoint.codegen.graph import row_major
from zeropoint.codegen.kernels.access import row_addresses
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.integer_arithmetic import Integers
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, constant, i64, vector

CHUNK = 4
"""The number of channels in a 16-byte vector. Each has the four 8-bit or two 16-bit terms of a step."""


@dataclass(frozen=True)
class Batched:
    """A contraction for every index of `sizes`, with the strides of operands and output in bytes."""

    kernel: Contraction
    sizes: tuple[int, ...]
    in_steps: tuple[int, ...]
    weight_steps: tuple[int, ...]
    out_steps: tuple[int, ...]

    def tasks(self, isa: InstructionSet) -> int:
        """The tasks of all batches."""
        return math.prod(self.sizes) * self.kernel.tasks(isa)

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(input, weights, output, begin, end)`."""
        self.kernel.emit(module, f"{name}_one", isa)
        f = module.kernel(name, "in", "w", "out")
        begin, end = f.arguments[3:]
        # Tasks are counted over all batches, so that threads also share the tasks of a single batch.
        each = self.kernel.tasks(isa)

        def batch(index: Value, _: list[Value]) -> None:
            steps = (self.in_steps, self.weight_steps, self.out_steps)
            addresses = row_addresses(f, index, self.sizes, steps, f.arguments[:3])
            base = f.mul(index, each)
            low = f.maximum(f.binary("sub", begin, base), i64(0))
            high = f.minimum(f.binary("sub", end, base), i64(each))
            f.delegate(f"{name}_one", *addresses, low, high)

        f.loop(f.binary("udiv", begin, i64(each)), f.binary("udiv", f.add(end, each - 1), i64(each)), 1, batch)
        f.ret()


@dataclass(frozen=True)
class Packing:
    """Packs i8 or i16 activations (terms, channels) as the weights of `kernel`, for every batch.

    `row` and `column` are the strides of terms and channels in bytes. One of them is `itemsize`. `zeros` are the zero
    points of the other operand and of this one. The template has the biases and parameters of every group.
    """

    kernel: Contraction
    channels: int
    row: int
    column: int
    zeros: tuple[int, int]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        """Bytes of an activation."""
        return 2 if self.arithmetic.pairs else 1

    @property
    def arithmetic(self) -> Integers:
        """The arithmetic of the kernel."""
        assert isinstance(self.kernel.arithmetic, Integers)
        return self.kernel.arithmetic

    def batch_bytes(self, isa: InstructionSet) -> int:
        """Bytes of the weights of a batch."""
        parts = self.kernel.columns(isa).parts
        return sum(part.count * self.kernel.group_bytes(isa, part.size) for part in parts)

    def weight_steps(self, isa: InstructionSet) -> tuple[int, ...]:
        """The batch strides of the packed weights, in bytes."""
        return row_major(self.sizes, self.batch_bytes(isa))

    def template(self, isa: InstructionSet, packed: bytes) -> bytes:
        """The biases and parameters of every group, taken from a packed block without its weights."""
        begin, parts = 0, list[bytes]()
        for part in self.kernel.columns(isa).parts:
            for _ in range(part.count):
                end = begin + self.kernel.group_bytes(isa, part.size)
                # Only the weights are computed at run time. Biases and parameters are constant and copied.
                parts.append(packed[end - self.kernel.arithmetic.size(isa, part.size) : end])
                begin = end
        return b"".join(parts)

    def tasks(self, isa: InstructionSet) -> int:
        """One per batch and group."""
        return math.prod(self.sizes) * self.kernel.columns(isa).count

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(activations, template, packed, begin, end)`."""
        f = module.kernel(name, "noalias in", "noalias t", "noalias out")
        source, template, out, begin, end = f.arguments
        groups = self.kernel.columns(isa)

        def task(index: Value, _: list[Value]) -> None:
            batch, group = f.divided(index, groups.count)
            (here,) = row_addresses(f, batch, self.sizes, [self.steps], [source])
            there = f.at(out, f.mul(batch, self.batch_bytes(isa)))
            begin = parameters = 0
            for part in groups.parts:
                each, tail = self.kernel.group_bytes(isa, part.size), self.kernel.arithmetic.size(isa, part.size)
                number = f.add(group, -part.before)
                block = f.at(there, f.add(f.mul(number, each), begin))
                given = f.at(template, f.add(f.mul(number, tail), parameters))
                first = f.add(f.mul(number, part.size * isa.width), part.first * isa.width)
                # Groups of different parts have different sizes, and therefore separate code.
                mine = f.binary("and", f.compare("sge", number, 0), f.compare("slt", number, part.count))
                f.branch(mine, _Group(self, isa, f, part.size).writer(here, given, block, first))
                begin, parameters = begin + part.count * each, parameters + part.count * tail

        f.loop(begin, end, 1, task)
        f.ret()


class _Group:
    """Writes the packing of one group of `count` vectors."""

    def __init__(self, packing: Packing, isa: InstructionSet, f: Function, count: int):
        self.packing, self.isa, self.f, self.count = packing, isa, f, count
        self.arithmetic = packing.arithmetic
        self.halves = self.arithmetic.halves
        self.step = self.halves * count * isa.bytes

    def writer(self, source: Value, template: Value, block: Value, first: Value) -> Callable[[], None]:
        """A function that writes the group which starts at channel `first`."""

        def write() -> None:
            f, isa, count = self.f, self.isa, self.count
            tail = self.packing.kernel.steps * self.step
            size = self.packing.kernel.arithmetic.size(isa, count)
            f.copy(f.at(block, tail), template, size)
            f.loop(
                0,
                count * isa.width // CHUNK,
                1,
                lambda m, _: self._chunk(m, source, block, f.add(first, f.mul(m, CHUNK))),
            )

        return write

    def _chunk(self, number: Value, source: Value, block: Value, channel: Value) -> None:
        """Pack chunk m: elements 4 (m / count) to 4 (m / count) + 3 of vector m % count (`channel_order`)."""
        f, isa, packing = self.f, self.isa, self.packing
        lane, vector = f.divided(number, self.count)
        begin = f.add(f.mul(vector, isa.bytes), f.mul(lane, 16))
        target = f.at(block, begin)
        narrow = isa.narrowest
        ones = constant(narrow.i16 if self.arithmetic.pairs else narrow.i8, 1)
        columns = self._columns(source, channel)

        def step(index: Value, carried: list[Value]) -> list[Value]:
            there, total = f.at(target, f.mul(index, self.step)), carried[0]
            dot = narrow.pairs if self.arithmetic.pairs else narrow.dot
            for n, part in enumerate(self._parts(self._four(columns, index))):
                f.store(part, there, n * self.count * isa.bytes, align=16)
                # Products with ones add up the weights, for the correction by the zero point.
                total = dot(f, total, ones, part)
            return [total]

        zero = Value(narrow.i32, "zeroinitializer")
        (sums,) = f.loop(0, packing.kernel.steps, 1, step, [zero], entered=True)
        biases = packing.kernel.steps * self.step
        start = f.load(narrow.i32, target, biases, align=16)
        # sum (x - z) w = sum x w - z sum w. If the kernel's x is unsigned, it has 128 added.
        start = f.add(start, f.mul(sums, -(packing.zeros[0] + self.arithmetic.offset(isa))))
        f.store(start, target, biases, align=16)

    def _parts(self, weights: Value) -> list[Value]:
        """Vectors whose sum is the weights minus their zero point."""
        f, zero = self.f, self.packing.zeros[1]
        parts = [weights]
        if zero:
            # The nearest byte whose difference with the zero point is a byte, and the rest, of the other sign.
            near = f.intrinsic("smax", weights, zero - 128) if zero > 0 else f.intrinsic("smin", weights, zero + 127)
            parts = [f.add(near, -zero), f.binary("sub", weights, near)]
        if self.halves == len(parts):
            return parts
        # w >> 1 and w - (w >> 1): products of such halves cannot saturate 16 bits.
        low = [f.binary("ashr", part, 1) for part in parts]
        return [*low, *(f.binary("sub", part, half) for part, half in zip(parts, low, strict=True))]

    def _columns(self, source: Value, channel: Value) -> list[Value]:
        """The addresses of the words of the first step. Channels past the last one read valid channels instead."""
        f, packing = self.f, self.packing
        if packing.row == packing.itemsize:
            each = [f.minimum(f.add(channel, j), i64(packing.channels - 1)) for j in range(CHUNK)]
            return [f.at(source, f.mul(j, packing.column)) for j in each]
        # Reads past the last channel stay inside its chunk, and so in the padding of the row.
        last = -(-packing.channels // CHUNK) * CHUNK - CHUNK
        start = f.at(source, f.mul(f.minimum(channel, i64(last)), packing.itemsize))
        return [f.at(start, t * packing.row) for t in range(4 // packing.itemsize)]

    def _four(self, columns: list[Value], index: Value) -> Value:
        """The terms of a step of four channels as weights, laid out [channel][term]."""
        f, packing, narrow = self.f, self.packing, self.isa.narrowest
        type_, together = (narrow.i16, 2) if self.arithmetic.pairs else (narrow.i8, 4)
        if packing.row == packing.itemsize:
            words = f.joined(narrow.i32, (f.load("i32", column, f.mul(index, 4)) for column in columns))
            weights = f.bits(words, type_)
        else:
            step, word = f.mul(index, together * packing.row), f"i{32 * packing.itemsize}"
            words = f.joined(vector(together, word), (f.load(word, column, step) for column in columns))
            order = [CHUNK * term + c for c in range(CHUNK) for term in range(together)]
            weights = f.shuffle(f.bits(words, type_), None, order)
        turned = self.arithmetic.offset(self.isa)
        return f.binary("xor", weights, -128) if turned else weights
