"""Bounds of integers that are made of bytes and constants: converted, added, subtracted and moved ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConvertOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights

MOST_BYTES = 2
"""The size of a type whose bounds count as small."""
DEPTH = 20
"""How many ops are followed from a value to those that make it."""
IntegerSpan = tuple[int, int]


@dataclass(frozen=True)
class SmallIntegers:
    """What is known about values of integers."""

    weights: Weights

    def array(self, value: SSAValue, depth: int = DEPTH) -> Array | None:
        """The integers of a value that only constants make, in its type; None for others."""
        found = constant_array(value, self.weights)
        if found is not None or not isinstance(op := value.owner, Operation) or not depth:
            return found
        dtype = element_dtype(element_of(value))
        if not isinstance(op, ConvertOp | AddOp | SubtractOp | BroadcastInDimOp) or dtype.kind not in "iu":
            return None
        sides = [self.array(operand, depth - 1) for operand in op.operands]
        arrays = [side for side in sides if side is not None and side.dtype.kind in "iu"]
        if len(arrays) != len(sides):
            return None
        if isinstance(op, BroadcastInDimOp):
            return np.broadcast_to(arrays[0].reshape(op.aligned_shape), shape_of(value))
        if isinstance(op, ConvertOp):
            return arrays[0].astype(dtype)
        return arrays[0] + arrays[1] if isinstance(op, AddOp) else arrays[0] - arrays[1]

    def reach(self, value: SSAValue) -> int | None:
        """The greatest magnitude that a value may have; None if it is not known to be small."""
        bounds = self._bounds(value, DEPTH)
        return None if bounds is None else max(map(abs, bounds))

    def _bounds(self, value: SSAValue, depth: int) -> IntegerSpan | None:
        array = constant_array(value, self.weights)
        if array is not None and array.size and array.dtype.kind in "iu":
            return int(array.min()), int(array.max())
        op, dtype = value.owner, element_dtype(element_of(value))
        if dtype.kind not in "iu":
            return None
        if dtype.itemsize <= MOST_BYTES:
            limits = np.iinfo(dtype)
            return int(limits.min), int(limits.max)
        if not isinstance(op, Operation) or not depth:
            return None
        sides = [self._bounds(operand, depth - 1) for operand in op.operands]
        known = [side for side in sides if side is not None]
        return _made(op, known) if len(known) == len(sides) else None


def _made(op: Operation, sides: list[IntegerSpan]) -> IntegerSpan | None:
    """The bounds of the integers that an op makes of integers in `sides`."""
    match op:
        case ConvertOp() | ReshapeOp() | TransposeOp() | SliceOp() | BroadcastInDimOp():
            return sides[0]
        case PadOp():
            return min(sides[0][0], sides[1][0]), max(sides[0][1], sides[1][1])
        case AddOp():
            return sides[0][0] + sides[1][0], sides[0][1] + sides[1][1]
        case SubtractOp():
            return sides[0][0] - sides[1][1], sides[0][1] - sides[1][0]
        case _:
            return None
