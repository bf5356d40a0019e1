"""Products of quantized files whose results are floats: the bits of onnxruntime and OpenVINO, clamped or not."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from oracle.qdq import optimized
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of

ROWS, TERMS, CHANNELS = 16, 24, 8
BODIES = {
    "a product with a bias": "y = Gemm(a, w, b)",
    "a relu": "g = Gemm(a, w, b)\n y = Relu(g)",
    "a clip": "g = Gemm(a, w, b)\n y = Clip(g, nil, six)",
    "a relu without a bias": "g = MatMul(a, w)\n y = Relu(g)",
}


def model(body: str) -> onnx.ModelProto:
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[{ROWS},{TERMS}] x) => (float y)
        <float s = {{0.0203}}, uint8 z = {{117}}, float t = {{0.003}}, int8 z8 = {{0}}, float nil = {{0}},
        float six = {{1.5}}>
        {{ q = QuantizeLinear(x, s, z)\n a = DequantizeLinear(q, s, z)\n w = DequantizeLinear(wq, t, z8)
        b = DequantizeLinear(bq, st)\n {body} }}""")
    drawn = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {"wq": drawn.integers(-127, 128, (TERMS, CHANNELS)).astype(np.int8)}
    arrays["bq"] = drawn.integers(-20_000, 20_000, CHANNELS).astype(np.int32)
    arrays["st"] = np.asarray(np.float32(0.0203) * np.float32(0.003))
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return made


X = np.random.default_rng(1).normal(0, 2, (ROWS, TERMS)).astype(np.float32)


def sums(quantized: zp.QuantizedModel) -> int:
    """The number of products whose sums are dequantized."""
    assert quantized.quantization is not None
    kinds = [op.output_specs.data[0] for op in regions_of(quantized.quantization.decided) if op.is_quantized]
    return sum(isinstance(kind, UniformQuantizedType) and kind.storage.type.width == 32 for kind in kinds)


@pytest.mark.parametrize("body", BODIES)
def test_onnxruntime_has_integer_sums_before_a_clamp_of_floats(body: str) -> None:
    """With a relu or a clip behind it, the product was one of floats."""
    made = model(BODIES[body])
    run = optimized(made)
    assert {"QGemm", "MatMulIntegerToFloat"} & {*run.ops}
    quantized = zp.quantize(zp.load(made), target="onnxruntime")
    assert sums(quantized) == 1
    (expected,), (found,) = run.run({"x": X}), quantized({"x": X}).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("body", BODIES)
def test_the_exported_file_has_the_same_bits(body: str, tmp_path: Path) -> None:
    quantized = zp.quantize(zp.load(model(BODIES[body])), target="onnxruntime")
    quantized.export(tmp_path / "m.onnx")
    (expected,), (found,) = optimized(onnx.load(tmp_path / "m.onnx")).run({"x": X}), quantized({"x": X}).values()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(next(iter(quantized.native()({"x": X}).values())), expected)


FACTORS = {
    "a product": "y = MatMul(a, w)",
    "a product that another product reads": "y = MatMul(a, w)\n e = MatMul(y, f)",
    "a product before a function": "g = MatMul(a, w)\n y = Abs(g)",
    "a relu of a convolution": "n = Unsqueeze(a, at)\n i = Transpose<perm=[0,2,1]>(n)\n"
    "v = DequantizeLinear(vq, t, z8)\n c = Conv(i, v)\n y = Relu(c)",
}


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO, an extra")
@pytest.mark.parametrize("body", FACTORS)
def test_the_one_scale_of_sums_without_a_bias_is_the_inverse_of_its_inverse(body: str, tmp_path: Path) -> None:
    """It is another number in f32 here. The last bits of up to two thirds of the results differed."""
    made = model(FACTORS[body])
    scale = np.float32(0.0203) * np.float32(0.003)
    assert 1 / (1 / scale) != scale
    drawn = np.random.default_rng(2)
    arrays = {"f": drawn.normal(0, 1, (CHANNELS, 4)).astype(np.float32), "at": np.array([0])}
    arrays["vq"] = drawn.integers(-127, 128, (CHANNELS, TERMS, 1)).astype(np.int8)
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    onnx.save(made, tmp_path / "m.onnx")
    (found,), (expected,) = (
        OpenVinoFile(tmp_path / "m.onnx")({"x": X}).values(),
        zp.quantize(zp.load(made), target="openvino")({"x": X}).values(),
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO, an extra")
@pytest.mark.parametrize("body", BODIES)
def test_openvino_has_the_predicted_bits(body: str, tmp_path: Path) -> None:
    onnx.save(made := model(BODIES[body]), tmp_path / "theirs.onnx")
    quantized = zp.quantize(zp.load(made), target="openvino")
    quantized.export(tmp_path / "ours.onnx")
    (expected,) = quantized({"x": X}).values()
    for name in ("theirs", "ours"):
        (found,) = OpenVinoFile(tmp_path / f"{name}.onnx")({"x": X}).values()
        np.testing.assert_array_equal(found, expected)


def test_a_product_that_onnxruntime_also_quantizes_stays_float() -> None:
    made = model("y = Gemm(a, w, b)\n p = QuantizeLinear(y, s, z)\n d = DequantizeLinear(p, s, z)")
    made.graph.output.append(onnx.helper.make_tensor_value_info("d", onnx.TensorProto.FLOAT, None))
    assert "Gemm" in optimized(made).ops
    assert sums(zp.quantize(zp.load(made), target="onnxruntime")) == 0
