"""Products of two activations for OpenVINO: its integer kernels take them, and every value is predicted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from export.openvino_graphs import Graph, kernels
from zeropoint.check_target.runtimes import has_vnni
from zeropoint.export import export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.report.counts import float_kernels

TOKENS, WIDTH = 24, 32
Build = Callable[[Graph], str]


def _projected(graph: Graph, value: str, spread: float = 0.2) -> str:
    """A fully connected layer of every token."""
    weights = graph.constant(graph.random.normal(0, spread, (WIDTH, WIDTH)))
    return graph.node("Add", graph.node("MatMul", value, weights), graph.constant(graph.random.normal(0, 1, WIDTH)))


def _integers(graph: Graph, *numbers: int) -> str:
    name = f"integers{len(graph.weights)}"
    graph.weights.append(onnx.numpy_helper.from_array(np.array(numbers, np.int64), name))
    return name


def _heads(graph: Graph, value: str, order: tuple[int, ...]) -> str:
    """(1, tokens, width) as 4 heads of 8."""
    return graph.node("Transpose", graph.node("Reshape", value, _integers(graph, 1, TOKENS, 4, 8)), perm=order)


def _probabilities(graph: Graph, scores: str) -> str:
    return graph.node("Softmax", graph.node("Mul", scores, graph.constant(np.array(0.2))), axis=-1)


def _four_heads(graph: Graph) -> str:
    query, key, value = (_projected(graph, "x") for _ in range(3))
    scores = graph.node("MatMul", _heads(graph, query, (0, 2, 1, 3)), _heads(graph, key, (0, 2, 3, 1)))
    mixed = graph.node("MatMul", _probabilities(graph, scores), _heads(graph, value, (0, 2, 1, 3)))
    joined = graph.node("Transpose", mixed, perm=(0, 2, 1, 3))
    return _projected(graph, graph.node("Reshape", joined, _integers(graph, 1, TOKENS, WIDTH)))


def _one_head(graph: Graph) -> str:
    query, key, value = (_projected(graph, "x") for _ in range(3))
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=(0, 2, 1)))
    return _projected(graph, graph.node("MatMul", _probabilities(graph, scores), value))


def _of_one_projection(graph: Graph) -> str:
    """Query, key and value are parts of one product."""
    weights = graph.constant(graph.random.normal(0, 0.2, (WIDTH, 3 * WIDTH)))
    every = graph.node("MatMul", "x", weights)
    ends = [(_integers(graph, part * WIDTH), _integers(graph, (part + 1) * WIDTH)) for part in range(3)]
    axis = _integers(graph, 2)
    query, key, value = (graph.node("Slice", every, *pair, axis) for pair in ends)
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=(0, 2, 1)))
    return graph.node("MatMul", _probabilities(graph, scores), value)


def _channels_by_channels(graph: Graph) -> str:
    """The left operand is transposed, and never negative; so is the right one."""
    query, key = (graph.node("Relu", _projected(graph, "x")) for _ in range(2))
    return graph.node("MatMul", "x", graph.node("MatMul", graph.node("Transpose", query, perm=(0, 2, 1)), key))


MODELS: dict[str, Build] = {
    build.__name__[1:]: build for build in (_four_heads, _one_head, _of_one_projection, _channels_by_channels)
}


def _model(build: Build) -> tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]:
    graph = Graph()
    result = build(graph)
    shape = (1, TOKENS, WIDTH)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", result)]
    made = helper.make_graph(graph.nodes, "graph", ports[:1], ports[1:], graph.weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model, [{"x": graph.random.normal(0, 1, shape).astype(np.float32)} for _ in range(6)]


def _quantized(build: Build, target: str = "openvino-vnni") -> tuple[Quantization, list[dict[str, np.ndarray]]]:
    model, samples = _model(build)
    return quantize(load_onnx_model(model, {}), samples[:3], Options(target=target)), samples


def _operands(program: Program) -> list[tuple[str, ...]]:
    """The storage and zero point of the operands of every product of two activations."""
    return [
        tuple(
            f"{spec.storage} {spec.zero_point}" for spec in region.input_specs if isinstance(spec, UniformQuantizedType)
        )
        for region in regions_of(program)
        if region.logical_kernel.data == "batch_matmul"
    ]


def test_an_integer_kernel_whose_sums_are_scaled_in_floats_does_not_stay_float() -> None:
    result, _ = _quantized(_one_head)
    groups = {group.kernel: str(group) for group in float_kernels(result.integer)}
    for kernel in ("batch_matmul", "fully_connected"):
        assert "have steps in float at" in groups[kernel]
        assert "its sums are integers, which OpenVINO's kernel scales in floats" in groups[kernel]
    assert "stays float" in groups["softmax"]


@pytest.mark.parametrize("name", MODELS)
def test_products_of_activations_run_in_integer_kernels_and_are_predicted(name: str, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    if not has_vnni():
        pytest.skip("sums of two products saturate without VNNI")
    result, samples = _quantized(MODELS[name])
    export_program(result.propagated, tmp_path / "model.onnx")
    file, predict = OpenVinoFile(tmp_path / "model.onnx"), Interpreter(result.quantized)
    found = [implementation for kind, implementation, _ in kernels(file) if kind == "MatMul"]
    assert len(found) == 2
    assert all(implementation.lower().endswith("i8") for implementation in found), found
    for sample in samples:
        for port, expected in predict(sample).items():
            np.testing.assert_array_equal(file(sample)[port], expected)


def test_operands_have_zero_point_0_and_no_rescale_before_them() -> None:
    result, _ = _quantized(_four_heads)
    assert _operands(result.propagated) == [("i8 0", "i8 0"), ("u8 0", "i8 0")]
    assert not any(region.logical_kernel.data == "rescale" for region in regions_of(result.propagated))


def test_an_operand_that_is_never_negative_keeps_all_its_steps() -> None:
    result, _ = _quantized(_channels_by_channels)
    assert _operands(result.propagated)[0] == ("u8 0", "i8 0")


def test_without_vnni_the_products_are_not_integer() -> None:
    """Sums of two products of u8 x i8 saturate there."""
    result, _ = _quantized(_four_heads, "openvino")
    assert all(left.startswith("u8") and right.startswith("u8") for left, right in _operands(result.propagated))


@pytest.mark.parametrize("name", MODELS)
def test_the_file_imported_again_is_the_same_program(name: str, tmp_path: Path) -> None:
    result, samples = _quantized(MODELS[name])
    export_program(result.propagated, tmp_path / "model.onnx")
    again = quantize(load_onnx_model(onnx.load(tmp_path / "model.onnx"), {}), [], Options(target="openvino-vnni"))
    assert _operands(again.propagated) == _operands(result.propagated)
    for sample in samples:
        expected, found = Interpreter(result.quantized)(sample), Interpreter(again.quantized)(sample)
        for ours, theirs in zip(expected.values(), found.values(), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("left", "right", "scale", "made"),
    [
        ("u8 3", "u8 7", 0.093, 0.31),
        ("i8 3", "i8 7", 0.093, 0.31),
        ("u8 0", "u8 0", 0.093, 0.31),
        # With these scales, results are in the middle of two integers.
        ("i8 0", "i8 0", 0.1, 0.3),
        ("u8 0", "i8 0", 0.1, 0.3),
    ],
)
def test_stated_zero_points_are_kept(left: str, right: str, scale: float, made: float, tmp_path: Path) -> None:
    """A model with other zero points gets no rescale."""
    graph, shape = Graph(), (3, 8, 8)
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    cast = [_cast(graph, port.name, kind, scale) for port, kind in zip(given, (left, right), strict=True)]
    result = _cast(graph, graph.node("MatMul", *cast), "u8 130", made)
    output = helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)
    network = helper.make_graph(graph.nodes, "graph", given, [output], graph.weights)
    model = helper.make_model(network, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    program = quantize(load_onnx_model(model, {}), [], Options(target="openvino-vnni"))
    assert _operands(program.propagated) == [(left, right)]
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    if not has_vnni():
        pytest.skip("sums of two products saturate without VNNI")
    export_program(program.propagated, tmp_path / "model.onnx")
    file = OpenVinoFile(tmp_path / "model.onnx")
    for _ in range(8):
        sample = {port.name: graph.random.normal(0, 6, shape).astype(np.float32) for port in given}
        expected = Interpreter(program.quantized)(sample)
        for name, found in file(sample).items():
            np.testing.assert_array_equal(found, expected[name])


def _cast(graph: Graph, value: str, kind: str, scale: float) -> str:
    """A value quantized and dequantized."""
    storage, point = kind.split()
    zero_point = np.array(int(point), {"u8": np.uint8, "i8": np.int8}[storage])
    graph.weights.append(onnx.numpy_helper.from_array(zero_point, f"{value}_zero"))
    parameters = [graph.constant(np.array(scale)), f"{value}_zero"]
    return graph.node("DequantizeLinear", graph.node("QuantizeLinear", value, *parameters), *parameters)
