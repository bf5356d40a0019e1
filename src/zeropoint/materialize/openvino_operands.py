"""Operands of sums and products in OpenVINO: where they are quantized, and what else reads them."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.targets.logical_kernels import CONTRACTIONS, PASSES_ELEMENTS


def is_rounded(value: SSAValue) -> bool:
    """Whether a value is quantized by an op of its own, or by one that is no contraction and moves no elements."""
    maker = value.owner
    if isinstance(maker, QuantizeRegionOp):
        return not is_moved(value) and maker.logical_kernel.data not in CONTRACTIONS
    return not isinstance(maker, hlo.ConstantOp)


def is_moved(value: SSAValue) -> bool:
    """Whether a value has the elements of another one."""
    maker = value.owner
    return isinstance(maker, QuantizeRegionOp) and maker.logical_kernel.data in PASSES_ELEMENTS


def readers(kernel: MaterializedKernel, operand: SSAValue) -> int:
    """How many times ops read the operand in its quantized type."""
    return len(readings(kernel, operand))


def readings(kernel: MaterializedKernel, operand: SSAValue) -> list[Operation]:
    """The ops that read the operand in its quantized type, once for each time."""
    spec = kernel.region.input_specs.data[kernel.arguments.index(operand)]
    uses = [use for use in outer(kernel, operand).uses if not isinstance(use.operation, hlo.UniformQuantizeOp)]
    return [
        use.operation
        for use in uses
        if not isinstance(use.operation, QuantizeRegionOp) or use.operation.input_specs.data[use.index] == spec
    ]


def outer(kernel: MaterializedKernel, operand: SSAValue) -> SSAValue:
    """The operand of the region for an argument of its body."""
    return kernel.region.inputs[kernel.arguments.index(operand)]
