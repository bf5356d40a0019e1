"""The integers that OpenVINO stores for a result of type i8: those of i8 or of u8.

It stores q + 128 in u8, and f32 rounds a number near the middle of two integers otherwise than near q. Convolutions
read u8, but i8 on processors with AMX. All others read i8.

Some results have the range of u8 although nothing stores them: those that a sum or product has in other units, and
outputs of the program with zero point 0, which are dequantized in the kernel that computes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, ConvolutionOp, MultiplyOp, SubtractOp, UniformQuantizeOp
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.openvino_floats import of_dtype
from zeropoint.materialize.openvino_operands import FileOperand, expressed
from zeropoint.numerics.openvino import HeldOperand
from zeropoint.numerics.profile import KernelBehaviour
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.solve.rescale import is_rescale
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

CASTS = (DequantizeCastOp, QuantizeCastOp, UniformQuantizeOp)
MATRICES = ("batch_matmul", "fully_connected")
DIRECT = ("convolution", "depthwise_convolution")
READ_UNSIGNED: Mapping[KernelBehaviour, tuple[str, ...]] = {
    KernelBehaviour.OPENVINO: DIRECT,
    KernelBehaviour.OPENVINO_AMX: (),
}
"""Convolutions that read u8 only, by the kernels of a profile (`input0LowPrecisionList` of OpenVINO's CPU plugin)."""
READ_SIGNED: Mapping[KernelBehaviour, tuple[str, ...]] = {
    KernelBehaviour.OPENVINO: MATRICES,
    KernelBehaviour.OPENVINO_AMX: (*MATRICES, *DIRECT),
}
"""Kernels that read i8, whose zero point they do not subtract."""
DIFFERENCE = "subtract"
BINARY = ("add", "multiply", DIFFERENCE)
"""Kernels of two values."""
CONVOLUTIONS = ("convolution", "depthwise_convolution", "transpose_convolution")


def held_parameters(kernel: MaterializedKernel) -> tuple[AffineParameters, int]:
    """The parameters of a kernel's result as OpenVINO stores it, and how much greater its integers are."""
    value, kind = kernel.region.outputs[0], kernel.output_type
    return _held_value(kind, _is_held_unsigned(kernel, value, kind))


def _held_value(kind: UniformQuantizedType, is_unsigned: bool) -> tuple[AffineParameters, int]:
    """The parameters of a value of a type as OpenVINO stores it, and how much greater its integers are."""
    given = of_dtype(kind)
    middle = kind.storage.type.middle - given.storage_min
    if not kind.storage.type.signed or not is_unsigned:
        return given, 0
    ends = {"storage_min": given.storage_min + middle, "storage_max": given.storage_max + middle}
    return replace(given, zero_point=given.zero_point + middle, **ends), middle


def held_operand(kernel: MaterializedKernel, value: SSAValue, kind: UniformQuantizedType) -> tuple[HeldOperand, int]:
    """The same for an operand of a sum or difference, which reads i8 unless a convolution reads u8."""
    held, moved = _held_value(kind, _is_read_unsigned(kernel, value))
    return (HeldOperand.moved(of_dtype(kind), moved) if moved else HeldOperand.of(held)), moved


def reads_floats(kernel: MaterializedKernel, given: UniformQuantizedType) -> bool:
    """Whether a convolution subtracts the zero point of its operand before it sums, in a kernel of floats.

    Only kernels of u8 subtract it themselves. The sums are the same up to 2^24, but nothing else is computed in it.
    """
    is_read = kernel.region.logical_kernel.data in READ_SIGNED[kernel.profile.kernels]
    return is_read and given.storage.type.signed and bool(given.zero_points.any())


def is_stored(kernel: MaterializedKernel) -> bool:
    """Whether OpenVINO stores the integers of a kernel's result.

    It dequantizes outputs in the kernel that computes them, and expresses an operand of a sum or product there in other
    units (`FileOperand.is_folded`).
    """
    value = kernel.region.outputs[0]
    return any(True for _ in _readers(value)) and not _is_folded(kernel, value)


def _is_folded(kernel: MaterializedKernel, value: SSAValue) -> bool:
    """Whether the only reader of a value is a sum or product that has it in other units."""
    readers = [use.operation for use in value.uses]
    reader = readers[0] if len(readers) == 1 else None
    if not isinstance(reader, QuantizeRegionOp) or not reader.is_quantized:
        return False
    op = reader.body.block.first_op
    if reader.logical_kernel.data not in BINARY or not isinstance(op, AddOp | MultiplyOp | SubtractOp):
        return False
    reading = MaterializedKernel(reader, kernel.builder, kernel.weights, program_profile=kernel.program_profile)
    pair = (FileOperand(reading, op.lhs), FileOperand(reading, op.rhs))
    if any(found.argument is None or _is_constant(found) for found in pair):
        return False
    term = pair[expressed(pair)]
    return term.outer is value and not term.is_reshaped and term.is_folded


def _is_constant(operand: FileOperand) -> bool:
    return constant_array(operand.outer, operand.kernel.weights) is not None


def _is_held_unsigned(kernel: MaterializedKernel, value: SSAValue, kind: UniformQuantizedType) -> bool:
    if _is_output(value):
        return not kind.zero_points.any()
    return _is_folded(kernel, value) or _is_read_unsigned(kernel, value)


def _is_read_unsigned(kernel: MaterializedKernel, value: SSAValue) -> bool:
    return any(_kernel(reader) in READ_UNSIGNED[kernel.profile.kernels] for reader in _readers(value))


def _is_output(value: SSAValue) -> bool:
    """Whether a value is only an output of the program, which OpenVINO dequantizes in the kernel that computes it."""
    readers = [use.operation for use in value.uses]
    return all(
        _is_output(reader.results[0]) if isinstance(reader, CASTS) else isinstance(reader, ReturnOp)
        for reader in readers
    )


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
