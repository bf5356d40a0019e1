"""Calls, composites, regions and statistics: bodies run in place, values observed."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32

from interp.programs import execute, run_op
from zeropoint.interp import Interpreter, UnsupportedError, run
from zeropoint.ir.quant import ConstFakeQuantOp, ConstFakeQuantPerAxisOp, CoupledRefOp
from zeropoint.ir.text import parse_program
from zeropoint.numerics import dequantize, quantize

CALLS = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = func.call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = func.call @twice(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = stablehlo.composite "my.square" %1 {decomposition = @square} : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @square(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}"""


def test_calls_and_composites_run_their_functions():
    assert execute(CALLS, np.array([1, 3], np.float32)).tolist() == [16, 144]


def test_a_function_that_calls_itself_is_refused():
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = func.call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    with pytest.raises(UnsupportedError, match="a function that calls itself"):
        Interpreter(parse_program(text))


REGION = """
func.func @main(%x: tensor<2xf32> {zeropoint.name = "in"}, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "quant.stats_ref"(%x) {statsKey = "input"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "quant.region"(%0, %y) ({
    ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
      %2 = stablehlo.add %a, %b : tensor<2xf32>
      %3 = "quant.stats_ref"(%2) {statsKey = "inside"} : (tensor<2xf32>) -> tensor<2xf32>
      "quant.return"(%3) : (tensor<2xf32>) -> ()
  }) {input_specs = [f32, f32], output_specs = [f32], logical_kernel = "add"}
    : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = "quant.stats"(%1) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<2xf32>) -> tensor<2xf32>
  return %4 : tensor<2xf32>
}"""


def test_regions_run_their_bodies_and_statistics_are_observed():
    seen: dict[str, list[float]] = {}
    x, y = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    outputs = run(
        parse_program(REGION), {"in": x, "arg1": y}, observe=lambda key, array: seen.update({key: array.tolist()})
    )
    assert outputs["result0"].tolist() == [11, 22]
    assert seen == {"input": [1, 2], "inside": [11, 22]}


def test_statistics_of_constants_are_observed_too():
    text = """
    func.func @main() -> tensor<2xf32> {
      %c = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %0 = "quant.stats_ref"(%c) {statsKey = "c"} : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    seen: list[str] = []
    run(parse_program(text), {}, observe=lambda key, array: seen.append(key))
    assert seen == ["c"]


def test_coupled_values_are_left_as_they_are():
    x = np.array([1, 2], np.float32)
    result = run_op(lambda a: CoupledRefOp(a, "gate"), [TensorType(f32, [2])], x)
    assert result.tolist() == [1, 2]


def test_fake_quantization_is_quantize_and_dequantize():
    x = np.linspace(-8, 8, 100, dtype=np.float32)
    result = run_op(lambda a: ConstFakeQuantOp(a, -1.0, 6.0), [TensorType(f32, x.shape)], x)
    scale, zero_point = 7 / 255, round(255 / 7)
    np.testing.assert_array_equal(result, dequantize(quantize(x, scale, zero_point, 0, 255), scale, zero_point))
    channels = run_op(
        lambda a: ConstFakeQuantPerAxisOp(a, [-1.0, -2.0], [1.0, 6.0], 0, 4),
        [TensorType(f32, [2, 50])],
        x.reshape(2, 50),
    )
    assert channels[0].min() >= -1.2
    assert channels[0].max() <= 1.0
    assert len(np.unique(channels)) <= 2 * 16
