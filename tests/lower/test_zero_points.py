"""Zero points corrected inside the sum of products and after it: equal integers, judged by exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import ZERO_POINTS
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program

# The operands of a product have no zero points of their own: `uniform_quantize` to 16 bits subtracts them before.
ACTIVATIONS = """func.func @main(%x: tensor<2x3x4x!quant.uniform<i8:f32, 0.5:{x}>>,
    %w: tensor<5x2x4x!quant.uniform<i8:f32, 0.25:{w}>>) -> tensor<2x3x5x!quant.uniform<i32:f32, 0.125>> {{
  %0 = stablehlo.uniform_quantize %x : (tensor<2x3x4x!quant.uniform<i8:f32, 0.5:{x}>>)
    -> tensor<2x3x4x!quant.uniform<i16:f32, 0.5>>
  %1 = stablehlo.uniform_quantize %w : (tensor<5x2x4x!quant.uniform<i8:f32, 0.25:{w}>>)
    -> tensor<5x2x4x!quant.uniform<i16:f32, 0.25>>
  %y = stablehlo.dot_general %0, %1, batching_dims = [0] x [1], contracting_dims = [2] x [2]
    : (tensor<2x3x4x!quant.uniform<i16:f32, 0.5>>, tensor<5x2x4x!quant.uniform<i16:f32, 0.25>>)
    -> tensor<2x3x5x!quant.uniform<i32:f32, 0.125>>
  return %y : tensor<2x3x5x!quant.uniform<i32:f32, 0.125>>
}}"""
WEIGHT = "tensor<3x2x3x3x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.125}>>"
WEIGHTS = f"""func.func @main(%x: tensor<1x2x5x5x!quant.uniform<i8:f32, 0.5:-7>>)
    -> tensor<1x3x5x5x!quant.uniform<i8:f32, 2.0:3>> {{
  %w = stablehlo.constant() <{{value = dense<WEIGHTS> : tensor<3x2x3x3xi8>}}> : () -> {WEIGHT}
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x2x5x5x!quant.uniform<i8:f32, 0.5:-7>>, {WEIGHT}) -> tensor<1x3x5x5x!quant.uniform<i8:f32, 2.0:3>>
  return %y : tensor<1x3x5x5x!quant.uniform<i8:f32, 2.0:3>>
}}"""


def convolution() -> Program:
    weights = np.random.default_rng(1).integers(-127, 127, (3, 2, 3, 3), endpoint=True)
    return parse_program(WEIGHTS.replace("WEIGHTS", str(weights.tolist())))


def forms(program: Program) -> list[str]:
    found = [op.attributes.get(ZERO_POINTS) for op in program.module.walk() if op.name.startswith("stablehlo.")]
    return [attribute.data for attribute in found if attribute is not None]


def stored_inputs(program: Program) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    arrays = [random.integers(-128, 127, shape_of(port.type), np.int8, endpoint=True) for port in program.inputs]
    arrays[0].reshape(-1)[:3] = (-128, 127, -128)
    return arrays


@pytest.mark.parametrize("form", ["inside", "after"])
@pytest.mark.parametrize(("x", "w"), [(5, -9), (0, 7), (-128, 0), (127, -128)])
def test_both_forms_of_two_activations_are_the_exact_sum(form: str, x: int, w: int) -> None:
    program = parse_program(ACTIVATIONS.format(x=x, w=w))
    lowered = integer_program(program, "fixed32", form)
    assert forms(lowered) == [form]
    a, b = stored_inputs(program)
    (found,) = Interpreter(lowered).run_values([a, b])
    python = [
        [[int(number) - point for number in row] for row in array.reshape(-1, 4)] for array, point in ((a, x), (b, w))
    ]
    left, right = (np.array(rows, object).reshape(array.shape) for rows, array in zip(python, (a, b), strict=True))
    np.testing.assert_array_equal(found, np.einsum("bmk,nbk->bmn", left, right))


@pytest.mark.parametrize("profile", ["fixed32", "xnnpack"])
@pytest.mark.parametrize("points", [(1, -2, 127), (-128, -128, -128)])
def test_weights_with_a_zero_point_a_channel_have_both_forms(points: tuple[int, ...], profile: str) -> None:
    weights = np.random.default_rng(4).choice([-128, 127, 3], (6, 3))
    kind = "!quant.uniform<i8:f32:1, {" + ", ".join(f"0.5:{point}" for point in points) + "}>"
    x, sums = "tensor<4x6x!quant.uniform<i8:f32, 0.5:-7>>", "tensor<4x3x!quant.uniform<i32:f32:1, {0.25, 0.25, 0.25}>>"
    program = parse_program(f"""func.func @main(%x: {x}) -> {sums} {{
      %c = stablehlo.constant dense<{weights.tolist()}> : tensor<6x3xi8>
      %w = quant.scast %c : tensor<6x3xi8> to tensor<6x3x{kind}>
      %y = "fxpmath.real_matmul"(%x, %w) : ({x}, tensor<6x3x{kind}>) -> {sums}
      return %y : {sums}
    }}""")
    (given,) = stored_inputs(program)
    exact = (given.astype(object) + 7) @ (weights.astype(object) - np.array(points, object))
    for form in ("inside", "after"):
        lowered = integer_program(program, profile, form)
        assert forms(lowered) == [form]
        np.testing.assert_array_equal(Interpreter(lowered).run_values([given])[0], exact)
        (native,) = NativeProgram(lowered)({lowered.inputs[0].name: given}).values()
        np.testing.assert_array_equal(native, exact)


def test_both_forms_of_constant_weights_are_equal_and_padding_is_real_zero() -> None:
    program = convolution()
    inputs = stored_inputs(program)
    results = [Interpreter(integer_program(program, "fixed32")).run_values(inputs)[0]]
    for form in ("inside", "after"):
        lowered = integer_program(program, "fixed32", form)
        assert forms(lowered) == [form]
        results.append(Interpreter(lowered).run_values(inputs)[0])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("form", ["inside", "after"])
def test_native_code_computes_both_forms(form: str) -> None:
    for program in (parse_program(ACTIVATIONS.format(x=5, w=-9)), convolution()):
        lowered, inputs = integer_program(program, "fixed32", form), stored_inputs(program)
        feed = {port.name: array for port, array in zip(lowered.inputs, inputs, strict=True)}
        (found,) = NativeProgram(lowered)(feed).values()
        np.testing.assert_array_equal(found, Interpreter(lowered).run_values(inputs)[0])


def test_corrections_that_are_constants_come_after_the_sum_by_default() -> None:
    assert forms(integer_program(convolution(), "fixed32")) == ["after"]
    assert forms(integer_program(parse_program(ACTIVATIONS.format(x=5, w=-9)), "fixed32")) == ["inside"]


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="found zero_points = before, expected one of: inside, after"):
        integer_program(parse_program(ACTIVATIONS.format(x=5, w=-9)), "fixed32", "before")


@pytest.mark.parametrize("zero", [7, -(2**31)])
def test_a_zero_point_of_32_bits_is_added_before_a_float_product_saturates(zero: int) -> None:
    """0.5 times 2^32 - 10 fits 32 bits with a zero point of -2^31, and without it does not."""
    program = parse_program(f"""func.func @main(%x: tensor<4xi64>) -> tensor<4xi32> {{
      %m = stablehlo.constant dense<0.5> : tensor<1xf32>
      %r = "fxpmath.requantize"(%x, %m) <{{behaviour = "float32-rne", zero_point = {zero} : i64,
           storage_min = -2147483648 : i64, storage_max = 2147483647 : i64}}>
           : (tensor<4xi64>, tensor<1xf32>) -> tensor<4xi32>
      return %r : tensor<4xi32>
    }}""")
    x = np.array([2**33 - 2**10, -(2**32) - 2**10, 10, -(2**40)])
    wanted = [min(max(int(number) // 2 + zero, -(2**31)), 2**31 - 1) for number in x.tolist()]
    for run in (Interpreter(program), NativeProgram(program)):
        assert next(iter(run({"arg0": x}).values())).tolist() == wanted
