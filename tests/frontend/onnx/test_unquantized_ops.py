"""Quantized files whose ops are not all between casts: what onnxruntime computes in floats, and with which bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from oracle.qdq import optimized
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.regions import regions_of
from zeropoint.solve.quantized_files.keep_unquantized import WHY
from zeropoint.targets import target

NUMBERS = """float s = {0.0625}, float t = {0.03125}, float half = {0.5},
    float[4] f = {1.5, 0.5, 1.0, 2.0}, float[4] g = {-0.25, 0.5, 0.0, 1.0}, float[4] v = {0.5, 1.5, 1.0, 2.5},
    uint8 z = {100}, uint8 y0 = {7}, uint8 nil = {0},
    uint8[4] fq = {200, 90, 140, 255}, uint8[1,4,1,1] cq = {3, 50, 200, 120},
    float odd = {0.0371}, int8 w0 = {0}, int64[1] l = {1}, int64[1] u = {2}"""
READ = "q = QuantizeLinear(x, s, z)\n a = DequantizeLinear(q, s, z)\n"
WRITE = "p = QuantizeLinear(r, t, y0)\n y = DequantizeLinear(p, t, y0)"
WEIGHTS = "k = DequantizeLinear(wq, t, w0)\n c = Conv<pads=[1,1,1,1]>(a, k)\n"
STORED = np.arange(256, dtype=np.float32).reshape(1, 4, 8, 8)
X = (STORED - 100) * np.float32(0.0625)
BODIES = {
    "a hard swish": "r = HardSwish(a)",
    "a hard sigmoid": "r = HardSigmoid<alpha=0.2, beta=0.45>(a)",
    "a product by a factor without a type": "h = Sigmoid(a)\n r = Mul(a, h)",
    "a sum of a value without a type": "h = Relu(a)\n r = Add(a, h)",
    "a concatenation of a value without a type": "h = Neg(a)\n j = Concat<axis=1>(a, h)\n r = Slice(j, l, u, l)",
    "a convolution without a type": WEIGHTS + "r = Relu(c)\n d = Neg(c)\n m = Add(r, d)",
    "a type behind a transpose": WEIGHTS + "r = Transpose<perm=[0,2,3,1]>(c)",
    "a type behind a transpose and a max pool": WEIGHTS + "m = MaxPool<kernel_shape=[2,2]>(c)\n r = Transpose(m)",
    "a type behind a transpose, before which an op reads it": "l2 = QuantizeLinear(x, odd, z)\n"
    "b = DequantizeLinear(l2, odd, z)\n"
    "i = Add(a, b)\n j = MaxPool<kernel_shape=[2,2]>(i)\n k = Transpose(j)\n h = Sigmoid(k)\n"
    "o = QuantizeLinear(k, odd, z)\n d = DequantizeLinear(o, odd, z)\n r = Add(d, h)",
    "a batch norm with parameters that are dequantized": "fd = DequantizeLinear(fq, t, nil)\n"
    "r = BatchNormalization(a, fd, g, g, v)",
    "a moved value that is read beside its cast": "m = Slice(a, l, u, l)\n n = GlobalAveragePool(m)\n"
    "j = QuantizeLinear(m, odd, z)\n b = DequantizeLinear(j, odd, z)\n o = QuantizeLinear(n, s, z)\n"
    "d = DequantizeLinear(o, s, z)\n r = Mul(b, d)",
    "a value of one type that is read beside its cast to another": "e = QuantizeLinear(a, odd, z)\n"
    "d = DequantizeLinear(e, odd, z)\n r = Add(a, d)",
    "a float that is quantized to two types": "n = Neg(a)\n h = HardSigmoid(n)\n e = QuantizeLinear(h, odd, z)\n"
    "d = DequantizeLinear(e, odd, z)\n v8 = QuantizeLinear(h, t, y0)\n f8 = DequantizeLinear(v8, t, y0)\n"
    "r = Add(d, f8)",
    "a mean of windows that ceil_mode adds": "r = AveragePool<kernel_shape=[3,2], strides=[2,3], ceil_mode=1,"
    "count_include_pad=1, pads=[1,0,1,0]>(a)",
    "a float that is read beside its cast": "n = Mul(x, half)\n m = QuantizeLinear(n, t, z)\n"
    "b = DequantizeLinear(m, t, z)\n o = Mul(a, b)\n op = QuantizeLinear(o, s, z)\n od = DequantizeLinear(op, s, z)\n"
    "r = Sub(n, od)",
}


def model(body: str) -> onnx.ModelProto:
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,8,8] x) => (float y) <{NUMBERS}> {{ {READ}{body}\n{WRITE} }}""")
    weights = np.random.default_rng(0).integers(-60, 60, (4, 4, 3, 3)).astype(np.int8)
    made.graph.initializer.append(numpy_helper.from_array(weights, "wq"))
    return made


