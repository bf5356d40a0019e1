"""What the lowering makes of each quantized op, and what it refuses, with the op's name and place."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType

from zeropoint.interp import Interpreter
from zeropoint.ir.fxpmath import RequantizeOp, TableOp, WeightedSumOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp
from zeropoint.ir.tensors import element_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import LoweringError, integer_io, integer_program, lower
from zeropoint.report.counts import float_ops

PROFILES = ("fixed16", "fixed32", "fixed32-double", "tosa-double")


def q(shape: str, scale: float, zero_point: int = 0, storage: str = "i8") -> str:
    """A tensor type; the shape "" is a scalar's."""
    return f"tensor<{shape}{'x' if shape else ''}!quant.uniform<{storage}:f32, {scale}:{zero_point}>>"


def program(body: str, arguments: dict[str, str], result: str, profile: str | None = None) -> Program:
    """`body` defines %r; its ops are named "the op"."""
    header = f'module attributes {{zeropoint.profile = "{profile}"}} {{' if profile else "module {"
    ports = ", ".join(f"%{name}: {kind}" for name, kind in arguments.items())
    return parse_program(f"{header}\nfunc.func @main({ports}) -> {result} {{\n{body}\nreturn %r : {result}\n}}\n}}")


def refusal(body: str, arguments: dict[str, str], result: str, profile: str = "fixed32") -> str:
    with pytest.raises(LoweringError) as caught:
        lower(program(body, arguments, result), profile)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def every_value(rows: int = 1) -> np.ndarray:
    return np.tile(np.arange(-128, 128, dtype=np.int8), (rows, 1))


