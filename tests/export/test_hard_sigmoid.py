"""Hard sigmoids and hard swishes in onnxruntime, which has no integer kernel for either: QLinearAdd and QLinearMul."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from oracle.qdq import optimized
from zeropoint.check_target import check_rows
from zeropoint.interp import Interpreter

FUNCTIONS = {
    "HardSigmoid": "h = HardSigmoid<alpha=0.2, beta=0.45>(y)",
    "HardSwish": "h = HardSwish(y)",
    "x * relu6(x + 3) / 6": "a = Add(y, three)\n b = Clip(a, zero, six)\n c = Mul(y, b)\n h = Div(c, six)",
}
IMAGES = np.random.default_rng(1).normal(size=(24, 4, 5, 5)).astype(np.float32) * 2


def model(function: str) -> onnx.ModelProto:
    """The function between two convolutions."""
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[1,4,5,5] x) => (float[1,4,5,5] z) <float three = {{3.0}}, float six = {{6.0}}, float zero = {{0.0}}> {{
 y = Conv<pads=[1,1,1,1]>(x, w)
 {FUNCTIONS[function]}
 z = Conv<pads=[1,1,1,1]>(h, v)
}}""")
    random = np.random.default_rng(0)
    for name in "wv":
        weights = random.normal(size=(4, 4, 3, 3)).astype(np.float32) / 3
        made.graph.initializer.append(numpy_helper.from_array(weights, name))
    return made


def quantized(function: str) -> zp.Model:
    return zp.quantize(model(function), IMAGES[:8], target="onnxruntime", effort="fast")


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_node_of_the_exported_file_is_an_integer_kernel_with_our_bits(
    function: str, form: str, tmp_path: Path
) -> None:
    integers = quantized(function)
    integers.export(tmp_path / "model.onnx", onnx_format=form)
    session = optimized(onnx.load(tmp_path / "model.onnx"), signed=False)
    factor = [] if function == "HardSigmoid" else ["QLinearMul"]
    assert list(session.inner) == ["QLinearConv", "QLinearAdd", *factor, "QLinearConv"]
    for image in IMAGES:
        (found,) = session.run({"x": image[None]})
        (expected,) = integers({"x": image[None]}).values()
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_exported_file_is_imported_as_the_same_program(function: str, form: str, tmp_path: Path) -> None:
    """Its sum reads integers at another scale than the product does, which left them without a quantized type."""
    integers = quantized(function)
    integers.export(tmp_path / "model.onnx", onnx_format=form)
    again = zp.quantize(tmp_path / "model.onnx", target="onnxruntime")
    for image in IMAGES:
        (found,), (expected,) = (each({"x": image[None]}).values() for each in (again, integers))
        np.testing.assert_array_equal(found, expected)
    again.export(tmp_path / "again.onnx", onnx_format=form)
    kinds = [[node.op_type for node in onnx.load(tmp_path / name).graph.node] for name in ("model.onnx", "again.onnx")]
    assert kinds[0] == kinds[1]


def test_a_sum_that_leaves_0_to_1_is_no_hard_sigmoid() -> None:
    made = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
g (float[8] x) => (float[8] y) <float s = {0.25}, float t = {0.05}, float half = {0.5}, float wide = {0.01},
    uint8 z = {7}, uint8 one = {1}, uint8 nil = {0}> {
 q = QuantizeLinear(x, s, z)
 r = DequantizeLinear(q, t, z)
 c = DequantizeLinear(one, half, nil)
 a = Add(r, c)
 p = QuantizeLinear(a, wide, nil)
 y = DequantizeLinear(p, wide, nil)
}""")
    x = np.arange(-1.75, 62, 8, dtype=np.float32)
    (expected,) = optimized(made, signed=False).session.run(None, {"x": x})
    (found,) = Interpreter(zp.load(made).program)({"x": x}).values()
    assert found.max() > 2
    np.testing.assert_array_equal(found, expected)


def test_the_row_holds_for_every_storage_and_zero_point() -> None:
    findings = list(check_rows("onnxruntime", ["hard_sigmoid"]))
    assert findings
    assert {finding.outcome for finding in findings} == {"equal"}
