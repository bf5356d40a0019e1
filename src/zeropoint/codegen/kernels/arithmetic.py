"""The arithmetic of contractions: what a micro-kernel needs of products, sums and results, of integers or floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value
from zeropoint.numerics import CommonScaleSum
from zeropoint.numerics.arrays import IntArray

TileSums = Sequence[Sequence[Value]]
"""The accumulators of each pixel of a tile."""
ChannelGroups = Sequence[tuple[int, IntArray]]
"""For each part of the channels, the number of vectors of a group, and the channels (groups, channels of a group)."""


@dataclass(frozen=True)
class TileTarget:
    """The address of a tile's first output pixel, the bytes to the next pixel, and the address of the residual.

    `another` is that of a second number of each pixel, if the residual has one element a pixel.
    """

    out: Value
    step: int
    other: Value | None = None
    another: Value | None = None


@dataclass(frozen=True)
class Residual:
    """A value that is added to the output. Its pixel (y, x) is at y * row + x * pixel, in bytes.

    `total` is the weighted sum for i8; None for floats, and if the epilogue adds the value. `first` says whether the
    value is the first operand of the sum; the other operand is the output of the contraction. Without `channels`, the
    value has one element a pixel, by which accumulators are multiplied.
    """

    row: int
    pixel: int
    first: bool
    total: CommonScaleSum | None
    channels: bool = True


class Arithmetic(Protocol):
    """The steps of a micro-kernel that depend on the arithmetic. Implementations are frozen dataclasses."""

    @property
    def residual(self) -> Residual | None:
        """The term that is added at the end."""
        ...

    @property
    def halves(self) -> int:
        """The number of weight vectors for each step and vector of accumulators."""
        ...

    @property
    def wide(self) -> bool:
        """Whether bytes are extended to 16 bits, so that a pixel has two operands in registers."""
        ...

    @property
    def packed(self) -> int:
        """The number of steps whose weights are in one vector."""
        ...

    @property
    def channel_bytes(self) -> int:
        """Bytes of one output channel."""
        ...

    def size(self, isa: InstructionSet, count: int) -> int:
        """Bytes of parameters of a group of `count` vectors."""
        ...

    @property
    def in_order(self) -> bool:
        """Whether the order of steps matters. Output elements are then wide enough to store accumulators."""
        ...

    @property
    def of_bytes(self) -> bool:
        """Whether a step adds four products of bytes to i32, which start at the first parameters."""
        ...

    def starts(self, f: Function, isa: InstructionSet, parameters: Value, count: int) -> list[Value]:
        """The initial accumulators of a pixel."""
        ...

    def operands(self, f: Function, word: Value) -> Sequence[Value]:
        """What a step multiplies with each of the `halves`, made of four input bytes (in every element of `word`)."""
        ...

    def step(self, f: Function, isa: InstructionSet, acc: Value, word: Value, weight: Value) -> Value:
        """acc plus the products of an operand with a weight vector (of i8)."""
        ...

    def finish(self, f: Function, isa: InstructionSet, pixels: TileSums, parameters: Value, to: TileTarget) -> None:
        """Store a tile, given the accumulators of its pixels."""
        ...


InnerT_co = TypeVar("InnerT_co", bound=Arithmetic, covariant=True)


@dataclass(frozen=True)
class Extended(Generic[InnerT_co]):
    """Arithmetic on the products of `inner`. Subclasses define what differs from it."""

    inner: InnerT_co

    @property
    def halves(self) -> int:
        """The number of weight vectors for each step and vector of accumulators."""
        return self.inner.halves

    @property
    def wide(self) -> bool:
        """Whether bytes are extended to 16 bits."""
        return self.inner.wide

    @property
    def packed(self) -> int:
        """The number of steps whose weights are in one vector."""
        return self.inner.packed

    @property
    def channel_bytes(self) -> int:
        """Bytes of one output channel."""
        return self.inner.channel_bytes

    @property
    def in_order(self) -> bool:
        """Whether the order of steps matters."""
        return self.inner.in_order

    @property
    def of_bytes(self) -> bool:
        """Whether a step adds four products of bytes to i32."""
        return self.inner.of_bytes

    def starts(self, f: Function, isa: InstructionSet, parameters: Value, count: int) -> list[Value]:
        """The initial accumulators of a pixel."""
        return self.inner.starts(f, isa, parameters, count)

    def operands(self, f: Function, word: Value) -> Sequence[Value]:
        """What a step multiplies with each of the `halves`."""
        return self.inner.operands(f, word)

    def step(self, f: Function, isa: InstructionSet, acc: Value, word: Value, weight: Value) -> Value:
        """acc plus the products of a step."""
        return self.inner.step(f, isa, acc, word, weight)

    def finish(self, f: Function, isa: InstructionSet, pixels: TileSums, parameters: Value, to: TileTarget) -> None:
        """Store a tile, given the accumulators of its pixels."""
        self.inner.finish(f, isa, pixels, parameters, to)
