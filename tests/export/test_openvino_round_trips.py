"""Files for OpenVINO, imported without data and exported again, are the same file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import zeropoint as zp
from export.text_networks import text_network

IMAGE = "(float[1,8,12,12] x, float[1,8,12,12] u) => (float[1,4,12,12] y)"
WEIGHTS = {"w": (8, 8, 3, 3), "b": (8,), "v": (4, 8, 1, 1)}
NETWORKS = {
    "a convolution minus an input": (
        IMAGE,
        WEIGHTS,
        "c = Conv<pads=[1,1,1,1]>(x, w, b)\n s = Sub(c, u)\n y = Conv(s, v)",
    ),
    "an input minus a convolution": (
        IMAGE,
        WEIGHTS,
        "c = Conv<pads=[1,1,1,1]>(x, w, b)\n s = Sub(u, c)\n y = Conv(s, v)",
    ),
    "two convolutions": (
        "(float[1,8,12,12] x) => (float[1,4,12,12] y, float[1,4,12,12] z)",
        {"w": (4, 8, 1, 1), "v": (4, 8, 1, 1)},
        "p = Conv(x, w)\n q = Conv(x, v)\n y = Sub(p, q)\n z = Sub(q, p)",
    ),
    "a product minus its maximum": (
        "(float[1,30,8] x) => (float[1,30,4] y, float[1,30,8] z)",
        {"w": (8, 8), "v": (8, 4)},
        "c = MatMul(x, w)\n m = ReduceMax<axes=[2]>(c)\n z = Sub(c, m)\n y = MatMul(z, v)",
    ),
    "numbers of channels minus a convolution": (
        "(float[1,8,12,12] x, float[8,1,1] u) => (float[1,4,12,12] y)",
        WEIGHTS,
        "c = Conv<pads=[1,1,1,1]>(x, w, b)\n s = Sub(u, c)\n t = Relu(s)\n y = Conv(t, v)",
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("target", ["openvino", "openvino-vnni"])
def test_a_file_is_the_same_after_an_import(name: str, target: str, tmp_path: Path) -> None:
    """Differences that are kept apart from a convolution got casts around the reshapes before them."""
    model, samples = text_network(*NETWORKS[name], deviation=0.3)
    first = zp.quantize(model, samples, target=target, effort="none")
    first.export(tmp_path / "first.onnx")
    second = zp.quantize(tmp_path / "first.onnx", target=target)
    second.export(tmp_path / "second.onnx")
    assert (tmp_path / "first.onnx").read_bytes() == (tmp_path / "second.onnx").read_bytes()
    expected, found = (each.interpreted()(**samples[0]) for each in (first, second))
    for output, array in expected.items():
        np.testing.assert_array_equal(found[output], array)


@pytest.mark.parametrize("name", ["p/clip", "q/clip", "p/expand", "q/clip/clip"])
def test_a_value_has_the_name_of_a_clip(name: str, tmp_path: Path) -> None:
    """The cast before a concatenation is named after what it casts, without the clip that the exporter adds."""
    weights = {"w": (4, 4, 1, 1), "v": (8, 8, 1, 1)}
    body = "p = Conv(x, w)\n r = Relu(p)\n q = Concat<axis=1>(r, x)\n y = Conv(q, v)"
    model, samples = text_network("(float[1,4,6,6] x) => (float[1,8,6,6] y)", weights, body)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [name if found == "p" else found for found in names]
    zp.quantize(model, samples, target="openvino", effort="none").export(tmp_path / "first.onnx")
    zp.quantize(tmp_path / "first.onnx", target="openvino").export(tmp_path / "second.onnx")
    assert (tmp_path / "first.onnx").read_bytes() == (tmp_path / "second.onnx").read_bytes()


@pytest.mark.parametrize("producer", ["", "zeropoint"])
def test_a_difference_of_another_model_between_reshapes_keeps_them(producer: str) -> None:
    """Its name ends as those that zeropoint writes for OpenVINO, which add one dimension."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x, float[6] y) => (float[36] r)
        <int64[2] s = {6, 1}, int64[2] t = {1, 6}, int64[1] u = {36}>
        { a = Reshape(x, s) b = Reshape(y, t) c = Sub(a, b) r = Reshape(c, u) }""")
    model.graph.node[2].name, model.producer_name = "d/apart", producer
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=np.float32) * 10
    (found,) = zp.load(model)({"x": x, "y": y}).values()
    np.testing.assert_array_equal(found, (x.reshape(6, 1) - y).reshape(36))
