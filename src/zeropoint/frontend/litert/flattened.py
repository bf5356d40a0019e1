"""One graph without other graphs and variables, of which a program has none.

- IF becomes the operators of both branches, and a SELECT_V2 for each result. All operators are pure, so the results are
  the same, and quantization needs no support for control flow. The ONNX importer does so, too.
- A variable (VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE) of a streaming model becomes an input with its name, and an
  output `NAME_next`, the value for the next run. The values of the first run, which CALL_ONCE assigns, must be 0.

Source: the LiteRT schema and TensorFlow's kernels of these operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.litert.graph import LiteRtGraph, LiteRtTensor, Operator

NEXT = "_next"
"""What follows the name of a variable in the name of the output that is its next value."""
DEPTH = 16
"""Graphs inside each other, from which on they are taken to contain each other."""
MOST_OPERATORS = 1 << 20


def flattened(main: LiteRtGraph, graph_at: Callable[[int], LiteRtGraph]) -> LiteRtGraph:
    """The main graph with the same tensors first. `graph_at` reads another graph.

    Raises ModelError for variables that start with other values than 0 or are assigned in a branch, for values of one
    variable or one result of an IF that differ in type, and for graphs that contain each other.
    """
    if all(operator.name not in _STEPS for operator in main.operators):
        return main
    found = _Flattened(graph_at, list(main.tensors))
    known = {index: index for index in range(len(main.tensors))}
    outputs = found.add(main, known, 0)
    named = [(name, index) for (name, _), index in zip(main.outputs, outputs, strict=True)]
    order = [name for name, _ in found.inputs if name in found.assigned]
    order += [name for name in found.assigned if name not in order]
    states = [(f"{name}{NEXT}", found.values[name]) for name in order]
    return LiteRtGraph(found.tensors, found.operators, [*main.inputs, *found.inputs], [*named, *states])


@dataclass
class _Scope:
    """A graph under inclusion: the index that each of its tensors has in the result, and the variables' names."""

    graph: LiteRtGraph
    known: dict[int, int]
    depth: int
    handles: dict[int, str] = field(default_factory=dict[int, str])

    def variable(self, operator: Operator) -> str:
        """The name of the variable that an operator reads or assigns."""
        if not operator.inputs or operator.inputs[0] not in self.handles:
            raise ModelError(f"{operator.name}: found no variable as operand, expected the result of a VAR_HANDLE")
        return self.handles[operator.inputs[0]]


@dataclass
class _Flattened:
    graph_at: Callable[[int], LiteRtGraph]
    tensors: list[LiteRtTensor]
    operators: list[Operator] = field(default_factory=list[Operator])
    inputs: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    values: dict[str, int] = field(default_factory=dict[str, int])
    """The current value of each variable."""
    assigned: dict[str, None] = field(default_factory=dict[str, None])
    """The variables with a new value, in order."""

    def add(self, graph: LiteRtGraph, known: Mapping[int, int], depth: int) -> list[int]:
        """Include the operators of a graph, whose tensors `known` are given. Returns its outputs."""
        if depth > DEPTH:
            raise ModelError(f"found graphs inside each other {depth} times, expected fewer; they may form a cycle")
        scope = _Scope(graph, dict(known), depth)
        for operator in graph.operators:
            step = _STEPS.get(operator.name)
            if step is None:
                self.append(
                    replace(
                        operator,
                        inputs=tuple(self.index(scope, index) for index in operator.inputs),
                        outputs=tuple(self.index(scope, index) for index in operator.outputs),
                    )
                )
            else:
                step(self, operator, scope)
        return [self.index(scope, index) for _, index in graph.outputs]

    def append(self, operator: Operator) -> None:
        if len(self.operators) >= MOST_OPERATORS:
            raise ModelError(f"found more than {MOST_OPERATORS} operators, expected fewer; the file is broken")
        self.operators.append(replace(operator, index=len(self.operators)))

    def index(self, scope: _Scope, index: int) -> int:
        """A tensor of a graph as one of the result; -1 for an omitted operand."""
        if index < 0:
            return index
        if index not in scope.known:
            scope.known[index] = len(self.tensors)
            self.tensors.append(scope.graph.tensors[index])
        return scope.known[index]

    def same_types(self, first: int, second: int, what: str) -> None:
        """Raise ModelError unless two tensors are stored alike, because LiteRT copies the stored elements."""
        kinds = [
            (t.type_name, *t.scales.tolist(), *t.zero_points.tolist())
            for t in map(self.tensors.__getitem__, (first, second))
        ]
        if kinds[0] != kinds[1]:
            raise ModelError(f"{what}: found values of types {kinds[0]} and {kinds[1]}, expected one type")


