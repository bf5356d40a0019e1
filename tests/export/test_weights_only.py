"""Float kernels whose weights a recipe stores in few bits: dequantized in ONNX and LiteRT files, refused for TOSA."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.export import ExportError, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend.litert.reader import read_model
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


@pytest.mark.parametrize("points", [True, False])
@pytest.mark.parametrize("stored", ["INT4", "UINT4", "INT8", "UINT8"])
def test_blocks_of_a_file_whose_last_block_is_shorter(stored: str, points: bool, tmp_path: Path) -> None:
    """40 rows in blocks of 16: the first export is in blocks of 8, with the same names; so is the second."""
    random, span = np.random.default_rng(0), 2 ** int(stored[-1])
    low = 0 if stored.startswith("U") else -span // 2
    kind = getattr(onnx.TensorProto, stored)
    integers = [
        onnx.helper.make_tensor(name, kind, shape, random.integers(low, low + span, shape).ravel().tolist())
        for name, shape in [("w", (40, 6)), *([("z", (3, 6))] if points else [])]
    ]
    scales = onnx.numpy_helper.from_array(random.uniform(0.01, 0.1, (3, 6)).astype(np.float32), "s")
    names = [tensor.name for tensor in (integers[0], scales, *integers[1:])]
    nodes = [
        onnx.helper.make_node("DequantizeLinear", names, ["d"], axis=0, block_size=16),
        onnx.helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    ports = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (3, 40)), ("y", (3, 6)))]
    graph = onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:], [*integers, scales])
    paths = [tmp_path / f"{name}.onnx" for name in ("given", "first", "second")]
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), paths[0])
    x = {"x": random.normal(0, 1, (3, 40)).astype(np.float32)}
    for given, made in pairwise(paths):
        rule = {"name": "y", "activations": "float"}
        zp.quantize(given, None, target="onnxruntime", recipe={"rules": [rule]}).export(made)
    assert paths[1].read_bytes() == paths[2].read_bytes()
    assert "w" in {tensor.name for tensor in onnx.load(paths[1]).graph.initializer}
    expected, found = (onnx.reference.ReferenceEvaluator(onnx.load(path)).run(None, x)[0] for path in paths[:2])
    np.testing.assert_array_equal(found, expected)


FORMS: list[tuple[dict[str, object], int]] = [
    ({"weight_bits": 8}, 1),
    ({"weight_bits": 8, "weight_symmetric": False}, 1),
    ({"weight_bits": 8, "granularity": "per_tensor"}, 1),
    ({"weight_bits": 4}, 2),
    ({"weight_bits": 4, "block_size": 32}, 2),
    ({"weight_bits": 4, "block_size": 32, "weight_symmetric": False}, 2),
]
"""Demands, and the weights in a byte of the file."""


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize(("demands", "per_byte"), FORMS)
def test_litert_dequantizes_stored_weights(
    demands: dict[str, object], per_byte: int, *, reference: bool, tmp_path: Path
) -> None:
    result = quantized("litert", **demands)
    export_program(result.propagated, tmp_path / "m.tflite")
    model = read_model((tmp_path / "m.tflite").read_bytes())
    dequantized = [operator for operator in model.operators if operator.name == "DEQUANTIZE"]
    assert len(dequantized) == 2
    assert (tmp_path / "m.tflite").stat().st_size < 2 * 64 * 96 // per_byte + 8000
    found = LiteRTFile(tmp_path / "m.tflite", reference=reference)(sample())["y"]
    np.testing.assert_allclose(found, Interpreter(result.quantized)(sample())["y"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [(8, 4, 3, 3), (8, 4, 1, 1), (12, 1, 3, 3)])
def test_litert_dequantizes_the_weights_of_convolutions(window: tuple[int, ...], tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    held = [onnx.numpy_helper.from_array(random.normal(0, 0.2, window).astype(np.float32), "w")]
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[window[2] // 2] * 4, group=4 // window[1])
    ports = [onnx.helper.make_tensor_value_info("x", 1, (1, 4, 6, 5))]
    graph = onnx.helper.make_graph([node], "g", ports, [onnx.helper.make_tensor_value_info("y", 1, None)], held)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    data = {"x": random.normal(0, 1, (1, 4, 6, 5)).astype(np.float32)}
    kernel = "depthwise_convolution" if window[1] == 1 else "convolution"
    rules = {"rules": [{"op": kernel, "activations": "float"}]}
    result = zp.quantize(model, [data], target="litert", effort="none", recipe=rules).quantization
    assert result is not None
    export_program(result.propagated, tmp_path / "m.tflite")
    assert "DEQUANTIZE" in {operator.name for operator in read_model((tmp_path / "m.tflite").read_bytes()).operators}
    found = LiteRTFile(tmp_path / "m.tflite")(data)["y"]
    np.testing.assert_allclose(found, Interpreter(result.quantized)(data)["y"], rtol=1e-5, atol=1e-5)


def test_tosa_refuses_such_weights(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="weights a recipe stores in few bits"):
        export_program(quantized("tosa", weight_bits=8).propagated, tmp_path / "model.tosa.mlir")
    assert not list(tmp_path.iterdir())


def _rows(target: str) -> Quantization:
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
    return made


def test_tosa_refuses_such_tables(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="weights a recipe stores in few bits"):
        export_program(_rows("tosa").propagated, tmp_path / "model.tosa.mlir")


def test_litert_gathers_stored_rows(tmp_path: Path) -> None:
    result = _rows("litert")
    export_program(result.propagated, tmp_path / "m.tflite")
    data = {"ids": np.array([3, 0, 8, 8, 1])}
    found = LiteRTFile(tmp_path / "m.tflite")(data)["y"]
    np.testing.assert_array_equal(found, Interpreter(result.quantized)(data)["y"])
