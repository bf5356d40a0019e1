"""One graph without branches and variables, of which a program has none.

- IF becomes the operators of both branches, and an IF for each result, whose operands are the condition and two values.
  All operators are pure, so the results are the same, and quantization needs no support for control flow. The ONNX
  importer does so, too.
- WHILE keeps its condition and its body as graphs of its own, without variables and other graphs than loops in them.
- A variable (VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE) of a streaming model becomes an input with its name, and an
  output `NAME_next`, the value for the next run. The values of the first run, which CALL_ONCE assigns, must be 0. A
  variable that only CALL_ONCE assigns is a constant.

Source: the LiteRT schema and TensorFlow's kernels of these operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

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
    outputs = found.add(_Scope(main, known, 0))
    found.fix()
    named = [(name, index) for (name, _), index in zip(main.outputs, outputs, strict=True)]
    order = [name for name, _ in found.inputs if name in found.assigned]
    order += [name for name in found.assigned if name not in order]
    ports = _port_names([*found.values], main)
    states = [(f"{ports[name]}{NEXT}", found.values[name]) for name in order]
    read = [(ports[name], index) for name, index in found.inputs]
    variables = {ports[name]: f"{ports[name]}{NEXT}" for name, _ in found.inputs if name in found.assigned}
    return LiteRtGraph(found.tensors, found.operators, [*main.inputs, *read], [*named, *states], variables=variables)


def _port_names(variables: Sequence[str], main: LiteRtGraph) -> Mapping[str, str]:
    """The names of variables as ports: with a number if an input has the name, or an output that of the next value."""
    taken = {name for name, _ in main.inputs} | {
        name.removesuffix(NEXT) for name, _ in main.outputs if name.endswith(NEXT)
    }
    found: dict[str, str] = {}
    for name in variables:
        numbered = (f"{name}_{number}" for number in count(1))
        others = taken.union(variables) - {name}
        found[name] = name if name not in taken else next(each for each in numbered if each not in others)
        taken.add(found[name])
    return found


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
    first: dict[str, LiteRtTensor] = field(default_factory=dict[str, LiteRtTensor])
    """The values of variables before the first run."""
    count: int = 0
    """The number of operators, also of those in loops."""
    made: dict[tuple[int, ...], list[int]] = field(default_factory=dict[tuple[int, ...], list[int]])
    """The results of branches without variables, by the number of the graph and its operands."""
    reads: int = 0
    """The number of reads of variables."""

    def add(self, scope: _Scope) -> list[int]:
        """Include the operators of a graph. Returns its outputs."""
        if scope.depth > DEPTH:
            raise ModelError(
                f"found graphs inside each other {scope.depth} times, expected fewer; they may form a cycle"
            )
        for operator in scope.graph.operators:
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
                step.check(operator)
                step.apply(self, operator, scope)
        return [self.index(scope, index) for _, index in scope.graph.outputs]

    def fix(self) -> None:
        """Make variables constants that no run changes. Raise ModelError for others with first values other than 0."""
        for name, index in tuple(self.inputs):
            given = self.first.get(name)
            if given is not None and given.data is not None and name not in self.assigned:
                self.same_types(index, given, f"variable '{name}'")
                self.tensors[index] = replace(self.tensors[index], data=given.data, shape=given.shape)
                self.inputs.remove((name, index))
            elif given is not None and not _is_zero(given):
                raise ModelError(f"variable '{name}': found a first value other than 0, expected zeros")

    def append(self, operator: Operator) -> None:
        if self.count >= MOST_OPERATORS:
            raise ModelError(f"found more than {MOST_OPERATORS} operators, expected fewer; the file is broken")
        self.operators.append(replace(operator, index=self.count))
        self.count += 1

    def entered(self, graph: LiteRtGraph, operator: Operator, scope: _Scope, given: Sequence[int]) -> _Scope:
        """The scope of a graph whose inputs are the last of an operator's operands, of which `given` has the tensors.

        Raises ModelError if they are stored otherwise.
        """
        inner = _Scope(graph, {}, scope.depth + 1)
        outer = operator.inputs[len(operator.inputs) - len(given) :]
        for (name, index), number, value in zip(graph.inputs, outer, given, strict=True):
            self.same_types(value, graph.tensors[index], f"operand '{name}' of {operator.name}")
            if number in scope.handles:
                inner.handles[index] = scope.handles[number]
        return inner

    def inside(self, scope: _Scope) -> LiteRtGraph:
        """A graph that stays one: its operators, inputs and outputs, without handles of variables."""
        outside, self.operators, made = self.operators, list[Operator](), self.made
        self.made = {}  # what a loop computes is not known outside of it
        inputs = [(name, self.index(scope, index)) for name, index in scope.graph.inputs if index not in scope.handles]
        results = self.add(scope)
        names = [(name, index) for name, index in scope.graph.outputs]
        outputs = [
            (name, found) for (name, index), found in zip(names, results, strict=True) if index not in scope.handles
        ]
        inner, self.operators, self.made = self.operators, outside, made
        return LiteRtGraph(self.tensors, inner, inputs, outputs)

    def branch(self, number: int, inner: _Scope, given: Sequence[int]) -> list[int]:
        """Include the operators of a branch, once for the same operands: IFs in each other may repeat their graphs."""
        key = (number, *given)
        if key not in self.made:
            reads, results = self.reads, self.add(inner)
            if reads != self.reads:
                return results  # what a variable holds depends on when it is read
            self.made[key] = results
        return self.made[key]

    def index(self, scope: _Scope, index: int) -> int:
        """A tensor of a graph as one of the result; -1 for an omitted operand."""
        if index < 0:
            return index
        if index not in scope.known:
            scope.known[index] = len(self.tensors)
            self.tensors.append(scope.graph.tensors[index])
        return scope.known[index]

    def same_types(self, first: int, second: LiteRtTensor, what: str) -> None:
        """Raise ModelError unless two tensors are stored alike, because LiteRT copies the stored elements."""
        pair = self.tensors[first], second
        kinds = [(t.type_name, *t.scales.tolist(), *t.zero_points.tolist()) for t in pair]
        if kinds[0] != kinds[1]:
            raise ModelError(
                f"{what}: found values of types {pair[0].storage} and {pair[1].storage}, expected one type"
            )


def _is_zero(tensor: LiteRtTensor) -> bool:
    start = tensor.zero_points if tensor.is_quantized else np.zeros(1)
    return tensor.data is not None and not (tensor.data != start.astype(tensor.dtype)).any()


def _handle(_: _Flattened, operator: Operator, scope: _Scope) -> None:
    """VAR_HANDLE. Handles of one name, also in different graphs, are one variable."""
    fields = [getattr(operator.options, name, None) for name in ("Container", "SharedName")]
    parts: list[bytes] = [part() or b"" for part in fields if part is not None]
    for index in operator.outputs:
        name = "/".join(part.decode(errors="replace") for part in parts if part)
        scope.handles[index] = name or scope.graph.tensors[index].name


def _read(found: _Flattened, operator: Operator, scope: _Scope) -> None:
    """READ_VARIABLE: the input of that name, or the value that was assigned before."""
    name = scope.variable(operator)
    found.reads += 1
    (result,) = operator.outputs
    if name in found.values:
        found.same_types(found.values[name], scope.graph.tensors[result], f"variable '{name}'")
        scope.known[result] = found.values[name]
        return
    found.values[name] = found.index(scope, result)
    found.inputs.append((name, found.values[name]))


def _assign(found: _Flattened, operator: Operator, scope: _Scope) -> None:
    """ASSIGN_VARIABLE."""
    name = scope.variable(operator)
    if scope.depth:
        raise ModelError(f"variable '{name}': found an ASSIGN_VARIABLE in an IF or a WHILE, expected it outside")
    (_, value) = operator.inputs
    index = found.index(scope, value)
    if name in found.values:
        found.same_types(found.values[name], found.tensors[index], f"variable '{name}'")
    found.values[name], found.assigned[name] = index, None


def _call_once(found: _Flattened, operator: Operator, scope: _Scope) -> None:
    """CALL_ONCE, which gives variables their first values."""
    graph = found.graph_at(operator.options.InitSubgraphIndex())
    inner = _Scope(graph, {}, scope.depth)
    for step in graph.operators:
        if step.name in ("VAR_HANDLE", "ASSIGN_VARIABLE"):
            _STEPS[step.name].check(step)
        if step.name == "VAR_HANDLE":
            _handle(found, step, inner)
        elif step.name == "ASSIGN_VARIABLE":
            found.first[inner.variable(step)] = graph.tensors[step.inputs[1]]
        else:
            raise ModelError(f"CALL_ONCE: found {step.name}, expected only VAR_HANDLE and ASSIGN_VARIABLE")


def _graph_of(found: _Flattened, operator: Operator, number: int, what: str, outputs: int) -> LiteRtGraph:
    """A graph of an operator. Raises ModelError if it has other inputs or outputs."""
    graph, inputs = found.graph_at(number), len(operator.inputs) - (operator.name == "IF")
    if (len(graph.inputs), len(graph.outputs)) != (inputs, outputs):
        raise ModelError(
            f"{operator.name}: found a {what} of {len(graph.inputs)} inputs and {len(graph.outputs)} outputs, expected "
            f"{inputs} and {outputs}; the file is broken"
        )
    return graph


def _while(found: _Flattened, operator: Operator, scope: _Scope) -> None:
    if len(operator.inputs) != len(operator.outputs):
        raise ModelError(
            f"WHILE: found {len(operator.inputs)} operands and {len(operator.outputs)} results, expected as many; the "
            "file is broken"
        )
    given = [found.index(scope, index) for index in operator.inputs]
    graphs = list[LiteRtGraph]()
    options, count = operator.options, len(given)
    for what, number, outputs in (
        ("condition", options.CondSubgraphIndex(), 1),
        ("body", options.BodySubgraphIndex(), count),
    ):
        graph = _graph_of(found, operator, number, what, outputs)
        graphs.append(found.inside(found.entered(graph, operator, scope, given)))
    carried, results = list[int](), list[int]()
    for outer, value, result in zip(operator.inputs, given, operator.outputs, strict=True):
        if outer in scope.handles:
            scope.handles[result] = scope.handles[outer]
            continue
        carried.append(value)
        results.append(found.index(scope, result))
    for (name, index), *others in zip(graphs[1].outputs, carried, results, strict=True):
        for other in others:
            found.same_types(other, found.tensors[index], f"result '{name}' of WHILE")
    found.append(replace(operator, inputs=tuple(carried), outputs=tuple(results), graphs=tuple(graphs)))


def _if(found: _Flattened, operator: Operator, scope: _Scope) -> None:
    condition, *given = (found.index(scope, index) for index in operator.inputs)
    results: list[list[int]] = []
    for number in (operator.options.ThenSubgraphIndex(), operator.options.ElseSubgraphIndex()):
        branch = _graph_of(found, operator, number, "branch", len(operator.outputs))
        inner = found.entered(branch, operator, scope, given)
        inner.known.update((index, value) for (_, index), value in zip(branch.inputs, given, strict=True))
        results.append(found.branch(number, inner, given))
    for index, *values in zip(operator.outputs, *results, strict=True):
        result = found.index(scope, index)
        for value in values:
            found.same_types(value, found.tensors[result], f"IF '{found.tensors[result].name}'")
        found.append(Operator("IF", 0, (condition, *values), (result,)))


@dataclass(frozen=True)
class _Step:
    """How an operator is replaced, and what it has: numbers of operands and results, and options.

    A file may state anything else, so `check` comes first. An IF and a WHILE have one operand or more, and any number
    of results.
    """

    apply: Callable[[_Flattened, Operator, _Scope], None]
    inputs: int
    outputs: int
    options: tuple[str, ...] = ()

    def check(self, operator: Operator) -> None:
        """Raise ModelError for an operator with other operands, results or options."""
        name, counts = operator.name, (len(operator.inputs), len(operator.outputs))
        is_open = name in ("IF", "WHILE")
        if counts != (self.inputs, self.outputs) and not (is_open and operator.inputs):
            more = " or more" if is_open else ""
            raise ModelError(
                f"{name}: found {counts[0]} operands and {counts[1]} results, expected {self.inputs}{more} operands "
                f"and {self.outputs} results; the file is broken"
            )
        if min(operator.inputs, default=0) < 0:
            raise ModelError(f"{name}: found an omitted operand, expected all operands; the file is broken")
        for option in self.options:
            if not hasattr(operator.options, option):
                raise ModelError(f"{name}: found no options with a {option}, expected some; the file is broken")


_STEPS: Mapping[str, _Step] = {
    "ASSIGN_VARIABLE": _Step(_assign, 2, 0),
    "CALL_ONCE": _Step(_call_once, 0, 0, ("InitSubgraphIndex",)),
    "IF": _Step(_if, 1, 0, ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "READ_VARIABLE": _Step(_read, 1, 1),
    "VAR_HANDLE": _Step(_handle, 0, 1),
    "WHILE": _Step(_while, 1, 1, ("CondSubgraphIndex", "BodySubgraphIndex")),
}
