"""Grouped and laid out programs whose text was edited: native code refuses what its kernels cannot do."""

from __future__ import annotations

from functools import cache

import pytest

from zeropoint.codegen.group import group
from zeropoint.codegen.layout import layout
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.lowering import steps_of
from zeropoint.errors import Error
from zeropoint.ir.text import parse_program, print_program

PROGRAM = """
func.func @main(%x: tensor<1x4x4x4xi8>) -> tensor<1x8x4x4xi8> {
  %s = stablehlo.maximum %x, %x : tensor<1x4x4x4xi8>
  %z = stablehlo.constant dense<1> : tensor<i8>
  %p = stablehlo.pad %s, %z, low = [0, 0, 1, 1], high = [0, 0, 1, 1], interior = [0, 0, 0, 0]
    : (tensor<1x4x4x4xi8>, tensor<i8>) -> tensor<1x4x6x6xi8>
  %w = stablehlo.constant dense<127> : tensor<8x4x3x3xi8>
  %a = stablehlo.convolution(%p, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x6x6xi8>, tensor<8x4x3x3xi8>) -> tensor<1x8x4x4xi32>
  %m = stablehlo.constant dense<17000> : tensor<1xi32>
  %n = stablehlo.constant dense<9> : tensor<1xi32>
  %y = "fxpmath.requantize"(%a, %m, %n) <{behaviour = "fixed16", storage_max = 127 : i64, storage_min = -128 : i64,
    zero_point = 0 : i64}> : (tensor<1x8x4x4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x8x4x4xi8>
  func.return %y : tensor<1x8x4x4xi8>
}
"""

RESULT = "[256, 1, 64, 16]"


@cache
def grouped() -> str:
    return print_program(group(parse_program(PROGRAM), isa="avx2"), inline_weights=True)


@cache
def laid_out() -> str:
    return print_program(layout(parse_program(grouped())), inline_weights=True)


def steps(text: str) -> int:
    return len(steps_of(parse_program(text), INSTRUCTION_SETS["avx2"]).steps)


def test_the_texts_themselves_give_the_steps_of_the_program() -> None:
    assert steps(laid_out()) == steps(grouped()) == steps(PROGRAM) > 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[112]", "[900000]", "it ends at byte"),
        ("[112]", "[-112]", "not negative"),
        ("576xi8", "16xi8", "it ends at byte"),
        ("array<i64: 1, 1, 1, 1>", "array<i64: 100, 1, 100000, 1>", "a border that is inside"),
        ("array<i64: 1, 1, 1, 1>", "array<i64: 1, 3, 1, 1>", "found sides"),
        (RESULT, "[128, 16, 4, 1]", "expected adjacent elements along dimension 1, the channels"),
        (RESULT, "[256, 1, 60, 15]", "at multiples of 16 bytes"),
        (RESULT, "[256, 1, 4, 16]", "expected elements that do not overlap"),
        ('memref<256xi8, "arena">', 'memref<256xi8, "heap">', 'found memory space "heap"'),
        ('kind = "nest"', 'kind = "copy"', "a body that computes"),
    ],
)
def test_memory_that_kernels_cannot_use_is_refused(old: str, new: str, message: str) -> None:
    text = laid_out()
    assert old in text
    # The type of a view repeats its offset and its strides.
    edited = text.replace(f"offset: {old[1:-1]}", f"offset: {new[1:-1]}").replace(old, new)
    with pytest.raises(Error, match=message):
        steps(edited)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "nest"', 'kind = "contraction"', "found a body that is not a contraction"),
        ("channel_dimension = 1", "channel_dimension = 3", "found a body that is not a contraction: "),
        ("native.channel_dimension = 1 : i64, ", "", "found a body that is not a contraction: "),
        ('kind = "nest"', 'kind = "product"', "found a body that is not a product"),
    ],
)
def test_layout_refuses_a_kernel_whose_body_does_not_fit_its_kind(old: str, new: str, message: str) -> None:
    text = grouped()
    assert old in text
    with pytest.raises(CodegenError, match=message):
        layout(parse_program(text.replace(old, new)))


SPREAD = """
func.func @main(%x: tensor<1x16x6x6xi8>, %w: tensor<8x31x1x1xi8>) -> tensor<1x8x6x6xi32> {
  %s = stablehlo.maximum %x, %x : tensor<1x16x6x6xi8>
  %z = stablehlo.constant dense<1> : tensor<i8>
  %p = stablehlo.pad %s, %z, low = [0, 0, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0]
    : (tensor<1x16x6x6xi8>, tensor<i8>) -> tensor<1x31x6x6xi8>
  %a = stablehlo.convolution(%p, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x31x6x6xi8>, tensor<8x31x1x1xi8>) -> tensor<1x8x6x6xi32>
  func.return %a : tensor<1x8x6x6xi32>
}
"""