def test_weights_that_the_file_quantizes_by_channels_have_a_kernel() -> None:
    """Their scales are several, not one that is repeated."""
    made = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[5,4] x) => (float y)
        <float s = {0.0625}, uint8 z = {100}, float[4] odd = {0.0371, 0.02, 0.01, 0.05}, int8[4] w0 = {0, 0, 0, 0}>
        { q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)
        v = QuantizeLinear<axis=1>(w, odd, w0)  b = DequantizeLinear<axis=1>(v, odd, w0)
        n = MatMul(a, b)  p = QuantizeLinear(n, s, z)  y = DequantizeLinear(p, s, z) }""")
    drawn = np.random.default_rng(0)
    made.graph.initializer.append(numpy_helper.from_array(drawn.normal(0, 1, (4, 4)).astype(np.float32), "w"))
    x = drawn.normal(0, 2, (5, 4)).astype(np.float32)
    (expected,) = optimized(made).run({"x": x})
    quantized = zp.quantize(zp.load(made), target="onnxruntime")
    np.testing.assert_array_equal(quantized({"x": x})["y"], expected)
    assert not any(FLOAT_REASON in region.attributes for region in regions_of(quantized.quantization.propagated))


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_a_constant_per_channel_keeps_the_type_that_the_file_gives_it(op: str) -> None:
    """Its dimensions of size 1 were dropped, and its type with them: it got one by its values."""
    made = model(f"b = DequantizeLinear(cq, odd, z)\n r = {op}(a, b)")
    (expected,) = optimized(made).run({"x": X})
    (found,) = zp.quantize(zp.load(made), target="onnxruntime")({"x": X}).values()
    np.testing.assert_array_equal(found, expected)


def test_moved_numbers_keep_their_type_up_to_the_cast_of_the_file() -> None:
    """A Flatten between two types got a third one, and a rounding more."""
    moves = "m = GlobalMaxPool(b)\n r = Flatten(m)"
    made = model(f"o = QuantizeLinear(x, odd, z)\n b = DequantizeLinear(o, odd, z)\n {moves}")
    x = np.random.default_rng(0).normal(0, 1, (1, 4, 8, 8)).astype(np.float32)
    (expected,) = optimized(made).run({"x": x})
    quantized = zp.quantize(zp.load(made), target="onnxruntime")
    (found,) = quantized({"x": x}).values()
    np.testing.assert_array_equal(found, expected)
    kernels = [region.logical_kernel.data for region in regions_of(quantized.quantization.propagated)]
    assert kernels.count("rescale") == 1


@pytest.mark.parametrize("body", BODIES)
def test_what_onnxruntime_computes_in_floats_stays_float_and_has_its_bits(body: str) -> None:
    made = model(BODIES[body])
    (expected,) = optimized(made).run({"x": X})
    (found,) = zp.quantize(zp.load(made), target="onnxruntime")({"x": X}).values()
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 8


def test_weights_with_a_scale_per_term_stay_float() -> None:
    """They were an internal error, or got the scales of channels where there are as many."""
    made = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[5,4] x) => (float y)
        <float s = {0.0625}, uint8 z = {100}, float[4] odd = {0.0371, 0.02, 0.01, 0.05}, int8[4] w0 = {0, 0, 0, 0}>
        { q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  w = DequantizeLinear<axis=0>(wq, odd, w0)
        n = MatMul(a, w)  p = QuantizeLinear(n, s, z)  y = DequantizeLinear(p, s, z) }""")
    drawn = np.random.default_rng(0)
    made.graph.initializer.append(numpy_helper.from_array(drawn.integers(-99, 99, (4, 4)).astype(np.int8), "wq"))
    x = drawn.normal(0, 2, (5, 4)).astype(np.float32)
    (expected,) = optimized(made).run({"x": x})
    quantized = zp.quantize(zp.load(made), target="onnxruntime")
    (found,) = quantized({"x": x}).values()
    np.testing.assert_array_equal(found, expected)
    (reason,) = {
        str(region.attributes[FLOAT_REASON].data)
        for region in regions_of(quantized.quantization.propagated)
        if FLOAT_REASON in region.attributes
    }
    assert "dimension 1 of its weights; they are pinned to one per index of dimension 0" in reason


