"""Unsigned integers are signless in standard form: arguments, results, calls, loops and edges have the same bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from oracle import mlir
from standard.programs import signless
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program
from zeropoint.lower import lower
from zeropoint.pipeline import Options, quantize
from zeropoint.standard import lower_to_loops, lower_to_standard


def agrees(program: Program, values: list[Array], *, loops: bool = True) -> None:
    """In our interpreter and, where C++ MLIR is installed, compiled by it."""
    expected, given = signless(Interpreter(program).run_values(values)), signless(values)
    forms = [(lower_to_standard(program), "")]
    if loops:
        forms.append((lower_to_loops(program), "func.func(lower-affine),"))
    for lowered, pipeline in forms:
        assert "ui8" not in print_program(lowered)
        assert "unrealized" not in print_program(lowered)
        for ours, theirs in zip(expected, Interpreter(lowered).run_values(given), strict=True):
            np.testing.assert_array_equal(theirs, ours)
        mlir.require()
        for ours, theirs in zip(expected, mlir.ORACLE.call(lowered, [given], pipeline)[0], strict=True):
            np.testing.assert_array_equal(theirs.reshape(ours.shape), ours)


BYTES: Array = np.array([0, 1, 127, 128, 200, 255], np.uint8)
CALLED = """module {
  func.func private @greater(%a: tensor<6xui8>, %b: tensor<6xui8>) -> tensor<6xui8> {
    %s = stablehlo.maximum %a, %b : tensor<6xui8>
    return %s : tensor<6xui8>
  }
  func.func @main(%x: tensor<6xui8>, %z: tensor<6xui8>) -> (tensor<6xui8>, tensor<6xui8>) {
    %c = stablehlo.constant dense<150> : tensor<6xui8>
    %y = func.call @greater(%x, %c) : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
    %d = stablehlo.divide %y, %z : tensor<6xui8>
    return %d, %x : tensor<6xui8>, tensor<6xui8>
  }
}"""
LOOP = """func.func @main(%x: tensor<6xui8>, %most: tensor<ui8>) -> (tensor<6xui8>, tensor<ui8>) {
  %zero = stablehlo.constant dense<100> : tensor<ui8>
  %step = stablehlo.constant dense<10> : tensor<ui8>
  %out:2 = stablehlo.while(%a = %x, %n = %zero) : tensor<6xui8>, tensor<ui8>
  cond {
    %again = stablehlo.compare LT, %n, %most : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    %b = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<ui8>) -> tensor<6xui8>
    %c = stablehlo.minimum %a, %b : tensor<6xui8>
    %d = stablehlo.add %c, %a : tensor<6xui8>
    %m = stablehlo.add %n, %step : tensor<ui8>
    stablehlo.return %d, %m : tensor<6xui8>, tensor<ui8>
  }
  return %out#0, %out#1 : tensor<6xui8>, tensor<ui8>
}"""


def test_functions_that_are_called_take_and_return_signless_integers() -> None:
    agrees(parse_program(CALLED), [BYTES, BYTES[::-1].copy()], loops=False)


def test_a_loop_carries_signless_integers() -> None:
    agrees(parse_program(LOOP), [BYTES, np.array(200, np.uint8)], loops=False)


@pytest.mark.parametrize("profile", ["stablehlo", "onnxruntime", "xnnpack", "fixed32"])
def test_arguments_of_unsigned_storage_become_their_signless_storage(profile: str) -> None:
    text = f"""module attributes {{zeropoint.profile = "{profile}"}} {{
    func.func @main(%x: tensor<6x!quant.uniform<u8:f32, 0.1:7>>, %z: tensor<6xf32>)
      -> (tensor<6x!quant.uniform<u8:f32, 0.05:200>>, tensor<6xf32>) {{
      %0 = stablehlo.uniform_quantize %z : (tensor<6xf32>) -> tensor<6x!quant.uniform<u8:f32, 0.1:7>>
      %1 = stablehlo.add %x, %0 : tensor<6x!quant.uniform<u8:f32, 0.1:7>>
      %2 = stablehlo.uniform_quantize %1
        : (tensor<6x!quant.uniform<u8:f32, 0.1:7>>) -> tensor<6x!quant.uniform<u8:f32, 0.05:200>>
      %3 = stablehlo.uniform_dequantize %2 : (tensor<6x!quant.uniform<u8:f32, 0.05:200>>) -> tensor<6xf32>
      return %2, %3 : tensor<6x!quant.uniform<u8:f32, 0.05:200>>, tensor<6xf32>
    }}}}"""
    agrees(lower(parse_program(text)), [BYTES, np.array([0, -1, 3.05, 20, 300, np.nan], np.float32)])


@pytest.mark.parametrize("target", ["onnxruntime", "cpu"])
def test_a_network_of_u8_activations_takes_pixels(target: str) -> None:
    random = np.random.default_rng(0)
    arrays = {"w": random.normal(size=(4, 3, 3, 3)), "b": random.normal(size=4)}
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Conv", ["f", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 3, 8, 8]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 1, 1]),
    ]
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "pixels", ports[:1], ports[1:], weights)
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    samples = [{"x": random.integers(0, 256, (1, 3, 8, 8)).astype(np.uint8)} for _ in range(4)]
    program = quantize(load_onnx_model(model, {}), samples, Options(target=target)).integer
    agrees(program, [samples[0]["x"]])
