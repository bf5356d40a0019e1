"""Parameters of weights, biases and constant operands, from their values.

Source: the project's numerics notes, sections "Range to scale and zero point" (symmetric, narrow) and "Accumulators":
where a bias at scale s_in * s_w or the sum of products would leave the accumulator, the weight scale of that channel
grows just enough.
"""

from __future__ import annotations

import numpy as np

from zeropoint.ir.contractions import weights_by_channel
from zeropoint.ir.quant import Storage, UniformQuantizedType, stored_array
from zeropoint.ir.quant.storage import MAX_WIDTH
from zeropoint.ir.tensors import Array
from zeropoint.numerics.accumulator import least_saturating_scale, least_weight_scale
from zeropoint.numerics.ranges import SCALE_FLOOR, UNIT_SCALE, asymmetric, held_scale, symmetric


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
) -> UniformQuantizedType:
    """`!quant.uniform` per channel along `axis`, or per layer, such that no accumulator of any input exceeds `limit`.

    At scale s a channel sums to at most reach * (sum |w| / s + n / 2) + |b| / (s_in * s): each of its n weights that
    are not 0 is rounded by up to 1/2. So sum |w| * reach * s_in grows the scale as a bias does. The caller leaves a bit
    of the accumulator free: `fixed16` adds a rounding term of up to 2^30. With `greatest_output`, the greatest |real
    value| of the output, a sum may pass the limit where it is so far past the output that saturation is no loss: of
    16-bit activations, whose sums a kernel takes in 64 bits. Raises ValueError for some 2^23 weights a channel.
    """
    channels = weights_by_channel(weight, axis).astype(np.float64)
    narrow = storage.minimum > storage.type.min
    scales = symmetric(channels.min(axis=1), channels.max(axis=1), storage.type, narrow=narrow).scale
    least = _least_scales(channels, input_type, bias, limit, greatest_output)
    scales = held_scale(np.maximum(np.asarray(scales, dtype=np.float64), least), scale_type)
    middle = 0 if storage.type.signed else 1 << (storage.type.width - 1)
    if not per_channel:
        return UniformQuantizedType.per_layer(storage, float(scales.max(initial=SCALE_FLOOR)), middle)
    points = np.full(scales.shape, middle)
    return UniformQuantizedType.per_channel(storage, axis, scales.tolist(), points.tolist())


def _least_scales(
    channels: Array, input_type: UniformQuantizedType, bias: Array | None, limit: int, greatest_output: float | None
) -> Array:
    """The least scale of each channel at which its sums and its bias fit, or saturate without loss."""
    greatest = np.abs(channels).sum(axis=1) * (input_type.affine.reach * input_type.scale)
    added = np.broadcast_to(0.0 if bias is None else np.abs(bias.astype(np.float64)), greatest.shape)
    rounding = np.count_nonzero(channels, axis=1) * (input_type.affine.reach / 2)
    if greatest_output is None:
        return least_weight_scale(greatest + added, input_type.scale, rounding, limit)
    least = least_saturating_scale(added, input_type.scale, greatest_output)
    short = rounding < limit / 2
    fitting = least_weight_scale((greatest + added)[short], input_type.scale, rounding[short], limit)
    least[short] = np.minimum(least[short], fitting)
    return least


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
    """A pinned type, with the least greater scale for the channels whose sums or bias `limit` would not hold.

    What a kernel requires is stronger than what the model pins. All channels that fit keep their scale; a type per
    layer has one for all.
    """
    channels = weights_by_channel(weight, axis).astype(np.float64)
    scales = np.broadcast_to(pinned.scales, channels.shape[:1])
    points = np.broadcast_to(pinned.zero_points, channels.shape[:1])
    storage = pinned.storage
    held = weights_by_channel(stored_array(weight, pinned), axis).astype(np.float64) - points[:, None]
    offset = np.zeros(scales.shape) if bias is None else np.rint(np.abs(bias) / (input_type.scale * scales))
    passes = np.abs(held).sum(axis=1) * input_type.affine.reach + offset > limit
    if not passes.any():
        return pinned
    least = _least_scales(channels, input_type, bias, limit, greatest_output)
    grown = np.where(passes, held_scale(np.maximum(scales, least), scale_type), scales)
    expressed = pinned.expressed_type
    if not pinned.is_per_channel or pinned.axis is None:
        return UniformQuantizedType.per_layer(storage, float(grown.max()), pinned.zero_point, expressed_type=expressed)
    return UniformQuantizedType.per_channel(storage, pinned.axis, grown, pinned.zero_points, expressed_type=expressed)


def bias_type(storage: Storage, input_type: UniformQuantizedType, weight: UniformQuantizedType) -> UniformQuantizedType:
    """Scale s_in * s_w, per channel as the weight is, zero point 0 (`multiplier_accumulator_scale`).

    A storage of more than 32 bits is one of 32 here: no quantized type holds more, and no bias is let out of them.
    """
    if storage.type.width > MAX_WIDTH:
        storage = Storage.of("i32")
    scales = (input_type.scale * weight.scales).tolist()
    if not weight.is_per_channel:
        return UniformQuantizedType.per_layer(storage, scales[0])
    return UniformQuantizedType.per_channel(storage, 0, scales)


def constant_type(
    array: Array, storage: Storage, zero_point: int | None, scale_type: str = "f64"
) -> UniformQuantizedType:
    """The per-layer type of a constant activation: its own range, asymmetric where the kernel takes any zero point."""
    low, high = float(array.min()), float(array.max())
    if zero_point is None:
        chosen = asymmetric(low, high, storage.minimum, storage.maximum)
    else:
        chosen = symmetric(low, high, storage.type, narrow=False, zero_range_scale=UNIT_SCALE)
    return UniformQuantizedType.per_layer(storage, float(held_scale(chosen.scale, scale_type)), int(chosen.zero_point))
