"""Scales the channels of a value: the constants of the region that makes it, and the weights of those that read it."""

from __future__ import annotations

import numpy as np

from zeropoint.ir.contractions import weight_channel_axis
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.solve.equalizable import own_array, own_contraction, replace_constant, spread_factors


def divide_results(maker: QuantizeRegionOp, factors: Array, weights: Weights) -> None:
    """Divide the channels of a contraction's or layer norm's results by the factors, (channels,)."""
    made = own_contraction(maker, weights)
    axis = None if made is None else weight_channel_axis(made)
    for index, value in enumerate(maker.inputs[1:], start=1):
        array = own_array(value, weights)
        assert array is not None
        shape = [-1 if array.ndim == 1 or dim == axis else 1 for dim in range(array.ndim)]
        shape = array.shape if made is None else shape
        # In f64 and rounded to f32 once, so that the two factors cancel up to that rounding.
        replace_constant(maker, index, array.astype(np.float64) / factors.reshape(shape), weights)


def multiply_weights(reader: QuantizeRegionOp, factors: Array, weights: Weights) -> None:
    """Multiply the weights of a contraction that read each input channel by its factor, (channels,)."""
    weight = own_array(reader.inputs[1], weights)
    assert weight is not None
    replace_constant(reader, 1, weight.astype(np.float64) * spread_factors(reader, factors), weights)
