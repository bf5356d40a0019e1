"""Quantized .onnx files, imported, exported and imported again: onnxruntime and the second program give the numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from oracle.qdq import optimized
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.export.onnx.runtime import OnnxFile

NUMBERS = """float s = {0.0371}, float t = {0.0213}, float u = {0.00392}, float v = {0.0029}, uint8 z = {100},
    uint8 y0 = {37}, uint8 nil = {0}, int8 w0 = {0}, float[4] f = {1.5, 0.5, 1.0, 2.0}, float half = {0.5},
    float[4] g = {-0.25, 0.5, 0.0, 1.0}, float[4] h = {0.5, 1.5, 1.0, 2.5}, int8[4] bq = {-90, 3, 127, 55},
    float sixth = {0.16666667}, float zero = {0.0}, float one = {1.0}, float wide = {0.36628333}"""
READ = "q = QuantizeLinear(x, s, z)\n a = DequantizeLinear(q, s, z)\n"
BODIES = {
    "a transposed convolution": "r = ConvTranspose<strides=[2,2]>(a, k)",
    "a transposed convolution with a bias": "r = ConvTranspose<strides=[2,2]>(a, k, g)",
    "a transposed convolution in groups": "r = ConvTranspose<strides=[2,2], group=2>(a, k)",
    "a convolution and a batch norm": "c = Conv<pads=[1,1,1,1]>(a, k)\n r = BatchNormalization(c, f, g, g, h)",
    "a convolution and a factor": "c = Conv(a, k)\n r = Mul(c, half)",
    "a convolution with a bias of 8 bits": "b = DequantizeLinear(bq, v, w0)\n r = Conv(a, k, b)",
    "a convolution of a function": "n = Tanh(a)\n m = QuantizeLinear(n, u, z)\n o = DequantizeLinear(m, u, z)\n"
    "r = ConvTranspose(o, k, g)",
}


def model(body: str) -> onnx.ModelProto:
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,8,8] x) => (float y) <{NUMBERS}>
    {{ {READ} k = DequantizeLinear(wq, u, w0)
    {body}
    p = QuantizeLinear(r, t, y0)  y = DequantizeLinear(p, t, y0) }}""")
    weights = np.random.default_rng(0).integers(-60, 60, (4, 4, 3, 3)).astype(np.int8)
    made.graph.initializer.append(numpy_helper.from_array(weights, "wq"))
    return made


@pytest.mark.parametrize("body", BODIES)
def test_products_that_stay_float_are_not_rounded_by_onnxruntime(body: str, tmp_path: Path) -> None:
    """It quantized their weights, biases or results, because it read the data as integers of one scale."""
    made = model(BODIES[body])
    x = {"x": ((np.random.default_rng(5).integers(0, 256, (1, 4, 8, 8)) - 100).astype(np.float32) * np.float32(0.0371))}
    (expected,) = optimized(made).run(x)
    first = zp.quantize(zp.load(made), target="onnxruntime")
    np.testing.assert_array_equal(first(x)["y"], expected)
    first.export(tmp_path / "y.onnx")
    (again,) = optimized(onnx.load(tmp_path / "y.onnx")).run(x)
    np.testing.assert_array_equal(again, expected)
    second = zp.quantize(zp.load(tmp_path / "y.onnx"), target="onnxruntime")
    np.testing.assert_array_equal(second(x)["y"], expected)


