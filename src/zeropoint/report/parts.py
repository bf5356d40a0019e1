"""The parts of concatenated outputs. If a part with small values is lost, the SQNR of the whole does not show it.

Every element of an output is traced back to the operand of the concatenation that it comes from. The trace passes
through all ops that keep the parts apart (`ir/element_parts.py`) and through concatenations of concatenations. A sum of
values that are padded so that they do not overlap counts as a concatenation. If two concatenations meet in an
elementwise op, each combination of their operands is a part, named by the operands that are not constants.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import is_constant
from zeropoint.ir.element_parts import MOST_PARTS, NO_PART, carried, combinations, concatenated, renumbered
from zeropoint.ir.functions import ElementwiseOp
from zeropoint.ir.locations import value_name
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConcatenateOp, PadOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights


@dataclass(frozen=True, eq=False)
class ModelPart:
    """An operand of a concatenation, or a combination of operands, and the mask of its elements in an output."""

    name: str
    elements: Array

    def of(self, array: Array) -> Array:
        """The elements of this part, as an array of one dimension."""
        return array[self.elements]


@dataclass
class _Walk:
    """Follows the parts of all concatenations through a program.

    `numbers` has the number of each part, by the values that it was computed from. `parts` has the part number of every
    element of a value. `mixed` has the values whose elements depend on several parts in a way that is not followed.
    """

    weights: Weights
    numbers: dict[tuple[SSAValue, ...], int] = field(default_factory=dict[tuple[SSAValue, ...], int])
    parts: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    mixed: set[SSAValue] = field(default_factory=set[SSAValue])

    def visit(self, op: Operation) -> None:
        """Record the parts of an op's results."""
        if isinstance(op, ConcatenateOp):
            self.parts[op.result] = concatenated(op, [self._of(value) for value in op.inputs])
        elif isinstance(op, AddOp) and (joined := self._padded_apart(op)) is not None:
            self.parts[op.result] = joined
        elif any(value in self.mixed for value in op.operands):
            self.mixed.update(op.results)
        elif any(value in self.parts for value in op.operands):
            found = carried(op, self.parts, self.weights)
            if found is None and isinstance(op, ElementwiseOp):
                found = self._met([self.parts[value] for value in op.operands if value in self.parts])
            if found is None:
                self.mixed.update(op.results)
            else:
                self.parts[op.results[0]] = found

    def _met(self, found: list[Array]) -> Array | None:
        """The parts of an elementwise result: the combinations of the operands' parts; None if there are too many."""
        numbers, met = combinations(found)
        if len(met) > MOST_PARTS:
            return None
        members = list(self.numbers)
        named: list[int] = []
        for combination in met:
            read = {value for number in combination if number != NO_PART for value in members[number]}
            ordered = sorted(read, key=lambda value: self.numbers[(value,)])
            computed = tuple(value for value in ordered if not _is_filler(value)) or tuple(ordered[:1])
            named.append(self.numbers.setdefault(computed, len(self.numbers)) if computed else NO_PART)
        return renumbered(numbers, named)

    def _padded_apart(self, op: AddOp) -> Array | None:
        """The parts of a sum of padded values, or of such sums, that do not overlap; None for other sums."""
        found: list[Array] = []
        for value in op.operands:
            if value in self.mixed or not isinstance(value.owner, PadOp | AddOp):
                return None
            pad = value.owner if isinstance(value.owner, PadOp) else None
            own = self.parts.get(value)
            if (own is None or own.max() == NO_PART) and pad is not None:
                own = carried(
                    pad, {pad.operand: np.broadcast_to(self._of(pad.operand), shape_of(pad.operand))}, self.weights
                )
            if own is None:
                return None
            found.append(own)
        first, second = found
        meet = (first != NO_PART) & (second != NO_PART)
        return None if meet.any() else np.maximum(first, second)

    def _of(self, value: SSAValue) -> Array:
        """The parts of an operand of a concatenation: its own if it has several, else a new one.

        A value computed from one part may have another size than this part, so it becomes a part of its own.
        """
        own = self.parts.get(value)
        if own is not None and own.size and own.min(where=own != NO_PART, initial=own.max()) != own.max():
            return own
        number = np.array(self.numbers.setdefault((value,), len(self.numbers)), np.int32)
        return number if own is None or own.max(initial=NO_PART) == NO_PART else np.where(own == NO_PART, own, number)


def output_parts(program: Program) -> dict[str, tuple[ModelPart, ...]]:
    """By name, the parts of each output whose elements come from several operands of concatenations."""
    walk = _Walk(program.weights)
    reads = Counter(value for op in program.entry.ops for value in op.operands)
    returned: Operation | None = program.entry.last_op
    assert isinstance(returned, ReturnOp)
    for op in program.entry.ops:
        if op is returned:
            break
        walk.visit(op)
        for value in op.operands:
            reads[value] -= 1
            if not reads[value]:
                walk.parts.pop(value, None)  # frees memory; outputs stay, because `func.return` is not visited
    outputs = zip((port.name for port in program.outputs), returned.operands, strict=True)
    return {
        name: found
        for name, value in outputs
        if value in walk.parts and len(found := _named(walk.parts[value], walk.numbers)) > 1
    }


def _is_filler(value: SSAValue) -> bool:
    """Whether a value is a constant, or a broadcast of one."""
    return is_constant(value.owner.operand if isinstance(value.owner, BroadcastInDimOp) else value)


def _named(parts: Array, numbers: dict[tuple[SSAValue, ...], int]) -> tuple[ModelPart, ...]:
    present = set(np.unique(parts).tolist())
    return tuple(
        ModelPart(", ".join(value_name(value) or str(n) for value in values), parts == n)
        for values, n in numbers.items()
        if n in present
    )
