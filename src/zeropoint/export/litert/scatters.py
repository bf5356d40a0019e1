"""Scatters at constant indices, as GATHER of rows, and an operator for each round of updates that are combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.litert.builder import OperatorOptions
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.scatters import ScatteredRows, combination, scattered_rows
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.numerics.storage import dtype_range

Limit = Callable[[np.dtype[np.generic]], float]


def _least(dtype: np.dtype[np.generic]) -> float:
    return -np.inf if dtype.kind == "f" else dtype_range(dtype)[0]


def _greatest(dtype: np.dtype[np.generic]) -> float:
    return np.inf if dtype.kind == "f" else dtype_range(dtype)[1]


COMBINATIONS: Mapping[type[Operation], tuple[str, OperatorOptions, Limit]] = {
    hlo.AddOp: ("ADD", ("AddOptions", {}), lambda dtype: -0.0 if dtype.kind == "f" else 0),
    hlo.MaximumOp: ("MAXIMUM", ("MaximumMinimumOptions", {}), _least),
    hlo.MinimumOp: ("MINIMUM", ("MaximumMinimumOptions", {}), _greatest),
    hlo.MultiplyOp: ("MUL", ("MulOptions", {}), lambda _: 1),
}
"""The operator that combines rows, and the number that changes nothing."""
MOST_ROUNDS = 64
"""The most updates of one row, each of which takes two operators."""


def scatter(op: hlo.ScatterOp, emit: LitertEmission) -> None:
    """GATHER of rows from the CONCATENATION of the operand and the updates, or of the updates, to be combined."""
    kind = combination(op)
    found = scattered_rows(op, emit.array(op.scatter_indices))
    run = _Rows(emit, op, found, element_of(op.results_[0]))
    operand, updates = run.rows(op.inputs[0], found.count), run.rows(op.updates[0], len(found.updated))
    made = run.taken(operand, updates, found.source) if kind is None else _combined(run, kind, operand, updates)
    emit.reshape(made, emit.declare(op.results_[0], run.kind))


def _combined(run: _Rows, kind: type[Operation], operand: int, updates: int) -> int:
    """The rows of the operand, combined with their updates one after the other."""
    rounds = run.found.rounds
    if kind not in COMBINATIONS or run.kind == i1:
        found = f"found a scatter that combines elements by {kind.name}, which LiteRT lacks"
        raise ExportError(f"{found}, expected one that adds, multiplies, or takes the greater or smaller one", run.op)
    if len(rounds) > MOST_ROUNDS:
        raise ExportError(
            f"found a scatter with {len(rounds)} updates of one slice, expected at most {MOST_ROUNDS}", run.op
        )
    name, options, neutral = COMBINATIONS[kind]
    dtype = element_dtype(run.kind)
    unchanged = run.emit.builder.part("unchanged", np.full((1, run.found.width), neutral(dtype), dtype))
    for indices in rounds:
        following = run.temporary("combined", run.found.count)
        run.emit.operator(name, [operand, run.taken(updates, unchanged, indices)], [following], options)
        operand = following
    return operand


@dataclass(frozen=True)
class _Rows:
    """The tensors of a scatter, as rows."""

    emit: LitertEmission
    op: hlo.ScatterOp
    found: ScatteredRows
    kind: Attribute

    def temporary(self, role: str, count: int) -> int:
        name = f"{self.emit.name(self.op.results_[0])}/{role}"
        return self.emit.temporary(name, (count, self.found.width), self.kind)

    def rows(self, value: SSAValue, count: int) -> int:
        source = self.emit.operand(value, self.kind)
        return self.emit.reshaped(source, (count, self.found.width), self.kind)

    def taken(self, first: int, second: int, indices: Array) -> int:
        """Rows of two tensors, one after the other, at constant positions."""
        count = sum(int(self.emit.builder.tensors[part].shape[0]) for part in (first, second))
        joined, made = self.temporary("rows", count), self.temporary("taken", len(indices))
        self.emit.operator("CONCATENATION", [first, second], [joined], ("ConcatenationOptions", {"axis": 0}))
        places = self.emit.builder.part("indices", indices)
        self.emit.operator("GATHER", [joined, places], [made], ("GatherOptions", {"axis": 0}), 2)
        return made
