"""Reductions that OpenVINO computes wrong in the plain form: maxima and sums of floats, means along one dimension."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from export.text_networks import text_network
from zeropoint.export.onnx.openvino import OpenVinoFile


def network(operator: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> onnx.ModelProto:
    """relu(x), reduced, times a matrix. `x` is quantized, because the relu is a kernel."""
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    weights = np.random.default_rng(0).normal(size=(kept[-1], 4)).astype(np.float32)
    constants = [numpy_helper.from_array(array, name) for name, array in (("axes", np.array(axes)), ("w", weights))]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node(operator, ["a", "axes"], ["b"], name="reduced", keepdims=0),
        helper.make_node("MatMul", ["b", "w"], ["y"], name="product"),
    ]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, size)
        for name, size in (("x", shape), ("y", [*kept[:-1], 4]))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin", "ReduceSum"])
@pytest.mark.parametrize(("shape", "axes"), [((2, 6, 5), (1,)), ((3, 4, 5, 6), (1, 2)), ((3, 5), (0,))])
def test_the_results_are_those_of_the_program(
    operator: str, shape: tuple[int, ...], axes: tuple[int, ...], tmp_path: Path
) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    random = np.random.default_rng(1)
    samples = [{"x": random.uniform(0.1, 1, shape).astype(np.float32)} for _ in range(3)]
    made = zp.quantize(
        network(operator, shape, axes),
        samples,
        target="openvino-vnni",
        effort="none",
        recipe=[{"name": "reduced", "quantize": False}],
    )
    made.export(tmp_path / "m.onnx")
    for sample in samples:
        found, expected = OpenVinoFile(tmp_path / "m.onnx")(sample), made(**sample)
        np.testing.assert_allclose(found["y"], expected["y"], rtol=0, atol=np.ptp(expected["y"]) / 200)


def test_a_sum_of_three_dimensions_that_stays_a_float(tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    model = network("ReduceSum", (2, 6, 5), (1,))
    del model.graph.node[2:]
    model.graph.node[0].CopyFrom(helper.make_node("Mul", ["x", "x"], ["a"], name="square"))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("b", TensorProto.FLOAT, (2, 5)))
    sample = {"x": np.random.default_rng(1).uniform(0.1, 1, (2, 6, 5)).astype(np.float32)}
    made = zp.quantize(model, [sample], target="openvino-vnni", effort="none")
    made.export(tmp_path / "m.onnx")
    np.testing.assert_allclose(OpenVinoFile(tmp_path / "m.onnx")(sample)["b"], made(**sample)["b"], rtol=1e-6)


@pytest.mark.parametrize(("batch", "channels"), [(3, 2), (5, 3)])
@pytest.mark.parametrize("before", ["Conv(x, w)", "Relu(x)"])
def test_means_along_one_dimension_of_several_batches(before: str, batch: int, channels: int, tmp_path: Path) -> None:
    """A third of the means was wrong if there were more batches than channels."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    taken, weights = (6, {"w": (channels, 6, 2)}) if "Conv" in before else (channels, {})
    ports = f"(float[{batch},{taken},16] x) => (float[{batch},{channels},1] y)"
    model, samples = text_network(ports, weights, f"c = {before}\n y = GlobalAveragePool(c)")
    made = zp.quantize(model, samples, target="openvino", effort="none")
    made.export(tmp_path / "m.onnx")
    for sample in samples:
        np.testing.assert_array_equal(OpenVinoFile(tmp_path / "m.onnx")(sample)["y"], made(**sample)["y"])
