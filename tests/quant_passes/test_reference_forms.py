"""Forms of quantized StableHLO that C++ StableHLO evaluates: equal to the ops they are written for, and recognized."""

from __future__ import annotations

import re

import numpy as np
import pytest

from expressions import expressions
from interp.programs import upstream
from zeropoint.export.stablehlo import stablehlo_text
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvolutionOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.verification import verify
from zeropoint.quant_passes import from_reference_forms, to_reference_forms

A, B, C, S = (
    f"!quant.uniform<{text}>" for text in ("i8:f32, 0.05:-7", "i8:f32, 0.11:5", "i8:f32, 0.3:1", "i32:f32, 0.05")
)
U, W = "!quant.uniform<u8:f32, 0.05:121>", "!quant.uniform<i8<-127:127>:f32, 0.02>"


def function(shape: str, result: str, made: str, kind: str = A, lines: str = "") -> str:
    """A program that quantizes an input to `kind`, computes `%r`, and dequantizes it."""
    return f"""func.func @main(%x: tensor<{shape}xf32>) -> tensor<{result}xf32> {{
  %q = stablehlo.uniform_quantize %x : (tensor<{shape}xf32>) -> tensor<{shape}x{kind}>
  {lines}
  %y = stablehlo.uniform_dequantize %r : (tensor<{result}x{made}>) -> tensor<{result}xf32>
  return %y : tensor<{result}xf32>
}}"""


def reduction(op: str, kind: str, start: str) -> str:
    return f"""%i = stablehlo.constant() <{{value = {start}}}> : () -> tensor<{kind}>
  %r = stablehlo.reduce(%q init: %i) applies stablehlo.{op} across dimensions = [1]
    : (tensor<4x9x{kind}>, tensor<{kind}>) -> tensor<4x{kind}>"""


def binary(op: str, second: str, result: str) -> str:
    return f"""%p = stablehlo.uniform_quantize %x : (tensor<4x9xf32>) -> tensor<4x9x{second}>
  %r = stablehlo.{op} %q, %p : (tensor<4x9x{A}>, tensor<4x9x{second}>) -> tensor<4x9x{result}>"""


def convolution(layout: str, x: str, w: str, made: str, window: str, axes: tuple[int, int], groups: int = 1) -> str:
    """A convolution to 4 channels with a bias, requantized."""
    scales = "{0.01,0.02,0.04,0.005}"
    weight = f"!quant.uniform<i8<-127:127>:f32:{axes[0]}, {scales}>"
    sums = "{0.0005,0.001,0.002,0.00025}"
    total, bias = (f"!quant.uniform<i32:f32:{axis}, {sums}>" for axis in (axes[1], 0))
    values = np.random.default_rng(2).integers(-127, 128, [int(size) for size in w.split("x")]).tolist()
    return f"""%w = stablehlo.constant() <{{value = dense<{values}> : tensor<{w}xi8>}}> : () -> tensor<{w}x{weight}>
  %b = stablehlo.constant() <{{value = dense<[700, -300, 20, 5]> : tensor<4xi32>}}> : () -> tensor<4x{bias}>
  %c = stablehlo.convolution(%q, %w) dim_numbers = {layout}, window = {{{window}}}
    {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
    : (tensor<{x}x{A}>, tensor<{w}x{weight}>) -> tensor<{made}x{total}>
  %d = stablehlo.broadcast_in_dim %b, dims = [{axes[1]}] : (tensor<4x{bias}>) -> tensor<{made}x{total}>
  %e = stablehlo.add %c, %d : tensor<{made}x{total}>
  %r = stablehlo.uniform_quantize %e : (tensor<{made}x{total}>) -> tensor<{made}x{B}>"""


def convolved(layout: str, x: str, w: str, made: str, window: str, axes: tuple[int, int], groups: int = 1) -> str:
    return function(x, made, B, A, convolution(layout, x, w, made, window, axes, groups))


