"""Types of the operands whose parameters follow from others: weights, biases and other constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute

from zeropoint.ir.annotations import BLOCK_SIZE, Fact
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import (
    ContractionOp,
    adds_pairs,
    terms_by_channel,
    weight_channel_axis,
    weights_by_channel,
)
from zeropoint.ir.quant import NoQuantizedType, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.quant.channel_scales import channel_scales
from zeropoint.ir.quant.storage import MAX_WIDTH
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.arrays import FloatArray
from zeropoint.solve.blocks import block_type, with_room
from zeropoint.solve.errors import PropagationError
from zeropoint.solve.kernel import ChosenKernel
from zeropoint.solve.kernels import rebased
from zeropoint.solve.weights import bias_type, constant_type, held_weight_type, least_scales, sum_limit, weight_type
from zeropoint.targets import Role

CHANNELS_LISTED = 8


def contraction_in(region: QuantizeRegionOp) -> ContractionOp | None:
    """The contraction in a kernel's region; None for other kernels."""
    return next((op for op in region.body.block.ops if isinstance(op, ConvolutionOp | DotGeneralOp)), None)


def operand_type(
    kernel: ChosenKernel,
    index: int,
    before: Sequence[Attribute],
    output: UniformQuantizedType | None,
    weights: Weights,
    pinned: UniformQuantizedType | None = None,
    channels: tuple[int, Array] | None = None,
) -> Attribute:
    """The type of operand `index`, which is not an activation.

    `before` has the types of the operands before it, and `output` that of the result. A weight gets the ranges
    `channels` along an axis if the model states them, otherwise the ranges of its values. A weight pinned by training
    keeps its type, except for channels whose sums would overflow the accumulator. A bias has the scale of the products.
    Operands that are not quantized keep their spec. Raises PropagationError for a weight without a known channel axis.
    """
    region, rule = kernel.region, kernel.row.input_rule(index)
    array = constant_array(region.inputs[index], weights)
    if rule.role is Role.OTHER or array is None:
        return region.input_specs.data[index]
    fixed = kernel.row.fixed(index, kernel.storage(index))
    if fixed is not None:
        pinned = fixed
    elif pinned is not None:
        pinned = rebased(pinned, kernel.storage(index))
    if rule.role is Role.BIAS and isinstance(region.input_specs.data[index], NoQuantizedType):
        return region.input_specs.data[index]
    if rule.role is Role.BIAS:
        given, weight = before[:2]
        assert isinstance(given, UniformQuantizedType) and isinstance(weight, UniformQuantizedType)
        return bias_type(kernel.storage(index), given, weight, product_scales(region, weight))
    if rule.role is Role.WEIGHT:
        made = _weight_type(kernel, index, array, before[0], output, weights, pinned, channels)
        if fixed is not None and made != fixed:
            raise PropagationError(
                f"{kernel.name}: its row fixes the weight at {fixed}, expected a scale at which the sums fit the "
                f"accumulator of {kernel.row.accumulator_bits} bits, at least that of {made}",
                region,
            )
        _check_products(kernel, before[0], made)
        return made
    if kernel.row.tied(index) and output is not None:
        return output
    return pinned or constant_type(array, kernel.storage(index), rule.zero_point, kernel.scale_type)


def _check_products(kernel: ChosenKernel, data: Attribute, weights: Attribute) -> None:
    """Raises PropagationError if a product of the scales of data and weights is no f32, as the scales of sums are."""
    if not isinstance(data, UniformQuantizedType) or not isinstance(weights, UniformQuantizedType):
        return
    products = np.abs(data.scale * weights.scales)
    least, greatest = float(np.finfo(np.float32).smallest_subnormal), float(np.finfo(np.float32).max)
    if products.min() < least or products.max() > greatest:
        raise PropagationError(
            f"{kernel.name}: found scale {data.scale:g} of the data and scales {weights.scales.min():g} to "
            f"{weights.scales.max():g} of the weights, expected products from {least:g} to {greatest:g}; scale the "
            "model's values, or keep the op float by a recipe (quantize: false)",
            kernel.region,
        )


def product_scales(region: QuantizeRegionOp, weight: UniformQuantizedType) -> FloatArray | None:
    """The scale of each channel's sums for weights in blocks; None for other weights."""
    product = contraction_in(region)
    axis = None if product is None else weight_channel_axis(product)
    if product is None or axis is None or not weight.is_sub_channel:
        return None
    return channel_scales(weight, axis, shape_of(product.rhs)[axis])