def _handle(_: _Flattened, operator: Operator, scope: _Scope) -> None:
    """VAR_HANDLE. Handles of one name, also in different graphs, are one variable."""
    parts = (
        [getattr(operator.options, name)() or b"" for name in ("Container", "SharedName")] if operator.options else []
    )
    for index in operator.outputs:
        name = "/".join(part.decode(errors="replace") for part in parts if part)
        scope.handles[index] = name or scope.graph.tensors[index].name


def _read(found: _Flattened, operator: Operator, scope: _Scope) -> None:
    """READ_VARIABLE: the input of that name, or the value that was assigned before."""
    name = scope.variable(operator)
    (result,) = operator.outputs
    if name in found.values:
        found.same_types(found.values[name], found.index(scope, result), f"variable '{name}'")
        scope.known[result] = found.values[name]
        return
    found.values[name] = found.index(scope, result)
    found.inputs.append((name, found.values[name]))


def _assign(found: _Flattened, operator: Operator, scope: _Scope) -> None:
    """ASSIGN_VARIABLE."""
    name = scope.variable(operator)
    if scope.depth:
        raise ModelError(f"variable '{name}': found an ASSIGN_VARIABLE in a branch of an IF, expected it outside")
    (_, value) = operator.inputs
    index = found.index(scope, value)
    if name in found.values:
        found.same_types(found.values[name], index, f"variable '{name}'")
    found.values[name], found.assigned[name] = index, None


def _call_once(found: _Flattened, operator: Operator, scope: _Scope) -> None:
    """CALL_ONCE, which gives variables their first values."""
    graph = found.graph_at(operator.options.InitSubgraphIndex())
    inner = _Scope(graph, {}, scope.depth)
    for step in graph.operators:
        if step.name == "VAR_HANDLE":
            _handle(found, step, inner)
        elif step.name == "ASSIGN_VARIABLE":
            name, given = inner.variable(step), graph.tensors[step.inputs[1]]
            start = given.zero_points if given.is_quantized else np.zeros(1)
            if given.data is None or (given.data != start.astype(given.dtype)).any():
                raise ModelError(f"variable '{name}': found a first value other than 0, expected zeros")
        else:
            raise ModelError(f"CALL_ONCE: found {step.name}, expected only VAR_HANDLE and ASSIGN_VARIABLE")


def _if(found: _Flattened, operator: Operator, scope: _Scope) -> None:
    condition, *given = (found.index(scope, index) for index in operator.inputs)
    results: list[list[int]] = []
    for number in (operator.options.ThenSubgraphIndex(), operator.options.ElseSubgraphIndex()):
        branch = found.graph_at(number)
        if (len(branch.inputs), len(branch.outputs)) != (len(given), len(operator.outputs)):
            raise ModelError(
                f"IF: found a branch of {len(branch.inputs)} inputs and {len(branch.outputs)} outputs, expected "
                f"{len(given)} and {len(operator.outputs)}; the file is broken"
            )
        inputs = {index: value for (_, index), value in zip(branch.inputs, given, strict=True)}
        results.append(found.add(branch, inputs, scope.depth + 1))
    for index, *values in zip(operator.outputs, *results, strict=True):
        result = found.index(scope, index)
        for value in values:
            found.same_types(value, result, f"IF '{found.tensors[result].name}'")
        found.append(Operator("SELECT_V2", 0, (condition, *values), (result,)))


_STEPS: Mapping[str, Callable[[_Flattened, Operator, _Scope], None]] = {
    "ASSIGN_VARIABLE": _assign,
    "CALL_ONCE": _call_once,
    "IF": _if,
    "READ_VARIABLE": _read,
    "VAR_HANDLE": _handle,
}
