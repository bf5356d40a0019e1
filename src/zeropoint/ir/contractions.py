"""Convolutions and matrix products: their output channels, weights as a (channels, terms) matrix, multiplications."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import IntegerType, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.annotations import COMPUTED_WEIGHTS, DOT_FORM
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConvertOp, ConvolutionOp, DotGeneralOp, SubtractOp
from zeropoint.ir.tensors import Array, element_of, shape_of

ContractionOp = ConvolutionOp | DotGeneralOp


def output_channel_axis(op: ContractionOp) -> int:
    """The output channel dimension of the result: the feature dimension, or the last one of a matrix product."""
    if isinstance(op, ConvolutionOp):
        return op.dimension_numbers.data.output_feature_dimension
    return len(shape_of(op.result)) - 1


def weight_channel_axis(op: ContractionOp) -> int | None:
    """The output channel dimension of the weight; None for a product with several free dimensions."""
    if isinstance(op, ConvolutionOp):
        return op.dimension_numbers.data.kernel_output_feature_dimension
    dimensions = op.dot_dimension_numbers.data
    used = {*dimensions.rhs_batching_dimensions, *dimensions.rhs_contracting_dimensions}
    free = [i for i in range(len(shape_of(op.rhs))) if i not in used]
    return free[0] if len(free) == 1 and not dimensions.rhs_batching_dimensions else None


def is_matrix_product(op: Operation) -> bool:
    """Whether an op multiplies rows, along the last dimension of its left operand, with one matrix."""
    if not isinstance(op, DotGeneralOp) or weight_channel_axis(op) is None:
        return False
    last = len(shape_of(op.lhs)) - 1
    return tuple(op.dot_dimension_numbers.data.lhs_contracting_dimensions) == (last,) and len(shape_of(op.rhs)) == 2


def term_order(op: ContractionOp) -> list[int]:
    """The permutation of a weight's dimensions to output channel, kernel positions, input channels.

    This is the order in which runtimes add the products of channels-last images, from adjacent terms to all. The
    weight must have one dimension of output channels (`weight_channel_axis`).
    """
    if isinstance(op, ConvolutionOp):
        numbers = op.dimension_numbers.data
        features = [numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension]
        return [features[0], *numbers.kernel_spatial_dimensions, features[1]]
    axis, used = weight_channel_axis(op), op.dot_dimension_numbers.data.rhs_contracting_dimensions
    return [*([] if axis is None else [axis]), *used]


def terms_by_channel(op: ContractionOp, weights: Array) -> Array:
    """A weight as a matrix of shape (channels, terms), its terms in the order of `term_order`."""
    made = weights.transpose(term_order(op))
    return made.reshape(len(made), -1)


def adds_pairs(op: ContractionOp) -> bool:
    """Whether kernels add the products of adjacent terms: all but depthwise convolutions with one output each."""
    if not isinstance(op, ConvolutionOp):
        return True
    numbers, shape = op.dimension_numbers.data, shape_of(op.rhs)
    alone = shape[numbers.kernel_input_feature_dimension] == 1
    return not (alone and shape[numbers.kernel_output_feature_dimension] == op.feature_group_count.value.data)


def weights_by_channel(weights: Array, axis: int) -> Array:
    """Weights with channels along `axis`, as a matrix of shape (channels, terms)."""
    return np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)


def stored_zero(value: SSAValue, number: Callable[[SSAValue], float | None]) -> int | None:
    """The z of `convert(x) - z` for an x of i8, 0 for x itself; None for other values.

    `number` gives the number that a constant repeats, or None.
    """
    zero: float | None = 0
    if isinstance(op := value.owner, SubtractOp):
        zero, value = number(op.rhs), op.lhs
    if isinstance(op := value.owner, ConvertOp):
        value = op.operand
    return None if zero is None or element_of(value) != i8 else int(zero)


def check_dot_form(op: Operation) -> None:
    """Check that an op with a dot form is an integer contraction of 8-bit numbers, as dot-product instructions take.

    Its operands are i8 values, `convert(x)` or `convert(x) - z` of them, or quantized values of 8 bits. Raises
    VerifyException.
    """
    if DOT_FORM not in op.attributes:
        return
    if not isinstance(op, ConvolutionOp | DotGeneralOp):
        raise VerifyException(f"'{DOT_FORM}' is for dot_general and convolution, but got it on {op.name}")
    if not isinstance(element_of(op.result), IntegerType | UniformQuantizedType):
        raise VerifyException(f"'{DOT_FORM}' is for sums of integers, but got '{op.result.type}'")
    for role, value in (("lhs", op.lhs), ("rhs", op.rhs)):
        if not _is_bytes(element_of(_stored(value))):
            raise VerifyException(f"'{DOT_FORM}' is for products of i8, but got {role} of '{_stored(value).type}'")


def _stored(value: SSAValue) -> SSAValue:
    """The x of `convert(x) - z`, of `convert(x)` and of x itself."""
    if isinstance(op := value.owner, SubtractOp):
        value = op.lhs
    return op.operand if isinstance(op := value.owner, ConvertOp) else value


def _is_bytes(element: Attribute) -> bool:
    return element == i8 or (isinstance(element, UniformQuantizedType) and element.storage.type.width == 8)


def multiplies_bytes(op: ContractionOp, number: Callable[[SSAValue], float | None]) -> bool:
    """Whether an op is a matrix product of two i8 values that kernels multiply as bytes.

    The right operand has zero point 0. Besides batch dimensions, each operand has one contracted dimension, whose size
    is a multiple of 4, and one free dimension.
    """
    if not isinstance(op, DotGeneralOp) or element_of(op.result) != i32 or stored_zero(op.lhs, number) is None:
        return False
    dimensions, lhs, rhs = op.dot_dimension_numbers.data, shape_of(op.lhs), shape_of(op.rhs)
    summed, batch = dimensions.lhs_contracting_dimensions, len(dimensions.lhs_batching_dimensions)
    # Dot-product instructions add four products of bytes at a time.
    plain = len(summed) == 1 and len(lhs) == len(rhs) == batch + 2 and lhs[summed[0]] % 4 == 0
    return plain and stored_zero(op.rhs, number) == 0


def has_computed_weights(region: QuantizeRegionOp) -> bool:
    """Whether a region is a fully connected layer of LiteRT whose weights another operator computes."""
    return any(COMPUTED_WEIGHTS in op.attributes for op in region.body.block.ops)


def multiplications_of(outer: Operation) -> int:
    """Number of multiplications in the convolutions and matrix products inside an op."""
    return sum(_elements(op.results[0]) * _summed(op) for op in outer.walk() if isinstance(op, ContractionOp))


def _elements(value: SSAValue) -> int:
    return math.prod(max(1, size) for size in shape_of(value))


def _summed(op: ContractionOp) -> int:
    """Number of products summed into one element of the result."""
    if isinstance(op, ConvolutionOp):
        outputs = shape_of(op.rhs)[op.dimension_numbers.data.kernel_output_feature_dimension]
        return _elements(op.rhs) // max(1, outputs)
    sizes = shape_of(op.lhs)
    return math.prod(max(1, sizes[d]) for d in op.dot_dimension_numbers.data.lhs_contracting_dimensions)
