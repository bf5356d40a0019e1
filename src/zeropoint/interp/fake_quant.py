"""Fake quantization: quantize, then dequantize.

Source: "MLIR Quantization", section "Integration with simulated quantization at training time". The parameters are
those of `zeropoint.numerics.ranges.fake_quant`, the rounding is that of the program's profile.
"""

from __future__ import annotations

import numpy as np

from zeropoint.interp.binding import Scope, Unary
from zeropoint.ir.quant import ConstFakeQuantOp, ConstFakeQuantPerAxisOp
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.numerics import AffineParameters, dequantize, quantize
from zeropoint.numerics import fake_quant as parameters_of
from zeropoint.numerics.arrays import along_axis


def const_fake_quant(op: ConstFakeQuantOp, scope: Scope) -> Unary:
    """quant.const_fake_quant: one range for the whole tensor."""
    found = parameters_of(
        op.min.value.data, op.max.value.data, op.num_bits.value.data, op.is_narrow, op.is_signed_storage
    )
    return _simulation(op, found, None, scope)


def const_fake_quant_per_axis(op: ConstFakeQuantPerAxisOp, scope: Scope) -> Unary:
    """quant.const_fake_quant_per_axis: one range for each index of an axis."""
    minimum, maximum = np.array(op.ranges, np.float64).T
    found = parameters_of(minimum, maximum, op.num_bits.value.data, op.is_narrow, op.is_signed_storage)
    return _simulation(op, found, op.axis.value.data, scope)


def _simulation(
    op: ConstFakeQuantOp | ConstFakeQuantPerAxisOp, found: AffineParameters, axis: int | None, scope: Scope
) -> Unary:
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