def test_the_type_of_a_sum_and_the_type_behind_its_transpose_round_one_after_the_other() -> None:
    """The sum had the second type, and did not saturate as in the first."""
    made = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,8,8] x) => (float y)
        <float s = {0.0625}, uint8 z = {100}, float odd = {0.0371}, float wide = {0.0613}, uint8 y0 = {90}>
        { q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  n = Add(a, a)
        o = QuantizeLinear(n, odd, z)  d = DequantizeLinear(o, odd, z)  r = Transpose(d)
        p = QuantizeLinear(r, wide, y0)  y = DequantizeLinear(p, wide, y0) }""")
    (expected,) = optimized(made).run({"x": X})
    (found,) = zp.quantize(zp.load(made), target="onnxruntime")({"x": X}).values()
    np.testing.assert_array_equal(found, expected)


RESIZES = {
    "rows and columns": 'Resize<mode="linear">(a, , sizes)',
    "one dimension": 'Resize<mode="linear", coordinate_transformation_mode="asymmetric">(a, , columns)',
    "rounded corners": 'Resize<mode="linear", coordinate_transformation_mode="align_corners">(a, , fractions)',
    "the same size": 'Resize<mode="linear">(a, , little)',
}


@pytest.mark.parametrize("op", RESIZES)
def test_a_linear_resize_of_a_quantized_file_has_the_bits_of_onnxruntime(op: str) -> None:
    """Products with matrices rounded elsewhere, and a cast took the next integer in the middle of two."""
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,7,6] x) => (float y)
        <float s = {{0.00364}}, int8 z = {{-33}}, float[4] sizes = {{1.0, 1.0, 1.5, 2.0}},
        float[4] columns = {{1.0, 1.0, 1.0, 1.7}}, float[4] fractions = {{1.0, 1.0, 0.6, 1.3}},
        float[4] little = {{1.0, 1.0, 1.1, 1.0}}>
        {{ q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  r = {RESIZES[op]}
        p = QuantizeLinear(r, s, z)  y = DequantizeLinear(p, s, z) }}""")
    x = np.random.default_rng(1).normal(0, 0.3, (1, 3, 7, 6)).astype(np.float32)
    (expected,) = optimized(made).run({"x": x})
    (found,) = zp.quantize(zp.load(made), target="onnxruntime")({"x": x}).values()
    np.testing.assert_array_equal(found, expected)


LOADED = {
    "Conv": ((3, 4, 3, 3), "c = Conv(a, w, b)"),
    "Conv without a bias": ((3, 4, 3, 3), "c = Conv(a, w)"),
    "ConvTranspose": ((4, 3, 2, 2), "c = ConvTranspose<strides=[2,2]>(a, w, b)"),
    "Gemm": (
        (256, 3),
        "e = Flatten(a)\n eq = QuantizeLinear(e, s, z)\n d = DequantizeLinear(eq, s, z)\n c = Gemm(d, w, b)",
    ),
}


@pytest.mark.parametrize("op", LOADED)
def test_float_weights_that_onnxruntime_quantizes_when_it_loads_a_file_have_its_numbers(op: str) -> None:
    shape, body = LOADED[op]
    made = model(f"{body}\n r = Relu(c)" if op != "ConvTranspose" else f"{body}\n r = Identity(c)")
    drawn = np.random.default_rng(2)
    for name, array in (("w", drawn.normal(0, 0.05, shape)), ("b", drawn.normal(0, 0.3, 3))):
        made.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    x = drawn.normal(0, 2, (1, 4, 8, 8)).astype(np.float32)
    (expected,) = optimized(made).run({"x": x})
    (found,) = zp.quantize(zp.load(made), target="onnxruntime")({"x": x}).values()
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 2


def test_a_kernel_before_a_type_that_is_stated_behind_a_transpose_is_an_integer_kernel() -> None:
    made = zp.quantize(zp.load(model(BODIES["a type behind a transpose"])), target="onnxruntime")
    assert all(region.is_quantized for region in regions_of(made.quantization.propagated))


def test_a_value_that_is_read_beside_its_cast_to_another_type_is_read_by_integer_kernels() -> None:
    made = zp.quantize(
        zp.load(model(BODIES["a value of one type that is read beside its cast to another"])), target="onnxruntime"
    )
    assert all(region.is_quantized for region in regions_of(made.quantization.propagated))


def test_the_reason_says_that_the_file_does_not_quantize_the_value(tmp_path: Path) -> None:
    made = zp.quantize(zp.load(model(BODIES["a hard swish"])), target="onnxruntime")
    reasons = {str(region.attributes[FLOAT_REASON].data) for region in regions_of(made.quantization.propagated)}
    assert reasons == {WHY}


def test_with_data_every_value_has_a_type() -> None:
    made = zp.quantize(zp.load(model(BODIES["a hard swish"])), X, target="onnxruntime", effort="none")
    assert all(region.is_quantized for region in regions_of(made.quantization.propagated))


@pytest.mark.parametrize(
    ("name", "expected"), [("onnxruntime", True), ("openvino", True), ("litert", True), ("cpu", False)]
)
def test_targets_whose_runtime_quantizes_between_casts_say_so(name: str, expected: bool) -> None:
    assert target(name).between_casts is expected


