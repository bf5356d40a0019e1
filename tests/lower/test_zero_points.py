"""Zero points corrected inside the sum of products and after it: equal integers, judged by exact arithmetic."""

from __future__ import annotations

import re

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import ZERO_POINTS
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.standard import lower_to_standard

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


def wide_convolution(
    points: tuple[int, ...], window: str, shapes: tuple[str, str, str], weights: np.ndarray
) -> Program:
    """Weights that less their zero points need nine bits."""
    axis = "" if len(points) == 1 else ":0"
    listed = ", ".join(f"0.5:{point}" for point in points)
    kind = f"!quant.uniform<i8:f32{axis}, {listed if len(points) == 1 else '{' + listed + '}'}>"
    scales = "0.25" if len(points) == 1 else "{" + ", ".join(["0.25"] * len(points)) + "}"
    x, w = f"tensor<{shapes[0]}x!quant.uniform<i8:f32, 0.5:-7>>", f"tensor<{shapes[1]}x{kind}>"
    sums = f"tensor<{shapes[2]}x!quant.uniform<i32:f32{axis and ':1'}, {scales}>>"
    return parse_program(f"""func.func @main(%x: {x}) -> {sums} {{
      %c = stablehlo.constant dense<{weights.tolist()}> : tensor<{shapes[1]}xi8>
      %w = quant.scast %c : tensor<{shapes[1]}xi8> to {w}
      %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], {window}
        : ({x}, {w}) -> {sums}
      return %y : {sums}
    }}""")


WINDOWS = {
    "padded": ("pad = [[1, 1], [0, 2]]", 1, ("1x2x5x5", "4x2x3x3", "1x4x5x5")),
    "strided": ("stride = [2, 1], pad = [[1, 1], [0, 0]], rhs_dilate = [1, 2]", 1, ("2x2x5x5", "4x2x3x3", "2x4x3x1")),
    "dilated": ("pad = [[1, 0], [0, 0]], lhs_dilate = [2, 2]", 1, ("1x2x3x3", "4x2x2x2", "1x4x5x4")),
    "grouped": ("pad = [[1, 1], [1, 1]]", 2, ("1x4x5x5", "4x2x3x3", "1x4x5x5")),
    "depthwise": ("pad = [[1, 1], [1, 1]]", 4, ("1x4x5x5", "4x1x3x3", "1x4x5x5")),
}


