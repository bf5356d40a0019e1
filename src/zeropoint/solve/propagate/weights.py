"""Parameters of weights, biases and constant operands, from their values.

Source: the project's numerics notes, sections "Range to scale and zero point" (symmetric, narrow) and "Accumulators":
where a bias at scale s_in * s_w or the sum of products would leave the accumulator, the weight scale of that channel
grows just enough.
"""

from __future__ import annotations

import numpy as np

from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.tensors import Array
from zeropoint.numerics.accumulator import least_weight_scale
from zeropoint.numerics.ranges import UNIT_SCALE, asymmetric, symmetric
from zeropoint.targets import PortRule


def weight_type(
    weight: Array, axis: int, storage: Storage, input_type: UniformQuantizedType, bias: Array | None, limit: int
) -> UniformQuantizedType:
    """`!quant.uniform` per channel along `axis`, such that no accumulator of any input exceeds `limit`.

    At scale s a channel sums to at most reach * (sum |w| / s + n / 2) + |b| / (s_in * s): each of its n weights that
    are not 0 is rounded by up to 1/2. So sum |w| * reach * s_in grows the scale as a bias does. The caller leaves a bit
    of the accumulator free: `fixed16` adds a rounding term of up to 2^30. Raises ValueError for some 2^23 weights a
    channel.
    """
    channels = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1).astype(np.float64)
    scales = symmetric(channels.min(axis=1), channels.max(axis=1), storage.type, narrow=True).scale
    reach = max(input_type.storage.maximum - input_type.zero_point, input_type.zero_point - input_type.storage.minimum)
    greatest = np.abs(channels).sum(axis=1) * (reach * input_type.scale)
    if bias is not None:
        greatest = greatest + np.abs(bias.astype(np.float64))
    rounding = np.count_nonzero(channels, axis=1) * (reach / 2)
    least = least_weight_scale(greatest, input_type.scale, rounding, limit)
    scales = np.maximum(np.asarray(scales, dtype=np.float64), least)
    return UniformQuantizedType.per_channel(storage, axis, scales.tolist())


def bias_type(storage: Storage, input_type: UniformQuantizedType, weight: UniformQuantizedType) -> UniformQuantizedType:
    """i32 at scale s_in * s_w per channel, zero point 0 (`multiplier_accumulator_scale`)."""
    return UniformQuantizedType.per_channel(storage, 0, (input_type.scale * weight.scales).tolist())


def constant_type(array: Array, rule: PortRule) -> UniformQuantizedType:
    """The per-layer type of a constant activation: its own range, asymmetric where the kernel takes any zero point."""
    storage, low, high = rule.storage, float(array.min()), float(array.max())
    if rule.zero_point is None:
        chosen = asymmetric(low, high, storage.minimum, storage.maximum)
    else:
        chosen = symmetric(low, high, storage.type, narrow=False, zero_range_scale=UNIT_SCALE)
    return UniformQuantizedType.per_layer(storage, float(chosen.scale), int(chosen.zero_point))
