"""Forms of operators that newer opsets no longer have: compared with onnxruntime from opset 7 on, with NumPy before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from frontend.onnx.models import assert_same_as_onnxruntime, load, one_op, random
from zeropoint.interp import run

RESIZED = {
    "Resize-10-smaller": (10, (1, 1, 0.6, 0.6), {"mode": "nearest"}),
    "Resize-10-larger": (10, (1, 1, 1.7, 2.4), {"mode": "nearest"}),
    "Resize-10-both": (10, (1, 1, 0.7, 2.4), {"mode": "nearest"}),
    "tf-smaller": (11, (1, 1, 0.6, 0.7), {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}),
    "tf-larger": (12, (1, 1, 1.7, 2), {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}),
}


@pytest.mark.parametrize("name", RESIZED)
def test_nearest_neighbours_of_old_resizes(name: str, tmp_path: Path) -> None:
    opset, scales, attributes = RESIZED[name]
    constants = {"roi": np.zeros(0, np.float32)} if opset > 10 else {}
    constants["scales"] = np.array(scales, np.float32)
    proto = one_op("Resize", {"x": (1, 2, 7, 9)}, constants, opset=opset, **attributes)
    assert_same_as_onnxruntime(proto, tmp_path)


def test_the_case_of_opset_10_in_onnx_s_suite(tmp_path: Path) -> None:
    scales = {"scales": np.array([1, 1, 0.6, 0.6], np.float32)}
    program = load(one_op("Resize", {"x": (1, 1, 2, 4)}, scales, opset=10, mode="nearest"), tmp_path)
    image = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    np.testing.assert_array_equal(run(program, {"x": image})["y0"], [[[[1, 3]]]])


BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "Or": np.logical_or,
    "Pow": np.power,
}


@pytest.mark.parametrize(("shape", "axis"), [((3, 4), 1), ((3,), 1), ((4, 5), None), ((5,), -1)])
@pytest.mark.parametrize("op_type", BINARY)
def test_dimensions_are_broadcast_from_an_axis(
    op_type: str, shape: tuple[int, ...], axis: int | None, tmp_path: Path
) -> None:
    a, b = np.round(random(2, 3, 4, 5, low=0.5, high=3)), np.round(random(*shape, seed=1))
    if op_type == "Equal":
        a, b = a.astype(np.int32), b.astype(np.int32)
    elif op_type == "Or":
        a, b = a > 1, b > 0
    attributes = {"broadcast": 1} if axis is None else {"broadcast": 1, "axis": axis}
    proto = one_op(op_type, {"a": a, "b": b}, opset=1 if op_type != "Pow" else 6, **attributes)
    start = a.ndim - b.ndim if axis in (None, -1) else axis
    wide = b.reshape([1] * start + list(b.shape) + [1] * (a.ndim - start - b.ndim))
    found = run(load(proto, tmp_path), {"a": a, "b": b})["y0"]
    np.testing.assert_allclose(found, BINARY[op_type](a, wide), rtol=1e-5)


def test_a_constant_exponent_is_broadcast(tmp_path: Path) -> None:
    x = random(2, 3)
    program = load(one_op("Pow", {"x": (2, 3)}, {"two": np.array([2], np.float32)}, opset=6, broadcast=1), tmp_path)
    np.testing.assert_array_equal(run(program, {"x": x})["y0"], x * x)


@pytest.mark.parametrize("opset", [1, 6])
def test_dropout_in_inference_is_the_identity(opset: int, tmp_path: Path) -> None:
    x = random(2, 3)
    program = load(one_op("Dropout", {"x": (2, 3)}, opset=opset, is_test=1, ratio=0.3), tmp_path)
    np.testing.assert_array_equal(run(program, {"x": x})["y0"], x)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
def test_a_sequence_output_needs_no_statement(op_type: str, tmp_path: Path) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type]
    weights = {"w": random(1, gates * 4, 3, seed=1), "r": random(1, gates * 4, 4, seed=2)}
    made = [
        load(one_op(op_type, {"x": (5, 2, 3)}, weights, opset=opset, hidden_size=4, **stated), tmp_path)
        for opset, stated in ((3, {"output_sequence": 1}), (7, {}))
    ]
    x = random(5, 2, 3, seed=3)
    old, new = (run(program, {"x": x})["y0"] for program in made)
    np.testing.assert_array_equal(old, new)
