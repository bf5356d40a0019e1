"""A bias at another scale than the sums of products is requantized to theirs: at compile time if it is constant."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program
from zeropoint.numerics.profile import PROFILES
from zeropoint.quant_passes.errors import LoweringError

X, Y = "!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i8:f32, 2.0:-1>"
LAYER = ("!quant.uniform<i8:f32, 0.25>", "!quant.uniform<i32:f32, 0.125>")
CHANNELS = ("!quant.uniform<i8:f32:1, {0.25,0.125}>", "!quant.uniform<i32:f32:1, {0.125,0.0625}>")


def program(weights: str, sums: str, bias: str, *, constant: bool, op: str = "add") -> str:
    spread = bias.replace(":f32:0", ":f32:1")
    given = f"%b = stablehlo.constant() <{{value = dense<[100, -7]> : tensor<2xi32>}}> : () -> tensor<2x{bias}>"
    return f"""module attributes {{zeropoint.profile = "fixed32"}} {{
    func.func @main(%x: tensor<4x3x{X}>{"" if constant else f", %b: tensor<2x{bias}>"}) -> tensor<4x2x{Y}> {{
      %w = stablehlo.constant() <{{value = dense<[[1, -2], [127, 5], [-6, 7]]> : tensor<3x2xi8>}}>
        : () -> tensor<3x2x{weights}>
      {given if constant else ""}
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<4x3x{X}>, tensor<3x2x{weights}>) -> tensor<4x2x{sums}>
      %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2x{bias}>) -> tensor<4x2x{spread}>
      %2 = stablehlo.{op} %0, %1 : (tensor<4x2x{sums}>, tensor<4x2x{spread}>) -> tensor<4x2x{sums}>
      %3 = stablehlo.uniform_quantize %2 : (tensor<4x2x{sums}>) -> tensor<4x2x{Y}>
      return %3 : tensor<4x2x{Y}> }} }}"""


def agrees(text: str, *others: np.ndarray):
    quantized = parse_program(text)
    lowered = integer_program(quantized)
    x = np.random.default_rng(0).integers(-128, 128, (4, 3)).astype(np.int8)
    (expected,), (found,) = (Interpreter(each).run_values([x, *others]) for each in (quantized, lowered))
    np.testing.assert_array_equal(found, expected)
    feed = {port.name: array for port, array in zip(lowered.inputs, [x, *others], strict=True)}
    np.testing.assert_array_equal(next(iter(NativeProgram(lowered)(feed).values())), expected)
    return lowered


BIASES = {
    "per layer": (*LAYER, "!quant.uniform<i32:f32, 0.3>"),
    "per channel": (*CHANNELS, "!quant.uniform<i32:f32:0, {0.3,0.7}>"),
}


@pytest.mark.parametrize(("kind", "op"), [("per layer", "add"), ("per layer", "subtract"), ("per channel", "add")])
def test_a_constant_bias_is_folded(kind: str, op: str) -> None:
    lowered = agrees(program(*BIASES[kind], constant=True, op=op))
    requantized = [each for each in lowered.entry.ops if each.name == "fxpmath.requantize"]
    assert len(requantized) == 1  # that of the result


@pytest.mark.parametrize("kind", BIASES)
def test_a_computed_bias_is_requantized(kind: str) -> None:
    lowered = agrees(program(*BIASES[kind], constant=False), np.array([2**20, -77], np.int32))
    assert len([each for each in lowered.entry.ops if each.name == "fxpmath.requantize"]) == 2


def test_the_folded_bias_is_the_rounded_one_less_the_correction() -> None:
    lowered = agrees(program(*BIASES["per layer"], constant=True))
    (added,) = [each for each in lowered.entry.ops if each.name == "stablehlo.add"]
    bias = lowered.weights.array(added.operands[1].owner.operands[0].owner.value)
    assert bias.tolist() == [240 - 3 * 122, -17 - 3 * 10]  # 100 * 0.3 / 0.125 and -7 * 0.3 / 0.125 = -16.8


RUNTIMES = [
    "fixed16",
    "fixed32-double",
    "fixed32-double-products",
    "float64-away",
    "onnxruntime",
    "openvino",
    "openvino-amx",
    "tosa-double",
    "xnnpack",
]
REAL = sorted(set(PROFILES) - {*RUNTIMES, "fixed32"})


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "computed"])
@pytest.mark.parametrize("kind", BIASES)
@pytest.mark.parametrize("profile", RUNTIMES)
def test_a_bias_is_requantized_by_the_rounding_of_its_profile(profile: str, kind: str, *, constant: bool) -> None:
    text = program(*BIASES[kind], constant=constant).replace('"fixed32"', f'"{profile}"')
    agrees(text, *(() if constant else (np.array([2**20, -77], np.int32),)))


@pytest.mark.parametrize("profile", RUNTIMES)
def test_a_requantized_bias_is_the_nearest_integer(profile: str) -> None:
    """In exact fractions; no tie is among these."""
    text = program(*BIASES["per channel"], constant=True).replace('"fixed32"', f'"{profile}"')
    lowered = agrees(text)
    (added,) = [each for each in lowered.entry.ops if each.name == "stablehlo.add"]
    bias = lowered.weights.array(added.operands[1].owner.operands[0].owner.value)
    scales = [(Fraction("0.3"), Fraction("0.125")), (Fraction("0.7"), Fraction("0.0625"))]
    wanted = [round(q * given / sums) for q, (given, sums) in zip((100, -7), scales, strict=True)]
    assert bias.tolist() == [wanted[0] - 3 * 122, wanted[1] - 3 * 10]


@pytest.mark.parametrize("profile", REAL)
def test_a_bias_per_channel_at_another_scale_is_refused_where_sums_are_of_real_values(profile: str) -> None:
    text = program(*BIASES["per channel"], constant=True).replace('"fixed32"', f'"{profile}"')
    sentence = rf"stablehlo.add: found per-channel operands .* under profile '{profile}'.*Under fixed16, fixed32"
    with pytest.raises(LoweringError, match=sentence):
        integer_program(parse_program(text))
