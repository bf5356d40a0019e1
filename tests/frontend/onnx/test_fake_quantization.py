"""OpenVINO's FakeQuantize, as NNCF writes it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp

DRAWN = np.random.default_rng(3)
WEIGHTS = DRAWN.normal(0, 0.4, (5, 4)).astype(np.float32)
LIMITS = (np.abs(WEIGHTS).max(axis=1, keepdims=True) * np.float32(0.9)).astype(np.float32)
X = DRAWN.normal(0, 2, (6, 4)).astype(np.float32)


def model(levels: int = 256, low: float = -2.0, high: float = 3.1, out: float | None = None) -> onnx.ModelProto:
    """A product whose data, weights and result are fake quantized. The ranges are Constant nodes, as PyTorch writes."""
    ranges = {
        "low": np.float32(low),
        "high": np.float32(high),
        "out": np.float32(high if out is None else out),
        "least": -LIMITS,
        "most": LIMITS,
    }
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)) for name, array in ranges.items()
    ]
    for data, made, ends, count in (
        ("x", "a", ("low", "high", "low", "out"), levels),
        ("w", "k", ("least", "most", "least", "most"), 255),
        ("p", "y", ("low", "high", "low", "high"), 256),
    ):
        if made == "y":
            nodes.append(helper.make_node("Gemm", ["a", "k"], ["p"], transB=1))
        nodes.append(
            helper.make_node("FakeQuantize", [data, *ends], [made], domain="org.openvinotoolkit", levels=count)
        )
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [6, size]) for n, size in (("x", 4), ("y", 5))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(WEIGHTS, "w")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("org.openvinotoolkit", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def fake(x: np.ndarray, low: np.ndarray | float, high: np.ndarray | float, levels: int) -> np.ndarray:
    step = (np.float64(high) - np.float64(low)) / (levels - 1)
    return np.rint((np.clip(x, low, high) - low) / step) * step + low


def test_ranges_become_types() -> None:
    loaded = zp.load(model())
    expected = fake(fake(X, -2, 3.1, 256) @ fake(WEIGHTS, -LIMITS, LIMITS, 255).T, -2, 3.1, 256)
    np.testing.assert_allclose(loaded(X)["y"], expected, atol=1e-5)
    quantized = zp.quantize(loaded)
    assert np.abs(quantized(X)["y"] - expected).max() < 0.021
    assert np.mean(np.abs(quantized(X)["y"] - expected) < 1e-5) > 0.9


OTHERS = {
    "16 levels": model(levels=16),
    "0 is between two levels": model(low=-2.03),
    "0 is out of range": model(low=1.0),
    "another range of results": model(out=3.2),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_ranges_are_refused(case: str) -> None:
    with pytest.raises(zp.Error, match=r"^g: . nodes? (is|are) not supported: 'a' \(org.openvinotoolkit::FakeQuantize"):
        zp.load(OTHERS[case])
