"""Parameters of weights, biases and constant operands, from their values.

If a bias at scale s_in * s_w or the sum of products would overflow the accumulator, the weight scale of that channel is
increased just enough.

Source: the project's numerics notes, sections "Range to scale and zero point" (symmetric, narrow) and "Accumulators".
"""

from __future__ import annotations

import numpy as np

from zeropoint.ir.contractions import weights_by_channel
from zeropoint.ir.quant import Storage, UniformQuantizedType, stored_array
from zeropoint.ir.quant.storage import MAX_WIDTH
from zeropoint.ir.tensors import Array
from zeropoint.numerics.accumulator import least_saturating_scale, least_weight_scale
from zeropoint.numerics.arrays import FloatArray
from zeropoint.numerics.dot_forms import PAIR_LIMIT, greatest_pairs
from zeropoint.numerics.ranges import SCALE_FLOOR, asymmetric, held_scale, symmetric, unit_scale

FEW_WEIGHTS = 8
"""A channel with at most this many nonzero weights is searched for a common step."""
F32_ROUNDING = 2.0**-23
"""A bound of the relative error of the quotient of two numbers rounded to f32."""


def sum_limit(accumulator_bits: int) -> int:
    """The maximum sum allowed in an accumulator. An accumulator wider than the widest quantized type counts as of that
    width.

    One bit is left free, because `fixed16` adds a rounding term of up to 2^30.
    """
    return (1 << (min(accumulator_bits, MAX_WIDTH) - 2)) - 1


def weight_type(
    weight: Array,
    axis: int,
    storage: Storage,
    input_type: UniformQuantizedType,
    bias: Array | None,
    limit: int,
    *,
    per_channel: bool = True,
    greatest_output: float | None = None,
    scale_type: str = "f64",
    ranges: Array | None = None,
    pairs: Array | None = None,
) -> UniformQuantizedType:
    """The type of a weight, per channel along `axis` or per layer, such that no accumulator exceeds `limit` for any
    input.

    `ranges` has [minimum, maximum] of each channel, or one pair for all, to use instead of the weights' own; weights
    beyond them saturate. `pairs` are the weights as (channels, terms) if the kernel adds the products of adjacent terms
    in i16 first; no such sum saturates. `greatest_output` is the largest |real value| of the output. If it is given, a
    sum may exceed the limit if it is so far beyond the output that saturation loses nothing. This is for 16-bit
    activations, which kernels sum in 64 bits. Raises ValueError for about 2^23 weights per channel.

    At scale s, the accumulator of a channel is at most reach * (sum |w| / s + n / 2) + |b| / (s_in * s), because each
    of its n nonzero weights is rounded by up to 1/2. So sum |w| * reach * s_in bounds the scale in the same way as a
    bias. The caller leaves one bit of the accumulator free, because `fixed16` adds a rounding term of up to 2^30.
    """
    channels = weights_by_channel(weight, axis).astype(np.float64)
    # The range -127..127 is symmetric around 0, as weights are.
    narrow = storage.minimum > storage.type.min
    low, high = channels.min(axis=1, initial=0), channels.max(axis=1, initial=0)
    if ranges is not None:
        low, high = (np.broadcast_to(end, low.shape) for end in ranges.T)
        # Weights that saturate count in the sums with the end of their range.
        channels = np.clip(channels, np.minimum(low, 0)[:, None], np.maximum(high, 0)[:, None])
    scales = symmetric(low, high, storage.type, narrow=narrow, greatest=storage.maximum).scale
    if ranges is None and per_channel:
        scales = exact_scales(channels, np.asarray(scales, np.float64), storage.maximum)
    least = least_scales(channels, input_type, bias, limit, greatest_output)
    if pairs is not None:
        least = np.maximum(least, least_pair_scales(pairs))
    scales = held_scale(np.maximum(np.asarray(scales, dtype=np.float64), least), scale_type)
    middle = storage.type.middle
    if not per_channel:
        # One scale has to suit the channel with the largest one.
        return UniformQuantizedType.per_layer(storage, float(scales.max(initial=SCALE_FLOOR)), middle)
    points = np.full(scales.shape, middle)
    return UniformQuantizedType.per_channel(storage, axis, scales.tolist(), points.tolist())


def exact_scales(channels: Array, scales: Array, most: int) -> Array:
    """`scales` with an exact scale for each channel that interpolates with multiples of a common step.

    Such a channel has few weights with the sum 1. For example, 3/4 and 1/4 are 3 and 1 at scale 1/4, but 127 and 42.3
    at scale 3/4 / 127.
    """
    exact = scales.copy()
    sums_to_one = np.abs(channels.sum(axis=1) - 1) <= F32_ROUNDING * FEW_WEIGHTS
    (few,) = np.nonzero(sums_to_one & (np.count_nonzero(channels, axis=1) <= FEW_WEIGHTS))
    if not len(few):
        return exact
    ratios = channels[few] / np.abs(channels[few]).max(axis=1, keepdims=True, initial=0)
    open_ = np.ones(len(few), np.bool_)
    for count in (most, *range(1, most)):  # the usual scale first
        steps = ratios * count
        fits = open_ & (np.abs(steps - np.rint(steps)) <= F32_ROUNDING * most).all(axis=1)
        if count < most:
            exact[few[fits]] = np.abs(channels[few[fits]]).max(axis=1, initial=0) / count
        open_ &= ~fits
        if not open_.any():
            break
    return exact


