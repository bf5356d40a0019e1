"""WHILE, whose condition and body are graphs of the file. LiteRT runs the same files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frontend.litert.graph_files import QUANTIZED, SHAPE, File, Graph, litert, options, run, runtime
from zeropoint.frontend import ModelError, load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.stablehlo import WhileOp
from zeropoint.ir.tensors import Array
from zeropoint.pipeline import Options, quantize
from zeropoint.simplify.unroll_loops import unroll_loops

X = np.array([[1, -2, 3, 0.5]], np.float32)


def graphs(condition: int = 1, body: int = 2) -> Any:
    return options("While", condSubgraphIndex=condition, bodySubgraphIndex=body)


def number(graph: Graph, name: str, value: int) -> str:
    graph.tensor(name, np.array(value, np.int32))
    return name


def condition(file: File, trips: int, states: Sequence[str], name: str = "cond") -> Graph:
    """i < trips, the first of the values that the loop carries."""
    cond = Graph(file, name, states, ["b:again"])
    cond.shaped("i:n", [])
    cond.shaped("b:again", [])
    cond.then("LESS", ["i:n", number(cond, "trips", trips)], ["b:again"], options("Less"))
    return cond


def counted(graph: Graph) -> None:
    """The next number of the trip."""
    graph.shaped("i:n", [])
    graph.shaped("i:next", [])
    graph.then("ADD", ["i:n", number(graph, "one", 1)], ["i:next"], options("Add"))


def loop(trips: int) -> File:
    """x = |x - 2|, again and again."""
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    main.then("WHILE", [number(main, "zero", 0), "x"], [main.shaped("i:count", []), "y"], graphs())
    condition(file, trips, ["i:n", "state"])
    body = Graph(file, "body", ["i:n", "state"], ["i:next", "new"])
    counted(body)
    body.tensor("two", np.array(2, np.float32))
    body.then("SUB", ["state", "two"], ["less"], options("Sub"))
    body.then("ABS", ["less"], ["new"])
    return file


def check(path: Path, x: Array) -> None:
    found = Interpreter(load_model(path))({"x": x})["y"]
    np.testing.assert_array_equal(found, run(runtime(path), [x])[0])


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_a_loop_has_as_many_trips_as_in_litert(trips: int, tmp_path: Path) -> None:
    check(loop(trips).write(tmp_path / "m.tflite"), X)


@pytest.mark.parametrize("start", [-9.5, 0.25, 50.0])
def test_a_condition_may_depend_on_an_input(start: float, tmp_path: Path) -> None:
    file = loop(0)
    cond = file.tables.subgraphs[1]
    cond.operators.clear()
    graph = Graph(file, "condition", ["i:n", "state"], ["b:again"])
    graph.shaped("i:n", [])
    graph.shaped("b:again", [1])
    graph.shaped("least", [1])
    for name, numbers in (("axis", [1]), ("limit", None)):
        graph.tensor(name, np.array([2], np.float32) if numbers is None else np.array(numbers, np.int32))
    graph.then("REDUCE_MAX", ["state", "axis"], ["least"], options("Reducer"))
    graph.then("GREATER", ["least", "limit"], ["b:again"], options("Greater"))
    file.tables.subgraphs[1:] = [file.tables.subgraphs[3], file.tables.subgraphs[2]]
    check(file.write(tmp_path / "m.tflite"), X + np.float32(start))


def recurrence(steps: int = 5) -> File:
    """h = tanh(row n of x * w + h), and a row of the result for each h."""
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    rows = [steps, 4]
    main.shaped("x", rows)
    main.shaped("y", rows)
    main.shaped("h", SHAPE)
    main.shaped("same", rows)
    main.tensor("start", np.zeros(SHAPE, np.float32))
    main.tensor("rows", np.zeros(rows, np.float32))
    given = [number(main, "zero", 0), "x", "start", "rows"]
    main.then("WHILE", given, [main.shaped("i:count", []), "same", "h", "y"], graphs())
    states = ["i:n", "all", "state", "made"]
    for graph in (
        condition(file, steps, states),
        body := Graph(file, "body", states, ["i:next", "all", "new", "more"]),
    ):
        graph.shaped("all", rows)
        graph.shaped("made", rows)
    counted(body)
    body.shaped("more", rows)
    random = np.random.default_rng(0)
    body.tensor("w", random.normal(0, 0.5, (4, 4)).astype(np.float32))
    body.tensor("first", np.array([0], np.int32))
    body.tensor("whole", np.array([1, 4], np.int32))
    body.then("PACK", ["i:n", number(body, "none", 0)], [body.shaped("i:begin", [2])], options("Pack", valuesCount=2))
    body.then("SLICE", ["all", "i:begin", "whole"], ["row"], options("Slice"))
    body.then("FULLY_CONNECTED", ["row", "w"], ["product"], options("FullyConnected"))
    body.tables.operators[-1].inputs.append(-1)
    body.then("ADD", ["product", "state"], ["sum"], options("Add"))
    body.then("TANH", ["sum"], ["new"])
    body.then("DYNAMIC_UPDATE_SLICE", ["made", "new", "i:begin"], ["more"], options("DynamicUpdateSlice"))
    return file


def test_a_recurrent_layer_is_that_of_litert_and_is_quantized(tmp_path: Path) -> None:
    path = recurrence().write(tmp_path / "m.tflite")
    program, random = load_model(path), np.random.default_rng(1)
    samples = [{"x": random.normal(0, 1, (5, 4)).astype(np.float32)} for _ in range(8)]
    x = samples[0]["x"]
    (expected,) = run(runtime(path), [x])
    np.testing.assert_allclose(Interpreter(program)({"x": x})["y"], expected, rtol=0, atol=2e-6)
    assert not any(isinstance(op, WhileOp) for op in unroll_loops(program).entry.ops)
    result = quantize(program, samples, Options(effort="none"))
    assert not any(isinstance(op, WhileOp) for op in result.integer.entry.ops)
    np.testing.assert_allclose(Interpreter(result.integer)({"x": x})["y"], expected, atol=0.08)


def test_elements_at_computed_positions(tmp_path: Path) -> None:
    """y is x[n] of each trip, the last one at -1."""
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    main.shaped("x", [3, 4])
    main.shaped("same", [3, 4])
    main.shaped("y", [4])
    main.tensor("start", np.zeros(4, np.float32))
    main.then("WHILE", [number(main, "zero", -1), "x", "start"], [main.shaped("i:count", []), "same", "y"], graphs())
    states = ["i:n", "all", "state"]
    for graph in (condition(file, 2, states), body := Graph(file, "body", states, ["i:next", "all", "new"])):
        graph.shaped("all", [3, 4])
        graph.shaped("state", [4])
    counted(body)
    body.shaped("new", [4])
    body.shaped("row", [4])
    body.shaped("double", [4])
    body.tensor("steps", np.array([1, 1], np.int32))
    for name, numbers in (("i:begin", ["i:n", number(body, "none", 0)]), ("i:end", ["i:next", "none"])):
        body.then("PACK", numbers, [body.shaped(name, [2])], options("Pack", valuesCount=2))
    masks = options("StridedSlice", shrinkAxisMask=1, beginMask=2, endMask=2)
    body.then("STRIDED_SLICE", ["all", "i:begin", "i:end", "steps"], ["row"], masks)
    body.then("ADD", ["state", "state"], ["double"], options("Add"))
    body.then("ADD", ["double", "row"], ["new"], options("Add"))
    check(file.write(tmp_path / "m.tflite"), np.arange(12, dtype=np.float32).reshape(3, 4))


def test_a_loop_in_a_loop_and_an_if_in_it(tmp_path: Path) -> None:
    """The body of the outer loop runs the inner one, and negates what it returns in every trip but the first."""
    file = loop(3)
    outer = Graph(file, "outer", ["i:n", "state"], ["i:next", "new"])
    counted(outer)
    outer.then("WHILE", [number(outer, "zero", 0), "state"], [outer.shaped("i:count", []), "found"], graphs())
    outer.then("GREATER", ["i:n", "zero"], [outer.shaped("b:later", [])], options("Greater"))
    outer.then("IF", ["b:later", "found"], ["new"], options("If", thenSubgraphIndex=4, elseSubgraphIndex=5))
    Graph(file, "negated", ["a"], ["c"]).then("NEG", ["a"], ["c"])
    Graph(file, "kept", ["a"], ["c"]).then("ABS", ["a"], ["c"])
    condition(file, 4, ["i:n", "state"], "while")
    file.tables.subgraphs[0].operators[0].builtinOptions = graphs(6, 3)
    check(file.write(tmp_path / "m.tflite"), X)


def test_a_quantized_state_has_the_bits_of_litert(tmp_path: Path) -> None:
    file = File()
    main = Graph(file, "main", ["q:x"], ["q:y"])
    main.then("WHILE", [number(main, "zero", 0), "q:x"], [main.shaped("i:count", []), "q:y"], graphs())
    condition(file, 4, ["i:n", "q:state"])
    body = Graph(file, "body", ["i:n", "q:state"], ["i:next", "q:new"])
    counted(body)
    body.then("ADD", ["q:state", "q:state"], ["q:new"], options("Add"))
    path, scale, point = file.write(tmp_path / "m.tflite"), np.float32(QUANTIZED[0]), QUANTIZED[1]
    stored = np.array([[4, 1, -9, 90]], np.int8)
    expected = (run(runtime(path), [stored])[0].astype(np.float32) - point) * scale
    sample = {"q:x": (stored.astype(np.float32) - point) * scale}
    np.testing.assert_array_equal(Interpreter(load_model(path))(sample)["q:y"], expected)
    made = quantize(load_model(path), None, Options(target="litert"))
    np.testing.assert_array_equal(Interpreter(made.integer)(sample)["q:y"], expected)


def test_a_variable_may_be_carried_and_read(tmp_path: Path) -> None:
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    main.then("CALL_ONCE", [], [], options("CallOnce", initSubgraphIndex=3))
    main.then("VAR_HANDLE", [], ["s:0"], options("VarHandle", sharedName="state"))
    main.then("WHILE", [number(main, "zero", 0), "s:0", "x"], [main.shaped("i:count", []), "s:1", "y"], graphs())
    main.then("ASSIGN_VARIABLE", ["s:1", "y"], [], options("AssignVariable"))
    condition(file, 3, ["i:n", "s:2", "state"])
    body = Graph(file, "body", ["i:n", "s:2", "state"], ["i:next", "s:2", "new"])
    counted(body)
    body.then("READ_VARIABLE", ["s:2"], ["old"], options("ReadVariable"))
    body.then("ADD", ["state", "old"], ["new"], options("Add"))
    first = Graph(file, "first", [], [])
    first.then("VAR_HANDLE", [], ["s:3"], options("VarHandle", sharedName="state"))
    first.tensor("start", np.zeros(SHAPE, np.float32))
    first.then("ASSIGN_VARIABLE", ["s:3", "start"], [], options("AssignVariable"))
    path = file.write(tmp_path / "m.tflite")
    program, theirs, state = Interpreter(load_model(path)), runtime(path), np.zeros(SHAPE, np.float32)
    for _ in range(3):
        found = program({"x": X, "state": state})
        np.testing.assert_array_equal(found["y"], run(theirs, [X])[0])
        state = found["state_next"]


def _assigns(file: File) -> None:
    body = file.tables.subgraphs[2]
    graph = Graph(file, "assigning", ["i:n", "state"], ["i:next", "new"])
    counted(graph)
    graph.then("VAR_HANDLE", [], ["s:0"], options("VarHandle", sharedName="v"))
    graph.then("ASSIGN_VARIABLE", ["s:0", "state"], [])
    graph.then("ABS", ["state"], ["new"])
    file.tables.subgraphs.remove(body)


def _grows(file: File) -> None:
    body = file.tables.subgraphs[2]
    body.operators.pop()
    code, grown = file.code("CONCATENATION"), body.outputs[1]
    body.operators[-1].opcodeIndex, body.operators[-1].outputs = code, [grown]
    body.operators[-1].inputs = [body.inputs[1]] * 2
    body.operators[-1].builtinOptions = options("Concatenation", axis=0)
    body.operators[-1].builtinOptionsType = 10
    body.tensors[grown].shape, body.tensors[grown].shapeSignature = [2, 4], [-1, 4]


def _asks_numbers(file: File) -> None:
    cond = file.tables.subgraphs[1]
    cond.outputs = [cond.inputs[0]]


def _has_one_result(file: File) -> None:
    file.tables.subgraphs[2].outputs.pop()


def _has_no_options(file: File) -> None:
    file.tables.subgraphs[0].operators[0].builtinOptions = None


def _uses_what_is_not_supported(file: File) -> None:
    file.tables.subgraphs[2].operators[-1].opcodeIndex = file.code("UNIQUE")


BROKEN: Mapping[str, tuple[Any, str]] = {
    "assigned": (_assigns, "variable 'v': found an ASSIGN_VARIABLE in an IF or a WHILE, expected it outside"),
    "grown": (
        _grows,
        r"'i:count' \(WHILE\): found a state of shape \[1, 4\] that becomes \[2, 4\], expected",
    ),
    "condition": (_asks_numbers, r"'i:count' \(WHILE\): found a condition of type INT32 and shape \[\], expected one"),
    "results": (_has_one_result, "WHILE: found a body of 2 inputs and 1 outputs, expected 2 and 2; the file is broken"),
    "options": (_has_no_options, "WHILE: found no options with a CondSubgraphIndex, expected some; the file is broken"),
    "operator": (_uses_what_is_not_supported, r"1 operator is not supported: 'new' \(UNIQUE\); see docs/import.md"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_loops_that_a_program_cannot_have_are_refused(case: str, tmp_path: Path) -> None:
    change, message = BROKEN[case]
    file = loop(3)
    change(file)
    with pytest.raises(ModelError, match=message):
        load_model(file.write(tmp_path / "m.tflite"))


assert litert
