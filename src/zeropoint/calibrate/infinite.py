"""Find where the infinite values of a request come from: why all are infinite, and whether the model intends them.

```mlir
%i = stablehlo.constant dense<0x7F800000> : tensor<f32>
%y = quant.region "add"(%0 = %i, %1 = %x) {...}     the minimum of no elements (infinity) plus a number
%2 = "quant.stats_ref"(%y) {statsKey = "y"}
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import BlockArgument, Operation, SSAValue

from zeropoint.ir.constants import elements
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsRefOp
from zeropoint.ir.result_names import result_names
from zeropoint.ir.stablehlo import (
    ClampOp,
    CompareOp,
    ConstantOp,
    ConvolutionOp,
    DotGeneralOp,
    MaximumOp,
    MinimumOp,
    PadOp,
    ReduceOp,
    ReduceWindowOp,
)
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights

LARGE = 1e30
"""A constant as large as this stands for infinity. Two such constants, such as masks in f32, may add up to infinity."""
MIXES = ConvolutionOp | DotGeneralOp
"""Ops whose infinite results do not come from single elements of an operand."""
BOUNDS = ClampOp | CompareOp | MaximumOp | MinimumOp | PadOp
"""Ops that take infinite constants, but whose results are finite numbers or comparisons."""


def advice(request: StatisticsRefOp, program: Program) -> str:
    """What to do about a value that is never finite.

    The minimum or maximum of no elements is infinite by definition, and a constant may be infinite. Kernels that
    compute with such a number have no range. Then the samples are not at fault.
    """
    if not any(_is_infinite(op, program.weights) for op in _makers(request.arg)):
        return "check the model's weights and that the inputs are scaled as it expects"
    why = "it is computed from an infinite constant, such as the minimum or maximum of no elements"
    kernels = _kernels_with(request, program)
    if not kernels:
        return f"{why}, and no kernel reads it; remove its quant.stats_ref"
    return f"{why}; keep {', '.join(kernels)} float (quantize: false)"


def is_meant(request: StatisticsRefOp, program: Program) -> bool:
    """Whether infinities of a value come from a mask that is an input, or from a constant that stands for infinity.

    They are also meant if a maximum with such a constant reads the value, as the bound of `log(mask)` does.
    """
    if _is_bounded(request, program.weights):
        return True
    masks = {value for value, port in zip(program.entry.args, program.inputs, strict=True) if port.is_mask}
    return any(
        value in masks or (isinstance(value.owner, ConstantOp) and _is_large(value.owner, program.weights))
        for value in _origins(request.arg, _unmixed)
    )


def is_constant(request: StatisticsRefOp) -> bool:
    """Whether a value is computed from constants only, as a padding or a state that begins with zeros is."""
    found = _origins(request.arg, lambda op: op.operands)
    return not any(isinstance(value, BlockArgument) and not _is_inner(value) for value in found)


def _unmixed(op: Operation) -> Sequence[SSAValue]:
    """The operands whose infinities an op returns."""
    if isinstance(op, ReduceOp | ReduceWindowOp):
        return op.inputs
    return () if isinstance(op, MIXES) else op.operands


def _is_inner(value: BlockArgument) -> bool:
    return isinstance(value.owner.parent_op(), QuantizeRegionOp)


def _origins(value: SSAValue, followed: Callable[[Operation], Sequence[SSAValue]]) -> Iterator[SSAValue]:
    """A value and those that it is computed of, through regions. `followed` are the operands of other ops to follow."""
    seen: set[SSAValue] = set()
    pending: list[SSAValue] = [value]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        op, around = value.owner, value.owner.parent_op()
        if isinstance(value, BlockArgument) and isinstance(around, QuantizeRegionOp):
            pending.append(around.inputs[value.index])
        elif isinstance(op, QuantizeRegionOp):
            pending += op.body.block.last_op.operands if op.body.block.last_op else ()
        elif isinstance(op, Operation):
            pending += followed(op)


def _is_bounded(request: StatisticsRefOp, weights: Weights) -> bool:
    """Whether only maxima with a constant that stands for infinity read a value."""
    readers = [use.operation for use in request.res.uses]
    return bool(readers) and all(
        isinstance(reader, QuantizeRegionOp)
        and any(isinstance(op, MaximumOp) for op in reader.body.block.ops)
        and any(
            isinstance(op, ConstantOp) and _is_large(op, weights)
            for op in (*reader.body.block.ops, *(value.owner for value in reader.inputs))
        )
        for reader in readers
    )


def _is_large(op: ConstantOp, weights: Weights) -> bool:
    """Whether a float constant has a number that is infinite or stands for infinity."""
    return isinstance(element_of(op.output), AnyFloat) and bool((np.abs(elements(op, weights)) >= LARGE).any())


def _kernels_with(request: StatisticsRefOp, program: Program) -> list[str]:
    """The names, in the form that recipes use, of the kernel that produces the value and of those that read it."""
    names, around = result_names(program), request.parent_op()
    found = [request.arg, *(use.operation.results[0] for use in request.res.uses if use.operation.results)]
    kernels = [value.owner for value in found if isinstance(value.owner, QuantizeRegionOp)]
    if isinstance(around, QuantizeRegionOp):  # a value inside a kernel
        kernels = [around]
    return list(dict.fromkeys(f"'{names[kernel.outputs[0]].partition('#')[0]}'" for kernel in kernels))


def _is_infinite(op: Operation, weights: Weights) -> bool:
    """Whether an op is an infinite constant in a computation, or a reduction of no elements.

    Initial values of a maximum or minimum, bounds of a clamp and paddings may be infinite as well. They do not count,
    because the results are finite.
    """
    if isinstance(op, ReduceOp | ReduceWindowOp):
        return any(0 in shape_of(operand) for operand in op.inputs)
    if not isinstance(op, ConstantOp) or not isinstance(element_of(op.output), AnyFloat):
        return False
    computes = [use for use in op.output.uses if not _starts(use.operation, use.index)]
    return bool(computes) and bool(np.isinf(elements(op, weights)).any())


def _starts(op: Operation, index: int) -> bool:
    return isinstance(op, BOUNDS) or (isinstance(op, ReduceOp | ReduceWindowOp) and index >= len(op.inputs))


def _makers(value: SSAValue) -> Iterator[Operation]:
    """The ops that a value is computed with, including those inside regions."""
    seen: set[Operation] = set()
    pending = [value.owner]
    while pending:
        op = pending.pop()
        if not isinstance(op, Operation) or op in seen:
            continue
        for inner in op.walk():
            if inner not in seen:
                seen.add(inner)
                yield inner
        pending += [operand.owner for operand in op.operands]