def least_scales(
    channels: Array, input_type: UniformQuantizedType, bias: Array | None, limit: int, greatest_output: float | None
) -> Array:
    """The least scale of each channel at which its sums and its bias fit, or saturate without loss."""
    greatest = np.abs(channels).sum(axis=1) * (input_type.affine.reach * input_type.scale)
    added = np.broadcast_to(0.0 if bias is None else np.abs(bias.astype(np.float64)), greatest.shape)
    rounding = np.count_nonzero(channels, axis=1) * (input_type.affine.reach / 2)
    if greatest_output is None:
        return least_weight_scale(greatest + added, input_type.scale, rounding, limit)
    least = least_saturating_scale(added, input_type.scale, greatest_output)
    # In channels with more terms, the rounding of the weights alone may exceed the limit at any scale.
    short = rounding < limit / 2
    fitting = least_weight_scale((greatest + added)[short], input_type.scale, rounding[short], limit)
    least[short] = np.minimum(least[short], fitting)
    return least


def least_pair_scales(pairs: Array) -> Array:
    """The least scale of each channel of weights (channels, terms) at which no sum of adjacent products saturates.

    Two weights of one sign are rounded by up to 1/2 each, so their real sum must stay one step below the limit.
    """
    return greatest_pairs(pairs.astype(np.float64)) / (PAIR_LIMIT - 1)


def held_weight_type(
    pinned: UniformQuantizedType,
    weight: Array,
    axis: int,
    input_type: UniformQuantizedType,
    bias: Array | None,
    limit: int,
    *,
    greatest_output: float | None = None,
    scale_type: str = "f64",
) -> UniformQuantizedType:
    """The pinned type, with larger scales for the channels whose sums or bias exceed `limit`.

    A kernel's requirement overrides the pin. Each scale grows just enough, and channels that fit keep their scale. A
    per-layer type has one scale for all channels.
    """
    channels = weights_by_channel(weight, axis)
    scales = np.broadcast_to(pinned.scales, channels.shape[:1])
    points = np.broadcast_to(pinned.zero_points, channels.shape[:1])
    storage = pinned.storage
    # Integers, so the sums are exact. One channel at a time, because all of them as f64 would take eight times the
    # memory.
    held = weights_by_channel(stored_array(weight, pinned), axis)
    sums = np.array([np.abs(row.astype(np.float64) - point).sum() for row, point in zip(held, points, strict=True)])
    offset = np.zeros(scales.shape) if bias is None else np.rint(np.abs(bias) / (input_type.scale * scales))
    # From the stored integers, which are known exactly, not from the real values.
    passes = sums * input_type.affine.reach + offset > limit
    if not passes.any():
        return pinned
    least = least_scales(channels.astype(np.float64), input_type, bias, limit, greatest_output)
    grown = np.where(passes, held_scale(np.maximum(scales, least), scale_type), scales)
    expressed = pinned.expressed_type
    if not pinned.is_per_channel or pinned.axis is None:
        return UniformQuantizedType.per_layer(storage, float(grown.max()), pinned.zero_point, expressed_type=expressed)
    return UniformQuantizedType.per_channel(storage, pinned.axis, grown, pinned.zero_points, expressed_type=expressed)


def bias_type(
    storage: Storage, input_type: UniformQuantizedType, weight: UniformQuantizedType, scales: FloatArray | None = None
) -> UniformQuantizedType:
    """The type of a bias: scale s_in * s_w, per channel if the weight is, and zero point 0
    (`multiplier_accumulator_scale`).

    `scales` are the scales of each channel's sums, for weights in blocks (`channel_scales`). A storage of more than 32
    bits becomes i32, the widest quantized type; `weight_type` keeps every bias within it.
    """
    if storage.type.width > MAX_WIDTH:
        storage = Storage.of("i32")
    products = (input_type.scale * (weight.scales if scales is None else scales)).tolist()
    if weight.is_per_layer:
        return UniformQuantizedType.per_layer(storage, products[0])
    return UniformQuantizedType.per_channel(storage, 0, products)


def constant_type(
    array: Array, storage: Storage, zero_point: int | None, scale_type: str = "f64"
) -> UniformQuantizedType:
    """The per-layer type of a constant activation, from its own range. The range of a constant without elements is 0.

    Asymmetric if `zero_point` is None, which means that the kernel accepts any zero point; otherwise symmetric.
    """
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    zero = unit_scale(storage.type.width)
    if zero_point is None:
        chosen = asymmetric(low, high, storage.minimum, storage.maximum, zero_range_scale=zero)
    else:
        chosen = symmetric(low, high, storage.type, narrow=False, zero_range_scale=zero, greatest=storage.maximum)
    return UniformQuantizedType.per_layer(storage, float(held_scale(chosen.scale, scale_type)), int(chosen.zero_point))
