"""Masks before softmax: -inf is legitimate, and so are -1e9 and the least f32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.text import print_program

LENGTH, WIDTH = 8, 16


def random(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def attention(form: str, hidden: float) -> onnx.ModelProto:
    """One head of causal attention; `form` says how the mask is put on."""
    causal = np.triu(np.ones((1, LENGTH, LENGTH), bool), 1)
    constants = {f"w{name}": random(WIDTH, WIDTH, seed=seed) * np.float32(0.4) for seed, name in enumerate("qkv")}
    nodes = [helper.make_node("MatMul", ["x", f"w{name}"], [name], name=name) for name in "qkv"]
    nodes.append(helper.make_node("Transpose", ["k"], ["t"], perm=[0, 2, 1], name="t"))
    nodes.append(helper.make_node("MatMul", ["q", "t"], ["scores"], name="scores"))
    if form == "add":
        constants["mask"] = np.where(causal, np.float32(hidden), np.float32(0))
        nodes.append(helper.make_node("Add", ["scores", "mask"], ["masked"], name="masked"))
    else:
        constants["mask"], constants["hidden"] = ~causal, np.array(hidden, np.float32)
        nodes.append(helper.make_node("Where", ["mask", "scores", "hidden"], ["masked"], name="masked"))
    nodes.append(helper.make_node("Softmax", ["masked"], ["p"], axis=-1, name="p"))
    nodes.append(helper.make_node("MatMul", ["p", "v"], ["y"], name="y"))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, LENGTH, WIDTH]) for name in "xy"]
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


DATA = [{"x": random(1, LENGTH, WIDTH, seed=seed)} for seed in range(10, 20)]
LEAST = float(np.finfo(np.float32).min)


@pytest.mark.parametrize("target", ["cpu", "litert"])
@pytest.mark.parametrize("form", ["add", "where"])
@pytest.mark.parametrize("hidden", [-np.inf, LEAST, -1e9])
def test_a_mask_does_not_destroy_the_scores(form: str, hidden: float, target: str, tmp_path: Path) -> None:
    onnx.save(attention(form, hidden), tmp_path / "m.onnx")
    network = zp.load(tmp_path / "m.onnx")
    integers = zp.quantize(network, DATA, target=target, effort="none")
    (output,) = zp.compare(network, integers, DATA).outputs
    assert output.sqnr > 24


def test_every_hidden_number_has_the_same_bound(tmp_path: Path) -> None:
    texts: set[str] = set()
    for hidden in (-np.inf, LEAST, -1e9, -1e4):
        onnx.save(attention("add", hidden), tmp_path / "m.onnx")
        integers = zp.quantize(zp.load(tmp_path / "m.onnx"), DATA, target="litert", effort="none")
        texts.add(print_program(integers.program, inline_weights=True))
    assert len(texts) == 1


def test_a_mask_that_is_near_is_left_alone(tmp_path: Path) -> None:
    onnx.save(attention("add", -3.0), tmp_path / "m.onnx")
    quantization = zp.quantize(zp.load(tmp_path / "m.onnx"), DATA, target="litert", effort="none").quantization
    assert quantization is not None
    program = quantization.calibrated
    arrays = [program.weights.array(op.value) for op in program.entry.ops if isinstance(op, ConstantOp)]
    assert any(a.shape == (1, LENGTH, LENGTH) and a.min() == -3 for a in arrays)
