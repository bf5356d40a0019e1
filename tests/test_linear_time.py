"""The work of the stages grows linearly with the network: the calls of Python functions are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from zeropoint.cli import main

Nodes = list[onnx.NodeProto]
SIZE = 16
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


def calls(arguments: list[str]) -> int:
    """How many Python functions a command calls."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        result = CliRunner().invoke(main, arguments)
    finally:
        sys.setprofile(before)
    assert result.exit_code == 0, result.stderr
    return count


@pytest.mark.parametrize("form", FORMS)
def test_every_stage_is_linear_in_the_network(
    form: Callable[[int], Nodes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, list[int]] = {stage: [] for stage in STAGES}
    for count in (1, SIZE, 2 * SIZE, 4 * SIZE):  # the first one imports what it needs
        save(form(count))
        for stage, arguments in STAGES.items():
            found[stage].append(calls(arguments))
    for stage, (_, first, middle, last) in found.items():
        assert last - middle <= DOUBLED * (middle - first) + FEW, (stage, first, middle, last)
