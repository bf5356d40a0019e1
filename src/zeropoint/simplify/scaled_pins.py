"""Types of constants that are multiplied by a factor per channel: the same integers, at other scales."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import constant_array
from zeropoint.ir.quant import UniformQuantizedType, quantize
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights


def scaled_pin(value: SSAValue, factors: Array, axis: int, weights: Weights) -> UniformQuantizedType | None:
    """The type of a constant times factors along an axis; None if nothing pins it, or if it cannot have one.

    Scales are positive, so integers change their sign with a negative factor. The least one has no negative. The
    scales are products in f32, as runtimes compute them.
    """
    pinned = value.owner.attributes.get(PINNED) if isinstance(value.owner, ConstantOp) else None
    array = constant_array(value, weights)
    if not isinstance(pinned, UniformQuantizedType) or array is None or pinned.zero_points.any():
        return None
    if pinned.is_sub_channel or pinned.axis not in (None, axis) or not factors.all():
        return None
    if (factors < 0).any() and int(quantize(array, pinned, expressed=np.float64).min()) < -pinned.storage.maximum:
        return None
    scales = pinned.scales.astype(np.float32) * np.abs(factors).astype(np.float32)
    if scales.size == 1:
        return UniformQuantizedType.per_layer(pinned.storage, float(scales.item()))
    return UniformQuantizedType.per_channel(
        pinned.storage, axis, np.broadcast_to(scales, (shape_of(value)[axis],)).tolist()
    )
