"""Sums of dequantized values and of their squares, computed of integers: exact in any order of the terms.

```mlir
%x = ... a kernel with a result in !quant.uniform<i8:f32, 0.5:3>
%1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x96xf32>, ...)
```
becomes
```mlir
%u = stablehlo.floor(%x * 2.0 + 0.5)                        the stored integers minus 3
%2 = stablehlo.reduce(%u init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x96xf32>, ...)
%1 = stablehlo.multiply %2, 0.5
```
Runtimes add the terms of a float sum in orders of their own, which depend on the processor. Their results differ in the
last bits, and then a layer norm gives another integer wherever it is near the middle of two. f32 holds the sum of
integers if it is at most 2^24. The variance of a row of n integers u comes from integers, too: with an integer c near
their mean,

    sum((u - mean)^2) = sum((u - c)^2) - (sum(u) - n * c)^2 / n

The difference is at least half of the first sum, so it loses one bit and is never negative. Rows with more than
2^24 / 256^2 terms are added in parts. Inverse square roots become divisions by square roots, because functions for the
inverse root are approximations on some processors.

Source: IEEE 754-2019, clause 5.4.1: division and square root are rounded correctly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import f32
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.expand.emission import Emission
from zeropoint.ir.annotations import FLOAT_REASON, KERNEL
from zeropoint.ir.constants import splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.normalizations import NORMALIZATIONS, layer_norm_form
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    DivideOp,
    FloorOp,
    MultiplyOp,
    ReduceOp,
    ReshapeOp,
    RsqrtOp,
    SliceOp,
    SqrtOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import binary_body, body_op
from zeropoint.ir.tensors import element_of, shape_of, with_shape
from zeropoint.solve import is_quantized
from zeropoint.targets import Target

EXACT = 1 << 24
"""f32 holds every integer up to this one."""
SMALLEST = 2.0**-50
"""Scales below this one are left alone: f32 may not hold their inverses, or epsilon divided by their squares."""
PARTS = 8
"""The most parts of a row. Each part takes a slice and a sum."""
REWRITTEN = (*NORMALIZATIONS, "sum")
"""The kernels whose float ops are written one by one in files. Others are operators of runtimes, such as means."""
MOVES = (ReshapeOp, TransposeOp, SliceOp, BroadcastInDimOp)


@dataclass(frozen=True)
class _Steps:
    """Values that are integers times a scale in f32."""

    scale: np.float32
    reach: int
    """The largest magnitude of the integers."""
    span: int
    """The largest distance of an integer to one near the mean of others."""


def _kind(value: SSAValue) -> UniformQuantizedType | None:
    """The quantized type of a float value that a kernel rounds to it, which may be moved; None for other values."""
    while True:
        owner = value.owner
        if isinstance(owner, (*MOVES, DequantizeCastOp)):
            value = owner.operands[0]
        elif isinstance(value, BlockArgument) and isinstance(region := owner.parent_op(), QuantizeRegionOp):
            value = region.inputs[value.index]
        elif isinstance(value, OpResult) and isinstance(owner, QuantizeRegionOp):
            spec = owner.output_specs.data[value.index]
            return spec if isinstance(spec, UniformQuantizedType) else None
        else:
            kind = element_of(value)
            return kind if isinstance(kind, UniformQuantizedType) else None


def _steps(value: SSAValue) -> _Steps | None:
    """The steps of a dequantized value with one scale, which may be moved; None for other values."""
    kind = _kind(value)
    if element_of(value) != f32 or kind is None or not kind.is_per_layer:
        return None
    if kind.scale < SMALLEST:
        return None
    low, high = kind.storage.minimum - kind.zero_point, kind.storage.maximum - kind.zero_point
    return _Steps(np.float32(kind.scale), max(abs(low), abs(high)), high - low + 1)


@dataclass(frozen=True)
class _Sum:
    """A float sum of a value over dimensions, from 0."""

    value: SSAValue
    dimensions: tuple[int, ...]

    @property
    def terms(self) -> int:
        return prod(shape_of(self.value)[dimension] for dimension in self.dimensions)


def _sum(op: ReduceOp, program: Program) -> _Sum | None:
    if len(op.inputs) != 1 or body_op(op.body) is not AddOp or element_of(op.inputs[0]) != f32:
        return None
    if splat_value(op.init_values[0], program.weights) != 0:
        return None
    return _Sum(op.inputs[0], array_values(op.dimensions))


def _squared(value: SSAValue) -> SSAValue | None:
    owner = value.owner
    return owner.lhs if isinstance(owner, MultiplyOp) and owner.lhs is owner.rhs else None


class _Writer(Emission):
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

    def inverse(self, value: SSAValue) -> SSAValue:
        return self.add(DivideOp(self.splat(1, value), value))

    def kept(self, product: SSAValue) -> SSAValue:
        """A product that the runtime rounds before it adds something: a clamp that changes nothing is between them."""
        if not self._fuses:
            return product
        most = np.finfo(np.float32).max
        return self.add(ClampOp(self.constant(np.array(-most)), product, self.constant(np.array(most))))

    def square(self, value: SSAValue) -> SSAValue:
        return self.add(MultiplyOp(value, value))

    def integers(self, value: SSAValue, steps: _Steps) -> SSAValue:
        """Dequantized values divided by their scale: the product is less than half a step away from an integer."""
        near = self.times(value, np.float32(1) / steps.scale)
        return self.floor(self.plus(near, 0.5))

    def total(self, value: SSAValue, dimensions: tuple[int, ...]) -> SSAValue:
        shape = [size for dimension, size in enumerate(shape_of(value)) if dimension not in dimensions]
        zero = self.constant(np.zeros((), np.float32))
        return self.add(ReduceOp([value], [zero], [with_shape(value, shape)], dimensions, binary_body(AddOp, f32)))

    def in_parts(self, value: SSAValue, dimensions: tuple[int, ...], parts: int) -> SSAValue:
        """A sum over one dimension as sums of its parts, which are added in order."""
        if parts == 1:
            return self.total(value, dimensions)
        (dimension,), shape = dimensions, list(shape_of(value))
        shape[dimension : dimension + 1] = [parts, shape[dimension] // parts]
        sums = self.total(self.add(ReshapeOp(value, with_shape(value, shape))), (dimension + 1,))
        found = [self._part(sums, dimension, part) for part in range(parts)]
        result = found[0]
        for each in found[1:]:
            result = self.add(AddOp(result, each))
        return result

    def _part(self, sums: SSAValue, dimension: int, part: int) -> SSAValue:
        shape = list(shape_of(sums))
        starts, ends = [0] * len(shape), list(shape)
        starts[dimension], ends[dimension] = part, part + 1
        piece = self.add(SliceOp(sums, starts, ends, [1] * len(shape)))
        return self.add(ReshapeOp(piece, with_shape(sums, [*shape[:dimension], *shape[dimension + 1 :]])))


def _parts(total: _Sum, reach: int) -> int | None:
    """The number of parts of a sum of integers up to `reach`, so that f32 holds their sums; None for too many."""
    most = PARTS if len(total.dimensions) == 1 else 1
    fitting = (parts for parts in range(1, most + 1) if total.terms % parts == 0)
    return next((parts for parts in fitting if total.terms // parts * reach <= EXACT), None)


def _write_layer_norm(region: QuantizeRegionOp, program: Program, target: Target) -> None:
    """A layer norm of integers, if the region has rows along one dimension and a dequantized operand.

    No product is added to something, except an exact one, because a runtime may fuse the two without rounding.
    """
    form, source, block = layer_norm_form(region, program.weights), region.body.block.args[0], region.body.block
    steps = _steps(source)
    if form is None or steps is None or element_of(region.outputs[0]) != f32:
        return
    total = _Sum(source, (form.axis,))
    parts = _parts(total, steps.span**2)
    if parts is None or total.terms * steps.reach > EXACT:
        return
    terminator = block.last_op
    assert terminator is not None
    write = _Writer(terminator, program, region, fuses=target.fuses_products)
    rows = _Rows(write, write.integers(source, steps), form.axis)
    result, squares = rows.moments(parts)
    epsilon = form.epsilon * total.terms / float(steps.scale) ** 2
    variance = write.times(write.plus(squares, epsilon), 1 / np.float32(total.terms))
    if form.factor is not None:
        result = write.add(MultiplyOp(result, form.factor))
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
class _Rows:
    """Integers in f32, and the dimension of their rows."""

    write: _Writer
    integers: SSAValue
    axis: int

    def spread(self, numbers: SSAValue) -> SSAValue:
        """A number per row, in the shape of the integers."""
        shape = shape_of(self.integers)
        return self.write.spread(numbers, shape, range(len(shape)))

    def column(self, sums: SSAValue) -> SSAValue:
        """Sums of rows, in the shape of the integers with one element per row."""
        shape = [1 if dimension == self.axis else size for dimension, size in enumerate(shape_of(self.integers))]
        return self.write.add(ReshapeOp(sums, with_shape(sums, shape)))

    def moments(self, parts: int) -> tuple[SSAValue, SSAValue]:
        """The distances of the integers to the mean of their row, and the sum of the squares of the distances."""
        write, terms = self.write, shape_of(self.integers)[self.axis]
        inverse = 1 / np.float32(terms)
        total = self.column(write.total(self.integers, (self.axis,)))
        near = write.floor(write.times(write.plus(total, terms / 2), inverse))
        distances = write.minus(self.integers, self.spread(near))
        squares = self.column(write.in_parts(write.square(distances), (self.axis,), parts))
        rest = write.minus(total, write.times(near, terms))
        less = write.kept(write.times(write.square(rest), inverse))
        more = write.kept(write.times(rest, inverse))
        return write.minus(distances, self.spread(more)), write.minus(squares, less)


def _write_sum(op: ReduceOp, program: Program) -> None:
    """sum(x), or sum(x^2), of integers."""
    found = _sum(op, program)
    if found is None or found.terms < 3:  # a sum of two terms is the same in both orders
        return
    squared = _squared(found.value)
    value = found.value if squared is None else squared
    steps = _steps(value)
    if steps is None:
        return
    parts = _parts(found, steps.reach if squared is None else steps.reach**2)
    if parts is None:
        return
    write = _Writer(op, program)
    integers = write.integers(value, steps)
    total = write.in_parts(integers if squared is None else write.square(integers), found.dimensions, parts)
    Rewriter.replace_op(op, [], [write.times(total, steps.scale if squared is None else steps.scale * steps.scale)])


def _write_root(op: RsqrtOp, program: Program, target: Target) -> None:
    """Division by a square root. onnxruntime divides where a file multiplies by 1 / x, and OpenVINO the reverse."""
    write = _Writer(op, program)
    root = write.add(SqrtOp(op.operand))
    for use in [] if target.fuses_products else list(op.result.uses):
        _divide(use, root, program)
    if list(op.result.uses):
        op.result.replace_all_uses_with(write.inverse(root))


def _divide(use: Use, root: SSAValue, program: Program) -> None:
    """x * (1 / root) as x / root, through broadcasts."""
    reader = use.operation
    write = _Writer(reader, program)
    if isinstance(reader, ReshapeOp | BroadcastInDimOp):
        moved = write.add(reader.clone({reader.operands[0]: root}))
        for each in list(reader.results[0].uses):
            _divide(each, moved, program)
    elif isinstance(reader, MultiplyOp) and reader.lhs is not reader.rhs:
        other = reader.operands[1 - use.index]
        Rewriter.replace_op(reader, [], [write.add(DivideOp(other, root))])


def exact_sums(program: Program, target: Target) -> Program:
    """A copy in which float sums of dequantized values are computed of integers.

    The program itself if the target's runtime does not run the float ops of a file (`between_casts`).
    """
    if not target.between_casts:
        return program
    program = program.for_change()
    regions = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp) and not is_quantized(op)]
    for region in regions:
        if region.logical_kernel.data in NORMALIZATIONS:
            _write_layer_norm(region, program, target)
    for block in (program.entry, *(region.body.block for region in regions if region.logical_kernel.data in REWRITTEN)):
        for op in list(block.ops):
            if isinstance(op, ReduceOp):
                _write_sum(op, program)
            elif isinstance(op, RsqrtOp) and element_of(op.result) == f32:
                _write_root(op, program, target)
        remove_dead_ops(block)
    return program
