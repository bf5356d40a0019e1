"""Contractions that XNNPACK does not execute: convolutions with 4-bit weights, and fully connected layers with 2-bit
weights, or with weights that another operator computes.

LiteRT's own kernels multiply with its library ruy.

Sums are multiplied by LiteRT's 31-bit multiplier, then divided by its power of two. Both are rounded, a middle of two
integers up. LiteRT's reference kernels round it away from zero, and compute grouped convolutions in any case.

Source: ruy's kernels for x64, measured; `sqrdmulh` and `srshl` of those for ARM compute the same.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from zeropoint.ir.contractions import has_computed_weights
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.quant import QuantizeRegionOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, element_of, with_element
from zeropoint.materialize.contraction import contraction
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.storage import expressed
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.multiplier import quantize_multiplier
from zeropoint.numerics.requantize import RequantizeBehaviour
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN

NIBBLE = 7
"""The greatest 4-bit weight."""
CRUMB = 1
"""The greatest 2-bit weight."""
BITS = 31
"""The fractional bits of LiteRT's multiplier."""


def is_grouped(region: QuantizeRegionOp) -> bool:
    """Whether a region is a convolution in groups with 4-bit weights, which LiteRT's reference kernel computes."""
    op = next((op for op in region.body.block.ops if isinstance(op, ConvolutionOp)), None)
    if region.logical_kernel.data != "convolution" or op is None or op.feature_group_count.value.data == 1:
        return False
    specs = zip(region.body.block.args, region.input_specs, strict=True)
    found = next((spec for argument, spec in specs if argument is op.rhs), None)
    return isinstance(found, UniformQuantizedType) and found.storage.maximum <= NIBBLE


def convolution(kernel: MaterializedKernel) -> SSAValue:
    """A convolution: XNNPACK's, or LiteRT's own if the weights have 4 bits."""
    return _by_weights(kernel, NIBBLE)


def fully_connected(kernel: MaterializedKernel) -> SSAValue:
    """A fully connected layer: XNNPACK's, or LiteRT's own if the weights have 2 bits."""
    return _by_weights(kernel, CRUMB)


def batch_matmul(kernel: MaterializedKernel) -> SSAValue:
    """A product of two activations: LiteRT's own if the file has it as a fully connected layer."""
    return contraction(kernel, _narrowed) if has_computed_weights(kernel.region) else contraction(kernel)


def _by_weights(kernel: MaterializedKernel, most: int) -> SSAValue:
    """A contraction with LiteRT's arithmetic if no weight is greater than `most`."""
    op = next((op for op in kernel.body if isinstance(op, ConvolutionOp | DotGeneralOp)), None)
    narrow = op is not None and kernel.type_of(op.rhs).storage.maximum <= most
    return contraction(kernel, _narrowed) if narrow else contraction(kernel)


def _narrowed(kernel: MaterializedKernel, total: SSAValue) -> SSAValue:
    given, wanted = element_of(total), kernel.output_type
    assert isinstance(given, UniformQuantizedType)
    stored = kernel.insert(StorageCastOp(total, with_element(total, i32)), kernel.region).result
    return expressed(kernel, half_up(kernel, stored, given.scales / wanted.scales, wanted, given.axis))


def half_up(
    kernel: MaterializedKernel, total: SSAValue, ratios: Array, wanted: UniformQuantizedType, axis: int | None = None
) -> SSAValue:
    """The storage integers of `wanted` from i32 integers. `ratios` are those of their scales to its scale."""
    mantissas, exponents = quantize_multiplier(ratios)
    product = RequantizeOp(
        total,
        _numbers(kernel, mantissas),
        _numbers(kernel, BITS - np.maximum(exponents, 0)),
        with_element(total, i32),
        behaviour=RequantizeBehaviour.FIXED32.value,
        zero_point=0,
        storage_min=INT32_MIN,
        storage_max=INT32_MAX,
        axis=axis,
    )
    shifts = np.maximum(-exponents, 0)
    rounded = RequantizeOp(
        kernel.insert(product, kernel.region).result,
        _numbers(kernel, np.ones_like(shifts)),
        _numbers(kernel, shifts),
        with_element(total, i8),
        behaviour=RequantizeBehaviour.FIXED32.value,
        zero_point=wanted.zero_point,
        storage_min=wanted.storage.minimum,
        storage_max=wanted.storage.maximum,
        axis=axis,
    )
    return kernel.insert(rounded, kernel.region).result


def _numbers(kernel: MaterializedKernel, numbers: IntArray) -> SSAValue:
    return kernel.constant(np.atleast_1d(numbers).astype(np.int32))
