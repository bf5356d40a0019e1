"""Attention masks that a model selects from truth values, causal and of padding, as PyTorch exports them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp

LENGTH, WIDTH = 8, 16
HIDDEN = [-np.inf, float(np.finfo(np.float32).min), -10000.0]


def random(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def attention(form: str, hidden: float) -> onnx.ModelProto:
    """One head: `softmax(scores + where(causal & keep != 0, 0, hidden))`, or `softmax(where(..., scores, hidden))`."""
    constants: dict[str, np.ndarray] = {
        f"w{name}": random(WIDTH, WIDTH, seed=seed) * np.float32(0.4) for seed, name in enumerate("qkv")
    }
    constants |= {"nothing": np.array(0), "zero": np.array(0, np.float32), "hidden": np.array(hidden, np.float32)}
    constants["causal"] = np.tril(np.ones((1, LENGTH, LENGTH), np.bool_))
    steps = [("MatMul", ["x", f"w{name}"], name) for name in "qkv"]
    steps += [("Transpose", ["k"], "t"), ("MatMul", ["q", "t"], "scores")]
    steps += [
        ("Equal", ["keep", "nothing"], "padding"),
        ("Not", ["padding"], "kept"),
        ("And", ["kept", "causal"], "see"),
    ]
    if form == "add":
        steps += [("Where", ["see", "zero", "hidden"], "added"), ("Add", ["scores", "added"], "masked")]
    else:
        steps += [("Where", ["see", "scores", "hidden"], "masked")]
    steps += [("Softmax", ["masked"], "p"), ("MatMul", ["p", "v"], "y")]
    options: dict[str, dict[str, Any]] = {"Transpose": {"perm": [0, 2, 1]}, "Softmax": {"axis": -1}}
    nodes = [helper.make_node(kind, read, [name], name=name, **options.get(kind, {})) for kind, read, name in steps]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, LENGTH, WIDTH]) for name in "xy")
    keep = helper.make_tensor_value_info("keep", TensorProto.INT64, [1, 1, LENGTH])
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [x, keep], [y], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples() -> list[dict[str, np.ndarray]]:
    keeps = (np.arange(LENGTH) < np.arange(2, 12)[:, None]).astype(np.int64)
    return [{"x": random(1, LENGTH, WIDTH, seed=10 + n), "keep": keep[None, None]} for n, keep in enumerate(keeps)]


@pytest.mark.parametrize("target", ["cpu", "cpu-integer", "litert", "onnxruntime"])
@pytest.mark.parametrize("form", ["add", "select"])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_selected_mask_leaves_the_scores_their_precision(form: str, hidden: float, target: str) -> None:
    """An added mask of -inf had the range [0, 0], so it hid nothing: 0 dB were left."""
    model, data = attention(form, hidden), samples()
    (output,) = zp.compare(model, zp.quantize(model, data, target=target, effort="none"), data).outputs
    assert output.sqnr > 24


@pytest.mark.parametrize("form", ["add", "select"])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_selected_mask_is_integers_only(form: str, hidden: float) -> None:
    """The selection of 0 and -inf was a float op."""
    model, data = attention(form, hidden), samples()
    integers = zp.quantize(model, data, target="cpu-integer", effort="none", integer_only=True)
    native = integers.native()
    for sample in data:
        np.testing.assert_array_equal(native(**sample)["y"], integers(**sample)["y"])
