"""Float kernels against the interpreter: convolutions with all that joins them, embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.exactness import assert_same_bits
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.depthwise_floats import FloatDepthwise
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program

GENERATOR = np.random.default_rng(7)


def numbers(*shape: int) -> str:
    """A dense constant of seeded numbers, as text."""

    def nested(array: np.ndarray) -> str:
        if array.ndim == 0:
            return f"{float(array):.6e}"
        return "[" + ", ".join(nested(part) for part in array) + "]"

    return f"dense<{nested(GENERATOR.normal(size=shape))}> : tensor<{'x'.join(map(str, shape))}xf32>"


def block(channels: int, outputs: int, kernel: int, stride: int, groups: int, *, residual: bool = False) -> str:
    """A convolution padded by itself, a bias, a clamp; the input added where `residual`."""
    size = -(-9 // stride)
    source, result = f"tensor<1x{channels}x9x9xf32>", f"tensor<1x{outputs}x{size}x{size}xf32>"
    pad = kernel // 2
    added = f"%s = stablehlo.add %x, %a : {result}" if residual else f"%s = stablehlo.negate %a : {result}"
    return f"""
    func.func @main(%x: {source}) -> {result} {{
      %w = stablehlo.constant {numbers(outputs, channels // groups, kernel, kernel)}
      %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
        window = {{stride = [{stride}, {stride}], pad = [[{pad}, {pad}], [{pad}, {pad}]]}}
        {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
        : ({source}, tensor<{outputs}x{channels // groups}x{kernel}x{kernel}xf32>) -> {result}
      %b = stablehlo.constant {numbers(outputs)}
      %d = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<{outputs}xf32>) -> {result}
      %e = stablehlo.add %c, %d : {result}
      %l = stablehlo.constant dense<0.0> : tensor<f32>
      %h = stablehlo.constant dense<6.0> : tensor<f32>
      %a = stablehlo.clamp %l, %e, %h : (tensor<f32>, {result}, tensor<f32>) -> {result}
      {added}
      return %s : {result}
    }}"""


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        (block(3, 8, 3, 2, 1), Contraction),
        (block(20, 20, 1, 1, 1, residual=True), Contraction),
        (block(5, 17, 5, 1, 1), Contraction),
        (block(24, 24, 3, 1, 24), FloatDepthwise),
        (block(17, 17, 5, 2, 17), FloatDepthwise),
        (block(8, 8, 3, 1, 2), Contraction),
    ],
)
def test_convolutions_of_floats_with_what_follows(text, kernel):
    program = parse_program(text)
    native = NativeProgram(program)
    assert kernel in {type(step.kernel) for step in native.graph.steps}
    x = GENERATOR.normal(size=program.inputs[0].type.get_shape()).astype(np.float32)
    (expected,) = Interpreter(program).run_values([x])
    (found,) = native.run_values([x])
    assert_same_bits(found, expected)


def test_nan_passes_a_clamp():
    program = parse_program(block(4, 4, 1, 1, 1))
    x = np.full((1, 4, 9, 9), np.nan, np.float32)
    assert np.isnan(NativeProgram(program).run_values([x])[0]).all()


@pytest.mark.parametrize("weight", ["inf", "nan", "-inf"])
@pytest.mark.parametrize(("stride", "dilation"), [(2, 2), (4, 2), (3, 3), (1, 2)])
def test_products_with_zeros_between_elements_are_not_left_out_if_weights_are_not_finite(weight, stride, dilation):
    """With a stride that is a multiple of the dilation, all outputs have the same taps, and others are skipped."""
    bits = {"inf": "0x7F800000", "nan": "0x7FC00000", "-inf": "0xFF800000"}[weight]
    weights = f"[[[[1.0]], [[{bits}]], [[1.0]], [[1.0]], [[1.0]]]]"
    outputs = 8 * dilation // stride + 1
    program = parse_program(f"""
    func.func @main(%x: tensor<1x9x1x1xf32>) -> tensor<1x{outputs}x1x1xf32> {{
      %w = stablehlo.constant dense<{weights}> : tensor<1x5x1x1xf32>
      %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f],
        window = {{stride = [{stride}, 1], pad = [[2, 2], [0, 0]], lhs_dilate = [{dilation}, 1]}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<1x9x1x1xf32>, tensor<1x5x1x1xf32>) -> tensor<1x{outputs}x1x1xf32>
      return %y : tensor<1x{outputs}x1x1xf32>
    }}""")
    x = np.ones((1, 9, 1, 1), np.float32)
    (expected,) = Interpreter(program).run_values([x])
    np.testing.assert_array_equal(NativeProgram(program).run_values([x])[0], expected)


@pytest.mark.parametrize("index", ["i8", "i32", "i64", "ui8", "ui32"])
def test_rows_of_a_table_and_numbers_outside_of_it(index):
    program = parse_program(f"""
    func.func @main(%n: tensor<2x3x{index}>) -> tensor<2x3x5xf32> {{
      %t = stablehlo.constant {numbers(7, 5)}
      %r = "stablehlo.gather"(%t, %n) <{{dimension_numbers = #stablehlo.gather<offset_dims = [2],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 5>}}>
        : (tensor<7x5xf32>, tensor<2x3x{index}>) -> tensor<2x3x5xf32>
      return %r : tensor<2x3x5xf32>
    }}""")
    native = NativeProgram(program)
    chosen = np.array([[0, 6, 3], [-4, 7, 100]]).astype(index.replace("i", "int"))
    np.testing.assert_array_equal(native.run_values([chosen])[0], Interpreter(program).run_values([chosen])[0])


@pytest.mark.parametrize(("profile", "stored"), [("", 0), ('attributes {zeropoint.profile = "fixed16"}', 5)])
def test_nan_is_stored_as_the_profile_says(profile, stored):
    kind = "!quant.uniform<i8:f32, 0.5:5>"
    program = parse_program(f"""
    module {profile} {{
      func.func @main(%x: tensor<4xf32>) -> tensor<4xi8> {{
        %q = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x{kind}>
        %i = quant.scast %q : tensor<4x{kind}> to tensor<4xi8>
        return %i : tensor<4xi8>
      }}
    }}""")
    x = np.array([np.nan, 1.0, np.inf, -np.inf], np.float32)
    (found,) = NativeProgram(program).run_values([x])
    assert found.tolist() == [stored, 7, 127, -128]
    np.testing.assert_array_equal(found, Interpreter(program).run_values([x])[0])


TIES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.25, 60.5]
TO_EVEN, AWAY = [0, 2, 2, 0, -2, -2, 3, 60], [1, 2, 3, -1, -2, -3, 3, 61]
PER_LAYER, PER_CHANNEL = "!quant.uniform<i8:f32, 1.0>", f"!quant.uniform<i8:f32:0, {{{', '.join(['1.0'] * 8)}}}>"
CONVOLVED = """%k = stablehlo.constant dense<1> : tensor<8x8x1x1xi8>
        %c = stablehlo.convolution(%i, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
          {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x8x1x64xi8>, tensor<8x8x1x1xi8>) -> tensor<1x8x1x64xi32>"""


def quantize_by(program_profile: str, own: str, sizes: str, kind: str, before: str = "", after: str = "") -> Program:
    return parse_program(f"""
    module attributes {{zeropoint.profile = "{program_profile}"}} {{
      func.func @main(%x: tensor<{sizes}xf32>) -> tensor<{sizes}x{"i32" if after else "i8"}> {{
        {before or f"%r = stablehlo.reshape %x : (tensor<{sizes}xf32>) -> tensor<{sizes}xf32>"}
        %q = stablehlo.uniform_quantize %r {{zeropoint.profile = "{own}"}}
          : (tensor<{sizes}xf32>) -> tensor<{sizes}x{kind}>
        %i = quant.scast %q : tensor<{sizes}x{kind}> to tensor<{sizes}xi8>
        {after}
        return {"%c" if after else "%i"} : tensor<{sizes}x{"i32" if after else "i8"}>
      }}
    }}""")


@pytest.mark.parametrize(
    ("program_profile", "own", "stored"),
    [
        ("xnnpack", "fixed32-double", AWAY),
        ("fixed32-double", "xnnpack", TO_EVEN),
        ("fixed16", "fixed32-double", AWAY),
        ("fixed32-double", "fixed16", TO_EVEN),
        ("fixed32-double", "onnxruntime", TO_EVEN),
    ],
)
def test_a_quantize_rounds_by_its_own_profile(program_profile: str, own: str, stored: list[int]):
    x = np.array(TIES, np.float32)
    doubled = "%r = stablehlo.add %x, %x : tensor<8xf32>"
    for kind, before, given in [(PER_LAYER, "", x), (PER_CHANNEL, "", x), (PER_LAYER, doubled, x / 2)]:
        program = quantize_by(program_profile, own, "8", kind, before)
        for engine in (Interpreter(program), NativeProgram(program)):
            assert engine.run_values([given])[0].tolist() == stored
    image = quantize_by(program_profile, own, "1x8x1x64", PER_LAYER, after=CONVOLVED)
    pixels = np.tile(x, 64).reshape(1, 8, 1, 64)
    wanted = np.tile(stored, 64).reshape(1, 8, 1, 64).sum(1, keepdims=True).repeat(8, 1)
    for engine in (Interpreter(image), NativeProgram(image)):
        assert engine.run_values([pixels])[0].tolist() == wanted.tolist()


@pytest.mark.parametrize("profile", ["stablehlo", "fixed16", "float32-rne", "openvino", "xnnpack"])
@pytest.mark.parametrize(("axis", "element"), [(1, "f32"), (0, "f64"), (2, "f32")])
def test_values_are_quantized_by_channel(profile: str, axis: int, element: str):
    sizes = (2, 3, 19)
    scales = ", ".join(f"{0.1 * (n + 1)!r}:{n - 4}" for n in range(sizes[axis]))
    kind = f"!quant.uniform<i8:{element}:{axis}, {{{scales}}}>"
    program = parse_program(f"""
    module attributes {{zeropoint.profile = "{profile}"}} {{
      func.func @main(%x: tensor<2x3x19x{element}>) -> (tensor<2x3x19xi8>, tensor<2x3x19x{element}>) {{
        %q = stablehlo.uniform_quantize %x : (tensor<2x3x19x{element}>) -> tensor<2x3x19x{kind}>
        %i = quant.scast %q : tensor<2x3x19x{kind}> to tensor<2x3x19xi8>
        %d = stablehlo.uniform_dequantize %q : (tensor<2x3x19x{kind}>) -> tensor<2x3x19x{element}>
        return %i, %d : tensor<2x3x19xi8>, tensor<2x3x19x{element}>
      }}
    }}""")
    x = np.round(GENERATOR.normal(scale=6, size=sizes) / 0.05) * 0.05  # many a tie
    x[0, 0, :4] = [np.nan, np.inf, -np.inf, 1e30]
    x = x.astype(np.float32 if element == "f32" else np.float64)
    for found, expected in zip(
        NativeProgram(program).run_values([x]), Interpreter(program).run_values([x]), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
