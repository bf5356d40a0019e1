"""The graph of native code: kernels on views of buffers, in execution order.

A `View` locates the elements of a value: strides in bytes, in the order of the value's dimensions in the program.
Rank-4 activations are stored as N, H, W, C; their order in the program does not matter. Padding around an image
(`Halo`) is part of the buffer of the padded value, so that padding needs no copy.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

import numpy as np

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.parameters import ParameterBlock
from zeropoint.ir.program import Port


class Space(Enum):
    """The memory space of a buffer."""

    ARENA = "arena"
    CARRIED = "carried"
    """The part of the arena with what loops carry and hand to their regions: 8-bit integers without an offset."""
    INPUT = "input"
    OUTPUT = "output"
    WEIGHTS = "weights"

    @property
    def in_arena(self) -> bool:
        """Whether its buffers are placed in the arena."""
        return self in (Space.ARENA, Space.CARRIED)


class EmittedKernel(Protocol):
    """A kernel: a frozen dataclass with everything that its code depends on, so that equal kernels share code."""

    def tasks(self, isa: InstructionSet) -> int:
        """The number of tasks that its work can be split into, for threads to share."""
        ...

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """Define `void name(ptr ..., i64 begin, i64 end)`, which runs tasks begin..end on the step's arguments."""
        ...


def name_of(kernel: EmittedKernel) -> str:
    """The name of a kernel's function."""
    return f"kernel_{hashlib.sha256(repr(kernel).encode()).hexdigest()[:16]}"


@dataclass(eq=False)
class Buffer:
    """A block of memory. Inputs and outputs belong to the caller; `index` is their number."""

    space: Space
    size: int
    index: int = 0
    offset: int = -1
    """Offset in the arena, once planned, or in the block of weights."""
    inside: Buffer | None = None
    """The workspace of the loop or branch in which it lies, in the arena: its offset counts from there."""


@dataclass(frozen=True)
class Halo:
    """Padding around an image: number of pixels on each side, and their stored value."""

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
        """The least padding that covers both, which must have the same value."""
        top, left, bottom, right = map(max, self.sides, other.sides)
        return Halo(top, left, bottom, right, self.value)


@dataclass(frozen=True)
class View:
    """The elements of a value: `shape` and `strides` (in bytes) in the program's order of dimensions.

    Values of dtype int8 in the arena are activations: stored integers plus the instruction set's offset.
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
        """Whether elements are 8-bit activations, with the instruction set's offset."""
        return self.dtype == np.int8 and self.buffer.space is Space.ARENA

    def moved(self, offset: int) -> View:
        """The view moved by `offset` bytes."""
        return replace(self, offset=self.offset + offset) if offset else self

    def dense(self) -> bool:
        """Whether elements are contiguous in the program's order."""
        return self.strides == row_major(self.shape, self.dtype.itemsize)


def row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Row-major strides in bytes."""
    strides: list[int] = []
    step = itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Parameters:
    """A kernel argument of `size` bytes in the block of weights."""

    offset: int
    size: int


@dataclass(frozen=True)
class Step:
    """One call of a kernel. `name` is the op's, for profiles and errors."""

    name: str
    kernel: EmittedKernel
    arguments: tuple[View | Parameters, ...]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    operations: int = 0
    """Number of multiplications and additions of a contraction in the program."""
    over: Buffer | None = None
    """An input whose elements are read only right before the same output element is written: they may share memory."""
    halo: bool = False
    """Whether it writes only the padding of its buffer, which no other step writes."""
    family: object | None = None
    """Steps of one family write disjoint parts of one buffer."""
    inner: tuple[Step, ...] = ()
    """The steps that the kernel of a loop or branch runs."""


def every_step(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, each followed by those inside of it."""
    for step in steps:
        yield step
        yield from every_step(step.inner)


@dataclass(frozen=True)
class TripCounter:
    """Two i64 of a run: the trips of all loops, and the number of one that would make more than `limit`.

    `loops` are the names of the loops, by number, from 1 on.
    """

    count: View
    limit: int
    loops: list[str]


@dataclass
class Graph:
    """The steps of a program and the block of weights they read."""

    inputs: list[Port]
    outputs: list[Port]
    isa: InstructionSet
    steps: list[Step] = field(default_factory=list[Step])
    weights: ParameterBlock = field(default_factory=ParameterBlock)
    results: list[View] = field(default_factory=list[View])
    observed: list[View] = field(default_factory=list[View])
    """The results that stay where they were computed, after the outputs."""
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

        From the inputs in `elementwise`, it reads an element only right before it writes the same output element.
        Steps of one `family` write other elements.
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
    """The buffer of a candidate with the same layout as the output, and not read by another input; or None."""
    if not candidates:
        return None
    (output,) = outputs
    for view in candidates:
        # Each element is overwritten by the result of that very element only if both views place it alike.
        alike = (view.offset, view.shape, view.strides, view.itemsize, view.buffer.size) == (
            output.offset, output.shape, output.strides, output.itemsize, output.buffer.size,
        )  # fmt: skip
        # A second operand in the same buffer may be read at other positions, after they were overwritten.
        alone = [other.buffer for other in inputs].count(view.buffer) == 1
        # Inputs and outputs share memory if they are those of a loop's body.
        spaces = {view.buffer.space, output.buffer.space}
        may = view.buffer.space is Space.ARENA or spaces == {Space.INPUT, Space.OUTPUT}
        if alike and alone and view.buffer is not output.buffer and may:
            return view.buffer
    return None


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
    return View(Buffer(Space.ARENA, n * image), top * row + left * pitch, tuple(shape), tuple(strides), dtype, halo)


def matrix_view(shape: Sequence[int], dtype: np.dtype[np.generic], multiple: int) -> View:
    """A view of a new arena buffer; rows (along the last dimension) start at multiples of `multiple` bytes."""
    *outer, last = shape or (1,)
    # Rows are rounded up, so that kernels may load whole vectors at their ends.
    pitch = -(-last * dtype.itemsize // multiple) * multiple
    strides = (*(step * pitch for step in row_major(outer, 1)), dtype.itemsize)[: len(shape)]
    return View(Buffer(Space.ARENA, math.prod(outer) * pitch), 0, tuple(shape), strides, dtype)
