"""The RFC "StableHLO quantization for reduction ops": bodies that compute in a wider type than operands and results."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

from oracle import mlir
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program


def reduce_text(operand: str, body: str, result: str, shape: str = "4", left: str = "", dims: str = "0") -> str:
    """A sum over `dims` whose body works on scalars of element type `body`."""
    of = f"tensor<{shape}x{operand}>, tensor<{operand}>"
    kept = f"tensor<{left}{result}>"
    return f"""func.func @main(%x: tensor<{shape}x{operand}>, %z: tensor<{operand}>) -> {kept} {{
  %0 = stablehlo.reduce(%x init: %z) across dimensions = [{dims}] : ({of}) -> {kept}
   reducer(%a: tensor<{body}>, %b: tensor<{body}>)  {{
    %s = stablehlo.add %a, %b : tensor<{body}>
    stablehlo.return %s : tensor<{body}>
  }}
  return %0 : {kept}
}}"""


def run(text: str, *values: Array) -> Array:
    program = parse_program(text)
    assert print_program(parse_program(print_program(program))) == print_program(program)
    return Interpreter(program).run_values(list(values))[0]


INPUT, SUM, OUTPUT = (
    "!quant.uniform<u8:f32, 0.5:10>",
    "!quant.uniform<i32:f32, 0.25:7>",
    "!quant.uniform<u8:f32, 2.0:3>",
)


def test_the_example_of_the_introduction_gives_what_a_hand_calculation_gives():
    # real = (stored - 10) / 2; in the body stored = 4 real + 7; the sum of reals; stored = real / 2 + 3, ties to even.
    text = reduce_text(INPUT, SUM, OUTPUT, shape="5x1", left="5x", dims="1")
    stored = np.array([[10], [11], [12], [110], [255]], np.uint8)
    init = np.array(14, np.uint8)  # 2.0
    # real sums 2, 2.5, 3, 52, 124.5: by 2 and rounded 1, 1.25 -> 1, 1.5 -> 2, 26, 62.25 -> 62
    assert run(text, stored, init).tolist() == [4, 4, 5, 29, 65]


def test_sums_of_quantized_values_are_exact_and_saturate_once_at_the_end():
    narrow, wide = "!quant.uniform<i8:f32, 1.0>", "!quant.uniform<i32:f32, 1.0>"
    x, zero = np.array([100, 100, 100, -100, -100, -100], np.int8), np.array(0, np.int8)
    assert run(reduce_text(narrow, wide, narrow, shape="6"), x, zero) == 0
    assert run(reduce_text(narrow, narrow, narrow, shape="6"), x, zero) == 0  # in either body
    for body in (narrow, wide):
        assert run(reduce_text(narrow, body, narrow, shape="3"), x[:3], zero) == 127  # the result saturates


def test_a_sum_that_wraps_in_eight_bits_does_not_in_the_body():
    x, zero = np.array([100, 100, 100, 3], np.int8), np.array(0, np.int8)
    assert run(reduce_text("i8", "i32", "i32"), x, zero) == 303
    assert run(reduce_text("i8", "i32", "i8"), x, zero) == 303 - 256  # (G) at the edge: convert wraps
    assert run(reduce_text("i8", "i8", "i8"), x, zero) == 303 - 256
    halved = reduce_text("i8", "i32", "i8").replace(
        "    stablehlo.return", "    %t = stablehlo.minimum %s, %s : tensor<i32>\n    stablehlo.return"
    )
    assert run(halved, x, zero) == 303 - 256


def test_floats_are_summed_in_the_precision_of_the_body():
    # reduce_window goes from left to right: 2048 + 1 is 2048 in f16.
    def window(body: str) -> str:
        return f"""func.func @main(%x: tensor<3000xf16>, %z: tensor<f16>) -> tensor<1xf16> {{
          %0 = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: 3000>}}> ({{
          ^bb0(%a: tensor<{body}>, %b: tensor<{body}>):
            %s = stablehlo.add %a, %b : tensor<{body}>
            stablehlo.return %s : tensor<{body}>
          }}) : (tensor<3000xf16>, tensor<f16>) -> tensor<1xf16>
          return %0 : tensor<1xf16>
        }}"""

    ones, zero = np.ones(3000, np.float16), np.array(0, np.float16)
    assert run(window("f16"), ones, zero).tolist() == [2048.0]
    assert run(window("f32"), ones, zero).tolist() == [3000.0]


def test_windows_of_quantized_values_are_summed_in_the_body():
    text = f"""func.func @main(%x: tensor<6x{INPUT}>, %z: tensor<{INPUT}>) -> tensor<3x{OUTPUT}> {{
      %0 = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}}> ({{
      ^bb0(%a: tensor<{SUM}>, %b: tensor<{SUM}>):
        %s = stablehlo.add %a, %b : tensor<{SUM}>
        stablehlo.return %s : tensor<{SUM}>
      }}) : (tensor<6x{INPUT}>, tensor<{INPUT}>) -> tensor<3x{OUTPUT}>
      return %0 : tensor<3x{OUTPUT}>
    }}"""
    stored = np.array([10, 10, 12, 14, 250, 254], np.uint8)
    # real pairs 0, 1 + 2, 120 + 122; by 2: 0, 1.5 -> 2, 121
    assert run(text, stored, np.array(10, np.uint8)).tolist() == [3, 5, 124]


@pytest.mark.parametrize("places", ["i16", "i32"])
def test_several_operands_each_have_their_own_wider_type(places: str):
    text = f"""func.func @main(%x: tensor<4xi8>, %i: tensor<4x{places}>, %z: tensor<i8>, %j: tensor<{places}>)
        -> (tensor<i8>, tensor<{places}>) {{
      %0:2 = stablehlo.reduce(%x init: %z), (%i init: %j) across dimensions = [0]
        : (tensor<4xi8>, tensor<4x{places}>, tensor<i8>, tensor<{places}>) -> (tensor<i8>, tensor<{places}>)
       reducer(%a: tensor<i32>, %c: tensor<i32>) (%b: tensor<i64>, %d: tensor<i64>)  {{
        %more = stablehlo.compare GE, %a, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %m = stablehlo.select %more, %a, %c : tensor<i1>, tensor<i32>
        %n = stablehlo.select %more, %b, %d : tensor<i1>, tensor<i64>
        stablehlo.return %m, %n : tensor<i32>, tensor<i64>
      }}
      return %0#0, %0#1 : tensor<i8>, tensor<{places}>
    }}"""
    program = parse_program(text)
    storage = np.dtype(f"int{places[1:]}")
    x, where = np.array([3, 9, -4, 9], np.int8), np.arange(4, dtype=storage)
    found = Interpreter(program).run_values([x, where, np.array(-128, np.int8), np.array(-1, storage)])
    assert [value.tolist() for value in found] == [9, 1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("op", "function"), [("add", np.add), ("maximum", np.maximum), ("minimum", np.minimum)])
def test_integer_results_do_not_depend_on_the_schedule(seed: int, op: str, function: np.ufunc):
    random = np.random.default_rng(seed)
    x, zero = random.integers(-128, 128, 37, np.int8), np.array(0, np.int8)
    text = reduce_text("i8", "i32", "i32", shape="37").replace("stablehlo.add", f"stablehlo.{op}")
    # The body in full goes down the tree; a window goes from left to right; NumPy as it likes; any order of inputs.
    tree = text.replace("stablehlo.return %s", "%t = stablehlo.or %s, %s : tensor<i32>\n    stablehlo.return %t")
    window = f"""func.func @main(%x: tensor<37xi8>, %z: tensor<i8>) -> tensor<1xi32> {{
      %0 = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: 37>}}> ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %s = stablehlo.{op} %a, %b : tensor<i32>
        stablehlo.return %s : tensor<i32>
      }}) : (tensor<37xi8>, tensor<i8>) -> tensor<1xi32>
      return %0 : tensor<1xi32>
    }}"""
    expected = function(function.reduce(x.astype(np.int32)), 0)
    for given in (x, x[::-1].copy(), random.permutation(x)):
        assert run(text, given, zero) == run(tree, given, zero) == run(window, given, zero)[0] == expected


@pytest.mark.parametrize("seed", range(3))
def test_quantized_sums_in_a_wide_body_do_not_depend_on_the_schedule(seed: int):
    random = np.random.default_rng(seed)
    x = random.integers(0, 256, 29, np.uint8)
    text = reduce_text(INPUT, SUM, OUTPUT, shape="29")
    first = run(text, x, np.array(10, np.uint8))
    assert all(run(text, random.permutation(x), np.array(10, np.uint8)) == first for _ in range(4))


def test_an_initial_value_of_another_type_is_converted_by_its_own_parameters():
    x, wide = "!quant.uniform<i8:f32, 0.5:10>", "!quant.uniform<i32:f32, 0.25>"
    text = reduce_text(x, wide, wide).replace(f"%z: tensor<{x}>", "%z: tensor<!quant.uniform<i8:f32, 2.0>>")
    text = text.replace(f"tensor<{x}>)", "tensor<!quant.uniform<i8:f32, 2.0>>)")
    stored = np.array([10, 11, 12, 13], np.int8)  # 0.0, 0.5, 1.0, 1.5
    assert run(text, stored, np.array(3, np.int8)) == (3.0 + 6.0) / 0.25


REJECTED = {
    "inputs and init values of one type": (
        reduce_text("i8", "i32", "i8")
        .replace("%z: tensor<i8>", "%z: tensor<i16>")
        .replace("(tensor<4xi8>, tensor<i8>)", "(tensor<4xi8>, tensor<i16>)"),
        "expects the element types of input and init-value at index 0 to be the same where the body computes in "
        "another one, but got: 'i8' vs 'i16'",
    ),
    "results of the inputs' baseline": (
        reduce_text("i8", "i32", "i16"),
        "inferred type(s) 'tensor<i32>' are incompatible with return type(s) of operation 'tensor<i16>'; allowed "
        "beside them, as the operands have them: 'tensor<i8>'",
    ),
    "quantized results of the inputs' storage": (
        reduce_text(INPUT, SUM, "!quant.uniform<i8:f32, 0.5>"),
        "'tensor<!quant.uniform<i8:f32, 5.000000e-01>>'; allowed beside them, as the operands have them: "
        "'tensor<!quant.uniform<u8:f32, 5.000000e-01:10>>' with any scale and zero point",
    ),
    "a narrower complex body": (reduce_text("complex<f64>", "complex<f32>", "complex<f64>"), "promotable"),
    "a float body of integers": (reduce_text("i8", "f32", "i8"), "promotable"),
    "an integer body of floats": (reduce_text("f32", "i32", "f32"), "promotable"),
    "a float body of quantized values (C)": (reduce_text(INPUT, "f32", INPUT), "promotable"),
    "a quantized body of floats (B)": (reduce_text("f32", SUM, "f32"), "promotable"),
    "a narrower body": (reduce_text("i32", "i8", "i32"), "promotable"),
    "another expressed type": (reduce_text(INPUT, "!quant.uniform<i32:f16, 0.25>", INPUT), "promotable"),
    "results without the reduced dimension": (
        reduce_text("i8", "i32", "i8", left="4x"),
        "inferred type(s) 'tensor<i32>' are incompatible",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), REJECTED.values(), ids=REJECTED)
def test_what_the_rfc_leaves_out_is_refused(text: str, sentence: str):
    with pytest.raises(VerifyException) as error:
        parse_program(text)
    assert sentence in str(error.value)
    with pytest.raises(mlir.Rejected):
        mlir.parse(text)


@pytest.mark.parametrize(
    ("given", "body", "sentence"),
    [
        ("i8", "i32", "expected to be 'i32', but got 'i16'; allowed beside it, as the operand has it: 'i8'"),
        (
            INPUT,
            SUM,
            "but got 'i16'; allowed beside it, as the operand has it: '!quant.uniform<u8:f32, 5.000000e-01:10>' with "
            "any scale and zero point",
        ),
        ("i32", "i32", "expected to be 'i32', but got 'i16'"),
    ],
)
def test_a_wrong_result_of_reduce_scatter_names_all_types_allowed(given: str, body: str, sentence: str) -> None:
    text = f"""func.func @main(%x: tensor<4x{given}>) -> tensor<4xi16> {{
      %0 = "stablehlo.reduce_scatter"(%x) <{{
        replica_groups = dense<0> : tensor<1x1xi64>, scatter_dimension = 0 : i64
      }}> ({{
      ^bb0(%a: tensor<{body}>, %b: tensor<{body}>):
        %s = stablehlo.add %a, %b : tensor<{body}>
        stablehlo.return %s : tensor<{body}>
      }}) : (tensor<4x{given}>) -> tensor<4xi16>
      return %0 : tensor<4xi16>
    }}"""
    with pytest.raises(VerifyException) as error:
        parse_program(text)
    assert sentence in str(error.value)
    assert ("allowed" in str(error.value)) == (given != body)


@pytest.mark.parametrize("result", ["complex<f32>", "complex<f64>"])
def test_a_complex_body_computes_in_a_wider_type(result: str):
    x = np.array([1 + 2j, 2.0**-30, -1, 3j], np.complex64)
    text = reduce_text("complex<f32>", "complex<f64>", result)
    if result == "complex<f64>":
        mlir.parse(text)
    found = run(text, x, np.array(0, np.complex64))
    assert found == (5j + 2.0**-30)
    assert found.dtype == np.dtype(np.complex64 if result == "complex<f32>" else np.complex128)


@pytest.mark.parametrize("text", [reduce_text("i8", "i32", "i8"), reduce_text(INPUT, SUM, OUTPUT)])
def test_upstream_does_not_know_results_narrower_than_the_body(text: str):
    with pytest.raises(mlir.Rejected, match=r"inferred type\(s\)"):
        mlir.parse(text)


def test_all_reduce_and_reduce_scatter_compute_in_the_body_type():
    narrow, wide = "!quant.uniform<i8:f32, 1.0>", "!quant.uniform<i32:f32, 1.0>"
    body = f"""({{
      ^bb0(%a: tensor<{wide}>, %b: tensor<{wide}>):
        %s = stablehlo.add %a, %b : tensor<{wide}>
        stablehlo.return %s : tensor<{wide}>
      }})"""
    text = f"""
    func.func private @f(%x: tensor<2x{narrow}>) -> (tensor<2x{narrow}>, tensor<1x{narrow}>) {{
      %0 = "stablehlo.all_reduce"(%x) <{{replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}}> {body}
        : (tensor<2x{narrow}>) -> tensor<2x{narrow}>
      %1 = "stablehlo.reduce_scatter"(%x) <{{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>,
        scatter_dimension = 0 : i64}}> {body} : (tensor<2x{narrow}>) -> tensor<1x{narrow}>
      return %0, %1 : tensor<2x{narrow}>, tensor<1x{narrow}>
    }}"""
    text = text.replace("[[0, 1, 2]]> : tensor<1x3xi64>", "[[0, 1, 2, 3]]> : tensor<1x4xi64>")
    text += f"""
    func.func @main(%x: tensor<2x{narrow}>, %y: tensor<2x{narrow}>) -> (tensor<2x{narrow}>, tensor<1x{narrow}>) {{
      %r:8 = "interpreter.run_parallel"(%x, %x, %y, %y) <{{programs = [[@f], [@f], [@f], [@f]]}}>
        : ({", ".join([f"tensor<2x{narrow}>"] * 4)})
        -> ({", ".join([f"tensor<2x{narrow}>, tensor<1x{narrow}>"] * 4)})
      return %r#0, %r#3 : tensor<2x{narrow}>, tensor<1x{narrow}>
    }}"""
    x, y = np.array([100, 60], np.int8), np.array([-90, -60], np.int8)
    total, part = Interpreter(parse_program(text)).run_values([x, y])
    assert total.tolist() == [20, 0]  # 100 + 100 - 90 - 90: in eight bits it would saturate on the way
    assert part.tolist() == [120]


def test_select_and_scatter_computes_in_the_body_type():
    def text(body: str) -> str:
        return f"""func.func @main(%x: tensor<3xi8>, %s: tensor<2xi8>, %z: tensor<i8>) -> tensor<3xi8> {{
          %0 = "stablehlo.select_and_scatter"(%x, %s, %z) <{{window_dimensions = array<i64: 2>}}> ({{
          ^bb0(%a: tensor<i8>, %b: tensor<i8>):
            %c = stablehlo.compare GE, %a, %b : (tensor<i8>, tensor<i8>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          }}, {{
          ^bb0(%a: tensor<{body}>, %b: tensor<{body}>):
            %t = stablehlo.add %a, %b : tensor<{body}>
            %h = stablehlo.constant dense<2> : tensor<{body}>
            %d = stablehlo.divide %t, %h : tensor<{body}>
            stablehlo.return %d : tensor<{body}>
          }}) : (tensor<3xi8>, tensor<2xi8>, tensor<i8>) -> tensor<3xi8>
          return %0 : tensor<3xi8>
        }}"""

    x, source, zero = np.array([1, 9, 2], np.int8), np.array([100, 100], np.int8), np.array(100, np.int8)
    assert run(text("i32"), x, source, zero).tolist() == [100, 100, 100]
    assert run(text("i8"), x, source, zero).tolist() == [100, 36, 100]  # 200 wraps to -56: -28, then 72: 36
