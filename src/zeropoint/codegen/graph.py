"""The graph of native code: kernels on views of buffers, in execution order.

A `View` locates the elements of a value. It has strides in bytes, in the order of the value's dimensions in the
program. Activations of rank 4 are stored as N, H, W, C, whatever their order in the program. Padding around an image
(`Halo`) is part of the buffer of the value, so that padding needs no copy.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

import numpy as np

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.parameters import ParameterBlock
from zeropoint.ir.program import Port
from zeropoint.ir.tensors import Array


class Space(Enum):
    """The memory space of a buffer."""

    ARENA = "arena"
    CARRIED = "carried"
    """Values in the arena that loops carry or pass to their regions. Their 8-bit integers have no offset."""
    INPUT = "input"
    OUTPUT = "output"
    WEIGHTS = "weights"

    @property
    def in_arena(self) -> bool:
        """Whether buffers of this space are placed in the arena."""
        return self in (Space.ARENA, Space.CARRIED)


class EmittedKernel(Protocol):
    """A kernel. It is a frozen dataclass with everything that its code depends on, so that equal kernels share code."""

    def tasks(self, isa: InstructionSet) -> int:
        """The number of tasks into which the work can be split among threads."""
        ...

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """Define `void name(ptr ..., i64 begin, i64 end)`, which runs tasks begin..end on the step's arguments."""
        ...


def name_of(kernel: EmittedKernel) -> str:
    """The name of a kernel's function."""
    return f"kernel_{hashlib.sha256(repr(kernel).encode()).hexdigest()[:16]}"


@dataclass(eq=False)
class Buffer:
    """A block of memory. Inputs and outputs belong to the caller, and `index` is their number."""

    space: Space
    size: int
    index: int = 0
    offset: int = -1
    """The offset in the arena (after it is planned) or in the block of weights."""
    inside: Buffer | None = None
    """The workspace in the arena of the loop or branch that the buffer belongs to. The offset is relative to it."""


@dataclass(frozen=True)
class Halo:
    """Padding around an image: the number of pixels on each side, and their stored value."""

    top: int
    left: int
    bottom: int
    right: int
    value: int

    @property
    def sides(self) -> tuple[int, int, int, int]:
        """(top, left, bottom, right)."""
        return self.top, self.left, self.bottom, self.right

    def union(self, other: Halo) -> Halo:
        """The smallest padding that covers both. They must have the same value."""
        top, left, bottom, right = map(max, self.sides, other.sides)
        return Halo(top, left, bottom, right, self.value)


@dataclass(frozen=True)
class View:
    """The elements of a value: `shape` and `strides` (in bytes) in the program's order of dimensions.

    Values of dtype int8 in the arena are activations: storage integers plus the offset of the instruction set.
    """

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[np.generic]
    halo: Halo | None = None

    @property
    def itemsize(self) -> int:
        """Size of an element in bytes."""
        return self.dtype.itemsize

    @property
    def activations(self) -> bool:
        """Whether elements are 8-bit activations, with the offset of the instruction set."""
        return self.dtype == np.int8 and self.buffer.space is Space.ARENA

    def is_aligned(self, inner: int | None, multiple: int) -> bool:
        """Whether all but the elements along dimension `inner`, and the end of the buffer, are at such multiples."""
        steps = [step for d, step in enumerate(self.strides) if d != inner and self.shape[d] > 1]
        return not any(n % multiple for n in (*steps, self.offset, self.buffer.size))

    def moved(self, offset: int) -> View:
        """The view, moved by `offset` bytes."""
        return replace(self, offset=self.offset + offset) if offset else self

    @property
    def is_dense(self) -> bool:
        """Whether elements follow each other in memory, in the program's order."""
        return are_alike(self.shape, self.strides, row_major(self.shape, self.itemsize))


def row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Row-major strides in bytes."""
    strides: list[int] = []
    step = itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def are_alike(shape: Sequence[int], strides: Sequence[int], others: Sequence[int]) -> bool:
    """Whether strides are equal in all dimensions of more than one element."""
    return all(a == b or n == 1 for n, a, b in zip(shape, strides, others, strict=True))


@dataclass(frozen=True)
class Parameters:
    """A kernel argument of `size` bytes in the block of weights."""

    offset: int
    size: int


BLOCKS, INPUTS, OUTPUTS = range(3)
"""Tables of addresses: arena and weights; the caller's arrays."""


def place_of(found: View | Parameters | Buffer) -> tuple[int, int, int]:
    """Where a step's argument or a buffer begins: a table of addresses, the number in it, and an offset in bytes."""
    if isinstance(found, Parameters):
        return BLOCKS, 1, found.offset
    outer = found.buffer if isinstance(found, View) else found.inside
    if outer is not None:
        table, number, offset = place_of(outer)
        return table, number, offset + found.offset
    assert isinstance(found, Buffer)
    if found.space.in_arena or found.space is Space.WEIGHTS:
        return BLOCKS, int(not found.space.in_arena), found.offset
    return INPUTS if found.space is Space.INPUT else OUTPUTS, found.index, 0


@dataclass(frozen=True)
class Step:
    """A call of a kernel. `name` is the name of the op, for profiles and errors."""

    name: str
    kernel: EmittedKernel
    arguments: tuple[View | Parameters, ...]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    operations: int = 0
    """Number of multiplications and additions of a contraction in the program."""
    over: Buffer | None = None
    """An input that may share memory with the output, because each element is read right before the same output element
    is written."""
    halo: bool = False
    """Whether the step writes only the padding of its buffer, which no other step writes."""
    family: object | None = None
    """Steps with the same family write disjoint parts of one buffer."""
    inner: tuple[Step, ...] = ()
    """The steps that the kernel of a loop or branch runs."""

    @property
    def count(self) -> int:
        """The number of steps: this one and those inside of it."""
        return sum(1 for _ in every_step([self]))