def _weight_type(
    kernel: ChosenKernel,
    index: int,
    array: Array,
    given: Attribute,
    output: UniformQuantizedType | None,
    weights: Weights,
    pinned: UniformQuantizedType | None,
    channels: tuple[int, Array] | None,
) -> Attribute:
    """The type of a weight. An accumulator wider than the widest quantized type is treated as if it had that width."""
    contraction, bits = contraction_in(kernel.region), kernel.row.accumulator_bits
    axis = None if contraction is None else weight_channel_axis(contraction)
    if axis is None or bits is None or not isinstance(given, UniformQuantizedType):
        if pinned is not None:
            return pinned
        raise PropagationError(
            f"{kernel.name}: found a weight without output channels, expected a contraction's", kernel.region
        )
    has_bias = len(kernel.region.inputs) > 2 and not isinstance(kernel.region.input_specs.data[2], NoQuantizedType)
    bias = constant_array(kernel.region.inputs[2], weights) if has_bias else None
    limit = sum_limit(bits)
    # A 64-bit accumulator needs no headroom. Only its bias is limited, to 32 bits.
    greatest = None if bits <= MAX_WIDTH or output is None else 0.0
    size = kernel.demands.get(BLOCK_SIZE) if pinned is None else None
    if size is not None or (pinned is not None and pinned.is_sub_channel):
        made = pinned or block_type(array, axis, kernel.storage(index), int(size or 0), kernel.scale_type)
        least = least_scales(weights_by_channel(array, axis), given, bias, limit, greatest)
        return with_room(made, axis, least, kernel.scale_type)
    if pinned is not None:
        return held_weight_type(
            pinned, array, axis, given, bias, limit, greatest_output=greatest, scale_type=kernel.scale_type
        )
    per_channel = kernel.row.input_rule(index).per_channel and kernel.demands.get("granularity") != "per_tensor"
    storage = kernel.storage(index)
    return weight_type(
        array,
        axis,
        storage,
        given,
        bias,
        limit,
        per_channel=per_channel,
        greatest_output=greatest,
        scale_type=kernel.scale_type,
        ranges=None if channels is None else _along(channels, axis),
        pairs=_in_pairs(kernel, contraction, array),
    )


def _in_pairs(kernel: ChosenKernel, contraction: ContractionOp | None, array: Array) -> Array | None:
    """The weights as (channels, terms), if the kernel first adds the products of adjacent terms in 16 bits; None
    otherwise."""
    if contraction is None or kernel.row.pair_bits is None or not adds_pairs(contraction):
        return None
    return terms_by_channel(contraction, array)


def _along(channels: tuple[int, Array], axis: int) -> Array:
    """[minimum, maximum] of each output channel. If the ranges are along another axis, one range of all channels."""
    stated, ranges = channels
    return ranges if stated == axis else np.array([[ranges[:, 0].min(), ranges[:, 1].max()]])


def weight_facts(kernel: ChosenKernel, found: Sequence[Attribute], pinned: UniformQuantizedType | None) -> list[Fact]:
    """The fact that explains why a pinned weight has larger scales than its pin; empty if it has the pinned scales."""
    if pinned is None or len(found) < 2 or kernel.row.input_rule(1).role is not Role.WEIGHT:
        return []
    asked, made = rebased(pinned, kernel.storage(1)), found[1]
    if not isinstance(made, UniformQuantizedType) or made == asked:
        return []
    (grown,) = (made.scales > asked.scales).nonzero()
    listed = ", ".join(map(str, grown[:CHANNELS_LISTED].tolist())) + (", ..." if len(grown) > CHANNELS_LISTED else "")
    which = f"channel {listed}" if made.is_per_channel else "all channels"
    return [Fact("weight scale", f"greater than pinned: {which}", "kernel", f"accumulator of {kernel.name}")]


def real_bias_facts(kernel: ChosenKernel, found: Sequence[Attribute]) -> list[Fact]:
    """The fact that a bias is not rounded to steps of the products; empty if it is."""
    if not any(isinstance(spec, NoQuantizedType) for spec in found[2:3]):
        return []
    return [Fact("bias", "the model's floats, added in f32", "kernel", f"kernel {kernel.name}")]
