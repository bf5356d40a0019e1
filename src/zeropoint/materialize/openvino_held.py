"""The integers that OpenVINO stores for a result of type i8: those of i8 or of u8.

It stores q + 128 in u8, and f32 rounds a number near the middle of two integers otherwise than near q. Products of
matrices read i8, other kernels u8. If no integer kernel reads a result, it is rounded as in u8 if the zero point is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConvolutionOp, UniformQuantizeOp
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.openvino_floats import of_dtype
from zeropoint.numerics.openvino import HeldOperand
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.solve.rescale import is_rescale
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

CASTS = (DequantizeCastOp, QuantizeCastOp, UniformQuantizeOp)
MATRICES = ("batch_matmul", "fully_connected")
"""Kernels that read i8."""
READ_UNSIGNED = ("convolution", "depthwise_convolution")
"""Kernels that read u8."""
DIFFERENCE = "subtract"
CONVOLUTIONS = ("convolution", "depthwise_convolution", "transpose_convolution")


def held_parameters(kernel: MaterializedKernel) -> tuple[AffineParameters, int]:
    """The parameters of a kernel's result as OpenVINO stores it, and how much greater its integers are."""
    return held_value(kernel.region.outputs[0], kernel.output_type)


def held_value(
    value: SSAValue, kind: UniformQuantizedType, is_unsigned: bool | None = None
) -> tuple[AffineParameters, int]:
    """The parameters of a value of a type as OpenVINO stores it, and how much greater its integers are."""
    given = of_dtype(kind)
    middle = kind.storage.type.middle - given.storage_min
    if not kind.storage.type.signed or not (_is_held_unsigned(value, kind) if is_unsigned is None else is_unsigned):
        return given, 0
    ends = {"storage_min": given.storage_min + middle, "storage_max": given.storage_max + middle}
    return replace(given, zero_point=given.zero_point + middle, **ends), middle


def held_operand(value: SSAValue, kind: UniformQuantizedType) -> tuple[HeldOperand, int]:
    """The same for an operand of a sum or difference, which reads i8 unless a convolution reads u8."""
    reads_unsigned = any(_kernel(reader) in READ_UNSIGNED for reader in _readers(value))
    held, moved = held_value(value, kind, reads_unsigned)
    return (HeldOperand.moved(of_dtype(kind), moved) if moved else HeldOperand.of(held)), moved


def is_stored(value: SSAValue) -> bool:
    """Whether OpenVINO stores the integers of a value. It dequantizes outputs in the kernel that computes them."""
    return any(True for _ in _readers(value))


def _is_held_unsigned(value: SSAValue, kind: UniformQuantizedType) -> bool:
    kernels = [_kernel(reader) for reader in _readers(value)]
    if all(kernel is None for kernel in kernels):
        return not kind.zero_points.any()
    return any(kernel not in (None, *MATRICES) for kernel in kernels)


def _readers(value: SSAValue) -> Iterator[Operation]:
    """The ops that read a value, or its elements behind casts and kernels that move them."""
    for use in value.uses:
        op = use.operation
        moves = isinstance(op, QuantizeRegionOp) and (op.logical_kernel.data in PASSES_ELEMENTS or is_rescale(op))
        if isinstance(op, CASTS) or moves:
            yield from _readers(op.results[0])
        elif not isinstance(op, ReturnOp):
            yield op


def _kernel(op: Operation) -> str | None:
    """The integer kernel that an op is; None for an op of floats. Some float regions are convolutions of integers."""
    if isinstance(op, QuantizeRegionOp) and op.logical_kernel.data == DIFFERENCE:
        return None
    if isinstance(op, QuantizeRegionOp) and (op.is_quantized or op.logical_kernel.data in CONVOLUTIONS):
        return op.logical_kernel.data
    return "convolution" if isinstance(op, ConvolutionOp) else None
