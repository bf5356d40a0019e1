"""Variables, branches and sizes that the file leaves open. LiteRT runs the same files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frontend.litert.graph_files import QUANTIZED, SHAPE, File, Graph, options, run, runtime
from zeropoint.frontend import ModelError, load_model
from zeropoint.frontend.litert.flattened import DEPTH, flattened
from zeropoint.frontend.litert.graph import LiteRtGraph, LiteRtTensor, Operator
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.litert_schema import schema
from zeropoint.pipeline import Options, quantize

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT judges")


def streaming(start: Array, *, quantized: bool = False) -> File:
    """y = x + state, and the next state is y."""
    file, q = File(), "q:" if quantized else ""
    main = Graph(file, "main", [f"{q}x"], [f"{q}y"])
    main.then("CALL_ONCE", [], [], options("CallOnce", initSubgraphIndex=1))
    main.then("VAR_HANDLE", [], ["s:0"], options("VarHandle", sharedName="stream/state"))
    main.then("READ_VARIABLE", ["s:0"], [f"{q}old"], options("ReadVariable"))
    main.then("ADD", [f"{q}x", f"{q}old"], [f"{q}y"], options("Add"))
    main.then("ASSIGN_VARIABLE", ["s:0", f"{q}y"], [], options("AssignVariable"))
    first = Graph(file, "first", [], [])
    first.then("VAR_HANDLE", [], ["s:1"], options("VarHandle", sharedName="stream/state"))
    first.tensor(f"{q}start", start)
    first.then("ASSIGN_VARIABLE", ["s:1", f"{q}start"], [], options("AssignVariable"))
    return file


def check_stream(path: Path, variable: str) -> None:
    """The program of x and a variable returns what LiteRT does, run after run."""
    program, theirs = Interpreter(load_model(path)), runtime(path)
    random, state = np.random.default_rng(0), np.zeros(SHAPE, np.float32)
    for _ in range(6):
        x = random.normal(0, 1, SHAPE).astype(np.float32)
        found = program({"x": x, variable: state})
        np.testing.assert_array_equal(found["y"], run(theirs, [x])[0])
        state = found[f"{variable}_next"]


def test_a_variable_is_an_input_and_an_output(tmp_path: Path) -> None:
    path = streaming(np.zeros(SHAPE, np.float32)).write(tmp_path / "m.tflite")
    check_stream(path, "stream/state")


@pytest.mark.parametrize("start", [0, 2.5])
def test_a_variable_that_no_run_assigns_is_a_constant(start: float, tmp_path: Path) -> None:
    file = streaming(np.full(SHAPE, start, np.float32))
    file.tables.subgraphs[0].operators.pop()
    path, x = file.write(tmp_path / "m.tflite"), np.ones(SHAPE, np.float32)
    program = load_model(path)
    assert [port.name for port in program.inputs] == ["x"]
    np.testing.assert_array_equal(Interpreter(program)({"x": x})["y"], run(runtime(path), [x])[0])


def test_a_first_value_that_no_operator_reads_does_not_matter(tmp_path: Path) -> None:
    file = streaming(np.ones(SHAPE, np.float32))
    operators = file.tables.subgraphs[0].operators
    read, add, assign = operators[2:]
    assign.inputs[1] = file.tables.subgraphs[0].inputs[0]
    operators[2:] = [assign, read, add]
    path, x = file.write(tmp_path / "m.tflite"), np.arange(4, dtype=np.float32).reshape(SHAPE)
    np.testing.assert_array_equal(Interpreter(load_model(path))({"x": x})["y"], run(runtime(path), [x])[0])


@pytest.mark.parametrize(("names", "expected"), [(("x", "y"), "x_1"), (("v", "x_next"), "x_1"), (("v", "y"), "x")])
def test_a_variable_with_the_name_of_a_port_gets_a_number(
    names: tuple[str, str], expected: str, tmp_path: Path
) -> None:
    file = streaming(np.zeros(SHAPE, np.float32))
    for graph in file.tables.subgraphs:
        for operator in graph.operators:
            if hasattr(operator.builtinOptions, "sharedName"):
                operator.builtinOptions.sharedName = "x"
    main = file.tables.subgraphs[0]
    for name, index in zip(names, (main.inputs[0], main.outputs[0]), strict=True):
        main.tensors[index].name = name
    program = load_model(file.write(tmp_path / "m.tflite"))
    assert [port.name for port in program.inputs] == [names[0], expected]
    assert [port.name for port in program.outputs] == [names[1], f"{expected}_next"]


def test_a_quantized_variable_has_the_bits_of_litert(tmp_path: Path) -> None:
    scale, point = np.float32(QUANTIZED[0]), QUANTIZED[1]
    path = streaming(np.full(SHAPE, point, np.int8), quantized=True).write(tmp_path / "m.tflite")
    theirs = runtime(path)
    program = Interpreter(quantize(load_model(path), None, Options(target="litert")).integer)
    random, state = np.random.default_rng(0), np.zeros(SHAPE, np.float32)
    for _ in range(6):
        stored = random.integers(-60, 61, SHAPE).astype(np.int8)
        found = program({"q:x": (stored.astype(np.float32) - point) * scale, "stream/state": state})
        expected = (run(theirs, [stored])[0].astype(np.float32) - point) * scale
        np.testing.assert_array_equal(found["q:y"], expected)
        state = found["stream/state_next"]


def test_first_values_other_than_0_are_refused(tmp_path: Path) -> None:
    path = streaming(np.ones(SHAPE, np.float32)).write(tmp_path / "m.tflite")
    with pytest.raises(ModelError, match="variable 'stream/state': found a first value other than 0, expected zeros"):
        load_model(path)


def branches() -> File:
    """IF x > 0 in the first place, x + k, otherwise the negated x."""
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    for name, numbers in (("begin", [0, 0]), ("end", [1, 1]), ("steps", [1, 1])):
        main.tensor(name, np.array(numbers, np.int32))
    main.tensor("zero", np.array(0, np.float32))
    main.tensor("k", np.full(SHAPE, 2, np.float32))
    main.then("STRIDED_SLICE", ["x", "begin", "end", "steps"], ["first"], options("StridedSlice", shrinkAxisMask=3))
    main.then("GREATER", ["first", "zero"], ["b:positive"], options("Greater"))
    for name in ("first", "b:positive"):
        main.tables.tensors[main.tensor(name)].shape = []
    main.then("IF", ["b:positive", "x", "k"], ["y"], options("If", thenSubgraphIndex=1, elseSubgraphIndex=2))
    then = Graph(file, "then", ["a", "b"], ["c"])
    then.then("ADD", ["a", "b"], ["c"], options("Add"))
    otherwise = Graph(file, "otherwise", ["a", "b"], ["c"])
    otherwise.then("NEG", ["a"], ["c"])
    return file


@pytest.mark.parametrize("first", [1.0, -1.0])
def test_both_branches_of_an_if_are_computed_and_one_is_selected(first: float, tmp_path: Path) -> None:
    path = branches().write(tmp_path / "m.tflite")
    x = np.array([[first, 2, -3, 4]], np.float32)
    np.testing.assert_array_equal(Interpreter(load_model(path))({"x": x})["y"], run(runtime(path), [x])[0])


def flatten(signature: Sequence[int]) -> File:
    """A flatten of Keras: the batch is read from the shape of x."""
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    main.tables.tensors[0].shape, main.tables.tensors[0].shapeSignature = [1, 2, 2], signature
    for name, numbers in (("begin", [0]), ("end", [1]), ("steps", [1]), ("rest", -1)):
        main.tensor(name, np.array(numbers, np.int32))
    main.then("SHAPE", ["x"], ["shape"], options("Shape", outType=schema().TensorType.INT32))
    main.then("STRIDED_SLICE", ["shape", "begin", "end", "steps"], ["batch"], options("StridedSlice", shrinkAxisMask=1))
    main.then("PACK", ["batch", "rest"], ["sizes"], options("Pack", valuesCount=2))
    main.then("RESHAPE", ["x", "sizes"], ["y"], options("Reshape"))
    for name, shape in {"shape": [3], "batch": [], "sizes": [2]}.items():
        tensor = main.tables.tensors[main.tensor(name)]
        tensor.type, tensor.shape = schema().TensorType.INT32, shape
    return file


@pytest.mark.parametrize("shapes", [{}, {"x": (3, 2, 2)}, {"x": (2, 5, 2)}])
def test_inputs_may_have_other_shapes_than_in_the_file(shapes: Mapping[str, tuple[int, ...]], tmp_path: Path) -> None:
    path = flatten([-1, -1, 2]).write(tmp_path / "m.tflite")
    x = np.arange(np.prod(shapes.get("x", (1, 2, 2))), dtype=np.float32).reshape(shapes.get("x", (1, 2, 2)))
    theirs = litert.Interpreter(str(path))
    theirs.resize_tensor_input(0, x.shape)
    theirs.allocate_tensors()
    np.testing.assert_array_equal(Interpreter(load_model(path, shapes))({"x": x})["y"], run(theirs, [x])[0])


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (3, 2)}, "found shape 3x2 for 'x', expected as many sizes as 1x2x2, all above 0"),
        ({"x": (0, 2, 2)}, "found shape 0x2x2 for 'x', expected as many sizes as 1x2x2, all above 0"),
        ({"z": (1, 2, 2)}, "found a shape for 'z', expected one of the inputs: x"),
    ],
)
def test_wrong_shapes_are_refused(shapes: Mapping[str, tuple[int, ...]], message: str, tmp_path: Path) -> None:
    path = flatten([-1, -1, 2]).write(tmp_path / "m.tflite")
    with pytest.raises(ModelError, match=message):
        load_model(path, shapes)


def test_a_placeholder_that_does_not_fit_is_named(tmp_path: Path) -> None:
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    main.tables.tensors[0].shape, main.tables.tensors[0].shapeSignature = [1, 1], [1, -1]
    main.tensor("sizes", np.array([2, 8], np.int32))
    main.then("RESHAPE", ["x", "sizes"], ["y"], options("Reshape"))
    main.tables.tensors[main.tensor("y")].shape = [2, 8]
    path = file.write(tmp_path / "m.tflite")
    with pytest.raises(
        ModelError, match=r"the file has 1x1 in place of an unknown shape of 'x', give it with --shape x="
    ):
        load_model(path)
    assert Interpreter(load_model(path, {"x": (1, 16)}))({"x": np.zeros((1, 16), np.float32)})["y"].shape == (2, 8)


def test_graphs_that_contain_each_other_are_refused() -> None:
    none = np.zeros(0)
    tensors = [LiteRtTensor(name, kind, (), None, none, none, 0) for name, kind in (("c", "BOOL"), ("x", "FLOAT32"))]
    choice = type("Choice", (), {"ThenSubgraphIndex": lambda _: 0, "ElseSubgraphIndex": lambda _: 0})()
    graph = LiteRtGraph(tensors, [Operator("IF", 0, (0, 0), (1,), choice)], [("c", 0)], [("x", 1)])
    with pytest.raises(ModelError, match=f"found graphs inside each other {DEPTH + 1} times, expected fewer"):
        flattened(graph, lambda _: graph)


def compare(count: int, tensors: Graph, name: str = "b:positive") -> None:
    """Whether the first element of x is above 0, as a condition of `count` dimensions."""
    for given, numbers in (("begin", [0, 0]), ("end", [1, 1]), ("steps", [1, 1])):
        tensors.tensor(given, np.array(numbers, np.int32))
    tensors.tensor("zero", np.array(0, np.float32))
    tensors.tensor("ones", np.ones(count, np.int32))
    tensors.then("STRIDED_SLICE", ["x", "begin", "end", "steps"], ["first"], options("StridedSlice", shrinkAxisMask=3))
    tensors.then("RESHAPE", ["first", "ones"], ["one"], options("Reshape"))
    tensors.then("GREATER", ["one", "zero"], [name], options("Greater"))
    for each, shape in (("first", []), ("one", [1] * count), (name, [1] * count)):
        tensors.tables.tensors[tensors.tensor(each)].shape = shape


def choice(arguments: Sequence[str], count: int = 1) -> tuple[File, Graph]:
    """IF x > 0 in the first place, graph 1, otherwise graph 2, of which there is none yet."""
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    compare(count, main)
    main.then("IF", ["b:positive", *arguments], ["y"], options("If", thenSubgraphIndex=1, elseSubgraphIndex=2))
    return file, main


@pytest.mark.parametrize("first", [1.0, -1.0])
def test_a_condition_may_have_more_dimensions_than_the_results(first: float, tmp_path: Path) -> None:
    file, _ = choice(["x"], 3)
    Graph(file, "then", ["a"], ["c"]).then("ABS", ["a"], ["c"])
    Graph(file, "otherwise", ["a"], ["c"]).then("NEG", ["a"], ["c"])
    path, x = file.write(tmp_path / "m.tflite"), np.array([[first, 2, -3, 4]], np.float32)
    np.testing.assert_array_equal(Interpreter(load_model(path))({"x": x})["y"], run(runtime(path), [x])[0])


def test_branches_with_results_of_two_shapes_are_refused(tmp_path: Path) -> None:
    file, main = choice(["x"])
    main.tables.tensors[main.tensor("y")].shapeSignature = [-1, 4]
    Graph(file, "then", ["a"], ["c"]).then("ABS", ["a"], ["c"])
    otherwise = Graph(file, "otherwise", ["a"], ["c"])
    otherwise.then("CONCATENATION", ["a", "a"], ["c"], options("Concatenation", axis=0))
    otherwise.tables.tensors[otherwise.tensor("c")].shape = [2, 4]
    path = file.write(tmp_path / "m.tflite")
    with pytest.raises(ModelError, match=r"'y' \(IF\): found branches with results \[1, 4\] and \[2, 4\], expected"):
        load_model(path)


def test_a_branch_whose_argument_is_stored_otherwise_is_refused(tmp_path: Path) -> None:
    file, _ = choice(["x"])
    Graph(file, "then", ["q:a"], ["c"]).then("DEQUANTIZE", ["q:a"], ["c"], options("Dequantize"))
    Graph(file, "otherwise", ["a"], ["c"]).then("NEG", ["a"], ["c"])
    path = file.write(tmp_path / "m.tflite")
    message = r"operand 'q:a' of IF: found values of types FLOAT32 and INT8 \(scale 0.05, zero point 3\), expected one"
    with pytest.raises(ModelError, match=message):
        load_model(path)


def test_a_variable_may_be_an_argument_of_branches(tmp_path: Path) -> None:
    file, main = choice(["x", "s:0"])
    selection = main.tables.operators.pop()
    main.then("CALL_ONCE", [], [], options("CallOnce", initSubgraphIndex=3))
    main.then("VAR_HANDLE", [], ["s:0"], options("VarHandle", sharedName="state"))
    main.tables.operators.append(selection)
    main.then("ASSIGN_VARIABLE", ["s:0", "y"], [], options("AssignVariable"))
    then = Graph(file, "then", ["a", "s:1"], ["c"])
    then.then("READ_VARIABLE", ["s:1"], ["old"], options("ReadVariable"))
    then.then("ADD", ["a", "old"], ["c"], options("Add"))
    Graph(file, "otherwise", ["a", "s:1"], ["c"]).then("NEG", ["a"], ["c"])
    first = Graph(file, "first", [], [])
    first.then("VAR_HANDLE", [], ["s:2"], options("VarHandle", sharedName="state"))
    first.tensor("start", np.zeros(SHAPE, np.float32))
    first.then("ASSIGN_VARIABLE", ["s:2", "start"], [], options("AssignVariable"))
    path = file.write(tmp_path / "m.tflite")
    check_stream(path, "state")


def test_ifs_in_each_other_with_one_graph_are_computed_once(tmp_path: Path) -> None:
    """16 of them had 65,536 operators."""
    file, _ = choice(["x"])
    ifs = file.tables.subgraphs[0].operators[-1].builtinOptions
    ifs.elseSubgraphIndex = 1
    for depth in range(1, DEPTH):
        graph = Graph(file, f"branch{depth}", ["x"], ["y"])
        compare(1, graph)
        graph.then(
            "IF", ["b:positive", "x"], ["y"], options("If", thenSubgraphIndex=depth + 1, elseSubgraphIndex=depth + 1)
        )
    Graph(file, "last", ["x"], ["y"]).then("NEG", ["x"], ["y"])
    path = file.write(tmp_path / "m.tflite")
    program, x = load_model(path), np.array([[1, 2, -3, 4]], np.float32)
    assert len(list(program.entry.ops)) == 2
    np.testing.assert_array_equal(Interpreter(program)({"x": x})["y"], -x)


def test_a_branch_that_reads_a_variable_is_computed_where_it_is(tmp_path: Path) -> None:
    """Also if the read is in a branch of the branch. The second IF reads what was assigned after the first one."""
    file = File()
    main = Graph(file, "main", ["x"], ["y"])
    compare(1, main)
    main.then("CALL_ONCE", [], [], options("CallOnce", initSubgraphIndex=4))
    main.then("VAR_HANDLE", [], ["s:0"], options("VarHandle", sharedName="state"))
    for name in ("first", "second"):
        choice_of = options("If", thenSubgraphIndex=1, elseSubgraphIndex=2)
        main.then("IF", ["b:positive", "x"], [f"{name}:found"], choice_of)
        if name == "first":
            main.then("ASSIGN_VARIABLE", ["s:0", "first:found"], [], options("AssignVariable"))
    main.then("ADD", ["first:found", "second:found"], ["y"], options("Add"))
    outer = Graph(file, "outer", ["x"], ["c"])
    compare(1, outer)
    outer.then("IF", ["b:positive", "x"], ["c"], options("If", thenSubgraphIndex=3, elseSubgraphIndex=2))
    Graph(file, "otherwise", ["a"], ["c"]).then("NEG", ["a"], ["c"])
    reader = Graph(file, "reader", ["a"], ["c"])
    reader.then("VAR_HANDLE", [], ["s:1"], options("VarHandle", sharedName="state"))
    reader.then("READ_VARIABLE", ["s:1"], ["old"], options("ReadVariable"))
    reader.then("ADD", ["a", "old"], ["c"], options("Add"))
    start = Graph(file, "start", [], [])
    start.then("VAR_HANDLE", [], ["s:2"], options("VarHandle", sharedName="state"))
    start.tensor("zeros", np.zeros(SHAPE, np.float32))
    start.then("ASSIGN_VARIABLE", ["s:2", "zeros"], [], options("AssignVariable"))
    check_stream(file.write(tmp_path / "m.tflite"), "state")


def test_a_variable_that_changes_its_shape_is_refused(tmp_path: Path) -> None:
    path = streaming(np.zeros(SHAPE, np.float32)).write(tmp_path / "m.tflite")
    message = "expected 1x4 as before; give its shape, too, with --shape stream/state=3x4"
    with pytest.raises(ModelError, match=message):
        load_model(path, {"x": (3, 4)})
    program = Interpreter(load_model(path, {"x": (3, 4), "stream/state": (3, 4)}))
    x, state = np.ones((3, 4), np.float32), np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(program({"x": x, "stream/state": state})["stream/state_next"], x + state)


BROKEN_STEPS: Mapping[str, tuple[str, Sequence[str], Sequence[str], Any, str]] = {
    "no options of an IF": ("IF", ["b:c", "x"], ["y"], None, "IF: found no options with a ThenSubgraphIndex"),
    "options of another": ("IF", ["b:c", "x"], ["y"], options("Add"), "IF: found no options with a ThenSubgraphIndex"),
    "no condition": ("IF", [], ["y"], options("If"), "IF: found 0 operands and 1 results, expected 1 or more operands"),
    "no graph": ("CALL_ONCE", [], [], None, "CALL_ONCE: found no options with a InitSubgraphIndex"),
    "no result": ("READ_VARIABLE", ["s:0"], [], None, "READ_VARIABLE: found 1 operands and 0 results, expected 1 op"),
    "no value": ("ASSIGN_VARIABLE", ["s:0"], [], None, "ASSIGN_VARIABLE: found 1 operands and 0 results, expected 2"),
    "no handle": ("READ_VARIABLE", ["x"], ["y"], None, "READ_VARIABLE: found no variable as operand"),
    "omitted": ("ASSIGN_VARIABLE", ["s:0", "-"], [], None, "ASSIGN_VARIABLE: found an omitted operand, expected all"),
}


@pytest.mark.parametrize("case", BROKEN_STEPS)
def test_broken_operators_of_graphs_are_refused(case: str, tmp_path: Path) -> None:
    op, inputs, outputs, given, message = BROKEN_STEPS[case]
    file = File()
    main = Graph(file, "main", ["x", "b:c"], ["y"])
    main.then("VAR_HANDLE", [], ["s:0"], options("VarHandle", sharedName="state"))
    main.then(op, [each for each in inputs if each != "-"], outputs, given)
    main.tables.operators[-1].inputs += [-1] * inputs.count("-")
    path = file.write(tmp_path / "m.tflite")
    with pytest.raises(ModelError, match=message):
        load_model(path)


def test_broken_first_values_are_refused(tmp_path: Path) -> None:
    file = streaming(np.zeros(SHAPE, np.float32))
    assign = file.tables.subgraphs[1].operators[-1]
    assign.inputs = assign.inputs[:1]
    with pytest.raises(ModelError, match="ASSIGN_VARIABLE: found 1 operands and 0 results, expected 2 operands"):
        load_model(file.write(tmp_path / "m.tflite"))


def test_types_without_a_reader_do_not_matter(tmp_path: Path) -> None:
    file, types = File(), schema().TensorType
    main = Graph(file, "main", ["x"], ["y"])
    main.then("NEG", ["x"], ["y"])
    main.tables.tensors[main.tensor("unused")].type = types.STRING
    x = np.ones(SHAPE, np.float32)
    np.testing.assert_array_equal(Interpreter(load_model(file.write(tmp_path / "m.tflite")))({"x": x})["y"], -x)
    main.then("NEG", ["x"], ["complex"])
    main.tables.tensors[main.tensor("complex")].type = types.COMPLEX128
    with pytest.raises(ModelError, match="tensor 'complex': found type COMPLEX128 of NEG, expected one of: BOOL"):
        load_model(file.write(tmp_path / "m.tflite"))
    main.tables.operators.pop()
    main.tables.inputs.append(main.tensor("complex"))
    with pytest.raises(ModelError, match="tensor 'complex': found type COMPLEX128 of an input, expected one of: BOOL"):
        load_model(file.write(tmp_path / "m.tflite"))
