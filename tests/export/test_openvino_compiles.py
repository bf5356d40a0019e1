"""Forms of networks that end OpenVINO 2026.4.1, or that it computes wrong, each run in a process of its own."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from zeropoint.export import export_program
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.regions import regions_of
from zeropoint.materialize.product_chains import is_in_chain
from zeropoint.pipeline import Options, Quantization, quantize

RUN = """
import sys, numpy as np, openvino
model = openvino.Core().read_model(sys.argv[1])
compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
np.save(sys.argv[3], compiled({0: np.load(sys.argv[2])})[0])
"""


def in_openvino(path: Path, x: np.ndarray) -> np.ndarray:
    """The first output, with as many threads as OpenVINO likes: whether it merges products depends on them."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    given, made = path.with_suffix(".in.npy"), path.with_suffix(".out.npy")
    np.save(given, x)
    ended = subprocess.run([sys.executable, "-c", RUN, path, given, made], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-300:]
    return np.load(made)


def model(
    nodes: list[onnx.NodeProto], shapes: dict[str, tuple[int, ...]], arrays: dict[str, np.ndarray]
) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def recurrent(rows: int) -> onnx.ModelProto:
    """A GRU of two steps: its candidate state is a product of a product, with two sums between them."""
    random, hidden = np.random.default_rng(0), 8
    nodes = [helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=hidden)]
    arrays = {"w": random.normal(0, 0.4, (1, 3 * hidden, 8)), "r": random.normal(0, 0.4, (1, 3 * hidden, hidden))}
    return model(nodes, {"x": (5, rows, 8), "y": (5, 1, rows, hidden)}, arrays)


def perceptron(rows: int) -> onnx.ModelProto:
    random, sizes = np.random.default_rng(rows), (16, 32, 32, 8)
    nodes: list[onnx.NodeProto] = []
    arrays: dict[str, np.ndarray] = {}
    value = "x"
    for number, (terms, outputs) in enumerate(itertools.pairwise(sizes)):
        arrays[f"w{number}"] = random.normal(0, 1.5 * terms**-0.5, (outputs, terms))
        arrays[f"b{number}"] = random.normal(0, 0.2, outputs)
        made = f"y{number}"
        nodes.append(helper.make_node("Gemm", [value, f"w{number}", f"b{number}"], [made], transB=1))
        value = made
        if number < len(sizes) - 2:
            value = f"r{number}"
            nodes.append(helper.make_node("Relu", [made], [value]))
    return model(nodes, {"x": (rows, sizes[0]), value: (rows, sizes[-1])}, arrays)


def joined(rows: int) -> onnx.ModelProto:
    """A concatenation that is multiplied by channel before a relu and a convolution."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Concat", ["a", "x"], ["c"], axis=1),
        helper.make_node("Mul", ["c", "m"], ["d"]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Conv", ["e", "v"], ["y"]),
    ]
    shapes = {"w": (4, 4, 1, 1), "m": (1, 8, 1, 1), "v": (4, 8, 1, 1)}
    arrays = {name: random.normal(0, 0.5, shape) for name, shape in shapes.items()}
    return model(nodes, {"x": (rows, 4, 6, 6), "y": (rows, 4, 6, 6)}, arrays)


def strided(rows: int) -> onnx.ModelProto:
    """A convolution of single elements with steps and padding, to which the padding of the model is folded."""
    random = np.random.default_rng(0)
    window = {"strides": [2, 2], "pads": [1, 0, 0, 2]}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], **window)]
    arrays = {"w": random.normal(0, 0.5, (4, 4, 1, 1)), "b": random.normal(0, 0.5, 4)}
    return model(nodes, {"x": (rows, 4, 8, 8), "y": (rows, 4, 5, 5)}, arrays)


def quantized(made: onnx.ModelProto) -> Quantization:
    shape = [size.dim_value for size in made.graph.input[0].type.tensor_type.shape.dim]
    random = np.random.default_rng(1)
    data = [{"x": random.normal(0, 1, shape).astype(np.float32)} for _ in range(4)]
    return quantize(load_onnx_model(made, {}), data, Options(target="openvino"))


@pytest.mark.parametrize("rows", [1, 4, 8])
@pytest.mark.parametrize("build", [recurrent, perceptron, joined, strided])
def test_the_file_is_compiled_and_every_value_is_predicted(build: object, rows: int, tmp_path: Path) -> None:
    assert callable(build)
    made = build(rows)
    result, path = quantized(made), tmp_path / "m.onnx"
    export_program(result.propagated, path)
    shape = [size.dim_value for size in made.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(2).normal(0, 1, shape).astype(np.float32)
    (expected,) = Interpreter(result.quantized)({"x": x}).values()
    np.testing.assert_allclose(in_openvino(path, x), expected, rtol=1e-6, atol=1e-6)
    again = quantize(load_onnx_model(onnx.load(path), {}), [], Options(target="openvino"))
    (found,) = Interpreter(again.quantized)({"x": x}).values()
    np.testing.assert_array_equal(found, expected)


def test_products_in_a_chain_are_those_that_others_follow_or_precede() -> None:
    products = [
        region for region in regions_of(quantized(perceptron(4)).propagated) if "fully" in region.logical_kernel.data
    ]
    assert len(products) == 3
    assert all(map(is_in_chain, products))
    sizes = {"x": (4, 8), "y": (4, 8)}
    alone = model([helper.make_node("MatMul", ["x", "w"], ["y"])], sizes, {"w": np.eye(8)})
    assert not any(map(is_in_chain, regions_of(quantized(alone).propagated)))
