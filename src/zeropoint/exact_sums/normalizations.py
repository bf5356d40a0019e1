"""Layer and RMS norms of integers.

The variance of a row of n integers u comes from integers, too: with an integer c near their mean,

    sum((u - mean)^2) = sum((u - c)^2) - (sum(u) - n c)^2 / n

The difference is at least three quarters of the first sum, or n / 4 if that is more, so it loses little and is never
negative. An RMS norm has no mean: it takes sum(u^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from zeropoint.exact_sums.integers import EXACT, Levels, Squares, Writer, levels, squares
from zeropoint.exact_sums.scaled_integers import ScaledIntegers, scaled_integers
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.normalizations import normalization_form
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import AddOp, DivideOp, MultiplyOp, ReshapeOp, SqrtOp
from zeropoint.ir.tensors import element_of, shape_of, with_shape
from zeropoint.targets import Target


def write_normalization(region: QuantizeRegionOp, program: Program, target: Target) -> None:
    """A normalization of integers, if the region has a dequantized operand.

    No product is added to something, except an exact one, because a runtime may fuse the two without rounding.
    """
    form, source, block = normalization_form(region, program.weights), region.body.block.args[0], region.body.block
    steps = scaled_integers(source)
    if form is None or steps is None or element_of(region.outputs[0]) != f32:
        return
    sums = _Sums.of(source, form.axes, steps, centred=region.logical_kernel.data == "layer_norm")
    if sums is None:
        return
    terminator = block.last_op
    assert terminator is not None
    write = Writer(terminator, program, region, fuses=target.fuses_products)
    rows = _Rows(write, write.integers(source, steps), form.axes, sums)
    result, total = rows.moments() if sums.whole is not None else (rows.integers, rows.squares(rows.integers))
    if form.factor is not None:
        result = write.add(MultiplyOp(result, form.factor))
    # What follows, up to the root, is one kernel after an import, and in the place of its last op.
    epsilon = form.epsilon * rows.terms / float(steps.scale) ** 2
    variance = write.times(write.plus(total, epsilon), 1 / np.float32(rows.terms))
    root = write.add(SqrtOp(variance))
    if target.fuses_products:
        result = write.add(MultiplyOp(result, rows.spread(write.inverse(root))))
        result = result if form.addend is None else write.kept(result)
    else:
        result = write.add(DivideOp(result, rows.spread(root)))
    if form.addend is not None:
        result = write.add(AddOp(result, form.addend))
    terminator.operands[0] = result
    remove_dead_ops(block)


@dataclass(frozen=True)
class _Sums:
    """How the integers of rows and the squares of their distances are summed."""

    whole: Levels | None
    """For the integers; None if their mean is not subtracted."""
    distances: Levels | None
    """For the distances to an integer near the mean, if f32 does not hold every sum of the integers; otherwise None."""
    squares: Squares

    @staticmethod
    def of(source: SSAValue, axes: tuple[int, ...], steps: ScaledIntegers, *, centred: bool) -> _Sums | None:
        """None if rows are too long."""
        shape = shape_of(source)
        found = squares(shape, axes, steps.span if centred else steps.reach)
        whole, apart = (levels(shape, axes, reach) for reach in (steps.reach, steps.span))
        if found is None or whole is None or apart is None:
            return None
        fits = prod(shape[axis] for axis in axes) * steps.reach <= EXACT
        return _Sums(whole if centred else None, None if fits else apart, found)


@dataclass(frozen=True)
class _Rows:
    """Integers in f32, and the dimensions of their rows."""

    write: Writer
    integers: SSAValue
    axes: tuple[int, ...]
    sums: _Sums

    @property
    def terms(self) -> int:
        """The number of integers in a row."""
        return prod(shape_of(self.integers)[axis] for axis in self.axes)

    def spread(self, numbers: SSAValue) -> SSAValue:
        """A number per row, in the shape of the integers."""
        shape = shape_of(self.integers)
        return self.write.spread(numbers, shape, range(len(shape)))

    def column(self, sums: SSAValue) -> SSAValue:
        """Sums of rows, in the shape of the integers with one element per row."""
        shape = [1 if dimension in self.axes else size for dimension, size in enumerate(shape_of(self.integers))]
        return self.write.add(ReshapeOp(sums, with_shape(sums, shape)))

    def squares(self, values: SSAValue) -> SSAValue:
        """The sums of the squares of rows."""
        return self.column(self.write.summed_squares(values, self.sums.squares))

    def moments(self) -> tuple[SSAValue, SSAValue]:
        """The distances of the integers to the mean of their row, and the sum of the squares of the distances."""
        write, terms = self.write, self.terms
        assert self.sums.whole is not None
        inverse = 1 / np.float32(terms)
        total = self.column(write.summed(self.integers, self.sums.whole))
        near = write.floor(write.times(write.plus(total, terms / 2), inverse))
        distances = write.minus(self.integers, self.spread(near))
        squares = self.squares(distances)
        if self.sums.distances is None:
            rest = write.without(total, near, terms)
        else:
            rest = self.column(write.summed(distances, self.sums.distances))
        less = write.kept(write.times(write.square(rest), inverse))
        more = write.kept(write.times(rest, inverse))
        return write.minus(distances, self.spread(more)), write.minus(squares, less)
