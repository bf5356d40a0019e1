"""Quantizing and dequantizing arrays by a type: every granularity, against exact rational arithmetic."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import bf16, f64

from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.quant.evaluate import dequantize, quantize

I8 = Storage.of("i8")


def test_the_blocks_of_the_document_get_their_own_parameters(parse_type):
    # The 3x4 example: elements [0][0] and [0][1] use s00, [0][2] and [0][3] use s01, and so on.
    quantized = parse_type("!quant.uniform<i8:f32:{0:1,1:2}, {{1.0:0,2.0:1},{4.0:2,8.0:3},{16.0:4,32.0:5}}>")
    found = dequantize(np.full((3, 4), 10, np.int8), quantized)
    np.testing.assert_array_equal(found, [[10, 10, 18, 18], [32, 32, 56, 56], [96, 96, 160, 160]])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(quantize(found, quantized), np.full((3, 4), 10))


def test_an_axis_without_a_block_size_has_one_block(parse_type):
    quantized = parse_type("!quant.uniform<i8:f32:{0:3}, {{1.0},{3.0}}>")
    np.testing.assert_array_equal(
        dequantize(np.ones((6, 2), np.int8), quantized), np.repeat([[1.0, 1.0], [3.0, 3.0]], 3, axis=0)
    )
    whole = parse_type("!quant.uniform<i8:f32:{}, {{2.0}}>")
    np.testing.assert_array_equal(dequantize(np.ones((6, 2), np.int8), whole), np.full((6, 2), 2.0))


def test_channels_of_the_document_get_their_own_scale(parse_type):
    quantized = parse_type("!quant.uniform<i8:f32:1, {3.0,4.0,5.0}>")
    found = dequantize(np.ones((2, 3, 4), np.int8), quantized)
    np.testing.assert_array_equal(found[:, :, 0], [[3, 4, 5]] * 2)


@given(
    st.lists(st.floats(-200, 200, width=16), min_size=6, max_size=6),
    st.sampled_from(["i4", "u8", "si8", "ui16", "i32", "u32"]),
    st.sampled_from([0.5, 0.25, 2.0]),
    st.integers(0, 7),
)
def test_quantize_rounds_half_to_even_after_the_zero_point(values, storage, scale, zero_point):
    quantized = UniformQuantizedType.per_layer(Storage.of(storage), scale, zero_point, expressed_type=f64)
    found = quantize(np.array(values), quantized)
    # Powers of two and f64 leave every step but the rounding exact.
    low, high = quantized.storage.range
    expected = [min(max(round(Fraction(x) / Fraction(scale) + zero_point), low), high) for x in values]
    assert found.dtype == quantized.storage.dtype
    assert [int(q) for q in found] == expected
    back = dequantize(found, quantized)
    assert [Fraction(float(x)) for x in back] == [(q - zero_point) * Fraction(scale) for q in expected]


def test_a_scalar_is_an_array_without_dimensions():
    quantized = UniformQuantizedType.per_layer(I8, 0.5, 3)
    assert quantize(1.0, quantized).shape == ()
    assert int(quantize(1.0, quantized)) == 5
    assert float(dequantize(np.int8(5), quantized)) == 1.0


@pytest.mark.parametrize(("profile", "expected"), [("float32-rne", 4), ("onnxruntime", 3), ("upstream", 3)])
def test_the_profile_decides_a_tie(profile, expected):
    assert int(quantize(0.5, UniformQuantizedType.per_layer(I8, 1.0, 3), profile)) == expected


def test_arithmetic_is_in_the_expressed_type():
    quantized = UniformQuantizedType.per_layer(Storage.of("i16"), 0.1, expressed_type=bf16)
    found = dequantize(np.array([1, 3, 1000], np.int16), quantized)
    scale = np.array(0.1, ml_dtypes.bfloat16)
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found, np.array([1, 3, 1000]).astype(ml_dtypes.bfloat16) * scale)


def test_float_storage_clamps_and_rounds_to_its_numbers(parse_type):
    quantized = parse_type("!quant.uniform<f8E4M3FN<-10:10>:f32, 2.0>")
    found = quantize(np.array([1.0, 2.1, 50.0, -np.inf, np.nan], np.float32), quantized)
    assert found.dtype == ml_dtypes.float8_e4m3fn
    np.testing.assert_array_equal(found.astype(np.float32), [0.5, 1.0, 10.0, -10.0, 0.0])
    np.testing.assert_array_equal(dequantize(found, quantized), [1.0, 2.0, 20.0, -20.0, 0.0])


def test_quantiles_take_the_nearest_value_and_the_first_of_two(parse_type):
    quantized = parse_type("!quant.uniform<!quant.quantile<si8:f32, {-1.0,0.0,1.0,0.0}, <-1:2>>:f32, 2.0>")
    reals = np.array([-9.0, -2.0, -1.0, 0.1, 1.0, 1.1, 9.0], np.float32)
    np.testing.assert_array_equal(quantize(reals, quantized), [-1, -1, -1, 0, 0, 1, 1])
    np.testing.assert_array_equal(dequantize(np.array([-1, 0, 1, 2]), quantized), [-2.0, 0.0, 2.0, 0.0])
    with pytest.raises(ValueError, match=r"found stored numbers 3\.\.3, expected -1\.\.2"):
        dequantize(np.array([3]), quantized)


def test_quantiles_of_bit_patterns_are_refused(parse_type):
    values = ",".join(["0.0"] * 256)
    quantized = parse_type(f"!quant.uniform<!quant.quantile<f8E5M2:f32, {{{values}}}>:f32, 2.0>")
    with pytest.raises(TypeError, match="belong to bit patterns"):
        dequantize(np.array([0.0]), quantized)


@pytest.mark.parametrize(
    ("text", "shape", "sentence"),
    [
        ("!quant.uniform<i8:f32:1, {1.0,2.0}>", (2,), "quantized dimension must be less than tensor rank"),
        ("!quant.uniform<i8:f32:0, {1.0,2.0}>", (3,), "quantized dimension size does not match number of scales"),
        ("!quant.uniform<i8:f32:0, {1.0,2.0}>", (), "scalar types may not use per-axis quantization"),
        ("!quant.uniform<i8:f32:{0:4}, {{1.0}}>", (6, 2), "must be divisible by the corresponding block size 4"),
    ],
)
def test_a_shape_that_the_type_does_not_fit_is_refused(parse_type, text, shape, sentence):
    with pytest.raises(ValueError, match=sentence):
        quantize(np.zeros(shape), parse_type(text))


def test_a_type_that_numpy_does_not_have_is_refused(parse_type):
    with pytest.raises(TypeError, match="found expressed type f80, which NumPy does not have"):
        quantize(0.0, parse_type("!quant.uniform<i8:f80, 1.0>"))


@pytest.mark.parametrize(
    ("part", "whole"), [("i8<0:15>", "i8"), ("i8<0:127>", "i8"), ("u8<0:15>", "u8"), ("i16<-100:100>", "i16")]
)
@pytest.mark.parametrize("scale", [0.1, 0.037])
def test_profile_openvino_takes_the_range_of_the_type_for_a_part_of_it(part: str, whole: str, scale: float) -> None:
    # Taken for u8, i8<0:15> had other integers at ties: the range of the type has a part in each rounding.
    ties = ((np.arange(-20, 140) + 0.5) * scale).astype(np.float32)
    near = np.concatenate([ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))])
    narrow, full = (UniformQuantizedType.per_layer(Storage.of(text), scale, 3) for text in (part, whole))
    expected = np.clip(quantize(near, full, "openvino"), narrow.storage.minimum, narrow.storage.maximum)
    np.testing.assert_array_equal(quantize(near, narrow, "openvino"), expected)
