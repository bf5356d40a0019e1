"""`convolution` and `dot_general` on floats and integers.

Source: the StableHLO specification, which leaves the order of additions to the implementation. Real floats are added in
the order of `zeropoint.numerics.products`, in f32 for narrower types. Integer sums are exact in any order. Complex
numbers are added by BLAS.

The products of a sum have the following order. `dot_general`: contracting dimensions in the order in which the op lists
them, the last one fastest. `convolution`: window positions in row-major order, and at each position the input features.
For padding and between dilated elements, a product has the factor 0.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import ClassVar, Protocol

import numpy as np
from xdsl.dialects.builtin import FloatTF32Type, StringAttr, f32
from xdsl.ir import Attribute, SSAValue

from zeropoint.interp.binding import Binary, Scope
from zeropoint.interp.convolution import Convolution, ProductFunction
from zeropoint.interp.dot import Dot
from zeropoint.interp.elementwise import wrapped
from zeropoint.interp.exactness import (
    FLOAT32,
    FLOAT64,
    DType,
    exact_dtype,
    greatest_magnitude,
    greatest_sum,
    to_integers,
)
from zeropoint.interp.representation import reduced
from zeropoint.ir.annotations import DOT_FORM
from zeropoint.ir.contractions import stored_zero
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.stablehlo.dot_algorithm import DotAlgorithm
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.numerics.dot_forms import dot_form
from zeropoint.numerics.products import sums_of_products


class ContractionFunction(Protocol):
    """A sum of products: the layout of its right operand, and the sum.

    With `weights_first`, the weights are the left operand of its matrix products, else the right operand.
    """

    weights_first: ClassVar[bool]

    def weights(self, rhs: Array) -> Array:
        """The right operand as w[groups, outputs, terms...]."""
        ...

    def apply(self, lhs: Array, weights: Array, product: ProductFunction = np.matmul) -> Array:
        """The sum, in the dtype of the arrays. `product` is a matrix product that adds in the order of the terms."""
        ...


def contraction_of(op: ConvolutionOp | DotGeneralOp) -> ContractionFunction:
    """The sum of products that `op` computes."""
    return Convolution.of(op) if isinstance(op, ConvolutionOp) else Dot.of(op)


def contraction(op: ConvolutionOp | DotGeneralOp, scope: Scope) -> Binary:
    """convolution (C1 to C27) and dot_general (C1 to C13).

    Operands are converted to the result's element type, multiplied and added. A dot_general with an algorithm (C21 to
    C24) multiplies and adds in the types of the algorithm.
    """
    form, result = contraction_of(op), element_dtype(element_of(op.result))
    rhs = scope.constant(op.rhs)
    if isinstance(op, DotGeneralOp) and op.algorithm is not None:
        return _in_parts(form, result, op.algorithm.data)
    if result.kind not in "iub":
        return float_contraction(form, result, rhs, scope.float_products)
    form_name = op.attributes.get(DOT_FORM)
    if isinstance(form_name, StringAttr):
        zero = stored_zero(op.lhs, lambda value: _number(value, scope))
        return wrapped(_in_form(form, result, form_name.data, zero or 0), element_of(op.result))
    lhs = element_dtype(element_of(op.lhs))
    # Up to 16 bits, the range of the type bounds the values well enough. For wider types, the values are inspected.
    bound = _type_magnitude(lhs) if lhs.itemsize <= 2 else None
    # The magnitude is computed in 64 bits, because |-128| does not fit i8.
    sums = integer_contraction(form, bound, None if rhs is None else rhs.astype(np.int64))

    def run(lhs: Array, rhs: Array) -> Array:
        return to_integers(sums(lhs, rhs), result)

    return wrapped(run, element_of(op.result))


def _number(value: SSAValue, scope: Scope) -> float | None:
    """The number that all elements of a constant, or of a broadcast of one, are equal to; None otherwise."""
    while isinstance(value.owner, BroadcastInDimOp):
        value = value.owner.operand
    array = scope.constant(value)
    if array is None or array.size == 0 or (array != (first := array.reshape(-1)[0])).any():
        return None
    return float(first)


def _in_form(form: ContractionFunction, result: DType, name: str, zero: int) -> Binary:
    """Sums of 8-bit products with the intermediate sums of an instruction. Zero points are subtracted from `lhs` first.

    Raises ValueError for an unknown name.
    """
    named = partial(dot_form(name).products, zero=zero)

    def turned(weights: Array, activations: Array) -> Array:
        # A dot form is not symmetric: it reads one operand as u8, and its sums of pairs saturate.
        return named(activations.swapaxes(-2, -1), weights.swapaxes(-2, -1)).swapaxes(-2, -1)

    products = turned if form.weights_first else named

    def run(lhs: Array, rhs: Array) -> Array:
        weights = form.weights(rhs.astype(np.int64))
        return to_integers(form.apply(lhs.astype(np.int64), weights, products), result)

    return run


def float_contraction(
    form: ContractionFunction, result: DType, rhs: Array | None, products: ProductFunction = sums_of_products
) -> Binary:
    """The kernel for real or complex floats of dtype `result`. A constant right operand is laid out once."""
    # f16 and bf16 are summed in f32 and rounded once, at the end.
    dtype = result if result == FLOAT64 or result.kind == "c" else FLOAT32

    def laid_out(rhs: Array) -> Array:
        weights = form.weights(rhs.astype(dtype, copy=False))
        # `apply` reads the weights with the last two axes swapped. A matrix stored in that layout is not copied.
        return weights if weights.swapaxes(-2, -1).flags.c_contiguous else np.ascontiguousarray(weights)

    # Laid out once for all runs.
    constant = None if rhs is None else laid_out(rhs)
    product = np.matmul if dtype.kind == "c" else products

    def run(lhs: Array, rhs: Array) -> Array:
        weights = laid_out(rhs) if constant is None else constant
        return form.apply(lhs.astype(dtype, copy=False), weights, product).astype(result, copy=False)

    return run


_PARTS = {1: 1, 3: 2, 6: 3, 9: 3}
"""The number of parts into which operands are split, by the number of partial products."""


def _in_parts(form: ContractionFunction, result: DType, algorithm: DotAlgorithm) -> Binary:
    """dot_general with an algorithm.

    Operands are split into parts of the precision types, the largest part first. The products of the largest parts are
    added in the accumulation type.
    """
    count = _PARTS[algorithm.num_primitive_operations]
    accumulation = element_dtype(algorithm.accumulation_type)
    # Parts narrower than f32 are exact in f32, and so are their products.
    word = FLOAT64 if accumulation == FLOAT64 else FLOAT32
    pairs = sorted(itertools.product(range(count), repeat=2), key=sum)[: algorithm.num_primitive_operations]

    def run(lhs: Array, rhs: Array) -> Array:
        left = _parts(lhs.astype(word), algorithm.lhs_precision_type, count)
        right = _parts(rhs.astype(word), algorithm.rhs_precision_type, count)
        # The smallest products are added first, so that they are not lost in rounding.
        total = sum(form.apply(left[i], form.weights(right[j]), sums_of_products) for i, j in reversed(pairs))
        return np.asarray(total).astype(accumulation).astype(result, copy=False)

    return run


def _parts(values: Array, float_type: Attribute, count: int) -> list[Array]:
    """Split `values` into `count` parts of `float_type` whose sum approximates them as closely as possible."""
    found: list[Array] = []
    for _ in range(count):
        found.append(_rounded(values, float_type))
        values = values - found[-1]
    return found


def _rounded(values: Array, float_type: Attribute) -> Array:
    if isinstance(
        float_type, FloatTF32Type
    ):  # tf32 has the exponent of f32 and the mantissa of f16; NumPy has no dtype for it
        return reduced(values, f32, 8, 10)
    return values.astype(element_dtype(float_type)).astype(values.dtype)


def integer_contraction(form: ContractionFunction, lhs_magnitude: int | None, rhs: Array | None) -> Binary:
    """Exact sums of products of integers, in a dtype that is exact for their ranges (`zeropoint.interp.exactness`).

    `lhs_magnitude` bounds |lhs|. Without it, the values are inspected in every run. `rhs` is the right operand if it is
    constant; it is inspected and laid out once.
    """
    constant = None if rhs is None else np.ascontiguousarray(form.weights(rhs))
    weight_sum = None if constant is None else greatest_sum(constant)
    known = None if weight_sum is None or lhs_magnitude is None else exact_dtype(lhs_magnitude * weight_sum)
    if constant is not None and known is not None:
        # A float matrix product (BLAS) is exact up to 2^24 or 2^53, and many times faster than one of integers.
        constant = constant.astype(known)

    def run(lhs: Array, rhs: Array) -> Array:
        weights = form.weights(rhs) if constant is None else constant
        dtype = known
        if dtype is None:
            magnitude = greatest_magnitude(lhs) if lhs_magnitude is None else lhs_magnitude
            dtype = exact_dtype(magnitude * (greatest_sum(weights) if weight_sum is None else weight_sum))
        return form.apply(lhs.astype(dtype, copy=False), weights.astype(dtype, copy=False))

    return run


def _type_magnitude(dtype: DType) -> int:
    return 1 if dtype.kind == "b" else max(abs(int(np.iinfo(dtype).min)), int(np.iinfo(dtype).max))
