"""Movements of stored integers between the ports of a program and their casts, done on floats instead."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.stablehlo import ConcatenateOp, ReshapeOp, SliceOp, TransposeOp
from zeropoint.ir.tensors import element_of, with_element

MOVES = (ConcatenateOp, ReshapeOp, SliceOp, TransposeOp)
"""Movements of stored integers."""


def movements(value: SSAValue) -> list[Operation]:
    """The movements that make a value, each before those that read it."""
    found: dict[Operation, None] = {}
    pending = [(value, False)]
    while pending:
        current, is_ready = pending.pop()
        op = current.owner
        if not isinstance(op, MOVES) or op in found:
            continue
        if is_ready:
            found[op] = None
            continue
        pending.append((current, True))
        pending += [(operand, False) for operand in reversed(op.operands)]
    return list(found)


def sources(value: SSAValue) -> list[SSAValue]:
    """The values that movements make a value of, each once: itself without movements."""
    moves = movements(value)
    moved = {op.results[0] for op in moves}
    read = dict.fromkeys(operand for op in moves for operand in op.operands)
    return [operand for operand in read if operand not in moved] if moves else [value]


def in_float(moves: list[Operation], floats: Mapping[SSAValue, SSAValue]) -> list[Operation]:
    """The same movements of the float values that stand for the sources of `moves`."""
    values, made = dict(floats), list[Operation]()
    for op in moves:
        operands = [values[operand] for operand in op.operands]
        kind = with_element(op.results[0], element_of(operands[0]))
        copy = op.create(operands=operands, result_types=[kind], properties=op.properties, attributes=op.attributes)
        copy.location = op.location
        values[op.results[0]] = copy.results[0]
        made.append(copy)
    return made


def is_returned(value: SSAValue) -> bool:
    """Whether a value is returned, or what movements make of it."""
    readers = [use.operation for use in value.uses]
    return any(isinstance(op, ReturnOp) or (isinstance(op, MOVES) and is_returned(op.result)) for op in readers)