def every_step(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, each followed by the steps inside of it."""
    for step in steps:
        yield step
        yield from every_step(step.inner)


@dataclass(frozen=True)
class TripCounter:
    """The counter of trips: two i64 in memory, the trips of all loops in a run and the number of a failed loop.

    A loop fails if it would exceed the `limit` of trips. `loops` has the names of the loops, numbered from 1.
    """

    count: View
    limit: int
    loops: list[str]


@dataclass(frozen=True, eq=False)
class ContractionSteps:
    """The steps of a contraction of 8-bit integers whose sums are requantized or dequantized, by their numbers."""

    steps: range
    source: View
    """What the contraction reads."""
    unique_name: str | None
    """The unique name of the model's kernel; None without one."""
    bias: Array
    """What is added to the sums of products, (channels,), i64."""
    with_bias: Callable[[Array], Graph]
    """The same steps with another bias, as a graph of their own."""


@dataclass
class Graph:
    """The steps of a program, and the block of weights that they read."""

    inputs: list[Port]
    outputs: list[Port]
    isa: InstructionSet
    steps: list[Step] = field(default_factory=list[Step])
    weights: ParameterBlock = field(default_factory=ParameterBlock)
    results: list[View] = field(default_factory=list[View])
    observed: list[View] = field(default_factory=list[View])
    """The results that stay where they were computed, after the outputs."""
    contractions: list[ContractionSteps] = field(default_factory=list[ContractionSteps])
    """The contractions of integers, in order. They refer to the program that the graph was made of."""
    trips: TripCounter | None = None
    """The counter of the run, if there are loops."""

    def parameters(self, data: bytes | memoryview) -> Parameters:
        """Append a block of parameters."""
        return Parameters(self.weights.append(data), len(data))

    def call(
        self,
        name: str,
        kernel: EmittedKernel,
        inputs: Sequence[View],
        outputs: Sequence[View],
        *parameters: Parameters,
        operations: int = 0,
        elementwise: Sequence[View] = (),
        halo: bool = False,
        family: object | None = None,
    ) -> None:
        """Append a step whose arguments are the inputs, the parameters and the outputs, in this order.

        The step reads each element of the inputs in `elementwise` right before it writes the same element of the first
        output. Steps of one `family` write different elements.
        """
        self.steps.append(
            Step(
                name,
                kernel,
                (*inputs, *parameters, *outputs),
                tuple(view.buffer for view in inputs),
                tuple(view.buffer for view in outputs),
                operations,
                _over(elementwise, inputs, outputs),
                halo,
                family,
            )
        )


def _over(candidates: Sequence[View], inputs: Sequence[View], outputs: Sequence[View]) -> Buffer | None:
    """The buffer of a candidate with the layout of the first output, which no other input reads; None without one."""
    if not candidates:
        return None
    output = outputs[0]
    for view in candidates:
        # An element is overwritten by its own result only if both views place it at the same offset.
        alike = (view.offset, view.shape, view.strides, view.itemsize, view.buffer.size) == (
            output.offset, output.shape, output.strides, output.itemsize, output.buffer.size,
        )  # fmt: skip
        # Another operand in the same buffer may be read at positions that have been overwritten.
        alone = [other.buffer for other in inputs].count(view.buffer) == 1
        # An input and an output may share memory in the body of a loop.
        spaces = {view.buffer.space, output.buffer.space}
        may = view.buffer.space is Space.ARENA or spaces == {Space.INPUT, Space.OUTPUT}
        if alike and alone and view.buffer is not output.buffer and may:
            return view.buffer
    return None


def dense_view(shape: tuple[int, ...], dtype: np.dtype[np.generic], space: Space, index: int = 0) -> View:
    """A view of a new buffer, whose elements follow each other in the program's order."""
    return View(
        Buffer(space, math.prod(shape) * dtype.itemsize, index), 0, shape, row_major(shape, dtype.itemsize), dtype
    )


def image_view(shape: Sequence[int], channel: int, pitch: int, dtype: np.dtype[np.generic], halo: Halo | None) -> View:
    """A view of a new arena buffer for images, with `pitch` bytes per pixel and channels innermost.

    `shape` is the program's: (N, C, H, W) if `channel` is 1, (N, H, W, C) if it is 3.
    """
    n, *others = shape
    c = others.pop(channel - 1)
    h, w = others
    top, left, bottom, right = halo.sides if halo else (0, 0, 0, 0)
    row = (w + left + right) * pitch
    image = (h + top + bottom) * row
    strides = [image, row, pitch]
    strides.insert(channel, dtype.itemsize)
    assert c * dtype.itemsize <= pitch
    # A kernel that reads four bytes of a row at once reads up to three beyond the last.
    size = n * image if pitch % 4 == 0 else -(-(n * image + 3) // 16) * 16
    return View(Buffer(Space.ARENA, size), top * row + left * pitch, tuple(shape), tuple(strides), dtype, halo)


def matrix_view(shape: Sequence[int], dtype: np.dtype[np.generic], multiple: int) -> View:
    """A view of a new arena buffer. Rows (along the last dimension) start at multiples of `multiple` bytes."""
    *outer, last = shape or (1,)
    # The pitch is rounded up, so that kernels may load whole vectors at the ends of rows.
    pitch = -(-last * dtype.itemsize // multiple) * multiple
    strides = (*(step * pitch for step in row_major(outer, 1)), dtype.itemsize)[: len(shape)]
    return View(Buffer(Space.ARENA, math.prod(outer) * pitch), 0, tuple(shape), strides, dtype)
