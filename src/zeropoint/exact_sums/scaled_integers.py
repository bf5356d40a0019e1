"""Values that are integers times one scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import BlockArgument, OpResult, SSAValue

from zeropoint.ir.quant import DequantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import BroadcastInDimOp, ReshapeOp, SliceOp, TransposeOp
from zeropoint.ir.tensors import element_of

SMALLEST = 2.0**-50
"""Scales below this one are left alone: f32 may not hold their inverses, or epsilon divided by their squares."""
MOVES = (ReshapeOp, TransposeOp, SliceOp, BroadcastInDimOp)


@dataclass(frozen=True)
class ScaledIntegers:
    """Values that are integers times a scale in f32."""

    scale: np.float32
    reach: int
    """The largest magnitude of the integers."""
    span: int
    """The largest distance of an integer to one near the mean of others."""


def _kind(value: SSAValue) -> UniformQuantizedType | None:
    """The quantized type of a float value that a kernel rounds to it, which may be moved; None for other values."""
    while True:
        owner = value.owner
        if isinstance(owner, (*MOVES, DequantizeCastOp)):
            value = owner.operands[0]
        elif isinstance(value, BlockArgument) and isinstance(region := owner.parent_op(), QuantizeRegionOp):
            value = region.inputs[value.index]
        elif isinstance(value, OpResult) and isinstance(owner, QuantizeRegionOp):
            spec = owner.output_specs.data[value.index]
            return spec if isinstance(spec, UniformQuantizedType) else None
        else:
            kind = element_of(value)
            return kind if isinstance(kind, UniformQuantizedType) else None


def scaled_integers(value: SSAValue) -> ScaledIntegers | None:
    """The steps of a dequantized value with one scale, which may be moved; None for other values."""
    kind = _kind(value)
    if element_of(value) != f32 or kind is None or not kind.is_per_layer:
        return None
    if kind.scale < SMALLEST:
        return None
    low, high = kind.storage.minimum - kind.zero_point, kind.storage.maximum - kind.zero_point
    return ScaledIntegers(np.float32(kind.scale), max(abs(low), abs(high)), high - low + 1)
