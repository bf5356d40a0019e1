"""The parts of concatenated values. A part with small values can be lost while the whole looks good.

Every element of an output is traced back to the operand of the concatenation that it comes from, through ops that move
elements, functions of one value, and concatenations of concatenations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import is_constant
from zeropoint.ir.locations import value_name
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ClampOp,
    ConcatenateOp,
    PadOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    TransposeOp,
    UnaryOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of

NO_PART = -1
"""The label of elements that no operand of a concatenation has, such as padding."""


@dataclass(frozen=True, eq=False)
class Part:
    """An operand of a concatenation, and where its elements are in an output."""

    name: str
    elements: Array

    def of(self, array: Array) -> Array:
        """The elements of this part, in one dimension."""
        return array[self.elements]


def _sliced(op: SliceOp, labels: Array) -> Array:
    bounds = zip(array_values(op.start_indices), array_values(op.limit_indices), array_values(op.strides), strict=True)
    return labels[tuple(slice(*bound) for bound in bounds)]


def _padded(op: PadOp, labels: Array) -> Array:
    """Only for padding at the edges that removes nothing."""
    low, high = array_values(op.edge_padding_low), array_values(op.edge_padding_high)
    return np.pad(labels, list(zip(low, high, strict=True)), constant_values=NO_PART)


_MOVED: Mapping[type[Operation], Callable[[Any, Array], Array]] = {
    ReshapeOp: lambda op, labels: labels.reshape(shape_of(op.result)),
    TransposeOp: lambda op, labels: labels.transpose(array_values(op.permutation)),
    ReverseOp: lambda op, labels: np.flip(labels, array_values(op.dimensions)),
    SliceOp: _sliced,
    PadOp: _padded,
}
"""What ops that move the elements of their first operand make of labels of these."""


def _sources(value: SSAValue) -> tuple[SSAValue, ...]:
    """The values that the elements of a value come from, one by one; empty if it is computed in another way."""
    op = value.owner
    if isinstance(op, ConcatenateOp):
        return tuple(op.inputs)
    if isinstance(op, PadOp) and min(*array_values(op.edge_padding_low), *array_values(op.edge_padding_high), 0) < 0:
        return ()
    if isinstance(op, PadOp) and any(array_values(op.interior_padding)):
        return ()
    if isinstance(op, Operation) and type(op) in _MOVED:
        return (op.operands[0],)
    if isinstance(op, UnaryOp | BinaryOp | ClampOp):
        varying = tuple(operand for operand in op.operands if not _is_fixed(operand))
        return varying if len(varying) == 1 and shape_of(varying[0]) == shape_of(value) else ()
    return ()


def _is_fixed(value: SSAValue) -> bool:
    while isinstance(value.owner, BroadcastInDimOp | ReshapeOp):
        value = value.owner.operand
    return is_constant(value)


def _in_order(value: SSAValue) -> Iterator[SSAValue]:
    """A value and all that its elements come from, sources first."""
    done: set[SSAValue] = set()
    pending = [value]
    while pending:
        missing = [source for source in _sources(pending[-1]) if source not in done]
        if missing:
            pending += missing
            continue
        found = pending.pop()
        if found not in done:
            done.add(found)
            yield found


def parts_of(value: SSAValue) -> tuple[Part, ...]:
    """The parts of a value whose elements come from a concatenation; empty for other values."""
    order = list(_in_order(value))
    joined: set[SSAValue] = set()
    for found in order:
        if isinstance(found.owner, ConcatenateOp) or any(source in joined for source in _sources(found)):
            joined.add(found)
    if value not in joined:
        return ()
    operands: dict[SSAValue, int] = {}
    labels: dict[SSAValue, Array] = {}
    for found in order:
        if found in joined:
            labels[found] = _labels(found, labels, operands)
    return tuple(Part(value_name(operand) or str(n), labels[value] == n) for operand, n in operands.items())


def _labels(value: SSAValue, labels: Mapping[SSAValue, Array], operands: dict[SSAValue, int]) -> Array:
    """For each element of a value, the number of the operand that it comes from. Numbers new operands."""
    op, sources = value.owner, _sources(value)
    if not isinstance(op, ConcatenateOp):
        move = _MOVED.get(type(op)) if isinstance(op, Operation) else None
        return labels[sources[0]] if move is None else move(op, labels[sources[0]])
    parts: list[Array] = []
    for source in sources:
        own = labels.get(source)
        parts.append(np.full(shape_of(source), operands.setdefault(source, len(operands))) if own is None else own)
    return np.concatenate(parts, int(op.dimension.value.data))


def output_parts(program: Program) -> dict[str, tuple[Part, ...]]:
    """The parts of the outputs of a float program, by output name."""
    returned: Operation | None = program.entry.last_op
    assert isinstance(returned, ReturnOp)
    named = zip((port.name for port in program.outputs), returned.operands, strict=True)
    return {name: parts for name, value in named if (parts := parts_of(value))}
