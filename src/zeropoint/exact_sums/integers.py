"""Integers in f32, and their sums.

f32 holds every integer up to 2^24. A sum of more is made of the sums S of groups, in two halves:

    sum(S) = 4096 sum(floor(S / 4096)) + sum(S - 4096 floor(S / 4096))

Both sums on the right are exact for up to 4,096 groups, so only their own sum is rounded, in every runtime alike.
Squares of 16-bit integers have three sums of products of bytes: with u = 256 h + l,

    sum(u^2) = 65536 sum(h^2) + 512 sum(h l) + sum(l^2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from zeropoint.exact_sums.scaled_integers import ScaledIntegers
from zeropoint.expand.emission import Emission
from zeropoint.ir.annotations import FLOAT_REASON, KERNEL
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    DivideOp,
    FloorOp,
    MultiplyOp,
    ReduceOp,
    ReshapeOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import shape_of, with_shape

EXACT = 1 << 24
"""f32 holds every integer up to this one."""
GROUPS = 1 << 12
"""The number of sums up to `EXACT` whose sum has exact halves."""
BYTE = 1 << 8
BEYOND = 2.0**127
"""A bound that no number of a normalization reaches. Clamps to the greatest f32 are dropped by importers."""


@dataclass(frozen=True)
class Levels:
    """The dimensions that are summed first, and those that are summed in halves after them."""

    shape: tuple[int, ...]
    """The shape of the operand. One of its dimensions may be split into two."""
    inner: tuple[int, ...]
    outer: tuple[int, ...]


def levels(shape: tuple[int, ...], dimensions: Sequence[int], reach: int) -> Levels | None:
    """How integers up to `reach` are summed; None if there are too many, or if they are too large."""
    inner: list[int] = []
    left = EXACT // reach
    for dimension in sorted(dimensions, reverse=True):
        if shape[dimension] <= left:
            inner.append(dimension)
            left //= shape[dimension]
    outer = sorted(set(dimensions) - set(inner))
    groups = prod(shape[dimension] for dimension in outer)
    if left < 1 or not outer or (inner and groups <= GROUPS):
        return None if left < 1 else Levels(shape, tuple(sorted(inner)), tuple(outer))
    split = outer[-1]
    part = max(size for size in range(1, left + 1) if shape[split] % size == 0)
    if groups // part > GROUPS:
        return None
    longer = (*shape[:split], shape[split] // part, part, *shape[split + 1 :])
    inner = [split + 1, *(dimension + (dimension > split) for dimension in inner)]
    return Levels(longer, tuple(sorted(inner)), tuple(dimension + (dimension > split) for dimension in outer))


@dataclass(frozen=True)
class Squares:
    """How squares of integers are summed."""

    levels: Levels
    in_bytes: bool
    """Whether the integers have two bytes, and products of these are summed."""


def squares(shape: tuple[int, ...], dimensions: Sequence[int], reach: int) -> Squares | None:
    """How squares of integers up to `reach` are summed; None if there are too many."""
    whole = levels(shape, dimensions, reach * reach) if reach * reach <= EXACT // BYTE else None
    if whole is not None:
        return Squares(whole, in_bytes=False)
    bytes_ = levels(shape, dimensions, max(BYTE, reach // BYTE + 1) ** 2)
    return None if bytes_ is None else Squares(bytes_, in_bytes=True)


class Writer(Emission):
    """Emits the arithmetic of integers in f32."""

    def __init__(self, before: Operation, program: Program, like: Operation | None = None, *, fuses: bool = False):
        self._like, self._fuses = before if like is None else like, fuses
        self._splats: dict[tuple[float, tuple[int, ...]], SSAValue] = {}
        super().__init__(Builder(InsertPoint.before(before)), program.weights, self._like.location)

    def add(self, op: Operation) -> SSAValue:
        for name in (FLOAT_REASON, KERNEL):
            if name in self._like.attributes:
                op.attributes[name] = self._like.attributes[name]
        return super().add(op)

    def splat(self, number: float, like: SSAValue) -> SSAValue:
        key = float(number), shape_of(like)
        if key not in self._splats:
            self._splats[key] = super().splat(number, like)
        return self._splats[key]

    def times(self, value: SSAValue, number: float | np.float32) -> SSAValue:
        return self.add(MultiplyOp(value, self.splat(float(number), value)))

    def floor(self, value: SSAValue) -> SSAValue:
        return self.add(FloorOp(value))

    def plus(self, value: SSAValue, number: float) -> SSAValue:
        return self.add(AddOp(value, self.splat(number, value)))

    def minus(self, value: SSAValue, other: SSAValue) -> SSAValue:
        return self.add(SubtractOp(value, other))

    def without(self, value: SSAValue, other: SSAValue, number: float) -> SSAValue:
        """value - number * other, exactly, as a sum: a difference may be the addition of a mask (`add_masks`)."""
        return self.add(AddOp(value, self.times(other, -number)))

    def inverse(self, value: SSAValue) -> SSAValue:
        return self.add(DivideOp(self.splat(1, value), value))

    def kept(self, product: SSAValue) -> SSAValue:
        """A product that the runtime rounds before it adds something: a clamp that changes nothing is between them."""
        if not self._fuses:
            return product
        most = np.array(BEYOND, np.float32)
        return self.add(ClampOp(self.constant(-most), product, self.constant(most)))

    def square(self, value: SSAValue) -> SSAValue:
        return self.add(MultiplyOp(value, value))

    def integers(self, value: SSAValue, steps: ScaledIntegers) -> SSAValue:
        """Dequantized values divided by their scale: the product is less than half a step away from an integer."""
        near = self.times(value, np.float32(1) / steps.scale)
        return self.floor(self.plus(near, 0.5))

    def total(self, value: SSAValue, dimensions: Sequence[int]) -> SSAValue:
        shape = [size for dimension, size in enumerate(shape_of(value)) if dimension not in dimensions]
        zero = self.constant(np.zeros((), np.float32))
        return self.add(ReduceOp([value], [zero], [with_shape(value, shape)], dimensions, binary_body(AddOp, f32)))

    def summed(self, value: SSAValue, by: Levels) -> SSAValue:
        """The sum of integers, rounded once if it is more than `EXACT`."""
        if by.shape != shape_of(value):
            value = self.add(ReshapeOp(value, with_shape(value, by.shape)))
        if by.inner:
            value = self.total(value, by.inner)
        if not by.outer:
            return value
        rest = [dimension - sum(each < dimension for each in by.inner) for dimension in by.outer]
        high, low = self.halves(value, GROUPS)
        return self.add(AddOp(self.times(self.total(high, rest), GROUPS), self.total(low, rest)))

    def halves(self, value: SSAValue, base: int) -> tuple[SSAValue, SSAValue]:
        """Integers as base * high + low, with 0 <= low < base, a power of two."""
        high = self.floor(self.times(value, 1 / base))
        return high, self.without(value, high, base)

    def summed_squares(self, value: SSAValue, by: Squares) -> SSAValue:
        """The sum of the squares of integers."""
        if not by.in_bytes:
            return self.summed(self.square(value), by.levels)
        high, low = self.halves(value, BYTE)
        both = self.times(self.summed(self.add(MultiplyOp(high, low)), by.levels), 2 * BYTE)
        upper = self.times(self.summed(self.square(high), by.levels), BYTE * BYTE)
        return self.add(AddOp(self.add(AddOp(upper, both)), self.summed(self.square(low), by.levels)))
