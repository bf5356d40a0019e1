"""Differences of quantized values in OpenVINO, which are float ops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

import zeropoint as zp
from export.text_networks import text_network
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.ir.tensors import Array

IMAGE = "(float[1,8,12,12] x, float[1,8,12,12] u) => (float[1,4,12,12] y)"
ROWS = "(float[1,30,8] x, float[1,30,8] u) => (float[1,30,4] y)"
CONV, MATMUL = {"w": (8, 8, 3, 3), "b": (8,), "v": (4, 8, 1, 1)}, {"w": (8, 8), "v": (8, 4)}
DIFFERENCES = {
    "a convolution minus an input": (IMAGE, CONV, "c = Conv<pads=[1,1,1,1]>(x, w, b)\n s = Sub(c, u)\n y = Conv(s, v)"),
    "an input minus a convolution": (IMAGE, CONV, "c = Conv<pads=[1,1,1,1]>(x, w, b)\n s = Sub(u, c)\n y = Conv(s, v)"),
    "a product minus an input": (ROWS, MATMUL, "c = MatMul(x, w)\n s = Sub(c, u)\n y = MatMul(s, v)"),
    "an input minus a product": (ROWS, MATMUL, "c = MatMul(x, w)\n s = Sub(u, c)\n y = MatMul(s, v)"),
}


def _network(name: str) -> tuple[ModelProto, list[dict[str, Array]]]:
    return text_network(*DIFFERENCES[name], deviation=0.3)


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("target", ["openvino", "openvino-vnni"])
def test_a_difference_reads_rounded_results(name: str, target: str, tmp_path: Path) -> None:
    """OpenVINO computed a difference in the convolution, without rounding its result: 36 % of the values were wrong."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    model, samples = _network(name)
    made = zp.quantize(model, samples, target=target, effort="none")
    made.export(tmp_path / "m.onnx")
    file, predict = OpenVinoFile(tmp_path / "m.onnx"), made.interpreted()
    for sample in samples:
        np.testing.assert_array_equal(file(sample)["y"], predict(**sample)["y"])


def test_a_constant_is_subtracted_without_reshapes(tmp_path: Path) -> None:
    model, samples = _network("a convolution minus an input")
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(np.full((1, 8, 1, 1), 0.3, np.float32), "u"))
    made = zp.quantize(model, [{"x": sample["x"]} for sample in samples], target="openvino", effort="none")
    made.export(tmp_path / "m.onnx")
    assert "Reshape" not in {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}
