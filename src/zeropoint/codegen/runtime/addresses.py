"""The addresses of the arguments of steps in this process. `codegen.driver.pointer` emits code that computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeropoint.codegen.graph import Buffer, Parameters, View, place_of


@dataclass(frozen=True)
class Addresses:
    """The addresses of the memory of a run: the arena, the weights, and each array of the caller."""

    arena: int
    weights: int
    inputs: Sequence[int]
    outputs: Sequence[int]

    def of(self, found: View | Parameters | Buffer) -> int:
        """The address of the first byte of a buffer, or that which a kernel gets for an argument: its first element."""
        table, number, offset = place_of(found)
        return ((self.arena, self.weights), self.inputs, self.outputs)[table][number] + offset
