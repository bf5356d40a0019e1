"""Fold what is computed from positions (`iota`) and constants alone: the weights of a resize, causal masks, angles.

```mlir
%i = stablehlo.iota dim = 0 : tensor<16xf32>
%0 = stablehlo.multiply %i, %half
%w = stablehlo.exponential %0
%y = stablehlo.dot_general %x, %w
```
becomes a constant `%w`, with the interpreter's bits. JAX traces such arithmetic; exporters of ONNX files fold it.
Positions themselves, also broadcast, stay: `arg_max` reads them.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.interp.plan import plan_of
from zeropoint.ir.captured import captured
from zeropoint.ir.constants import constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.result_names import varying_values
from zeropoint.ir.stablehlo import BroadcastInDimOp, IotaOp, ReturnOp
from zeropoint.ir.tensors import Array, element_of, shape_of

LARGEST = 1 << 22
"""The maximum number of elements of a constant that is made."""


def fold_positions(program: Program) -> Program:
    """A copy with constants for values that are computed from positions; the program itself if there are none."""
    if not _wanted(program.entry):
        return program
    program = program.for_change()
    wanted = _wanted(program.entry)
    for value, array in zip(wanted, _computed(program, wanted), strict=True):
        made = constant_op(array, program.weights, element_type=element_of(value), location=value.op.location)
        Rewriter.insert_op(made, InsertPoint.after(value.op))
        value.replace_uses_with_if(made.output, lambda use, made=made: use.operation is not made)
    remove_dead_ops(program.entry)
    return program


def _wanted(block: Block) -> list[OpResult]:
    """The values to fold, in program order: computed from positions, and read by ops that also read something else."""
    varying = varying_values(block)
    placed: set[SSAValue] = set()
    for op in block.ops:
        if isinstance(op, IotaOp) or any(value in placed for value in op.operands):
            placed.update(value for value in op.results if value not in varying)
    found: dict[OpResult, None] = {}
    for op in block.ops:
        if op is block.last_op or not all(result in placed for result in op.results):
            found |= {each: None for value in op.operands if value in placed and (each := _folded(value)) is not None}
    return list(found)


def _folded(value: SSAValue) -> OpResult | None:
    """The value behind broadcasts, if it is no position itself, and not too large."""
    while isinstance(value.owner, BroadcastInDimOp):
        value = value.owner.operand
    if not isinstance(value, OpResult) or isinstance(value.op, IotaOp):
        return None
    return value if prod(shape_of(value)) <= LARGEST else None


def _computed(program: Program, wanted: list[OpResult]) -> tuple[Array, ...]:
    """The arrays of values that depend on no argument."""
    needed: set[Operation] = set()
    pending: list[Operation] = [value.op for value in wanted]
    while pending:
        op = pending.pop()
        if op not in needed:
            needed.add(op)
            read = [*op.operands, *captured(op.regions)]
            pending += [value.op for value in read if isinstance(value, OpResult)]
    copies: dict[SSAValue, SSAValue] = {}
    block = Block()
    for op in program.entry.ops:
        if op in needed:
            block.add_op(op.clone(copies))
    block.add_op(ReturnOp([copies[value] for value in wanted]))
    return plan_of(program, block).run([])
