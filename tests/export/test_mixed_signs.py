"""Files with u8 and i8 beside each other, imported without data, have onnxruntime's bits, also when exported again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import zeropoint as zp

onnxruntime = pytest.importorskip("onnxruntime", reason="the files' own runtime gives the expected bits")
KINDS = {"u8": np.uint8, "i8": np.int8}


def session(path: Path, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")  # the same kernels on every processor
    run = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return run.run(None, {"x": x})[0]


def linear(name: str, kind: str, scale: float | np.ndarray, point: int, constants: dict[str, np.ndarray]) -> list[str]:
    """The names of a scale and its zero point, which are added to the constants."""
    scales = np.asarray(scale, np.float32)
    constants |= {f"{name}_s": scales, f"{name}_z": np.full(scales.shape, point, KINDS[kind])}
    return [f"{name}_s", f"{name}_z"]


def check(nodes: list, constants: dict[str, np.ndarray], x: np.ndarray, shape: tuple[int, ...], folder: Path) -> None:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    paths = [folder / f"{name}.onnx" for name in ("given", "first", "second")]
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), paths[0])
    expected = session(paths[0], x)
    for given, made in pairwise(paths):
        program = zp.quantize(given, None, target="onnxruntime")
        np.testing.assert_array_equal(program(x=x)["y"], expected)
        program.export(made)
        np.testing.assert_array_equal(session(made, x), expected)


@pytest.mark.parametrize("result", ["u8", "i8"])
@pytest.mark.parametrize(("left", "right"), [("u8", "i8"), ("i8", "u8"), ("u8", "u8"), ("i8", "i8")])
@pytest.mark.parametrize("op", ["Mul", "Add"])
def test_a_product_of_two_types_is_one_of_floats(op: str, left: str, right: str, result: str, tmp_path: Path) -> None:
    """One or two of 192 products were a step off, those in the middle of two results."""
    random, constants = np.random.default_rng(0), dict[str, np.ndarray]()
    limits = np.iinfo(KINDS[right])
    constants["w_q"] = random.integers(limits.min, limits.max + 1, (64, 60)).astype(KINDS[right])
    a = linear("a", left, 0.03, np.iinfo(KINDS[left]).min, constants)
    w = linear("w", right, 0.02, limits.max, constants)
    y = linear("y", result, 0.05, np.iinfo(KINDS[result]).max, constants)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *a], ["a_q"]),
        helper.make_node("DequantizeLinear", ["a_q", *a], ["a"]),
        helper.make_node("DequantizeLinear", ["w_q", *w], ["w"]),
        helper.make_node(op, ["a", "w"], ["k"]),
        helper.make_node("QuantizeLinear", ["k", *y], ["y_q"]),
        helper.make_node("DequantizeLinear", ["y_q", *y], ["y"]),
    ]
    x = (random.integers(0, 256, (64, 60)) * 0.03).astype(np.float32)
    check(nodes, constants, x, (64, 60), tmp_path)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("weights", ["u8", "i8"])
@pytest.mark.parametrize("data", ["u8", "i8"])
@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_a_product_with_a_float_result(op: str, data: str, weights: str, per_channel: bool, tmp_path: Path) -> None:
    """onnxruntime has integer kernels for u8 weights beside u8 data, as exported files have; the program had floats."""
    random, constants = np.random.default_rng(0), dict[str, np.ndarray]()
    limits = np.iinfo(KINDS[weights])
    constants["w_q"] = random.integers(limits.min, limits.max + 1, (6, 4)).astype(KINDS[weights])
    scales = random.uniform(0.001, 0.01, 4).astype(np.float32) if per_channel else np.float32(0.003)
    a = linear("a", data, 0.03, 5, constants)
    w = linear("w", weights, scales, 128 if weights == "u8" else 0, constants)
    axis = {"axis": 1} if per_channel else {}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *a], ["a_q"]),
        helper.make_node("DequantizeLinear", ["a_q", *a], ["a"]),
        helper.make_node("DequantizeLinear", ["w_q", *w], ["w"], **axis),
    ]
    if op == "Gemm":
        constants |= {"b_q": random.integers(-3000, 3000, 4).astype(np.int32), "b_s": np.float32(0.03) * scales}
        nodes.append(helper.make_node("DequantizeLinear", ["b_q", "b_s"], ["b"], **({"axis": 0} if axis else {})))
    nodes.append(helper.make_node(op, ["a", "w", *(["b"] if op == "Gemm" else [])], ["y"]))
    x = random.normal(0, 2, (30, 6)).astype(np.float32)
    if data == "i8" and weights == "u8":
        pytest.skip("onnxruntime computes floats, whose sums have another order")
    check(nodes, constants, x, (30, 4), tmp_path)