def exact_sums(x: np.ndarray, centred: np.ndarray, case: str, shape: tuple[int, ...]) -> np.ndarray:
    """The sums in Python's integers, of an input that is less its zero point."""
    window, groups, _ = WINDOWS[case]
    numbers = {
        name: [int(each) for each in found.group(1).split(",")]
        for name in ("stride", "lhs_dilate", "rhs_dilate")
        if (found := re.search(rf"{name} = \[([\d, ]+)\]", window))
    }
    pads = [int(each) for each in re.findall(r"\d", window.split("pad = ")[1].split("]]")[0])]
    steps, apart, holes = (numbers.get(name, [1, 1]) for name in ("stride", "lhs_dilate", "rhs_dilate"))
    found = np.zeros(shape, object)
    each = centred.shape[1], centred.shape[0] // groups
    for n, o, i, j in np.ndindex(*shape):
        for c, u, v in np.ndindex(*centred.shape[1:]):
            a, b = i * steps[0] + u * holes[0] - pads[0], j * steps[1] + v * holes[1] - pads[2]
            if (
                a % apart[0]
                or b % apart[1]
                or not (0 <= a // apart[0] < x.shape[2] and 0 <= b // apart[1] < x.shape[3])
            ):
                continue
            channel = o // each[1] * each[0] + c
            found[n, o, i, j] += int(x[n, channel, a // apart[0], b // apart[1]]) * int(centred[o, c, u, v])
    return found


@pytest.mark.parametrize("points", [(-128,), (-128, 127, 3, -128)])
@pytest.mark.parametrize("case", WINDOWS)
def test_a_convolution_whose_weights_need_nine_bits_has_both_forms(case: str, points: tuple[int, ...]) -> None:
    window, groups, shapes = WINDOWS[case]
    window = f"window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}"
    sizes = [tuple(int(size) for size in shape.split("x")) for shape in shapes]
    weights = np.random.default_rng(5).choice([100, 127, -128, 3], sizes[1])
    weights.reshape(-1)[0] = 100
    program = wide_convolution(points, window, shapes, weights)
    (given,) = stored_inputs(program)
    zero = np.array(points, object).reshape(-1, 1, 1, 1)
    exact = exact_sums(given.astype(object) + 7, weights.astype(object) - zero, case, sizes[2])
    for form in ("inside", "after"):
        lowered = integer_program(program, "fixed32", form)
        assert forms(lowered) == [form]
        feed = {lowered.inputs[0].name: given}
        for run in (Interpreter(lowered), NativeProgram(lowered), Interpreter(lower_to_standard(lowered))):
            np.testing.assert_array_equal(next(iter(run(feed).values())), exact)


@pytest.mark.parametrize(("x", "w"), [("i8:f32, 0.5:-7", "i8:f32, 0.5:-128"), ("u8:f32, 0.5:200", "u8:f32, 0.5:3")])
@pytest.mark.parametrize(
    ("batch", "groups", "batches"), [("4", 1, 1), ("4", 2, 1), ("4", 1, 2), ("?", 1, 1), ("?", 2, 1)]
)
def test_a_convolution_of_two_activations_has_both_forms(batch: str, groups: int, batches: int, x: str, w: str) -> None:
    size = str(int(batch) // batches) if batch != "?" else "?"
    x, w = f"tensor<{batch}x4x5x5x!quant.uniform<{x}>>", f"tensor<4x{4 // groups}x3x3x!quant.uniform<{w}>>"
    y = f"tensor<{size}x4x5x5x!quant.uniform<i8:f32, 100.0:3>>"
    program = parse_program(f"""func.func @main(%x: {x}, %w: {w}) -> {y} {{
      %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window =
        {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = {batches} : i64, feature_group_count = {groups} : i64}}
        : ({x}, {w}) -> {y}
      return %y : {y}
    }}""")
    random = np.random.default_rng(2)
    kind = np.int8 if "<i8:f32, 0.5" in x else np.uint8
    given = [random.choice(np.array([0, 1, 127], kind), shape) for shape in ((4, 4, 5, 5), (4, 4 // groups, 3, 3))]
    given[0][0, 0] = np.iinfo(kind).min
    results: list[np.ndarray] = []
    for form in ("inside", "after"):
        lowered = integer_program(program, "fixed32", form)
        assert forms(lowered) == [form]
        results += Interpreter(lowered).run_values(given)
        if batch != "?" and batches == 1:
            feed = {port.name: array for port, array in zip(lowered.inputs, given, strict=True)}
            results += NativeProgram(lowered)(feed).values()
    assert len(np.unique(results[0])) > 5
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_a_forced_form_that_a_contraction_does_not_have_is_refused() -> None:
    x, w = "tensor<2x3x!quant.uniform<i16:f32, 0.5:9>>", "tensor<2x3x!quant.uniform<i16:f32, 0.5>>"
    y = "tensor<2x2x!quant.uniform<i32:f32, 0.25>>"
    program = parse_program(f"""func.func @main(%x: {x}, %w: {w}) -> {y} {{
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : ({x}, {w}) -> {y} loc("scores")
      return %y : {y}
    }}""")
    assert forms(integer_program(program, "fixed32")) == ["inside"]
    message = r"'scores'.*found zero_points = after.*expected operands of 8 bits.*use zero_points = inside"
    with pytest.raises(LoweringError, match=message):
        integer_program(program, "fixed32", "after")


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
