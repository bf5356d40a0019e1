"""Bounds on the integers of a layer normalization, which depend on each other.

The rules for single ops give too wide ranges. They do not know that the variance of a row is a difference of two
related sums, that a shift depends on the variance, that Newton's steps converge, and that no value is far from the mean
if the variance is small. So the ops of `numerics.layer_norm` are matched as a whole, with their constants, starting at
the `count_leading_zeros` of the variance. The analysis then gets the bounds below. The ranges of the other ops follow
by the rules for single ops.

For rows of n integers q in low..high, with S = sum(q), Q = sum(q q), V = max(n Q - S S + E, n), E >= 0:

- 0 <= n Q - S S <= n^2 (high - low)^2 / 4, by the variances of numbers in a range (Popoviciu).
- z even with 2^(62 - z) <= V < 2^(64 - z), so V << (z - 2) is in 2^60..2^62 - 1, and m in 2^30..2^32 - 1.
- y is a function of m only. 2^30..2^32 is divided into 4,096 parts. In each, the steps are evaluated with intervals.
- (n q - S)^2 <= (n - 1) (n Q - S S) <= (n - 1) V (Samuelson), and V < (m + 1) 2^(32 - z). So with l = z / 2 + e,
  |c| <= sqrt((n - 1) (m + 1) 2^32) 2^e / n + 1, in each part; the 1 is for the rounding of rho.
- t follows from c and y of the same part.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.constants import splat_value
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.layer_norm import LINE, MOST_TERMS, NEWTON_STEPS, LayerNorm
from zeropoint.ranges.analysis import Ranges
from zeropoint.ranges.interval import Interval

PARTS = 4096
ScalarKey = tuple[object, ...]
RowNumber = SSAValue | int


class NotFoundError(Exception):
    """An op of a layer normalization is not in the block."""


class RowOps:
    """Finds ops of a block by kind and operands, where broadcast constants count as their number."""

    def __init__(self, block: Block, weights: Weights):
        self.weights = weights
        self.found: dict[ScalarKey, SSAValue] = {}
        for op in block.ops:
            if len(op.results) == 1:
                self.found.setdefault(self._key(op), op.results[0])

    def _key(self, op: Operation) -> ScalarKey:
        extra: ScalarKey = ()
        if isinstance(op, hlo.ReduceOp):
            first = op.body.block.first_op
            alone = len(op.body.block.ops) == 2 and self.number(op.operands[-1]) == 0
            extra = (type(first) if alone else op, array_values(op.dimensions))
        elif isinstance(op, hlo.ConvertOp):
            extra = (str(element_of(op.result)),)
        elif isinstance(op, hlo.BroadcastInDimOp):
            extra = (shape_of(op.result),)
        return (type(op), *(self.named(operand) for operand in op.operands), *extra)

    def number(self, value: SSAValue) -> int | None:
        """The integer that a constant or a broadcast constant repeats; None for other values, such as -inf."""
        if isinstance(op := value.owner, hlo.BroadcastInDimOp):
            value = op.operand
        found = splat_value(value, self.weights)
        return int(found) if found is not None and found.is_integer() else None

    def named(self, value: RowNumber) -> object:
        """The number that a value repeats, or the value itself."""
        if isinstance(value, int):
            return value
        number = self.number(value)
        return value if number is None else number

    def op(self, kind: type[Operation], *operands: RowNumber, extra: ScalarKey = ()) -> SSAValue:
        """The result of the op with this kind and these operands. Raises NotFoundError without one."""
        key = (kind, *(self.named(operand) for operand in operands), *extra)
        if key not in self.found:
            raise NotFoundError
        return self.found[key]

    def convert(self, value: SSAValue, element: str) -> SSAValue:
        """The conversion of a value to a type, or the value itself if it has the type."""
        return value if str(element_of(value)) == element else self.op(hlo.ConvertOp, value, extra=(element,))


@dataclass(frozen=True)
class RowSteps:
    """The bounds on the values that depend on m, and the greatest |c| and |t|."""

    lines: tuple[tuple[int, int], ...]
    """For each step: y, y^2, a = y^2 >> 30, m a, b = m a >> 30, d = 3 2^30 - b, y d. After the last step: y."""
    centred: int
    normalized: int


@functools.cache
def steps(terms: int) -> RowSteps:
    """The bounds for rows of `terms` values, computed on parts of the range of m."""
    edges = (1 << 30) + (np.arange(PARTS + 1, dtype=np.int64) * ((3 << 30) // PARTS))
    low, high = edges[:-1], edges[1:] - 1
    y = LINE[0] - ((high * LINE[1]) >> 15), LINE[0] - ((low * LINE[1]) >> 15)
    lines: list[tuple[int, int]] = []

    def noted(bounds: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
        lines.append((int(bounds[0].min()), int(bounds[1].max())))
        return bounds

    for _ in range(NEWTON_STEPS):
        noted(y)
        square = noted((y[0] * y[0], y[1] * y[1]))
        square = noted((square[0] >> 30, square[1] >> 30))
        product = noted((low * square[0], high * square[1]))
        product = noted((product[0] >> 30, product[1] >> 30))
        rest = noted(((3 << 30) - product[1], (3 << 30) - product[0]))
        # Products of the ends are bounds only if the factors do not change sign.
        assert min(int(y[0].min()), int(rest[0].min())) > 0
        wide = noted((y[0] * rest[0], y[1] * rest[1]))
        y = wide[0] >> 31, wide[1] >> 31
    noted(y)
    norm = LayerNorm(terms, 0)
    centred = _centred(norm, high)
    factor = (terms * y[1]) >> (norm.log + 1)
    normalized = max(
        ((c * int(g) + (1 << 32) >> 32) + 256 >> 9) + 1 for c, g in zip(centred, factor.tolist(), strict=True)
    )
    return RowSteps(tuple(lines), max(centred), normalized)


def _centred(norm: LayerNorm, m: IntArray) -> list[int]:
    """The greatest |c| for each m: sqrt((n - 1) (m + 1) 2^32) 2^e / n + 1, rounded up."""
    n, e = norm.terms, norm.log - norm.reach - 2
    up, down = max(e, 0), max(-e, 0)
    # 2^72 instead of 2^32 gives the root 20 fraction bits, which the division below removes.
    roots = (math.isqrt((n - 1) * (int(each) + 1) << 72) + 1 for each in m.tolist())
    return [(root << up) // (n << (20 + down)) + 2 for root in roots]


def row_bounds(ranges: Ranges, block: Block) -> None:
    """Add the bounds on the layer normalizations of a block to `ranges.stated`."""
    anchors = [op for op in block.ops if isinstance(op, hlo.CountLeadingZerosOp)]
    if not anchors:
        return
    ops = RowOps(block, ranges.weights)
    for anchor in anchors:
        try:
            ranges.stated.update(_bounds(ranges, ops, anchor))
        except NotFoundError:
            continue


def _bounds(ranges: Ranges, ops: RowOps, anchor: hlo.CountLeadingZerosOp) -> Iterator[tuple[SSAValue, Interval]]:
    """The values of the layer normalization at an anchor, with their bounds. Raises NotFoundError if there is none."""
    v = anchor.operand
    q, axis, epsilon = _rows(ops, v)
    n, given = shape_of(q)[axis], ranges.of(q)
    low, high = given.least, given.greatest
    # Popoviciu: a variance is at most a quarter of the squared range, and v is n^2 times it.
    most = n * n * (high - low) ** 2 // 4
    greatest = max(most + epsilon, n)
    if n > MOST_TERMS or low < -(1 << 15) or high >= 1 << 15 or epsilon < 0 or greatest >= 1 << 61:
        raise NotFoundError
    norm = LayerNorm(n, epsilon)
    total = ops.convert(_sum(ops, q, axis), "i64")
    found: dict[SSAValue, tuple[int, int]] = {_spread(ops, q, axis): (0, most), v: (max(epsilon, n), greatest)}
    # The greatest v has the fewest leading zeros.
    zeros = 64 - greatest.bit_length(), 64 - max(epsilon, n).bit_length()
    z = ops.op(hlo.AndOp, anchor.result, -2)
    found |= {anchor.result: zeros, z: (zeros[0] & ~1, zeros[1] & ~1)}
    raised = ops.op(hlo.ShiftLeftOp, v, ops.op(hlo.SubtractOp, z, 2))
    # An even shift normalizes v to 2^60..2^62, so that the root's exponent is whole.
    found[raised] = 1 << 60, (1 << 62) - 1
    y = _newton(ops, ops.op(hlo.ShiftRightArithmeticOp, raised, 30), steps(n), found)
    factor = ops.op(hlo.ShiftRightArithmeticOp, ops.op(hlo.MultiplyOp, y, n), norm.log + 1)
    left = ops.op(hlo.AddOp, ops.op(hlo.ShiftRightArithmeticOp, z, 1), norm.log - norm.reach - 2)
    mean = ops.op(hlo.DivideOp, ops.op(hlo.AddOp, total, n * (1 << 15) + n // 2), n)
    mean = ops.op(hlo.SubtractOp, mean, 1 << 15)
    rest = ops.op(hlo.SubtractOp, total, ops.op(hlo.MultiplyOp, mean, n))
    # The mean is rounded to nearest, so the rest is at most half of n.
    found[rest] = -(n // 2), n - 1 - n // 2
    rho = ops.op(hlo.DivideOp, ops.op(hlo.ShiftLeftOp, rest, left), n)

    def every(value: SSAValue) -> SSAValue:
        return ops.op(hlo.BroadcastInDimOp, ops.convert(value, "i32"), extra=(shape_of(q),))

    unit = ops.op(hlo.ShiftLeftOp, 1, left)
    scaled = ops.op(hlo.MultiplyOp, ops.op(hlo.SubtractOp, q, every(mean)), every(unit))
    c = ops.op(hlo.SubtractOp, scaled, every(rho))
    reach = steps(n).centred
    # rho is less than 2^l / 2 + 1, and l is at most half the greatest z and e.
    beside = 1 << max((zeros[1] >> 1) + norm.log - norm.reach - 2, 0)
    found |= {c: (-reach, reach), scaled: (-reach - beside - 1, reach + beside + 1)}
    product = ops.op(hlo.MultiplyOp, ops.convert(c, "i64"), ops.convert(every(factor), "i64"))
    high_half = ops.convert(ops.op(hlo.ShiftRightArithmeticOp, product, 32), "i32")
    t = ops.op(hlo.ShiftRightArithmeticOp, ops.op(hlo.AddOp, high_half, 256), 9)
    found[t] = -steps(n).normalized, steps(n).normalized
    yield from ((value, Interval.of(*bounds)) for value, bounds in found.items())


def _rows(ops: RowOps, v: SSAValue) -> tuple[SSAValue, int, int]:
    """The integers whose variance is `v`, the dimension of their rows, and epsilon."""
    least = v.owner
    spread, epsilon = (least.lhs.owner, 0) if isinstance(least, hlo.MaximumOp) else (None, 0)
    if isinstance(spread, hlo.AddOp):
        epsilon, spread = ops.number(spread.rhs) or 0, spread.lhs.owner
    squared = spread.rhs.owner if isinstance(spread, hlo.SubtractOp) else None
    total = squared.operands[0].owner if isinstance(squared, hlo.MultiplyOp) else None
    summed = total.operand.owner if isinstance(total, hlo.ConvertOp) else None
    if not isinstance(least, hlo.MaximumOp) or not isinstance(spread, hlo.SubtractOp):
        raise NotFoundError
    if not isinstance(summed, hlo.ReduceOp) or len(axes := array_values(summed.dimensions)) != 1:
        raise NotFoundError
    q, axis = summed.operands[0], axes[0]
    if ops.number(least.rhs) != shape_of(q)[axis] or _spread(ops, q, axis) is not spread.result:
        raise NotFoundError
    return q, axis, epsilon


def _sum(ops: RowOps, value: SSAValue, axis: int) -> SSAValue:
    return ops.op(hlo.ReduceOp, value, 0, extra=(hlo.AddOp, (axis,)))


def _spread(ops: RowOps, q: SSAValue, axis: int) -> SSAValue:
    """n Q - S S, with the squares added in two parts of 15 bits."""
    square, total = ops.op(hlo.MultiplyOp, q, q), ops.convert(_sum(ops, q, axis), "i64")
    high = ops.convert(_sum(ops, ops.op(hlo.ShiftRightArithmeticOp, square, 15), axis), "i64")
    low = ops.convert(_sum(ops, ops.op(hlo.AndOp, square, (1 << 15) - 1), axis), "i64")
    squares = ops.op(hlo.AddOp, ops.op(hlo.MultiplyOp, high, 1 << 15), low)
    scaled = ops.op(hlo.MultiplyOp, squares, shape_of(q)[axis])
    return ops.op(hlo.SubtractOp, scaled, ops.op(hlo.MultiplyOp, total, total))


def _newton(ops: RowOps, m: SSAValue, known: RowSteps, found: dict[SSAValue, tuple[int, int]]) -> SSAValue:
    """Find the ops of `reciprocal_root` of m, and add the bounds of each step to `found`. Returns the root."""
    bounds = iter(known.lines)

    def noted(value: SSAValue) -> SSAValue:
        found[value] = next(bounds)
        return value

    line = ops.op(hlo.ShiftRightArithmeticOp, ops.op(hlo.MultiplyOp, m, LINE[1]), 15)
    y = ops.op(hlo.SubtractOp, LINE[0], line)
    for _ in range(NEWTON_STEPS):
        noted(y)
        square = noted(ops.op(hlo.ShiftRightArithmeticOp, noted(ops.op(hlo.MultiplyOp, y, y)), 30))
        product = noted(ops.op(hlo.ShiftRightArithmeticOp, noted(ops.op(hlo.MultiplyOp, m, square)), 30))
        rest = noted(ops.op(hlo.SubtractOp, 3 << 30, product))
        y = ops.op(hlo.ShiftRightArithmeticOp, noted(ops.op(hlo.MultiplyOp, y, rest)), 31)
    return noted(y)
