"""Bound the ranges of the parts of values, from concatenations through the ops that keep the parts apart.

```mlir
%c = "quant.region"(%boxes, %zeros) ({ concatenate })     parts in [0, 320] and 0
%d = "quant.region"(%zeros, %scores) ({ concatenate })    parts 0 and in [0, 1]
%s = "quant.region"(%c, %d) ({ add })                     parts in [0, 320] and [0, 1]
```
If a value depends on several concatenations, each combination of their operands is a part. A function, or a product
with a constant per channel, may give parts of similar size different sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import broadcast_array
from zeropoint.ir.element_parts import (
    MOST_PARTS,
    MOVES,
    NO_PART,
    carried,
    combinations,
    concatenated,
    renumbered,
    without_repeats,
)
from zeropoint.ir.functions import ElementwiseOp, evaluate_chain
from zeropoint.ir.locations import written_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, Storage
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    CompareOp,
    ConcatenateOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    ReduceOp,
    ReduceWindowOp,
    SelectOp,
    SubtractOp,
    UnaryOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.ranges import RealRange
from zeropoint.solve.classes import real_range
from zeropoint.solve.parts.leaves import span
from zeropoint.solve.ports import PortGraph
from zeropoint.solve.precision import step_of

POINTS = 129
"""The number of points of a range at which a function is evaluated."""


@dataclass(frozen=True)
class SizedPart:
    """A part of a value: the names of the values that it comes from, without constants, and its range if known."""

    names: tuple[str, ...]
    range: RealRange | None

    @property
    def name(self) -> str:
        """The names as one text; empty for constants."""
        return ", ".join(self.names)

    def step(self, storage: Storage) -> float:
        """The scale that the part needs; 0 if it is always 0 or its range is unknown."""
        return 0.0 if self.range is None else step_of(*self.range, storage, None)


@dataclass
class SizedParts:
    """The parts found so far. `numbers` maps each value with several parts to the part number of each element."""

    weights: Weights
    graph: PortGraph
    found: list[SizedPart] = field(default_factory=list[SizedPart])
    numbers: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])

    @staticmethod
    def of(program: Program, graph: PortGraph) -> SizedParts:
        """The parts of all values of a program."""
        made = SizedParts(program.weights, graph)
        for op in program.entry.ops:
            if isinstance(op, QuantizeRegionOp):
                made._enter(op)
            else:
                made._visit(op, {})
                made._limit(op.results)
        return made

    def parts(self, value: SSAValue) -> list[SizedPart]:
        """The parts of a value; empty if it has only one or they are unknown."""
        numbers = self.numbers.get(value)
        return [] if numbers is None else [self.found[number] for number in _present(numbers)]

    def _enter(self, region: QuantizeRegionOp) -> None:
        """Follow the parts through the body of a region."""
        block = region.body.block
        returned = block.last_op
        joins = any(isinstance(op, ConcatenateOp) for op in block.ops)
        if not joins and not any(value in self.numbers for value in region.inputs):
            return
        given: dict[SSAValue, SSAValue] = dict(zip(block.args, region.inputs, strict=True))
        self.numbers |= {inner: self.numbers[value] for inner, value in given.items() if value in self.numbers}
        for op in block.ops:
            if not isinstance(op, ReturnOp):
                self._visit(op, given)
        assert returned is not None
        for value, inner in zip(region.outputs, returned.operands, strict=True):
            if inner in self.numbers:
                self.numbers[value] = self.numbers[inner]
        for value in (*block.args, *(result for op in block.ops for result in op.results)):
            self.numbers.pop(value, None)
        self._limit(region.outputs)

    def _limit(self, values: Sequence[SSAValue]) -> None:
        """Limit the ranges of parts to the observed range of the whole."""
        for value in values:
            if value not in self.numbers:
                continue
            whole = self._whole(value, {})
            if len(_present(self.numbers[value])) < 2:
                del self.numbers[value]
            elif whole is not None:
                self._number(value, self.numbers[value], lambda part, whole=whole: _limited(part, whole))

    def _visit(self, op: Operation, given: Mapping[SSAValue, SSAValue]) -> None:
        """Follow the parts through an op. `given` maps the arguments of a region to the operands."""
        if isinstance(op, ConcatenateOp):
            self._join(op, given)
        elif isinstance(op, CompareOp) or not any(value in self.numbers for value in op.operands):
            return
        elif isinstance(op, ElementwiseOp):
            self._meet(op, given)
        elif (made := carried(op, self.numbers, self.weights)) is not None:
            self._number(op.results[0], made, lambda part: _moved(op, part))

    def _join(self, op: ConcatenateOp, given: Mapping[SSAValue, SSAValue]) -> None:
        """Number the operands of a concatenation. Operands that have parts keep these."""
        parts: list[Array] = []
        for value in op.inputs:
            if value in self.numbers:
                parts.append(self.numbers[value])
                continue
            is_filler = broadcast_array(value, self.weights, given) is not None
            name = written_name(given.get(value, value))
            self.found.append(SizedPart(() if is_filler else (name,), self._whole(value, given)))
            parts.append(np.array(len(self.found) - 1, np.int32))
        self.numbers[op.result] = concatenated(op, parts)

    def _meet(self, op: ElementwiseOp, given: Mapping[SSAValue, SSAValue]) -> None:
        """Combine the parts of the operands of an elementwise op. Booleans have none."""
        operands = op.operands[1:] if isinstance(op, SelectOp) else op.operands
        apart = [value for value in operands if value in self.numbers]
        if not apart:
            return
        numbers, met = combinations([self.numbers[value] for value in apart])
        # The number of combinations grows exponentially with the number of joins that meet.
        if len(met) > MOST_PARTS:
            return
        made: list[int] = []
        for number, combination in enumerate(met):
            of = {value: self.found[n] for value, n in zip(apart, combination, strict=True) if n != NO_PART}
            ranges = [
                (of[value].range if value in of else None)
                if value in apart
                else self._at(value, numbers == number, given)
                for value in operands
            ]
            names = tuple(dict.fromkeys(name for part in of.values() for name in part.names))
            self.found.append(SizedPart(names, _combined(op, ranges, self.weights)))
            made.append(len(self.found) - 1 if of else NO_PART)
        self.numbers[op.results[0]] = renumbered(numbers, made)

    def _at(self, value: SSAValue, chosen: Array, given: Mapping[SSAValue, SSAValue]) -> RealRange | None:
        """The range of the chosen elements of a constant; the range of the whole value for any other."""
        array = broadcast_array(value, self.weights, given)
        if array is None:
            return self._whole(value, given)
        array, chosen = without_repeats([np.broadcast_to(array, chosen.shape), chosen])
        return (float(array[chosen].min()), float(array[chosen].max())) if chosen.any() else None

    def _whole(self, value: SSAValue, given: Mapping[SSAValue, SSAValue]) -> RealRange | None:
        """The range of a value: of a constant, of the type that its kernel always has, or observed."""
        value = given.get(value, value)
        array = broadcast_array(value, self.weights)
        if array is not None:
            is_usable = array.size > 0 and array.dtype.kind == "f" and bool(np.isfinite(array).all())
            return (float(array.min()), float(array.max())) if is_usable else None
        node = self.graph.nodes[self.graph.of_value(value)] if value in self.graph.value_nodes else None
        if node is not None and node.fixed is not None:
            return real_range(node.fixed)
        known = self.graph.constraints.get(value)
        if known is None or known.minimum is None or known.maximum is None:
            return None
        return known.minimum, known.maximum

    def _number(self, value: SSAValue, numbers: Array, change: Callable[[SizedPart], SizedPart]) -> None:
        """Set the parts of a value. Each of them is a changed copy of an existing part."""
        made = list(range(len(self.found)))
        for number in _present(numbers):
            if (changed := change(self.found[number])) != self.found[number]:
                made[number] = len(self.found)
                self.found.append(changed)
        self.numbers[value] = renumbered(numbers, made)


def _present(numbers: Array) -> list[int]:
    return [number for number in np.unique(without_repeats([numbers])[0]).tolist() if number != NO_PART]


def _limited(part: SizedPart, whole: RealRange) -> SizedPart:
    """The part with its range limited to that of the whole, as far as both are known."""
    if part.range is None:
        return SizedPart(part.names, whole)
    low, high = max(part.range[0], whole[0]), min(part.range[1], whole[1])
    return SizedPart(part.names, (low, high) if low <= high else whole)


def _moved(op: Operation, part: SizedPart) -> SizedPart:
    """The part after an op that moves or reduces elements. After other ops its range is unknown."""
    if isinstance(op, MOVES) or part.range is None:
        return part
    if not isinstance(op, ReduceOp | ReduceWindowOp):
        return SizedPart(part.names, None)
    kind = op.body.block.first_op
    if isinstance(kind, MaximumOp | MinimumOp):
        return part
    if not isinstance(kind, AddOp):
        return SizedPart(part.names, None)
    if isinstance(op, ReduceOp):
        terms = prod(shape_of(op.inputs[0])[axis] for axis in array_values(op.dimensions))
    else:
        terms = prod(array_values(op.window_dimensions))
    return SizedPart(part.names, span([(terms * part.range[0], terms * part.range[1]), (0.0, 0.0)]))


def _combined(op: ElementwiseOp, ranges: Sequence[RealRange | None], weights: Weights) -> RealRange | None:
    """The range of an elementwise op for operands in the given ranges; None if it is unknown."""
    known = [one for one in ranges if one is not None]
    if len(known) < len(ranges):
        return None
    if isinstance(op, SelectOp):
        return span(known)
    if isinstance(op, UnaryOp):
        return _of_function(op, known[0], weights)
    function = _MONOTONIC.get(type(op))
    if function is None or (isinstance(op, DivideOp) and known[1][0] <= 0 <= known[1][1]):
        return None
    corners = [float(function(*corner)) for corner in product(*known)]
    return (min(corners), max(corners)) if np.isfinite(corners).all() else None


def _of_function(op: UnaryOp, given: RealRange, weights: Weights) -> RealRange | None:
    points = np.linspace(*given, POINTS).astype(np.float32)
    try:
        with np.errstate(all="ignore"):
            made = evaluate_chain(op.result, op.operand, points, weights)
    except ValueError:
        return None
    return (float(made.min()), float(made.max())) if np.isfinite(made).all() else None


def _clamped(low: float, value: float, high: float) -> float:
    return min(max(value, low), high)


_MONOTONIC: Mapping[type[Operation], Callable[..., Any]] = {
    AddOp: np.add,
    ClampOp: _clamped,
    DivideOp: np.divide,
    MaximumOp: np.maximum,
    MinimumOp: np.minimum,
    MultiplyOp: np.multiply,
    SubtractOp: np.subtract,
}
"""Ops that are monotonic in each operand, so their extremes are at the ends of the operands' ranges."""
