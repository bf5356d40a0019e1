"""Range analysis proves that no integer of a softmax overflows, from the ranges of its scores."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, quantize
from zeropoint.ranges import obligations, ranges_of


@pytest.mark.parametrize("terms", [2, 90, 512])
def test_every_integer_of_a_softmax_fits_its_type(terms: int) -> None:
    weight = np.random.default_rng(0).normal(size=(8, terms)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Softmax", ["a"], ["y"], axis=-1, name="softmax"),
    ]
    ports = [helper.make_tensor_value_info("x", 1, [4, 8])], [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "g", *ports, [numpy_helper.from_array(weight, "w")])
    program = load_onnx_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), {})
    samples = [{"x": np.random.default_rng(seed).normal(size=(4, 8)).astype(np.float32)} for seed in range(3)]
    integers = quantize(program, samples, Options(target="cpu-integer")).integer
    ranges = ranges_of(integers)
    shown = [each for op in integers.entry.ops for each in obligations(ranges, op)]
    assert len(shown) > 12
    assert [(each.op, each.what) for each in shown if not each.holds] == []


@pytest.mark.parametrize(
    ("op", "low", "high"),
    [
        ("stablehlo.and %x, %c : tensor<4xi32>", 0, 7),
        ("stablehlo.divide %x, %c : tensor<4xi32>", -18, 18),
        ("stablehlo.shift_right_arithmetic %c, %d : tensor<4xi32>", 0, 7),
        ("stablehlo.xor %c, %d : tensor<4xi32>", 4, 7),
        ("stablehlo.xor %d, %l : tensor<4xi32>", -(2**31), 3 - 2**31),
        ("stablehlo.xor %f, %l : tensor<4xi32>", 0, 3),
        ("stablehlo.xor %x, %c : tensor<4xi32>", -128, 127),
    ],
)
def test_results_of_bits_and_quotients_have_bounds(op: str, low: int, high: int) -> None:
    program = parse_program(f"""func.func @main(%given: tensor<4xi8>) -> tensor<4xi32> {{
      %x = stablehlo.convert %given : (tensor<4xi8>) -> tensor<4xi32>
      %c = stablehlo.constant dense<7> : tensor<4xi32>
      %e = stablehlo.constant dense<3> : tensor<4xi32>
      %l = stablehlo.constant dense<-2147483648> : tensor<4xi32>
      %d = stablehlo.and %x, %e : tensor<4xi32>
      %f = stablehlo.xor %d, %l : tensor<4xi32>
      %y = {op}
      return %y : tensor<4xi32> }}""")
    last = list(program.entry.ops)[-2]
    found = ranges_of(program).of(last.results[0])
    assert (found.least, found.greatest) == (low, high)


def test_a_maximum_less_its_elements_is_not_negative() -> None:
    program = parse_program("""func.func @main(%given: tensor<4x3xi8>) -> tensor<4x3xi32> {
      %x = stablehlo.convert %given : (tensor<4x3xi8>) -> tensor<4x3xi32>
      %least = stablehlo.constant dense<-2147483648> : tensor<i32>
      %m = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [1]
         : (tensor<4x3xi32>, tensor<i32>) -> tensor<4xi32>
      %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<4xi32>) -> tensor<4x3xi32>
      %y = stablehlo.subtract %b, %x : tensor<4x3xi32>
      return %y : tensor<4x3xi32> }""")
    last = list(program.entry.ops)[-2]
    found = ranges_of(program).of(last.results[0])
    assert (found.least, found.greatest) == (0, 255)
