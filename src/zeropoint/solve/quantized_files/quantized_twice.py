"""Floats that a model quantizes more than once. Each pair of casts gets a copy of the float, with its own type.

```mlir
%1 = quant.qcast %x : ... to tensor<4x!quant.uniform<i8:f32, 0.5>>       // and its dcast
%2 = quant.qcast %x : ... to tensor<4x!quant.uniform<i8:f32, 0.25>>      // and its dcast
```
The second cast reads the float, not the integers of the first, so it is not a rescale. The copies are reshapes to the
same shape. They are removed once the ports that read them have their types.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import ANNOTATED, FLOAT_REASON, OF_TARGET
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp
from zeropoint.ir.quant.statements import STATES, unstated
from zeropoint.ir.stablehlo import ReshapeOp
from zeropoint.ir.tensors import element_of, shape_of

SAYS = (*STATES, QuantizeCastOp)
"""Ops that say something of a value, and compute nothing of it."""


def casts_of_floats(program: Program, kernels: Container[str] | None = None) -> frozenset[object]:
    """The casts to a quantized type whose operand is an input, or the result of an op without a kernel.

    `kernels` are those that the target has; None for all.
    """
    casts = (op for op in program.entry.ops if isinstance(op, QuantizeCastOp))
    return frozenset(op for op in casts if not _is_quantized(unstated(op.operands[0]).owner, kernels))


def _is_quantized(owner: object, kernels: Container[str] | None) -> bool:
    """Whether an op may make integers: a kernel that need not stay float, or the dequantization of integers."""
    if isinstance(owner, QuantizeRegionOp):
        return FLOAT_REASON not in owner.attributes and (kernels is None or owner.logical_kernel.data in kernels)
    return isinstance(owner, DequantizeCastOp)


def has_other_integers(value: SSAValue, quantized: SSAValue) -> bool:
    """Whether a program stores the integers of another type than that of `quantized`, which is made of the same value.

    Integers that are only dequantized are those of a pair of casts.
    """
    casts = [use.operation for use in value.uses if isinstance(use.operation, QuantizeCastOp)]
    return any(
        element_of(cast.result) != element_of(quantized)
        and not all(isinstance(use.operation, DequantizeCastOp) for use in cast.result.uses)
        for cast in casts
    )


def has_two_types(value: SSAValue) -> bool:
    """Whether a file rounds a value to two types, each from the value itself."""
    casts = (use.operation for use in value.uses if isinstance(use.operation, QuantizeCastOp))
    return len({element_of(cast.result) for cast in casts if not _only_states(cast)}) > 1


def _only_states(cast: QuantizeCastOp) -> bool:
    """Whether a cast says something of a value that the file does not round there."""
    return any(
        OF_TARGET in use.operation.attributes or ANNOTATED in use.operation.attributes for use in cast.result.uses
    )


def read_unrounded(program: Program) -> frozenset[tuple[Operation, int]]:
    """The operands, by op and index, that read a value beside its cast to a quantized type, not through the cast."""
    found: set[tuple[Operation, int]] = set()
    for op in program.entry.ops:
        # Beside a cast of the numbers of another type, an op reads numbers that are rounded to that type.
        if isinstance(op, QuantizeCastOp) and not isinstance(op.input.owner, DequantizeCastOp):
            value = op.input
            while True:
                found.update((use.operation, use.index) for use in value.uses if not isinstance(use.operation, SAYS))
                if not isinstance(value.owner, STATES):
                    break
                value = value.owner.operands[0]
    return frozenset(found)


def copied(value: SSAValue, before: Operation) -> ReshapeOp:
    """A copy of a float, for a cast that does not read the integers of another cast."""
    made = ReshapeOp(value, TensorType(element_of(value), shape_of(value)))
    made.location = before.location
    assert before.parent is not None
    before.parent.insert_op_before(made, before)
    return made


def drop_copies(copies: Iterable[ReshapeOp]) -> None:
    """Replace copies by the original values, in place."""
    for copy in copies:
        copy.result.replace_all_uses_with(copy.operand)
        Rewriter.erase_op(copy)
