"""The least output scale of a kernel, from the largest result that its operands can produce.

The observed range may be tiny compared with that result, for example before a clip to almost nothing, or where sums
cancel. The requantization multiplier would then exceed what the rounding profiles support: `fixed32-double` and
`tosa-double` have 32 bits for an accumulator times a multiplier above one, and an addition has one common scale. An
output scale of at least 2^-25 of the largest result leaves room in every profile. Its only cost is noise: a range of
255 such steps is below 2^-17 of that result.

Source: the project's numerics notes, "Requantize": x << e is an unchecked i32 product: bound |x| and refuse otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from zeropoint.ir.constants import splat_value
from zeropoint.ir.contractions import weight_channel_axis, weights_by_channel
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConvolutionOp, DivideOp, DotGeneralOp, MultiplyOp, ReduceOp, ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights

LEAST_SHARE = 2.0**-25
"""The least output scale as a share of the largest result. 2^25 steps, times the rounding terms, fit 32 bits."""


@dataclass(frozen=True)
class HeadroomPorts:
    """A kernel with the largest |real value| of each operand. `arrays` has the constant operands, None for others."""

    region: QuantizeRegionOp
    greatest: tuple[float, ...]
    arrays: tuple[Array | None, ...]
    weights: Weights


def greatest_real(spec: object, array: Array | None) -> float:
    """The largest |real value| of an operand: of `array` if it is constant, else of its type; 0 without either."""
    if array is not None:
        return float(np.abs(array).max(initial=0.0))
    if not isinstance(spec, UniformQuantizedType):
        return 0.0
    return spec.scale * spec.affine.reach


def _of_contraction(ports: HeadroomPorts) -> float:
    """The largest sum |w| of a channel, times the largest input, plus the largest bias."""
    op = next(op for op in ports.region.body.block.ops if isinstance(op, ConvolutionOp | DotGeneralOp))
    weight, axis = ports.arrays[1], weight_channel_axis(op)
    assert weight is not None and axis is not None
    sums = np.abs(weights_by_channel(weight, axis).astype(np.float64)).sum(axis=1)
    return float(sums.max(initial=0.0)) * ports.greatest[0] + sum(ports.greatest[2:])


def _of_matmul(ports: HeadroomPorts) -> float:
    op = next(op for op in ports.region.body.block.ops if isinstance(op, DotGeneralOp))
    terms = prod(shape_of(op.lhs)[i] for i in op.dot_dimension_numbers.data.lhs_contracting_dimensions)
    return terms * ports.greatest[0] * ports.greatest[1]


def _of_sum(ports: HeadroomPorts) -> float:
    return 2 * max(ports.greatest)  # twice the larger one, because both operands may be the same value


def _of_product(ports: HeadroomPorts) -> float:
    return ports.greatest[0] * ports.greatest[-1]


def _of_reduction(ports: HeadroomPorts) -> float:
    """The largest input times the number of summed elements, then divided or multiplied as in the region."""
    greatest = ports.greatest[0]
    for op in ports.region.body.block.ops:
        if isinstance(op, ReduceOp):
            greatest *= prod(shape_of(op.inputs[0])[i] for i in array_values(op.dimensions))
        elif isinstance(op, ReduceWindowOp):
            greatest *= prod(array_values(op.window_dimensions))
        elif isinstance(op, DivideOp | MultiplyOp):
            greatest *= _factor(op, ports.weights)
    return greatest


def _factor(op: DivideOp | MultiplyOp, weights: Weights) -> float:
    """The factor by which an op multiplies |values|. It is 1 for a non-uniform operand: such operands are counts of
    window elements, which are at least 1 and divide."""
    number = splat_value(op.rhs, weights)
    if number is None or (number == 0 and isinstance(op, DivideOp)):
        return 1.0
    return 1 / abs(number) if isinstance(op, DivideOp) else abs(number)


GREATEST: Mapping[str, Callable[[HeadroomPorts], float]] = {
    "add": _of_sum,
    "average_pool": _of_reduction,
    "batch_matmul": _of_matmul,
    "convolution": _of_contraction,
    "depthwise_convolution": _of_contraction,
    "fully_connected": _of_contraction,
    "mean": _of_reduction,
    "multiply": _of_product,
    "subtract": _of_sum,
    "sum": _of_reduction,
    "transpose_convolution": _of_contraction,
}
"""Kernels that requantize sums or products. The others move data or are lookup tables."""


def greatest_result(ports: HeadroomPorts) -> float:
    """The largest |real value| that the kernel can produce; 0 for kernels not in `GREATEST`."""
    rule = GREATEST.get(ports.region.logical_kernel.data)
    return 0.0 if rule is None else rule(ports)


def summed_terms(region: QuantizeRegionOp) -> int:
    """The number of elements that a region sums for one result; 1 if it does not sum."""
    op = next((op for op in region.body.block.ops if isinstance(op, ReduceOp)), None)
    return 1 if op is None else prod(shape_of(op.inputs[0])[i] for i in array_values(op.dimensions))


def least_output_scale(greatest: float) -> float:
    """The least output scale at which the largest result of a kernel is at most 2^25 steps."""
    return greatest * LEAST_SHARE
