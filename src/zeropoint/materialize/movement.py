"""Data movement on storage; operands and result have the same parameters."""

from __future__ import annotations

from xdsl.ir import SSAValue

from zeropoint.ir.constants import splat_value
from zeropoint.ir.stablehlo import ConstantOp, PadOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.materialize.kernel import Kernel


def movement(kernel: Kernel) -> SSAValue:
    """The same op on quantized operands; a padding value becomes its storage integer."""
    op = next(op for op in kernel.body if not isinstance(op, ConstantOp) and op.operands[0] in kernel.values)
    quantized = kernel.output_type
    if isinstance(op, PadOp):
        number = splat_value(op.padding_value, kernel.weights)
        assert number is not None
        kernel.values[op.padding_value] = kernel.scalar(kernel.stored(number, quantized), quantized)
    for operand in op.operands:  # a join whose operands have several types rescales them
        value = kernel.values[operand]
        if element_of(value) != quantized:
            changed = UniformQuantizeOp(value, with_element(value, quantized))
            kernel.values[operand] = kernel.insert(changed, kernel.region).result
    return kernel.retyped(op, quantized)


KERNELS = {
    "broadcast": movement,
    "concatenate": movement,
    "pad": movement,
    "reshape": movement,
    "reverse": movement,
    "slice": movement,
    "transpose": movement,
}