N, F = "!quant.uniform<i32:f32, 0.0674>", "!quant.uniform<i32:f32, 5.25e-07>"
M, P = (f"!quant.uniform<{text}>" for text in (f"i32:f32, {0.0674 * 5.25e-07!r}", "i8:f32, 0.29056123823999996:3"))
FIRST, LAST = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
LINE, VOLUME = "[b, f, 0]x[o, i, 0]->[b, f, 0]", "[b, f, 0, 1, 2]x[o, i, 0, 1, 2]->[b, f, 0, 1, 2]"
PADDED = "pad = [[1, 2], [0, 1]]"
PROGRAMS = {
    "sum": function("4x9", "4", S, S, reduction("add", S, "dense<0> : tensor<i32>")),
    "greatest": function("4x9", "4", A, A, reduction("maximum", A, "dense<-128> : tensor<i8>")),
    "least": function("4x9", "4", A, A, reduction("minimum", A, "dense<127> : tensor<i8>")),
    # Every odd sum is a tie: 4105712 / 8211424.
    "product": function(
        "4x9",
        "4x9",
        P,
        N,
        f"""%k = stablehlo.constant() <{{value = dense<4105712> : tensor<4x9xi32>}}> : () -> tensor<4x9x{F}>
  %m = stablehlo.multiply %q, %k : (tensor<4x9x{N}>, tensor<4x9x{F}>) -> tensor<4x9x{M}>
  %r = stablehlo.uniform_quantize %m : (tensor<4x9x{M}>) -> tensor<4x9x{P}>""",
    ),
    "sum of two scales": function("4x9", "4x9", C, A, binary("add", B, C)),
    "requantization": function(
        "4x9", "4x9", B, A, f"%r = stablehlo.uniform_quantize %q : (tensor<4x9x{A}>) -> tensor<4x9x{B}>"
    ),
    "requantization to zero point 0": function(
        "4x9", "4x9", W, A, f"%r = stablehlo.uniform_quantize %q : (tensor<4x9x{A}>) -> tensor<4x9x{W}>"
    ),
    "channels first": convolved(FIRST, "2x3x7x6", "4x3x2x3", "2x4x9x5", PADDED, (0, 1)),
    "channels last": convolved(LAST, "2x7x6x3", "2x3x3x4", "2x9x5x4", PADDED, (3, 3)),
    "groups": convolved(FIRST, "2x2x7x6", "4x1x3x3", "2x4x5x4", "", (0, 1), 2),
    "strides and holes": convolved(
        FIRST, "2x3x9x8", "4x3x2x3", "2x4x4x2", "stride = [2, 3], rhs_dilate = [2, 1]", (0, 1)
    ),
    "transposed": convolved(
        FIRST, "2x3x4x3", "4x3x3x3", "2x4x8x5", "pad = [[2, 1], [1, 1]], lhs_dilate = [2, 2]", (0, 1)
    ),
    "reversed": convolved(FIRST, "2x3x7x6", "4x3x2x3", "2x4x6x4", "reverse = [true, false]", (0, 1)),
    "line": convolved(LINE, "2x3x9", "4x3x3", "2x4x5", "stride = [2], pad = [[1, 1]]", (0, 1)),
    "line, channels last": convolved("[b, 0, f]x[0, i, o]->[b, 0, f]", "2x9x3", "3x3x4", "2x7x4", "", (2, 2)),
    "volume": convolved(VOLUME, "1x2x4x5x3", "4x2x2x2x2", "1x4x3x4x2", "", (0, 1)),
    "first to last": convolved("[b, f, 0, 1]x[o, i, 0, 1]->[b, 0, 1, f]", "2x3x7x6", "4x3x3x3", "2x5x4x4", "", (0, 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_form_is_evaluated_by_cpp_to_the_same_numbers_and_recognized(name: str) -> None:
    program = parse_program(PROGRAMS[name])
    before = print_program(program)
    written = to_reference_forms(program)
    assert print_program(program) == before
    x = values(program)
    (ours,) = Interpreter(program).run_values([x])
    np.testing.assert_array_equal(Interpreter(written).run_values([x])[0], ours)
    np.testing.assert_array_equal(upstream(stablehlo_text(program), x)[0], ours)
    assert len(np.unique(ours)) > 3
    if name != "first to last":  # the operand of this one stays transposed
        assert expressions(from_reference_forms(written)) == expressions(program)
    assert expressions(to_reference_forms(from_reference_forms(written))) == expressions(written)


def values(program: Program) -> Array:
    shape = program.inputs[0].type.get_shape()
    return np.random.default_rng(1).normal(0, 3, shape).astype(np.float32)


def test_a_tie_is_rounded_before_the_zero_point_is_added() -> None:
    """1 / 2 with zero point 1 is 1, not 2: round(0.5) + 1, not round(1.5)."""
    program = parse_program(
        function(
            "4",
            "4",
            "!quant.uniform<i8:f32, 2.0:1>",
            "!quant.uniform<i32:f32, 1.0>",
            "%r = stablehlo.uniform_quantize %q : (tensor<4x!quant.uniform<i32:f32, 1.0>>)"
            " -> tensor<4x!quant.uniform<i8:f32, 2.0:1>>",
        )
    )
    x = np.array([1, 3, -1, 5], np.float32)
    (ours,) = Interpreter(program).run_values([x])
    np.testing.assert_array_equal(ours, [0, 4, 0, 4])
    np.testing.assert_array_equal(upstream(print_program(to_reference_forms(program)), x)[0], ours)


def test_unsigned_storage_is_signed() -> None:
    program = parse_program(function("4x9", "4x9", U, U, f"%r = stablehlo.maximum %q, %q : tensor<4x9x{U}>"))
    written = to_reference_forms(program)
    assert "u8" not in print_program(written)
    x = values(program)
    np.testing.assert_array_equal(upstream(print_program(written), x)[0], Interpreter(program).run_values([x])[0])


def test_integers_that_a_caller_sees_keep_their_storage() -> None:
    text = f"func.func @main(%x: tensor<4x{U}>) -> tensor<4x{U}> {{ return %x : tensor<4x{U}> }}"
    program = parse_program(text)
    assert print_program(to_reference_forms(program)) == print_program(program)


def test_stored_weights_are_constants_with_channels_last() -> None:
    kind = "!quant.uniform<i4:f32:0, {0.5,0.25}>"
    program = parse_program(f"""func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %w = stablehlo.constant dense<[[1, -2, 7], [0, 3, -8]]> : tensor<2x3xi4>
  %s = quant.scast %w : tensor<2x3xi4> to tensor<2x3x{kind}>
  %d = quant.dcast %s : tensor<2x3x{kind}> to tensor<2x3xf32>
  %y = stablehlo.add %x, %d : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}}""")
    written = to_reference_forms(program)
    x = values(program)
    np.testing.assert_array_equal(upstream(print_program(written), x)[0], Interpreter(program).run_values([x])[0])
    assert expressions(from_reference_forms(written)) == expressions(program)


def test_a_cast_to_storage_integers_is_a_bit_cast() -> None:
    program = parse_program(f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xi8> {{
  %q = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x{A}>
  %s = quant.scast %q : tensor<4x{A}> to tensor<4xi8>
  return %s : tensor<4xi8>
}}""")
    written = to_reference_forms(program)
    x = values(program)
    np.testing.assert_array_equal(upstream(print_program(written), x)[0], Interpreter(program).run_values([x])[0])
    assert expressions(from_reference_forms(written)) == expressions(program)


def test_a_function_of_one_value_is_no_sum() -> None:
    """x + x in floats is what a table of x + x looks like."""
    program = parse_program(
        function(
            "4x9",
            "4x9",
            C,
            A,
            f"""%f = stablehlo.uniform_dequantize %q : (tensor<4x9x{A}>) -> tensor<4x9xf32>
  %g = stablehlo.add %f, %f : tensor<4x9xf32>
  %r = stablehlo.uniform_quantize %g : (tensor<4x9xf32>) -> tensor<4x9x{C}>""",
        )
    )
    assert print_program(from_reference_forms(program)) == print_program(program)


@pytest.mark.parametrize("name", ["channels first", "transposed", "line"])
def test_convolutions_of_unknown_sizes_stay(name: str) -> None:
    """A reshape or pad of them has no known type."""
    text = re.sub(r"\n *%d = .*\n *%e = .*", "", PROGRAMS[name]).replace("uniform_quantize %e", "uniform_quantize %c")
    program = parse_program(re.sub(r"(?<=tensor<2x[34]x)\d+(?=x)", "?", text))
    assert "x?x" in print_program(program)
    written = to_reference_forms(program)
    verify(written.module)
    (convolution,) = (op for op in written.module.walk() if isinstance(op, ConvolutionOp))
    assert convolution.dimension_numbers in [op.properties.get("dimension_numbers") for op in program.module.walk()]


def test_float_programs_are_left_alone() -> None:
    program = parse_program("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }")
    assert to_reference_forms(program) is program
    assert from_reference_forms(program) is program
