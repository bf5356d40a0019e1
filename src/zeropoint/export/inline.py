"""The float ops of a kernel that stays float, in place of one operator."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from zeropoint.export.kernels import ExportKernel
from zeropoint.ir.stablehlo import ConstantOp


def inline(
    kernel: ExportKernel, stands_for: Callable[[SSAValue, SSAValue], None], float_op: Callable[[Operation], None]
) -> None:
    """Emit the ops by `float_op`. `stands_for` aliases a value to another one: arguments to operands, results to what
    the body returns.
    """
    block = kernel.region.body.block
    for argument, value in zip(block.args, kernel.region.inputs, strict=True):
        stands_for(argument, value)
    for op in kernel.ops:
        if not isinstance(op, ConstantOp):
            float_op(op)
    returned = block.last_op
    assert returned is not None
    for output, value in zip(kernel.region.outputs, returned.operands, strict=True):
        stands_for(output, value)