def test_a_hard_sigmoid_of_three_nodes_has_no_kernel(tmp_path: Path) -> None:
    """So is one written that stays float. It became the kernel of a sum, which is a step off at some integers."""
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[256] x) => (float y) <{NUMBERS}>
    {{ {READ.replace(", s, z", ", wide, z")}
    m = Mul(a, sixth)  n = Add(m, half)  r = Clip(n, zero, one)
    p = QuantizeLinear(r, u, nil)  y = DequantizeLinear(p, u, nil) }}""")
    x = {"x": (np.arange(256, dtype=np.float32) - 100) * np.float32(0.36628333)}
    for scale in np.linspace(0.003, 0.004, 40):
        u = next(tensor for tensor in made.graph.initializer if tensor.name == "u")
        u.CopyFrom(numpy_helper.from_array(np.float32(scale), "u"))
        (expected,) = optimized(made).run(x)
        quantized = zp.quantize(zp.load(made), target="onnxruntime")
        np.testing.assert_array_equal(quantized(x)["y"], expected)


def test_a_product_of_stored_weights_whose_result_is_a_float_runs(tmp_path: Path) -> None:
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[3,4,4] x) => (float[3,4,4] y)
    <{NUMBERS}> {{ {READ} k = DequantizeLinear(wq, u, w0)  y = MatMul(a, k) }}""")
    made.graph.initializer.append(numpy_helper.from_array(np.arange(-8, 8, dtype=np.int8).reshape(4, 4), "wq"))
    x = {"x": np.linspace(-4, 4, 48, dtype=np.float32).reshape(3, 4, 4)}
    first = zp.quantize(zp.load(made), target="onnxruntime")
    first.export(tmp_path / "y.onnx")
    (found,) = optimized(onnx.load(tmp_path / "y.onnx")).run(x)
    np.testing.assert_allclose(found, first(x)["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"onnx_format": "qoperator"}])
def test_both_types_of_a_rescale_round(options: dict[str, str], tmp_path: Path) -> None:
    """onnxruntime made one pair of casts of two: the maximum was rounded to a type between the two."""
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,8,8] x) => (float y) <{NUMBERS}>
    {{ {READ} k = DequantizeLinear(wq, u, w0)  c = Conv(a, k)
    d = QuantizeLinear(c, s, z)  e = DequantizeLinear(d, s, z)  m = MaxPool<kernel_shape=[2,2]>(e)
    n = QuantizeLinear(m, wide, z)  o = DequantizeLinear(n, wide, z)  r = Conv(o, k)
    p = QuantizeLinear(r, wide, z)  y = DequantizeLinear(p, wide, z) }}""")
    weights = np.random.default_rng(0).integers(-60, 60, (4, 4, 3, 3)).astype(np.int8)
    made.graph.initializer.append(numpy_helper.from_array(weights, "wq"))
    x = {"x": np.random.default_rng(5).normal(0, 2, (1, 4, 8, 8)).astype(np.float32)}
    (expected,) = optimized(made).run(x)
    first = zp.quantize(zp.load(made), target="onnxruntime")
    np.testing.assert_array_equal(first(x)["y"], expected)
    first.export(tmp_path / "y.onnx", **options)
    (again,) = optimized(onnx.load(tmp_path / "y.onnx")).run(x)
    np.testing.assert_array_equal(again, expected)
    second = zp.quantize(zp.load(tmp_path / "y.onnx"), target="onnxruntime")
    np.testing.assert_array_equal(second(x)["y"], expected)


MOVED_BY_CHANNEL = {
    "a shuffle of channels": "r0 = Reshape(d, apart)  r1 = Transpose<perm=[0,2,1,3,4]>(r0)  r = Reshape(r1, flat)",
    "depth to space": "r = DepthToSpace<blocksize=2>(d)",
    "a shuffle before a convolution": "r0 = Reshape(d, apart)  r1 = Transpose<perm=[0,2,1,3,4]>(r0)\n"
    "r2 = Reshape(r1, flat)  k = DequantizeLinear(wq, u, w0)  r = Conv<group=4>(r2, k)",
}


@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", MOVED_BY_CHANNEL)
def test_moved_values_with_a_scale_per_channel_need_no_data(name: str, target: str, tmp_path: Path) -> None:
    """They were refused, because the second move had a value without a type."""
    pytest.importorskip("openvino")
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,6,6] x) => (float y)
    <{NUMBERS}, int64[5] apart = {{1,2,2,6,6}}, int64[4] flat = {{1,4,6,6}}, float[4] c = {{0.01,0.02,0.033,0.04}}>
    {{ q = QuantizeLinear<axis=1>(x, c, bq)  d = DequantizeLinear<axis=1>(q, c, bq)
    {MOVED_BY_CHANNEL[name]}
    p = QuantizeLinear(r, t, y0)  y = DequantizeLinear(p, t, y0) }}""")
    random = np.random.default_rng(0)
    weights = random.integers(-60, 60, (4, 1, 3, 3)).astype(np.int8)
    made.graph.initializer.append(numpy_helper.from_array(weights, "wq"))
    onnx.save(made, tmp_path / "x.onnx")
    first = zp.quantize(tmp_path / "x.onnx", target=target)
    first.export(tmp_path / "y.onnx")
    run = OnnxFile if target == "onnxruntime" else OpenVinoFile
    x = {"x": random.normal(0, 2, (1, 4, 6, 6)).astype(np.float32)}
    for path in (tmp_path / "x.onnx", tmp_path / "y.onnx"):
        np.testing.assert_array_equal(run(path)(x)["y"], first(x)["y"])
