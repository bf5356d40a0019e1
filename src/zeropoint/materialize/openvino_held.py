"""The integers that OpenVINO stores for a result of type i8: those of u8 if a convolution reads it.

Convolutions read u8. So it stores q + 128, and f32 rounds a number near the middle of two integers otherwise than near
q. It also does so if the zero point is 0 and no integer kernel reads the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp
from zeropoint.ir.stablehlo import ConvolutionOp, UniformQuantizeOp
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.openvino_floats import of_dtype
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.solve.rescale import is_rescale
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

CASTS = (DequantizeCastOp, QuantizeCastOp, UniformQuantizeOp)
CONVOLUTIONS = ("convolution", "depthwise_convolution", "transpose_convolution")


def held_parameters(kernel: MaterializedKernel) -> tuple[AffineParameters, int]:
    """The parameters of a kernel's result as OpenVINO stores it, and how much greater its integers are."""
    kind = kernel.output_type
    given = of_dtype(kind)
    middle = kind.storage.type.middle - given.storage_min
    if not kind.storage.type.signed or not _is_held_unsigned(kernel):
        return given, 0
    ends = {"storage_min": given.storage_min + middle, "storage_max": given.storage_max + middle}
    return replace(given, zero_point=given.zero_point + middle, **ends), middle


def _is_held_unsigned(kernel: MaterializedKernel) -> bool:
    readers = list(_readers(kernel.region.outputs[0]))
    if any(map(_is_convolution, readers)):
        return True
    floats = all(not isinstance(op, QuantizeRegionOp) or not op.is_quantized for op in readers)
    return floats and not kernel.output_type.zero_points.any()


def _readers(value: SSAValue) -> Iterator[Operation]:
    """The ops that read a value, or its elements behind casts and kernels that move them."""
    for use in value.uses:
        op = use.operation
        moves = isinstance(op, QuantizeRegionOp) and (op.logical_kernel.data in PASSES_ELEMENTS or is_rescale(op))
        if isinstance(op, CASTS) or moves:
            yield from _readers(op.results[0])
        elif not isinstance(op, ReturnOp):
            yield op


def _is_convolution(op: Operation) -> bool:
    kernel = op.logical_kernel.data if isinstance(op, QuantizeRegionOp) else None
    return isinstance(op, ConvolutionOp) or kernel in CONVOLUTIONS
