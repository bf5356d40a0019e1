"""Float kernels whose weights a recipe stores in few bits: DequantizeLinear in ONNX, refused by other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.export import ExportError, export_program
from zeropoint.interp import Interpreter
from zeropoint.quantization import Quantization

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def network() -> Any:
    random = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(random.normal(0, 0.2, shape).astype(np.float32), name)
        for name, shape in (("w", (64, 96)), ("v", (96, 64)))
    ]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        onnx.helper.make_node("Relu", ["a"], ["b"], name="relu"),
        onnx.helper.make_node("MatMul", ["b", "v"], ["y"], name="second"),
    ]
    ports = [onnx.helper.make_tensor_value_info(name, 1, (6, 64)) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "two", ports[:1], ports[1:], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)


def sample() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).normal(size=(6, 64)).astype(np.float32)}


def quantized(target: str, **demands: object) -> Quantization:
    rule = {"op": "fully_connected", "activations": "float", **demands}
    made = zp.quantize(network(), [sample()], target=target, effort="none", recipe={"rules": [rule]}).quantization
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("demands", "stored"),
    [
        ({"weight_bits": 4, "block_size": 32}, "INT4"),
        ({"weight_bits": 4, "block_size": 32, "weight_symmetric": False}, "INT4"),
        ({"weight_bits": 8}, "INT8"),
    ],
)
def test_stored_weights_leave_as_integers_and_give_our_numbers(
    demands: dict[str, object], stored: str, tmp_path: Path
) -> None:
    result = quantized("onnxruntime", **demands)
    export_program(result.propagated, tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    weights = {tensor.data_type for tensor in model.graph.initializer if np.prod(tensor.dims) == 64 * 96}
    assert weights == {getattr(onnx.TensorProto, stored)}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, sample())
    np.testing.assert_allclose(found, Interpreter(result.quantized)(sample())["y"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("target", "suffix"), [("litert", ".tflite"), ("tosa", ".tosa.mlir")])
def test_formats_without_such_weights_refuse_them(target: str, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="weights a recipe stores in few bits"):
        export_program(quantized(target, weight_bits=8).propagated, tmp_path / f"model{suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("target", "suffix"), [("litert", ".tflite"), ("tosa", ".tosa.mlir")])
def test_formats_without_such_tables_refuse_them(target: str, suffix: str, tmp_path: Path) -> None:
    table = onnx.numpy_helper.from_array(np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32), "t")
    ids = onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, (5,))
    rows = onnx.helper.make_tensor_value_info("y", 1, (5, 4))
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gather", ["t", "ids"], ["y"])], "rows", [ids], [rows], [table]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    data, rules = [{"ids": np.arange(5)}], [{"op": "gather", "activations": "float"}]
    made = zp.quantize(model, data, target=target, effort="none", recipe={"rules": rules}).quantization
    assert made is not None
    with pytest.raises(ExportError, match="weights a recipe stores in few bits"):
        export_program(made.propagated, tmp_path / f"model{suffix}")
