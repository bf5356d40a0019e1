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

    Every product is at most `reach` * 127 in absolute value, so K of them and the bias must stay within the limit. The
    caller leaves a bit of the accumulator free: `fixed16` adds a rounding term of up to 2^30.
    """
    channels = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1).astype(np.float64)
    scales = symmetric(channels.min(axis=1), channels.max(axis=1), storage.type, narrow=True).scale
    scales = np.asarray(scales, dtype=np.float64)
    if bias is not None:
        reach = max(
            input_type.storage.maximum - input_type.zero_point, input_type.zero_point - input_type.storage.minimum
        )
        terms = channels.shape[1] * reach * storage.maximum
        scales = np.maximum(scales, least_weight_scale(bias.astype(np.float64), input_type.scale, terms, limit))
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