def assert_exact(given: Program, *arrays: np.ndarray) -> Program:
    """The lowered program computes the same storage integers."""
    lowered = integer_program(given)
    verify(lowered.module)
    for expected, found in zip(
        Interpreter(given).run_values(arrays), Interpreter(lowered).run_values(arrays), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    return lowered


SCALES = [(0.5, 3, 0.5, 3), (0.5, 3, 0.02, -128), (0.013, -128, 1.7, 127), (1.0, 0, 1.0, 5), (0.3, 10, 1e4, 0)]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("scales", SCALES)
def test_a_change_of_parameters_is_a_requantization(scales: tuple[float, int, float, int], profile: str) -> None:
    given, wanted = q("1x256", *scales[:2]), q("1x256", *scales[2:])
    before = program(f"%r = stablehlo.uniform_quantize %x : ({given}) -> {wanted}", {"x": given}, wanted, profile)
    lowered = assert_exact(before, every_value())
    found = [op for op in lowered.entry.ops if isinstance(op, RequantizeOp)]
    assert len(found) == (0 if given == wanted else 1)


PAIRS = [(0.1, 3, 0.1, 3, 0.1, 3), (0.5, -128, 0.01, 127, 0.4, 0), (1.0, 0, 1e-4, 7, 2.0, -5)]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply"])
@pytest.mark.parametrize(
    "scales", [(0.1, 3, 0.1, 3, 0.1, 3), (0.5, -128, 0.01, 127, 0.4, 0), (1.0, 0, 1e-4, 7, 2.0, -5)]
)
def test_sums_and_products_of_all_pairs_of_values_are_exact(
    op: str, scales: tuple[float, int, float, int, float, int], profile: str
) -> None:
    lhs, rhs, result = (q("256x256", *scales[i : i + 2]) for i in (0, 2, 4))
    body = f"%r = stablehlo.{op} %x, %y : ({lhs}, {rhs}) -> {result}"
    before = program(body, {"x": lhs, "y": rhs}, result, profile)
    x = every_value(256)
    lowered = assert_exact(before, x, np.ascontiguousarray(x.T))
    if op != "multiply" and profile in ("fixed16", "fixed32"):
        assert sum(isinstance(op, WeightedSumOp) for op in lowered.entry.ops) == 1


@pytest.mark.parametrize(
    "function", ["tanh", "logistic", "exponential", "abs", "negate", "sqrt", "rsqrt", "log", "sign"]
)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_function_is_a_table_with_the_value_of_every_input(function: str, profile: str) -> None:
    given, wanted = q("1x256", 0.05, -28), q("1x256", 0.1, 5)
    body = f"""%0 = stablehlo.uniform_dequantize %x : ({given}) -> tensor<1x256xf32>
      %1 = stablehlo.{function} %0 : tensor<1x256xf32>
      %r = stablehlo.uniform_quantize %1 : (tensor<1x256xf32>) -> {wanted}"""
    lowered = assert_exact(program(body, {"x": given}, wanted, profile), every_value())
    assert sum(isinstance(op, TableOp) for op in lowered.entry.ops) == 1
    assert not any(op.name == f"stablehlo.{function}" for op in lowered.entry.ops)


def test_a_lowered_program_carries_the_profile_it_was_lowered_under() -> None:
    given = q("1x256", 0.5)
    before = program(f"%r = stablehlo.add %x, %x : {given}", {"x": given}, given, "fixed16")
    assert lower(before, "fixed32-double").profile == "fixed32-double"
    assert lower(before).profile == "fixed16"
    assert before.profile == "fixed16"


def test_the_edges_round_as_the_profile_that_was_asked_for() -> None:
    """0.5 steps: to even under fixed16, away from zero under fixed32-double."""
    given = q("3", 1.0)
    body = f"%r = stablehlo.uniform_quantize %x : (tensor<3xf32>) -> {given}"
    before = program(body, {"x": "tensor<3xf32>"}, given, "fixed16")
    x = np.array([0.5, 2.5, -0.5], np.float32)
    assert Interpreter(lower(before)).run_values([x])[0].tolist() == [0, 2, 0]
    assert Interpreter(lower(before, "fixed32-double")).run_values([x])[0].tolist() == [1, 3, -1]


def test_an_unknown_profile_is_refused() -> None:
    given = q("4", 0.5)
    with pytest.raises(ValueError, match="found the numerics profile 'nearest'; expected one of fixed16"):
        lower(program(f"%r = stablehlo.add %x, %x : {given}", {"x": given}, given), "nearest")


X, Y = q("4", 0.5, 3), q("4", 0.25)
CHANNELS = "tensor<{}x!quant.uniform<{}:f32:{}, {{{{0.5:0,0.25:0}}}}>>"
REFUSED = {
    "a float profile": (
        f'%r = stablehlo.add %x, %y : ({X}, {Y}) -> {X} loc("the op")',
        {"x": X, "y": Y},
        X,
        "'the op': found profile 'exact', whose sums are 'float64', expected one with integer sums",
    ),
    "a maximum of two scales": (
        f'%r = stablehlo.maximum %x, %y : ({X}, {Y}) -> {X} loc("the op")',
        {"x": X, "y": Y},
        X,
        "stablehlo.maximum 'the op': found an operand of type",
    ),
    "a quantized op without integer form": (
        f"""%r = "stablehlo.map"(%x) <{{dimensions = array<i64: 0>}}> ({{
        ^bb0(%a: {q("", 0.5, 3)}):
          stablehlo.return %a : {q("", 0.5, 3)}
        }}) : ({X}) -> {X} loc("the op")""",
        {"x": X},
        X,
        "stablehlo.map 'the op': found a quantized op with no integer form; dequantize around it",
    ),
    "a sum of products with another scale for each channel": (
        f"""%w = stablehlo.constant() <{{value = dense<1> : tensor<4x2xi8>}}> : () -> {CHANNELS.format("4x2", "i8", 1)}
        %r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :
             ({q("1x4", 0.5)}, {CHANNELS.format("4x2", "i8", 1)}) -> {CHANNELS.format("1x2", "i8", 1)} loc("the op")""",
        {"x": q("1x4", 0.5)},
        CHANNELS.format("1x2", "i8", 1),
        "stablehlo.dot_general 'the op': found a result of type",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_integer_form_is_refused_by_name(case: str) -> None:
    body, arguments, result, message = REFUSED[case]
    assert message in refusal(body, arguments, result, "exact" if case == "a float profile" else "fixed32")


def test_a_sum_whose_scales_leave_no_room_is_refused_by_name() -> None:
    large, small = q("4", 1e9), q("4", 1.0)
    body = f'%r = stablehlo.add %x, %y : ({large}, {large}) -> {small} loc("the op")'
    for profile in ("fixed16", "fixed32-double"):
        message = refusal(body, {"x": large, "y": large}, small, profile)
        assert message.startswith("stablehlo.add 'the op': found ")
        assert "widen the" in message


@pytest.mark.parametrize(("bias", "width"), [(2**31 - 1 - 8 * 255 * 127, 32), (2**31 - 8 * 255 * 127, 64)])
def test_a_bias_that_takes_the_sum_past_32_bits_is_added_in_64(bias: int, width: int) -> None:
    given, weight, wide = q("1x8", 0.5, -128), q("8x2", 1.0), q("1x2", 0.5, 0, "i32")
    body = f"""%w = stablehlo.constant() <{{value = dense<127> : tensor<8x2xi8>}}> : () -> {weight}
      %b = stablehlo.constant() <{{value = dense<[0, {bias}]> : tensor<2xi32>}}> : () -> {q("2", 0.5, 0, "i32")}
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({given}, {weight}) -> {wide}
      %1 = stablehlo.broadcast_in_dim %b, dims = [1] : ({q("2", 0.5, 0, "i32")}) -> {wide}
      %r = stablehlo.add %0, %1 : {wide}"""
    before = program(body, {"x": given}, wide, "fixed32")
    assert_exact(before, np.full((1, 8), 127, np.int8))
    adds = [op for op in lower(before).entry.ops if isinstance(op, AddOp)]
    assert [element_of(op.result) for op in adds] == [IntegerType(32), IntegerType(width)]


def test_sums_that_requantize_themselves_are_refused_where_32_bits_do_not_hold_them() -> None:
    terms = 140_000
    given, weight, out = q(f"1x{terms}", 0.5), q(f"{terms}x3", 1.0), q("1x3", 9e6)
    stored = f'dense<"0x{bytes([1, 127, 2] * terms).hex()}"> : tensor<{terms}x3xi8>'
    body = f"""%w = stablehlo.constant() <{{value = {stored}}}> : () -> {weight}
      %r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({given}, {weight}) -> {out} loc("the op")"""
    assert refusal(body, {"x": given}, out) == (
        "stablehlo.dot_general 'the op': channel 1: found sums of products up to 2275840000, expected at most "
        "2147483647 (i32); quantize its weights to fewer bits or split its sums"
    )


def test_a_sum_that_passes_32_bits_saturates_once() -> None:
    given, scalar = q("5", 0.5, 0, "i32"), q("", 0.5, 0, "i32")
    body = f"""%0 = stablehlo.constant() <{{value = dense<0> : tensor<i32>}}> : () -> {scalar}
      %r = stablehlo.reduce(%x init: %0) applies stablehlo.add across dimensions = [0] :
           ({given}, {scalar}) -> {scalar}"""
    most, least = 2**31 - 1, -(2**31)
    for values in ([most, 1, least, 5, 0], [most, least, 1, 1, 7], [least, -1, most, most, 3]):
        assert_exact(program(body, {"x": given}, scalar, "fixed32"), np.array(values, np.int32))


WIDE, OTHER = q("4", 0.1, 0, "i32"), q("4", 0.02, 0, "i32")
OUTSIDE = {
    "unsigned 32 bits": ("uniform_quantize", [q("4", 0.5, 128, "u32")], X, "found storage u32 in "),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_storage_that_the_integer_program_would_compute_wrongly_is_refused(case: str) -> None:
    op, kinds, result, message = OUTSIDE[case]
    names = ["x", "y"][: len(kinds)]
    operands = ", ".join(f"%{name}" for name in names)
    body = f'%r = stablehlo.{op} {operands} : ({", ".join(kinds)}) -> {result} loc("the op")'
    found = refusal(body, dict(zip(names, kinds, strict=True)), result, "fixed16")
    assert found.startswith(f"stablehlo.{op} 'the op': ")
    assert message in found


@pytest.mark.parametrize(("op", "kinds"), [("add", (WIDE, WIDE, OTHER)), ("multiply", (WIDE, WIDE, OTHER))])
def test_sums_and_products_of_32_bits_at_several_scales_are_float_with_the_reason(
    op: str, kinds: tuple[str, str, str]
) -> None:
    x, y, result = kinds
    before = program(f"%r = stablehlo.{op} %x, %y : ({x}, {y}) -> {result}", {"x": x, "y": y}, result, "fixed32")
    lowered = integer_program(before)
    ((_, reason),) = float_ops(lowered)
    assert reason.startswith("a sum of 32-bit values at several scales, or a product at another scale")
    given = [np.array(values, np.int32) for values in ([5, -7, 2**31 - 1, -(2**31)], [3, 2**31 - 1, 9, -4])]
    assert_exact(before, *given)


def test_a_product_of_two_activations_with_too_many_terms_saturates() -> None:
    given, other = q("1x70000", 0.5, -128), q("70000x1", 0.5)
    wide = q("1x1", 0.25, 0, "i32")
    body = f"%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({given}, {other}) -> {wide}"
    before = program(body, {"x": given, "y": other}, wide, "fixed32")
    for value in (127, -128):
        assert_exact(before, np.full((1, 70000), 127, np.int8), np.full((70000, 1), value, np.int8))


def test_integer_io_refuses_an_input_that_float_ops_read_too() -> None:
    given = q("4", 0.5)
    body = f"""%0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> {given}
      %1 = stablehlo.uniform_dequantize %0 : ({given}) -> tensor<4xf32>
      %r = stablehlo.add %1, %x : tensor<4xf32>"""
    lowered = integer_program(program(body, {"x": "tensor<4xf32>"}, "tensor<4xf32>", "fixed16"))
    with pytest.raises(LoweringError, match=r"input 'arg0': found stablehlo\.add on its float value"):
        integer_io(lowered)


def test_integer_io_keeps_names_and_notes_what_the_integers_express() -> None:
    given = q("4", 0.5, -3)
    body = f"""%0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> {given}
      %1 = stablehlo.add %0, %0 : {given}
      %r = stablehlo.uniform_dequantize %1 : ({given}) -> tensor<4xf32>"""
    result = integer_io(integer_program(program(body, {"x": "tensor<4xf32>"}, "tensor<4xf32>", "fixed16")))
    verify(result.module)
    (port,) = result.inputs
    assert str(port.type) == "tensor<4xi8>"
    assert "i8:f32, 5.000000e-01:-3" in str(result.main.arg_attrs)
    assert "i8:f32, 5.000000e-01:-3" in str(result.main.res_attrs)
    stored = np.array([1, 2, -3, 100], np.int8)
    assert Interpreter(result).run_values([stored])[0].tolist() == [5, 7, -3, 127]


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_zero_points_are_spread_over_dynamic_dimensions(rows: int) -> None:
    given, scalar, out = q("?x6", 0.5, 3), q("", 0.5, 3), q("?", 0.5, 3)
    summed = f"""%i = stablehlo.constant() <{{value = dense<3> : tensor<i8>}}> : () -> {scalar}
      %r = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : ({given}, {scalar}) -> {out}"""
    signed, unsigned = q("6x?", 0.5), q("6x?", 0.25, 3, "u8")
    stored = np.random.default_rng(rows).integers(-128, 128, (rows, 6)).astype(np.int8)
    (found,) = Interpreter(integer_program(program(summed, {"x": given}, out, "fixed32"))).run_values([stored])
    np.testing.assert_array_equal(found, np.clip((stored.astype(int) - 3).sum(axis=1) + 3, -128, 127))
    weights, sums = q("6x4", 0.25), q("?x4", 0.125, 0, "i32")
    body = f"%r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({given}, {weights}) -> {sums}"
    product = integer_program(program(body, {"x": given, "w": weights}, sums, "fixed32"))
    other = np.random.default_rng(9).integers(-128, 128, (6, 4)).astype(np.int8)
    (found,) = Interpreter(product).run_values([stored, other])
    np.testing.assert_array_equal(found, (stored.astype(int) - 3) @ other)
    body = f"%r = stablehlo.uniform_quantize %x : ({signed}) -> {unsigned}"
    (found,) = Interpreter(integer_program(program(body, {"x": signed}, unsigned, "fixed32"))).run_values([stored.T])
    np.testing.assert_array_equal(found, np.clip(2 * stored.T.astype(int) + 3, 0, 255))


def test_a_sum_along_a_dynamic_dimension_is_refused_by_name() -> None:
    given, scalar, out = q("?x6", 0.5), q("", 0.5), q("6", 0.5)
    body = f"""%i = stablehlo.constant() <{{value = dense<0> : tensor<i8>}}> : () -> {scalar}
      %r = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [0]
        : ({given}, {scalar}) -> {out} loc("the op")"""
    message = refusal(body, {"x": given}, out)
    assert message.startswith(
        "stablehlo.reduce 'the op': found a sum along the dynamic dimension 0 of tensor<?x6x!quant"
    )


MOVED = {
    "transposed floats": f"""%c = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
      %t = stablehlo.transpose %c, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
      %w = stablehlo.uniform_quantize %t : (tensor<2x2xf32>) -> {q("2x2", 0.5)}""",
    "reshaped floats": f"""%c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
      %t = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<2x2xf32>
      %w = stablehlo.uniform_quantize %t : (tensor<2x2xf32>) -> {q("2x2", 0.5)}""",
    "transposed integers": f"""%c = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
      %t = stablehlo.transpose %c, dims = [1, 0] : (tensor<2x2xi8>) -> tensor<2x2xi8>
      %w = quant.scast %t : tensor<2x2xi8> to {q("2x2", 0.5)}""",
    "a broadcast number": f"""%c = stablehlo.constant dense<2.0> : tensor<f32>
      %t = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
      %w = stablehlo.uniform_quantize %t : (tensor<2x2xf32>) -> {q("2x2", 0.5)}""",
}


@pytest.mark.parametrize("how", MOVED)
def test_a_constant_that_is_moved_before_it_is_quantized_keeps_its_numbers(how: str) -> None:
    body = f"{MOVED[how]}\n%r = stablehlo.add %x, %w : {q('2x2', 0.5)}"
    assert_exact(program(body, {"x": q("2x2", 0.5)}, q("2x2", 0.5), "fixed32"), np.zeros((2, 2), np.int8))