TRANSPOSED = {
    "one scale": ("k = DequantizeLinear(wq, t, w0)", ""),
    "a scale per channel": ("k = DequantizeLinear<axis=1>(wq, ts, ws)", ""),
    "groups with one scale": ("k = DequantizeLinear(wq, t, w0)", "group=2,"),
    "groups with a scale per channel of a group": (
        "k = DequantizeLinear<axis=1>(wq, ts, ws)",
        "group=2, strides=[2,2],",
    ),
}


@pytest.mark.parametrize("case", TRANSPOSED)
@pytest.mark.parametrize("relu", [False, True])
def test_the_bias_of_a_transposed_convolution_is_rounded_as_by_onnxruntime(case: str, relu: bool) -> None:
    """Only biases beside float weights were: those of ConvTranspose in files with quantized weights had other bits."""
    weights, group = TRANSPOSED[case]
    channels = 8 if group else 4
    between = "h = Relu(c)\n p = QuantizeLinear(h, t, y0)" if relu else "p = QuantizeLinear(c, t, y0)"
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,8,8] x) => (float y, float j)
        <float s = {{0.0625}}, float t = {{0.03125}}, uint8 z = {{100}}, uint8 y0 = {{117}}, int8 w0 = {{0}},
        float[4] ts = {{0.03125, 0.0625, 0.125, 0.25}}, int8[4] ws = {{0, 0, 0, 0}}>
        {{ q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  {weights}
        c = ConvTranspose<{group} kernel_shape=[3,3]>(a, k, b)  {between}
        y = DequantizeLinear(p, t, y0)  j = ConvTranspose<{group} kernel_shape=[3,3]>(a, k, b) }}""")
    random = np.random.default_rng(0)
    made.graph.initializer.extend(
        (
            numpy_helper.from_array(random.integers(-3, 4, (4, 4, 3, 3)).astype(np.int8), "wq"),
            # Rounded to steps of the products, these are in the middle of two results.
            numpy_helper.from_array((random.integers(-9, 9, channels) / 32 + 0.0148).astype(np.float32), "b"),
        )
    )
    x = random.normal(0, 1, (1, 4, 8, 8)).astype(np.float32)
    expected = optimized(made).run({"x": x})
    found = zp.quantize(zp.load(made), target="onnxruntime")({"x": x})
    for wanted, value in zip(expected, found.values(), strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_the_weights_of_a_transposed_convolution_in_groups_keep_their_integers() -> None:
    """A reshape dropped their type, so that `cpu` rounded them again to scales of its own."""
    made = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,5,5] x) => (float y)
        <float s = {0.0625}, uint8 z = {100}, uint8 y0 = {117}, float[2] ts = {0.013, 0.0371}, int8[2] ws = {0, 0}>
        { q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  k = DequantizeLinear<axis=1>(wq, ts, ws)
        c = ConvTranspose<group=2, strides=[2,2], kernel_shape=[3,3]>(a, k)  p = QuantizeLinear(c, s, y0)
        y = DequantizeLinear(p, s, y0) }""")
    random = np.random.default_rng(0)
    made.graph.initializer.append(numpy_helper.from_array(random.integers(-99, 99, (4, 2, 3, 3)).astype(np.int8), "wq"))
    found = zp.quantize(zp.load(made))
    (region,) = regions_of(found.quantization.propagated)
    np.testing.assert_array_equal(region.input_specs.data[1].scales, np.float32([0.013, 0.0371, 0.013, 0.0371]))
    x = random.normal(0, 1, (1, 4, 5, 5)).astype(np.float32)
    (expected,) = optimized(made).run({"x": x})
    assert np.mean(found({"x": x})["y"] == expected) > 0.98


def test_weights_that_the_file_quantizes_in_the_middle_of_two_integers_are_rounded_in_f32() -> None:
    """As in training that is aware of quantization: their greatest magnitude is 127.5 scales. It is -128, not -127."""
    made = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,8,8] x) => (float y)
        <float s = {0.03}, uint8 z = {128}, float t = {0.02}, uint8 y0 = {120}>
        { q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)
        wq = QuantizeLinear<axis=0>(w, ws, wz)  v = DequantizeLinear<axis=0>(wq, ws, wz)
        c = Conv<kernel_shape=[3,3]>(a, v)  p = QuantizeLinear(c, t, y0)  y = DequantizeLinear(p, t, y0) }""")
    random = np.random.default_rng(0)
    weights = random.normal(0, 0.3, (64, 3, 3, 3)).astype(np.float32)
    scales = np.abs(weights).max((1, 2, 3)) / np.float32(127.5)
    arrays = {"w": weights, "ws": scales, "wz": np.zeros(64, np.int8)}
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    x = random.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
    (expected,) = optimized(made).run({"x": x})
    (found,) = zp.quantize(zp.load(made), target="onnxruntime")({"x": x}).values()
    np.testing.assert_array_equal(found, expected)
