"""Whole models: names, values and import time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from frontend.onnx.models import assert_same_as_onnxruntime, inputs_of, model, random, tensor
from zeropoint.comparison import compare
from zeropoint.frontend import load_model
from zeropoint.ir.locations import location_text
from zeropoint.model import Model
from zeropoint.pipeline import quantize
from zeropoint.report.explain import explain

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples/digits/digits.onnx"
EFFICIENTNET = ROOT / "bench/.cache/efficientnet_lite0.onnx"

needs_efficientnet = pytest.mark.skipif(
    not EFFICIENTNET.exists(), reason="bench/models/efficientnet_lite0.py has not been run"
)


def test_digits_computes_what_onnxruntime_does(tmp_path: Path) -> None:
    images = np.load(DIGITS.with_name("test.npz"))["image"][:4].astype(np.float32)
    for image in images:
        sample = {"image": image.reshape(1, 1, 28, 28)}
        assert_same_as_onnxruntime(onnx.load(DIGITS), tmp_path, sample, tolerance=1e-4)


def test_every_node_of_digits_that_computes_is_a_location() -> None:
    program = load_model(DIGITS)
    found = {location_text(op.location) for op in program.entry.ops}
    nodes = [node for node in onnx.load(DIGITS).graph.node if node.op_type not in ("Constant", "Identity")]
    assert {node.name for node in nodes} <= found


@needs_efficientnet
def test_efficientnet_computes_what_onnxruntime_does(tmp_path: Path) -> None:
    inputs = inputs_of(load_model(EFFICIENTNET))
    assert_same_as_onnxruntime(onnx.load(EFFICIENTNET), tmp_path, inputs, tolerance=1e-4)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("stacked", [False, True])
def test_a_constant_on_the_left_of_a_stack_of_matrices_is_quantized(batch: int, stacked: bool, tmp_path: Path) -> None:
    """A filter bank before a spectrum is a matrix, and a weight with channels."""
    weight = random(1, 4, 5) if stacked else random(4, 5)
    node = helper.make_node("MatMul", ["w", "x"], ["y"], name="bank")
    proto = model([node], [tensor("x", (batch, 5, 6))], [tensor("y", None)], {"w": weight})
    program = assert_same_as_onnxruntime(proto, tmp_path)
    data = [{"x": random(batch, 5, 6, seed=seed)} for seed in range(8)]
    result = quantize(program, data)
    assert not explain(result.integer).float_ops
    assert compare(Model(program), Model(result.integer), data).outputs[0].sqnr > 35
