"""The addresses of the arguments of steps in this process. `codegen.driver.pointer` emits code that computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeropoint.codegen.graph import Buffer, Parameters, Space, View


@dataclass(frozen=True)
class Addresses:
    """The addresses of the memory of a run: the arena, the weights, and each array of the caller."""

    arena: int
    weights: int
    inputs: Sequence[int]
    outputs: Sequence[int]

    def of(self, argument: View | Parameters) -> int:
        """The address that a kernel gets for an argument, which is that of the first element."""
        if isinstance(argument, Parameters):
            return self.weights + argument.offset
        return self.of_buffer(argument.buffer) + argument.offset

    def of_buffer(self, buffer: Buffer) -> int:
        """The address of the first byte of a buffer."""
        if buffer.inside is not None:
            return self.of_buffer(buffer.inside) + buffer.offset
        if buffer.space.in_arena:
            return self.arena + buffer.offset
        if buffer.space is Space.WEIGHTS:
            return self.weights + buffer.offset
        return (self.inputs if buffer.space is Space.INPUT else self.outputs)[buffer.index]
