"""The work of the stages grows linearly with the network: the calls of Python functions are counted, not seconds."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from zeropoint.cli import main

Nodes = list[onnx.NodeProto]
SIZE = 8
"""The number of layers of the smallest network; the others have two and four times as many."""
DOUBLED = 2.05
"""The growth of the work from the second doubling to the third; 2 if it is linear, 4 if it is quadratic."""
FEW = 500
"""Calls of a stage that does not depend on the network's length, such as one table for a chain of functions."""
CONSTANTS = {
    "w": np.eye(8, dtype=np.float32) * 0.9,
    "begin": np.array([0, 2]),
    "end": np.array([1, 8]),
    "axes": np.array([0, 1]),
}


def products_of_one_value(count: int) -> Nodes:
    made = [helper.make_node("MatMul", ["x", "w"], [f"v{n}"]) for n in range(count)]
    return [*made, helper.make_node("Concat", [f"v{n}" for n in range(count)], ["y"], axis=1)]


def slices_of_one_value(count: int) -> Nodes:
    first = helper.make_node("Tanh", ["x"], ["t"])
    made = [helper.make_node("Slice", ["t", "begin", "end", "axes"], [f"v{n}"]) for n in range(count)]
    return [first, *made, helper.make_node("Sum", [f"v{n}" for n in range(count)], ["y"])]


def chain(count: int, *layers: Callable[[str, str], onnx.NodeProto]) -> Nodes:
    names = ["x", *(f"v{n}" for n in range(count * len(layers) - 1)), "y"]
    return [layers[n % len(layers)](names[n], names[n + 1]) for n in range(len(names) - 1)]


def sums_before_a_softmax(count: int) -> Nodes:
    sums = chain(count, lambda value, result: helper.make_node("Add", [value, "x"], [result]))
    sums[-1].output[0] = "scores"
    return [*sums, helper.make_node("Softmax", ["scores"], ["y"], axis=-1)]


FORMS = [products_of_one_value, slices_of_one_value, sums_before_a_softmax]
STAGES = {
    "quantize": ["quantize", "m.onnx", "--data", "d.npz", "--effort", "none", "-o", "q.mlir"],
    "explain": ["explain", "q.mlir"],
}


def save(nodes: Nodes) -> None:
    x, y = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8]), onnx.ValueInfoProto(name="y")
    used = {name for node in nodes for name in node.input}
    constants = [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items() if name in used]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")
    np.savez("d.npz", x=np.random.default_rng(0).normal(size=(1, 8)).astype(np.float32))


def calls(arguments: list[str], status: int = 0) -> int:
    """How many Python functions a command calls that ends with this status."""
    counter = cProfile.Profile(subcalls=False, builtins=False)
    result = counter.runcall(CliRunner().invoke, main, arguments)
    assert result.exit_code == status, result.stderr
    return sum(entry.callcount for entry in counter.getstats())


def assert_linear(works: list[int], stage: str) -> None:
    """The work of a first run, and for three sizes, each twice the one before."""
    _, first, middle, last = works
    assert last - middle <= DOUBLED * (middle - first) + FEW, (stage, first, middle, last)


@pytest.mark.parametrize("form", FORMS)
def test_every_stage_is_linear_in_the_network(
    form: Callable[[int], Nodes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, list[int]] = {stage: [] for stage in STAGES}
    for count in (SIZE, SIZE, 2 * SIZE, 4 * SIZE):  # the first one imports what all need
        save(form(count))
        for stage, arguments in STAGES.items():
            found[stage].append(calls(arguments))
    for stage, works in found.items():
        assert_linear(works, stage)


TENSOR = "tensor<4xf32>"
REFERENCES = {
    "calls": "func.call @f{n:04}(%v{n:04}) :",
    "composites": 'stablehlo.composite "a.b" %v{n:04} {{decomposition = @f{n:04}}} :',
}


WRONG = f"%0 = stablehlo.tanh %x : ({TENSOR}) -> tensor<5xf32>"
"""An op that does not verify."""


def functions(count: int, reference: str) -> str:
    """A program that refers to so many functions, one after the other."""
    uses = "".join(f"%v{n + 1:04} = {reference.format(n=n)} ({TENSOR}) -> {TENSOR}\n" for n in range(count))
    head = f'func.func @main(%v0000: {TENSOR} {{zeropoint.name = "x"}}) -> {TENSOR}'
    main = f"{head} {{\n{uses}return %v{count:04} : {TENSOR}\n}}\n"
    one = f"(%x: {TENSOR}) -> {TENSOR} {{\n%0 = stablehlo.tanh %x : {TENSOR}\nreturn %0 : {TENSOR}\n}}\n"
    return main + "".join(f"func.func private @f{n:04}{one}" for n in range(count))


@pytest.mark.parametrize("reference", REFERENCES)
def test_every_stage_is_linear_in_the_functions(
    reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("d.npz", x=np.ones((1, 4), np.float32))
    stages = {
        "explain": ["explain", "m.mlir"],
        "run": ["run", "m.mlir", "--input", "d.npz", "-o", "o.npz"],
        "quantize": ["quantize", "m.mlir", "--data", "d.npz", "--effort", "none", "-o", "q.mlir"],
    }
    found: dict[str, list[int]] = {stage: [] for stage in stages}
    for count in (1, 2 * SIZE, 4 * SIZE, 8 * SIZE):  # the first one imports what it needs
        Path("m.mlir").write_text(functions(count, REFERENCES[reference]))
        for stage, arguments in stages.items():
            found[stage].append(calls(arguments))
    for stage, works in found.items():
        assert_linear(works, stage)


def test_errors_are_found_in_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found: list[int] = []
    for count in (1, 2 * SIZE, 4 * SIZE, 8 * SIZE):
        text = functions(count, REFERENCES["calls"])
        Path("m.mlir").write_text(text.replace(f"%0 = stablehlo.tanh %x : {TENSOR}", WRONG))
        found.append(calls(["explain", "m.mlir"], status=2))
    assert_linear(found, "explain")