def test_a_copy_may_spread_channels() -> None:
    text = print_program(layout(group(parse_program(SPREAD), isa="avx2")), inline_weights=True)
    assert "strides: [1152, 2, 192, 32]" in text
    assert steps(text) == steps(SPREAD)


CONVOLVED = """
  %w = stablehlo.constant dense<3.0> : tensor<4x4x1x1xf32>
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x3x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x3x8xf32>
"""
SOFTMAX = """
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %e = stablehlo.exponential %x : tensor<1x4x3x8xf32>
  %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [3]
    : (tensor<1x4x3x8xf32>, tensor<f32>) -> tensor<1x4x3xf32>
  %b = stablehlo.broadcast_in_dim %s, dims = [0, 1, 2] : (tensor<1x4x3xf32>) -> tensor<1x4x3x8xf32>
  %y = stablehlo.divide %e, %b : tensor<1x4x3x8xf32>
"""
QUANTIZED = (
    SOFTMAX.replace("%y", "%f")
    + """
  %q = stablehlo.uniform_quantize %f : (tensor<1x4x3x8xf32>) -> tensor<1x4x3x8x!quant.uniform<i8:f32, 0.1>>
  %y = quant.scast %q : tensor<1x4x3x8x!quant.uniform<i8:f32, 0.1>> to tensor<1x4x3x8xi8>
"""
)


@pytest.mark.parametrize(
    ("element", "computed"),
    [
        ("i32", "%y = stablehlo.convert %x : (tensor<1x4x3x8xf32>) -> tensor<1x4x3x8xi32>"),
        ("i8", "%y = stablehlo.convert %x : (tensor<1x4x3x8xf32>) -> tensor<1x4x3x8xi8>"),
        ("f32", SOFTMAX),
        ("i8", QUANTIZED),
    ],
)
@pytest.mark.parametrize("shape", ["12x8", "1x1x12x8"])
def test_an_image_that_is_computed_in_its_reshape_is_resumed(shape: str, element: str, computed: str) -> None:
    image, other = f"tensor<1x4x3x8x{element}>", f"tensor<{shape}x{element}>"
    text = f"""
func.func @main(%x: tensor<1x4x3x8xf32>) -> ({other}, {other}, tensor<1x4x3x8xf32>) {{
  {CONVOLVED}
  {computed}
  %r = stablehlo.reshape %y : ({image}) -> {other}
  func.return %r, %r, %c : {other}, {other}, tensor<1x4x3x8xf32>
}}"""
    laid = print_program(layout(group(parse_program(text), isa="avx2")), inline_weights=True)
    assert steps(laid) == steps(text)


def test_a_channel_dimension_that_no_image_has_is_refused_before_grouping() -> None:
    text = f"module attributes {{native.channel_dimension = 9 : i64}} {{{PROGRAM}}}"
    with pytest.raises(CodegenError, match=r"found native.channel_dimension = 9 : i64, expected 1 or 3"):
        steps(text)


@pytest.mark.parametrize(
    "kind", ["rows", "bytes", "contraction", "product", "fold", "sort", "fill", "quantize", "dequantize"]
)
def test_a_kind_that_is_not_the_bodys_is_refused(kind: str) -> None:
    assert 'kind = "nest"' in grouped()
    for text in (grouped(), laid_out()):
        named = r"kernels for avx2 \(.*, at native.kernel in <text>:\d+:\d+|native.kernel: found a body that is not a "
        with pytest.raises(CodegenError, match=named):
            steps(text.replace('kind = "nest"', f'kind = "{kind}"'))


@pytest.mark.parametrize("channel", ["3", "9"])
def test_another_channel_dimension_is_refused(channel: str) -> None:
    text = grouped()
    with pytest.raises(CodegenError):
        steps(text.replace("channel_dimension = 1", f"channel_dimension = {channel}"))


@pytest.mark.parametrize("form", ["u8s8_pairs", "s8s8_quads", "u8s8_quads", "zz"])
def test_a_dot_form_that_may_saturate_or_is_unknown_is_refused(form: str) -> None:
    assert "u8s16_pairs" in grouped()
    for text in (grouped(), laid_out()):
        with pytest.raises(Error, match=form):
            steps(text.replace("u8s16_pairs", form))
