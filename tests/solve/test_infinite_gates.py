"""-inf beside other numbers is legitimate: functions give their limits there, whatever the observed range is."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import zeropoint as zp


@pytest.mark.parametrize(("function", "closed"), [("Sigmoid", 0.0), ("Tanh", -1.0)])
def test_a_gate_that_is_closed_by_an_infinite_bias_is_quantized(function: str, closed: float) -> None:
    """It was refused: "found NaN or infinities in a constant"."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,16] x, float[16,16] w, float[16] mask) => (float[1,16] y) {{
          a = MatMul(x, w)
          b = Add(a, mask)
          y = {function}(b)
        }}""")
    random = np.random.default_rng(0)
    mask = np.where(np.arange(16) < 13, 0, -np.inf).astype(np.float32)
    arrays = {"w": random.normal(0, 0.25, (16, 16)).astype(np.float32), "mask": mask}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    del model.graph.input[1:]
    data = {"x": random.normal(size=(32, 16)).astype(np.float32)}
    quantized = zp.quantize(model, data, effort="none")
    (output,) = zp.compare(model, quantized, data).outputs
    assert output.sqnr > 28
    found = quantized(x=data["x"][:1])["y"]
    np.testing.assert_allclose(found[:, 13:], closed, atol=0.01)


HEAD = """func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %w = stablehlo.constant dense<WEIGHTS> : tensor<8x8xf32>
  %m = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %row = stablehlo.constant dense<[0.0, 0.0, 0xFF800000, 0.0, 0.0, 0xFF800000, 0.0, 0.0]> : tensor<8xf32>
  %mask = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<8xf32>) -> tensor<2x8xf32>
  %lows = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
  %shown = stablehlo.constant dense<[true, true, false, true, true, false, true, false]> : tensor<8xi1>
  %places = stablehlo.broadcast_in_dim %shown, dims = [1] : (tensor<8xi1>) -> tensor<2x8xi1>
BODY
  return %r : tensor<2x8xf32>
}
"""
ADDED = "%a = stablehlo.add %m, %mask : tensor<2x8xf32>"
SELECTED = "%a = stablehlo.select %places, %m, %lows : tensor<2x8xi1>, tensor<2x8xf32>"
SLICED = "%s = stablehlo.slice %m [0:2, 0:5] : (tensor<2x8xf32>) -> tensor<2x5xf32>"
PADDED = f"""{SLICED}
  %a = stablehlo.pad %s, %low, low = [0, 1], high = [0, 2], interior = [0, 0]
    : (tensor<2x5xf32>, tensor<f32>) -> tensor<2x8xf32>"""
MOVED = """%b = stablehlo.select %places, %m, %lows : tensor<2x8xi1>, tensor<2x8xf32>
  %c = stablehlo.reverse %b, dims = [0] : tensor<2x8xf32>
  %a = stablehlo.add %c, %m : tensor<2x8xf32>"""
GREATEST = """%z = "stablehlo.reduce"(%a, %low) <{dimensions = array<i64: 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %one = stablehlo.maximum %p, %q : tensor<f32>
    stablehlo.return %one : tensor<f32>
  }) : (tensor<2x8xf32>, tensor<f32>) -> tensor<2xf32>
  %top = stablehlo.broadcast_in_dim %z, dims = [0] : (tensor<2xf32>) -> tensor<2x8xf32>"""
SUMMED = """%d = stablehlo.subtract %a, %top : tensor<2x8xf32>
  %e = stablehlo.exponential %d : tensor<2x8xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %t = "stablehlo.reduce"(%e, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %one = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %one : tensor<f32>
  }) : (tensor<2x8xf32>, tensor<f32>) -> tensor<2xf32>
  %sum = stablehlo.broadcast_in_dim %t, dims = [0] : (tensor<2xf32>) -> tensor<2x8xf32>
  %l = stablehlo.log %sum : tensor<2x8xf32>
  %r = stablehlo.add %l, %top : tensor<2x8xf32>"""
READERS = {
    "logistic": "%r = stablehlo.logistic %a : tensor<2x8xf32>",
    "exponential": "%r = stablehlo.exponential %a : tensor<2x8xf32>",
    "tanh of the negated": "%n = stablehlo.negate %a : tensor<2x8xf32>\n  %r = stablehlo.tanh %n : tensor<2x8xf32>",
    "a low clamp": "%five = stablehlo.constant dense<-5.0> : tensor<2x8xf32>\n"
    "  %r = stablehlo.maximum %a, %five : tensor<2x8xf32>",
    "greatest": f"{GREATEST}\n  %r = stablehlo.tanh %top : tensor<2x8xf32>",
    "log-sum-exp": f"{GREATEST}\n  {SUMMED}",
}


INSERTED = {"added": ADDED, "selected": SELECTED, "padded": PADDED, "moved": MOVED}


@pytest.mark.parametrize(
    ("inserted", "target"),
    [
        *(("added", target) for target in ("cpu", "cpu-integer", "litert", "onnxruntime")),
        *(("selected", "cpu"), ("selected", "cpu-integer"), ("padded", "litert"), ("moved", "onnxruntime")),
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_a_function_of_a_hidden_number_gives_its_limit(reader: str, inserted: str, target: str) -> None:
    """-inf became the least number observed, whose exponential is not 0: 8 to 22 dB. -1e9 for it gave 0 dB."""
    random = np.random.default_rng(1)
    weights = (random.normal(size=(8, 8)) * 0.15).round(4).tolist()
    text = HEAD.replace("WEIGHTS", str(weights)).replace("BODY", f"  {INSERTED[inserted]}\n  {READERS[reader]}")
    data = {"x": random.normal(size=(32, 2, 8)).astype(np.float32)}
    made = zp.quantize(text, data, target=target, effort="none")
    (output,) = zp.compare(zp.load(text), made, data).outputs
    assert output.sqnr > 30
    sample = {"x": data["x"][0]}
    np.testing.assert_array_equal(made(**sample)["result0"], made.native()(**sample)["result0"])
