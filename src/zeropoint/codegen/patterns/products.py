"""Batched products of two activations, as in attention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.patterns.contraction import output_of
from zeropoint.codegen.patterns.match import Declined, Found, Match, found_in
from zeropoint.codegen.patterns.reaches import has_room, in_i32
from zeropoint.codegen.values import Values
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.locations import describe
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvertOp, DotGeneralOp, SubtractOp, TransposeOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.numerics import Requantization
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.storage import signed_range

LEAST_ZERO = -127
"""The least zero point for which a byte minus it is a sum of two bytes of one sign."""


@dataclass(frozen=True)
class ProductDimensions:
    """The dimensions of a product of two operands, each with one contracted and one free dimension."""

    batch: tuple[int, ...]
    other_batch: tuple[int, ...]
    term: int
    other_term: int
    row: int
    column: int

    @staticmethod
    def of(op: DotGeneralOp) -> ProductDimensions | Declined:
        """The dimensions of a `dot_general`."""
        dims = op.dot_dimension_numbers.data
        batch, other_batch = dims.lhs_batching_dimensions, dims.rhs_batching_dimensions
        terms, other_terms = dims.lhs_contracting_dimensions, dims.rhs_contracting_dimensions
        rows = [d for d in range(len(shape_of(op.lhs))) if d not in (*batch, *terms)]
        columns = [d for d in range(len(shape_of(op.rhs))) if d not in (*other_batch, *other_terms)]
        if [len(part) for part in (terms, rows, columns)] != [1, 1, 1]:
            return Declined(f"found dimensions {dims}, expected one contracted and one free dimension per operand")
        return ProductDimensions(batch, other_batch, terms[0], other_terms[0], rows[0], columns[0])


@dataclass(frozen=True)
class ProductMatch:
    """A product of the activations `lhs` and `rhs`, whose zero points are `zeros`. `output` is None for floats.

    `name` is the name of the op that computes `result`. The kernel's operands are the activations, or only one if both
    are the same value.
    """

    name: str
    result: SSAValue
    lhs: SSAValue
    rhs: SSAValue
    zeros: tuple[int, int]
    dimensions: ProductDimensions
    output: Requantization | None

    @property
    def match(self) -> Match:
        """The match of the whole kernel."""
        inputs = (self.lhs,) if self.lhs is self.rhs else (self.lhs, self.rhs)
        return Match("product", (self.result,), inputs, found=self)


def match_float_product(values: Values, op: DotGeneralOp) -> Match | Declined:
    """A product of f32."""
    found = _of_floats(values, op)
    if isinstance(found, Declined):
        return found
    moved = isinstance(op.lhs.owner, TransposeOp) and not values.has(op.lhs)
    if op.dot_dimension_numbers.data.lhs_contracting_dimensions != (len(shape_of(op.lhs)) - 1,) and not moved:
        return Declined("found a left operand whose contracted dimension is not the last")
    return found


def product_of(program: Program, kernel: KernelOp, known: Found) -> ProductMatch:
    """The product that a kernel computes, from `known` or by matching the body again."""
    found = found_in(program, kernel, known, {RequantizeOp: match_requantized_product, DotGeneralOp: _of_floats})
    assert isinstance(found, ProductMatch)
    return found


def match_requantized_product(values: Values, op: RequantizeOp) -> Match | Declined:
    """A product of two i8 or two i16 activations that is requantized."""
    product = defining_op(op.accumulator)
    if not isinstance(product, DotGeneralOp) or values.constant(product.rhs) is not None:
        return Declined()
    left, right, dims = _centred(values, product.lhs), _centred(values, product.rhs), ProductDimensions.of(product)
    for part in (left, right, dims):
        if isinstance(part, Declined):
            return part
    assert isinstance(left, tuple) and isinstance(right, tuple) and isinstance(dims, ProductDimensions)
    (lhs, zero), (rhs, other_zero) = left, right
    terms, channels = shape_of(lhs)[dims.term], shape_of(rhs)[dims.column]
    output = output_of(values, op, channels)
    if isinstance(output, Declined):
        return output
    dtype = element_dtype(element_of(op.result))
    if dtype.kind != "i" or dtype.itemsize > 2 or values.is_image(op.result):
        return Declined(f"found a result of {op.result.type}, expected i8 or i16 and no images")
    size = element_dtype(element_of(lhs)).itemsize
    if element_dtype(element_of(rhs)).itemsize != size or element_dtype(element_of(product.result)) != np.int32:
        return Declined(
            f"found {product.lhs.type} by {product.rhs.type} in {product.result.type}, expected sums in i32"
        )
    if terms * size % 4 or (other_zero and (size > 1 or other_zero < LEAST_ZERO)):
        return Declined(
            f"found {terms} terms and zero point {other_zero} of the second operand, expected a multiple of "
            f"{4 // size}, and 0 or, for i8, {LEAST_ZERO}..127"
        )
    if not has_room(output, reach_of_product(terms, channels, size, other_zero)):
        return Declined("found accumulators that exceed 32 bits with the rounding term of fixed16")
    return ProductMatch(describe(op), op.result, lhs, rhs, (zero, other_zero), dims, output).match


def reach_of_product(terms: int, channels: int, size: int, other_zero: int = 0) -> IntArray:
    """An upper bound on |accumulator| of each channel, for activations of `size` bytes.

    It is at most the greatest i32, because the program computes the sums in i32.
    """
    product = 255 * (128 + abs(other_zero)) if size == 1 else 1 << 30
    return in_i32(np.full(channels, terms * product, np.int64))


def _of_floats(values: Values, op: DotGeneralOp) -> Match | Declined:
    if values.constant(op.rhs) is not None:
        return Declined()
    if any(element_dtype(element_of(v)) != np.float32 for v in (op.lhs, op.rhs, op.result)):
        return Declined()
    dims = ProductDimensions.of(op)
    if isinstance(dims, Declined):
        return dims
    if values.is_image(op.result):
        return Declined("found a product of images")
    if values.output(op.result) is not None:
        return Declined("found a product that is only returned, which a loop nest writes to the caller's array")
    return ProductMatch(describe(op), op.result, op.lhs, op.rhs, (0, 0), dims, None).match


def _centred(values: Values, value: SSAValue) -> tuple[SSAValue, int] | Declined:
    """(x, zero) of `convert(x) - zero` for a computed i8 or i16 x."""
    op, zero = defining_op(value), 0
    if isinstance(op, SubtractOp):
        number = values.splat(op.rhs)
        if number is None:
            return Declined("found a zero point that is computed, expected a constant")
        op, zero = defining_op(op.lhs), int(number)
    x = op.operand if isinstance(op, ConvertOp) else value
    dtype = element_dtype(element_of(x))
    if (dtype != np.int8 and dtype != np.int16) or values.constant(x) is not None:
        return Declined(f"found an operand of {element_of(x)}, expected computed i8 or i16")
    low, high = signed_range(8 * dtype.itemsize)
    if not low <= zero <= high:
        return Declined(f"found zero point {zero}, expected one within the range of {element_of(x)}")
    return x, zero
