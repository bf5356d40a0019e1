"""Fake quantization: quantize, then dequantize.

Source: "MLIR Quantization", section "Integration with simulated quantization at training time". Up to 16 bits, results
equal TensorFlow's bit for bit under every profile (`zeropoint.numerics.fake_quantization`). For more bits, the
parameters are those of `zeropoint.numerics.ranges.fake_quant`, and the rounding is the profile's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from zeropoint.interp.binding import Scope, Unary
from zeropoint.ir.quant import ConstFakeQuantOp, ConstFakeQuantPerAxisOp
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.numerics import dequantize, quantize
from zeropoint.numerics import fake_quant as parameters_of
from zeropoint.numerics.arrays import along_axis
from zeropoint.numerics.fake_quantization import MOST_BITS, FakeQuantization


def const_fake_quant(op: ConstFakeQuantOp, scope: Scope) -> Unary:
    """quant.const_fake_quant: one range for the whole tensor."""
    return _simulation(op, op.min.value.data, op.max.value.data, None, scope)


def const_fake_quant_per_axis(op: ConstFakeQuantPerAxisOp, scope: Scope) -> Unary:
    """quant.const_fake_quant_per_axis: one range for each index of an axis."""
    minimum, maximum = np.array(op.ranges, np.float64).T
    return _simulation(op, minimum, maximum, op.axis.value.data, scope)


def _simulation(
    op: ConstFakeQuantOp | ConstFakeQuantPerAxisOp,
    minimum: npt.ArrayLike,
    maximum: npt.ArrayLike,
    axis: int | None,
    scope: Scope,
) -> Unary:
    bits = op.num_bits.value.data
    if bits <= MOST_BITS:
        return _tensorflow(FakeQuantization.of(minimum, maximum, bits, op.is_narrow), axis)
    found = parameters_of(minimum, maximum, bits, op.is_narrow, op.is_signed_storage)
    expressed = element_dtype(element_of(op.outputs))
    behaviour = scope.profile.quantize

    def run(inputs: Array) -> Array:
        scale = along_axis(found.scale, inputs.ndim, axis, "scale")
        zero_point = along_axis(found.zero_point, inputs.ndim, axis, "zero point")
        stored = quantize(
            inputs, scale, zero_point, found.storage_min, found.storage_max, behaviour=behaviour, expressed=expressed
        )
        return dequantize(stored, scale, zero_point, expressed)

    return run


def _tensorflow(found: FakeQuantization, axis: int | None) -> Unary:
    """TensorFlow's values, with one range for each index of an axis."""

    def run(inputs: Array) -> Array:
        scale, inverse = (along_axis(each, inputs.ndim, axis, "scale") for each in (found.scale, found.inverse))
        zero_point = along_axis(found.zero_point, inputs.ndim, axis, "zero point")
        return replace(found, scale=scale, inverse=inverse, zero_point=zero_point).apply(inputs)

    return run
