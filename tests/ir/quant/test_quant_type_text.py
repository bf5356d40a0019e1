"""Text of the quantized types: round trips, upstream's sentences at upstream's place, the same from C++ MLIR."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import bf16, f16, f32, f64, f80, f128
from xdsl.utils.exceptions import ParseError, VerifyException

from zeropoint.ir.floats import FORMATS, format_double, format_float, round_to
from zeropoint.ir.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    QuantileType,
    Storage,
    UniformQuantizedType,
)

NF4 = (
    "-1.000000e+00,-0.69619280099868774,-0.52507305145263672,-0.39491748809814453,-0.28444138169288635,"
    "-0.18477343022823334,-0.091050036251544952,0.000000e+00,0.07958029955625534,0.16093020141124725,"
    "0.24611230194568634,0.33791524171829224,0.44070982933044434,0.56261700391769409,0.72295683622360229,"
    "1.000000e+00"
)

# Text as upstream prints it.
PRINTED = [
    "!quant.uniform<i8:f32, 3.000000e+00>",
    "!quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>",
    "!quant.uniform<i8:f32:1, {3.000000e+00,4.000000e+00,5.000000e+00}>",
    "!quant.uniform<u16:f32:0, {2.000000e+00:10,3.000000e+00:20}>",
    "!quant.uniform<i8<-127:127>:f32, 0.037564418067230126:35>",
    "!quant.uniform<i8:f32, 0x416FFFFFE0000000>",
    "!quant.uniform<i8:f64, 9.9999999999999992E-41:-3>",
    "!quant.uniform<i8:f32, 0.998>",
    "!quant.uniform<i32:f32, 1.000000e-10>",
    "!quant.uniform<u32:f80, 1.000000e+00:4294967295>",
    "!quant.uniform<i1:bf16, 5.000000e-01>",
    "!quant.uniform<si8<-127:127>:f16, 5.000000e-01>",
    "!quant.uniform<ui4:tf32, 5.000000e-01:15>",
    "!quant.uniform<f8E4M3FN:f32, 1.000000e+00>",
    "!quant.uniform<f8E5M2<-10:10>:f32, 1.000000e+00>",
    "!quant.uniform<f4E2M1FN:f128, 1.000000e+00>",
    "!quant.uniform<i8:f8E8M0FNU, 1.000000e+00>",
    "!quant.uniform<i8:f32:{0:1, 1:2}, {{1.000000e+00:1, 2.000000e+00:2}, {3.000000e+00:-3, 4.000000e+00}}>",
    "!quant.uniform<i8:f32:{}, {{1.000000e+00}}>",
    "!quant.uniform<i4:bf16:{1:32}, {{1.000980e-01, 3.339840e-01}}>",
    "!quant.uniform<i8:f32:{1:2, 0:3}, {{0.333333343}, {2.000000e+00}}>",
    "!quant.uniform<i8:f80:{}, {0.299999999999999988898}>",
    "!quant.uniform<u4:f128:{0:1}, {2.500000e-01, 9.99999999999999954748111825886258685E-7}>",
    "!quant.uniform<!quant.quantile<ui1:f16, {-1.000000e+00,1.000000e+00}>:f32, 1.000000e+00:1>",
    "!quant.any<i8>",
    "!quant.any<u8<1:7>>",
    "!quant.any<i8<-8:7>:f32>",
    "!quant.any<f8E5M2:bf16>",
    "!quant.calibrated<f32<-0.998:1.232100e+00>>",
    "!quant.calibrated<f16<-1.000000e+300:1.000000e+300>>",
    "!quant.quantile<ui1:f16, {-1.000000e+00,1.000000e+00}>",
    "!quant.quantile<si8:f32, {-1.000000e+00,0.000000e+00,1.000000e+00}, <-1:1>>",
    f"!quant.quantile<ui4:f16, {{{NF4}}}>",
]

# What upstream refuses, at which column, with which sentence.
REFUSED = [
    # The storage type and its bounds.
    ("!quant.uniform<int8<-4:3>:f32, 1.0>", 16, "illegal storage type prefix"),
    ("!quant.uniform<f32:f32, 1.0>", 16, "illegal storage type prefix"),
    ("!quant.uniform<index:f32, 1.0>", 16, "illegal storage type prefix"),
    ("!quant.uniform<!quant.any<i8>:f32, 1.0>", 16, "illegal storage type prefix"),
    ("!quant.uniform<u:f32, 1.0>", 16, "expected storage type width"),
    ("!quant.uniform<u8x:f32, 1.0>", 16, "expected storage type width"),
    ("!quant.uniform<>", 16, "expected valid keyword"),
    ("!quant.uniform<i33:f32, 1.0>", 16, "illegal storage type size: 33"),
    ("!quant.uniform<i16777216:f32, 1.0>", 16, "integer bitwidth is limited to 16777215 bits"),
    ("!quant.uniform<i123123123120:f32, 1.0>", 16, "invalid integer width"),
    ("!quant.uniform<u0:f32, 1.0>", 16, "illegal storage type size: 0"),
    ("!quant.uniform<ui33:f32, 1.0>", 16, "illegal storage type size: 33"),
    ("!quant.uniform<i4<-9:1>:f32, 1.0>", 19, "illegal storage type minimum: -9"),
    ("!quant.uniform<i4<-1:9>:f32, 1.0>", 22, "illegal storage type maximum: 9"),
    ("!quant.uniform<f8E4M3FN<-449:10>:f32, 1.0>", 25, "illegal storage type minimum: -449"),
    ("!quant.uniform<i8<2:1>:f32, 1.0>", 8, "illegal storage min and storage max: (2:1)"),
    ("!quant.uniform<i8<1:1>:f32, 1.0>", 8, "illegal storage min and storage max: (1:1)"),
    ("!quant.uniform<i8<16>:f32, 1.0>", 21, "expected ':'"),
    ("!quant.uniform<i8<1.0:2>:f32, 1.0>", 19, "expected integer value"),
    ("!quant.uniform<i8<99999999999999999999:1>:f32, 1.0>", 19, "integer value too large"),
    # The expressed type.
    ("!quant.uniform<i8 f32, 1.0>", 18, "expected ':'"),
    ("!quant.uniform<i8:f33, 1.0>", 19, "expected non-function type"),
    ("!quant.uniform<i8:i8, 1.0>", 19, "invalid kind of type specified"),
    ("!quant.uniform<i8:f32 1.0>", 22, "expected ','"),
    # Scale and zero point.
    ("!quant.uniform<i8:f32, abc>", 24, "expected floating point literal"),
    ("!quant.uniform<i8:f32, 1>", 24, "unexpected decimal integer literal for a floating point value"),
    ("!quant.uniform<i8:f32, -0x10>", 25, "hexadecimal float literal should not have a leading minus"),
    ("!quant.uniform<i8:f32, 1.0:>", 28, "expected integer value"),
    ("!quant.uniform<i8:f32, 1.0:9223372036854775808>", 28, "integer value too large"),
    ("!quant.uniform<i8:f32, 1.0:1 2>", 29, "expected '>'"),
    (
        "!quant.uniform<i8:f32, -1.0>",
        28,
        "scale -1.000000e+00 out of expressed type range [1.401298e-45, 3.402823e+38]",
    ),
    (
        "!quant.uniform<i8:f16, 6.6e4>",
        29,
        "scale 6.600000e+04 out of expressed type range [5.960464e-08, 6.550400e+04]",
    ),
    (
        "!quant.uniform<i8:f16, 5.8e-8>",
        30,
        "scale 5.800000e-08 out of expressed type range [5.960464e-08, 6.550400e+04]",
    ),
    ("!quant.uniform<i8:f64, 1.0e400>", 31, "scale INF out of expressed type range [4.940656e-324, 1.797693e+308]"),
    # Axes, blocks, lists.
    ("!quant.uniform<i8:f32:, {1.0}>", 23, "expected integer value"),
    ("!quant.uniform<i8:f32:- {1.0}>", 24, "expected integer value"),
    ("!quant.uniform<i8:f32:-1, {2.0,3.0:1}>", 8, "illegal quantized dimension: -1"),
    ("!quant.uniform<i8:f32:2147483648, {1.0}>", 23, "integer value too large"),
    ("!quant.uniform<i8:f32:0, 1.0>", 25, "expected '{'"),
    ("!quant.uniform<i8:f32:0, {}>", 27, "expected floating point literal"),
    (
        "!quant.uniform<i8:f32:1, {1.0,0.0}>",
        34,
        "scale 0.000000e+00 out of expressed type range [1.401298e-45, 3.402823e+38]",
    ),
    ("!quant.uniform<i8:f32:{0:0}, {{1.0}}>", 8, "illegal block size: 0"),
    ("!quant.uniform<i8:f32:{-1:0}, {{1.0}}>", 8, "illegal quantized dimension: -1"),
    ("!quant.uniform<i8:f32:{0}, {{1.0}}>", 25, "expected ':'"),
    ("!quant.uniform<i8:f32:{0:1,}, {{1.0}}>", 28, "expected integer value"),
    (
        "!quant.uniform<i8:f32:{0:1}, {{1.0},{2.0, 3.0}}>",
        47,
        "tensor literal is invalid; ranks are not consistent between elements",
    ),
    # Brackets.
    ("!quant.uniform", 14, "expected '<'"),
    ("!quant.uniform<i8<1:2:f32, 1.0>", 15, "unbalanced '<' character in pretty dialect name"),
    ("!quant.uniform<i8:f32:0, {1.0>", 15, "unbalanced '{' character in pretty dialect name"),
    ("!quant<uniform<i8<-4:3:f32, 1.0:1>>", 7, "unbalanced '<' character in pretty dialect name"),
    ("!quant<any<i8<-4:3:f32>>", 7, "unbalanced '<' character in pretty dialect name"),
    ("!quant<uniform<i8:f32, 0.1abc>>", 27, "expected '>'"),
    # Names that there are not.
    ("!quant.foobar", 8, "unknown quantized type foobar"),
    ("!quant.__", 8, "unknown quantized type __"),
    ("!quant<foobar<i8>>", 8, "unknown quantized type foobar"),
    # The other types.
    ("!quant.any<i8<2:1>:f32>", 8, "illegal storage min and storage max: (2:1)"),
    ("!quant.any<i8:i8>", 15, "invalid kind of type specified"),
    ("!quant.any<i8, f32>", 14, "expected '>'"),
    ("!quant.calibrated<f32<1.0:1.0>>", 8, "illegal min and max: (1.000000e+00:1.000000e+00)"),
    ("!quant.calibrated<f32>", 22, "expected '<'"),
    ("!quant.calibrated<i8<1.0:2.0>>", 19, "invalid kind of type specified"),
    ("!quant.quantile<tensor<1xf32>:f32, {1.0}>", 8, "storage type must be an integer or float type"),
    ("!quant.quantile<ui4:index, {1.0}>", 8, "quantile type must be a float or integer type"),
    ("!quant.quantile<ui4:f16, {}>", 8, "quantile values must not be empty"),
    (
        "!quant.quantile<ui4:f16, {-1.0,0.0,1.0}>",
        8,
        "quantile LUT size (3) must equal the number of representable storage values (16)",
    ),
    ("!quant.quantile<si4:f32, {-2.0}, <5:3>>", 8, "storage min must be less than storage max"),
    ("!quant.quantile<ui1:f16, {0x7FF0000000000000,1.0}>", 8, "quantile values must be finite (no NaN or infinity)"),
]

# What we refuse and upstream accepts: see docs/upstream-differences.md.
REFUSED_BY_US = [
    ("!quant.uniform<i8:f32, 1.0:300>", 8, "zero point 300 out of storage type range [-128, 127]"),
    ("!quant.uniform<u8:f32:0, {1.0:-1}>", 8, "zero point -1 out of storage type range [0, 255]"),
    (
        "!quant.uniform<i8:f64, 0x7FF8000000000000>",
        42,
        "scale nan out of expressed type range [4.940656e-324, 1.797693e+308]",
    ),
    ("!quant.uniform<i8:f80, 0.0>", 27, "scale 0.000000e+00 out of expressed type range [0.000000e+00, INF]"),
    ("!quant.uniform<i8:f32:{0:1,0:2}, {{1.0}}>", 8, "quantized dimension 0 has more than one block size"),
    ("!quant.calibrated<f64<0x7FF8000000000000:1.0>>", 8, "illegal min and max: (nan:1.000000e+00)"),
    ("!quant.uniform<i8:f32, 1.0:true>", 28, "expected integer value"),
    ("!quant<any<i8> x>", 16, "Expected '>'"),
    (
        "!quant.quantile<i65:f32, {1.0, 2.0}>",
        8,
        "quantile LUT size (2) must equal the number of representable storage values (2^65)",
    ),
]

# Other spellings of one type.
SPELLINGS = [
    ("!quant.uniform< i8 < -8 : 7 > : f32 , 1.0 : 3 >", "!quant.uniform<i8<-8:7>:f32, 1.000000e+00:3>"),
    ("!quant.uniform<i8<-128:127>:f32, 1.5e3>", "!quant.uniform<i8:f32, 1.500000e+03>"),
    ("!quant.uniform<ui8<0:255>:f32, 1.>", "!quant.uniform<ui8:f32, 1.000000e+00>"),
    ("!quant.uniform<i8<0x10:0x20>:f64, 0x3FF0000000000000:-0>", "!quant.uniform<i8<16:32>:f64, 1.000000e+00>"),
    ("!quant.uniform<i8:f32:0, {{1.0},{2.0:3}}>", "!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00:3}>"),
    ("!quant<uniform<i8:f32, 1.0>>", "!quant.uniform<i8:f32, 1.000000e+00>"),
    ("!quant.uniform<i8:f16:{0:1}, {{0.1}}>", "!quant.uniform<i8:f16:{0:1}, {{9.997550e-02}}>"),
]


@pytest.mark.parametrize("text", PRINTED)
def test_what_is_printed_reads_back_as_itself(parse_type, text):
    assert str(parse_type(text)) == text
    assert parse_type(text) == parse_type(text)
    assert hash(parse_type(text)) == hash(parse_type(text))


@pytest.mark.parametrize(("text", "printed"), SPELLINGS)
def test_other_spellings_print_as_the_one(parse_type, text, printed):
    assert str(parse_type(text)) == printed


@pytest.mark.parametrize(("text", "column", "sentence"), [*REFUSED, *REFUSED_BY_US])
def test_a_wrong_text_is_refused_at_its_place(parse_type, text, column, sentence):
    with pytest.raises(ParseError) as error:
        parse_type(text)
    assert (error.value.msg, error.value.span.get_location().col) == (sentence, column)


@pytest.mark.parametrize("text", PRINTED)
def test_upstream_prints_the_same(upstream, text):
    assert upstream.type(text).text == text


@pytest.mark.parametrize(("text", "printed"), SPELLINGS)
def test_upstream_reads_other_spellings_the_same(upstream, text, printed):
    assert upstream.type(text).text == printed


@pytest.mark.parametrize(("text", "column", "sentence"), REFUSED)
def test_upstream_refuses_with_the_same_sentence_at_the_same_place(upstream, text, column, sentence):
    outcome = upstream.type(text)
    assert (outcome.error, outcome.column) == (sentence, column)


@pytest.mark.parametrize("text", [text for text, _, _ in REFUSED_BY_US])
def test_upstream_still_accepts_what_only_we_refuse(upstream, text):
    assert upstream.type(text).text is not None


def test_the_do_not_quantize_marker_reads_back_as_itself(parse_type):
    assert parse_type("!quant.none<f32>") == NoQuantizedType(f32)
    assert str(NoQuantizedType(bf16)) == "!quant.none<bf16>"
    with pytest.raises(ParseError, match="invalid kind of type specified"):
        parse_type("!quant.none<i8>")


def test_constructors_make_what_the_text_says(parse_type):
    assert UniformQuantizedType.per_layer(Storage.of("i8", -127), 0.5, 3) == parse_type(
        "!quant.uniform<i8<-127:127>:f32, 0.5:3>"
    )
    assert UniformQuantizedType.per_channel(Storage.of("u8"), 1, [0.5, 0.25], [1, 2], expressed_type=f16) == parse_type(
        "!quant.uniform<u8:f16:1, {0.5:1,0.25:2}>"
    )
    scales = np.array([[0.1, 0.2], [0.3, 0.4]])
    blocks = UniformQuantizedType.sub_channel(Storage.of("si4"), [(0, 1), (1, 32)], scales, expressed_type=bf16)
    assert blocks == parse_type("!quant.uniform<si4:bf16:{0:1,1:32}, {{0.1,0.2},{0.3,0.4}}>")
    np.testing.assert_array_equal(blocks.scales, scales.astype(FORMATS[type(bf16)].dtype).astype(np.float64))
    assert blocks.zero_points.shape == (2, 2)
    assert Storage.of("f8E5M2").range == (-57344, 57344)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: UniformQuantizedType.per_layer(Storage.of("i8", 3, 2), 1.0),
            r"illegal storage min and storage max: \(3:2\)",
        ),
        (lambda: UniformQuantizedType.per_layer(Storage.of("i64"), 1.0), "illegal storage type size: 64"),
        (
            lambda: UniformQuantizedType.per_layer(Storage.of("i8"), 0.0),
            "scale 0.000000e[+]00 out of expressed type range",
        ),
        (lambda: UniformQuantizedType.per_layer(Storage.of("i8"), math.nan), "scale nan out of expressed type range"),
        (
            lambda: UniformQuantizedType.per_layer(Storage.of("i8"), 1.0, -129),
            "zero point -129 out of storage type range",
        ),
        (
            lambda: UniformQuantizedType.per_channel(Storage.of("i8"), 0, []),
            "illegal number of scales and zeroPoints: 0, 0",
        ),
        (
            lambda: UniformQuantizedType.per_channel(Storage.of("i8"), 0, [1.0], [1, 2]),
            "illegal number of scales and zeroPoints: 1, 2",
        ),
        (lambda: UniformQuantizedType.per_channel(Storage.of("i8"), -1, [1.0]), "illegal quantized dimension: -1"),
        (
            lambda: UniformQuantizedType.sub_channel(Storage.of("i8"), [(0, 0)], np.ones((1, 1))),
            "illegal block size: 0",
        ),
    ],
)
def test_a_type_that_means_nothing_cannot_be_made(make, sentence):
    with pytest.raises(VerifyException, match=sentence):
        make()


def test_only_a_per_layer_type_has_the_scale():
    layer = UniformQuantizedType.per_layer(Storage.of("i8"), 0.5, 3)
    channel = UniformQuantizedType.per_channel(Storage.of("i8"), 0, [0.5, 0.25])
    assert (layer.scale, layer.zero_point, layer.is_per_layer) == (0.5, 3, True)
    with pytest.raises(ValueError, match=r"more than one scale; use \.scales"):
        _ = channel.scale
    with pytest.raises(ValueError, match=r"more than one zero point; use \.zero_points"):
        _ = channel.zero_point


def test_types_say_what_they_hold(parse_type):
    assert isinstance(parse_type("!quant.any<u8:f32>"), AnyQuantizedType)
    calibrated = parse_type("!quant.calibrated<f32<-1.0:2.0>>")
    assert isinstance(calibrated, CalibratedQuantizedType)
    assert (calibrated.minimum, calibrated.maximum) == (-1.0, 2.0)
    quantile = parse_type("!quant.quantile<ui1:f16, {-1.0,1.0}>")
    assert isinstance(quantile, QuantileType)
    assert quantile.data.values == (-1.0, 1.0)


f64s = st.floats(min_value=0.0, exclude_min=True, allow_infinity=False, allow_nan=False)
number_like = st.builds(lambda digits, power: digits * 10.0**power, st.integers(1, 10**9), st.integers(-30, 30))


@given(st.one_of(f64s, number_like, st.floats(allow_nan=False)))
def test_a_printed_number_is_lossless(parse_type, value):
    text = format_double(value)
    if value > -math.inf:
        read = parse_type(f"!quant.calibrated<f64<0xFFF0000000000000:{text}>>").maximum
        assert (read, math.copysign(1.0, read)) == (value, math.copysign(1.0, value))


@settings(max_examples=400)
@given(st.one_of(f64s, number_like, st.integers(1, 2**60).map(float)))
def test_upstream_prints_the_same_number(upstream, value):
    text = format_double(value)
    assert upstream.type(f"!quant.uniform<i8:f64, {text}>").text == f"!quant.uniform<i8:f64, {text}>"


@pytest.mark.parametrize("expressed", [f16, bf16, f32, f64, f80, f128], ids=str)
@settings(max_examples=100)
@given(value=st.one_of(st.floats(1e-5, 6e4), st.sampled_from([2.0**-12, 1e-5, 0.1, 0.5, 1000.0, 2.0**15])))
def test_upstream_prints_the_same_number_of_every_format(upstream, expressed, value):
    text = format_float(round_to(value, expressed), expressed)
    printed = f"!quant.uniform<i8:{expressed}:{{}}, {{{text}}}>"
    # Upstream writes the bits of the narrow format and reads them as those of an f64.
    if not text.startswith("0x"):
        assert upstream.type(printed).text == printed
