"""Data movement on storage integers. Operands and result have the same parameters."""

from __future__ import annotations

from xdsl.ir import SSAValue

from zeropoint.ir.constants import splat_value
from zeropoint.ir.stablehlo import ConstantOp, GatherOp, PadOp, SelectOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.materialize.kernel import MaterializedKernel


def movement(kernel: MaterializedKernel) -> SSAValue:
    """The same op on quantized operands. A padding value becomes its storage integer."""
    op = next(op for op in kernel.body if not isinstance(op, ConstantOp) and op.operands[0] in kernel.values)
    quantized = kernel.output_type
    if isinstance(op, PadOp):
        number = splat_value(op.padding_value, kernel.weights)
        assert number is not None
        kernel.values[op.padding_value] = kernel.scalar(kernel.stored(number, quantized), quantized)
    for operand in op.operands:
        _rescale(kernel, operand)
    return kernel.retyped(op, quantized)


def _rescale(kernel: MaterializedKernel, operand: SSAValue) -> None:
    """Requantize an operand to the type of the result, if it has another."""
    value = kernel.values[operand]
    if element_of(value) != kernel.output_type:
        changed = UniformQuantizeOp(value, with_element(value, kernel.output_type))
        kernel.values[operand] = kernel.insert(changed, kernel.region).result


def select(kernel: MaterializedKernel) -> SSAValue:
    """`select` on quantized values, with an unchanged condition."""
    op = next(op for op in kernel.body if isinstance(op, SelectOp))
    for operand in (op.on_true, op.on_false):
        _rescale(kernel, operand)
    return kernel.retyped(op, kernel.output_type)


def gather(kernel: MaterializedKernel) -> SSAValue:
    """`gather` from a quantized table, with unchanged indices."""
    op = next(op for op in kernel.body if isinstance(op, GatherOp))
    _rescale(kernel, op.operand)
    return kernel.retyped(op, kernel.output_type)


KERNELS = {
    "broadcast": movement,
    "concatenate": movement,
    "gather": gather,
    "pad": movement,
    "reshape": movement,
    "reverse": movement,
    "select": select,
    "slice": movement,
    "transpose": movement,
}
