"""Operands computed from constants alone have the range of their numbers; infinite ones saturate where a kernel may."""

from __future__ import annotations

import numpy as np
import pytest

import zeropoint as zp

HEAD = """func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %w = stablehlo.constant dense<WEIGHTS> : tensor<8x8xf32>
  %m = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %s = stablehlo.slice %m [0:2, 0:5] : (tensor<2x8xf32>) -> tensor<2x5xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
BODY
  %n = "stablehlo.reduce"(%a, %low) <{dimensions = array<i64: 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %one = stablehlo.maximum %p, %q : tensor<f32>
    stablehlo.return %one : tensor<f32>
  }) : (tensor<2x8xf32>, tensor<f32>) -> tensor<2xf32>
  %r = stablehlo.broadcast_in_dim %n, dims = [0] : (tensor<2xf32>) -> tensor<2x8xf32>
  %y = stablehlo.dot_general %r, %w, contracting_dims = [1] x [0]
    : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
"""
JOINED = "%a = stablehlo.concatenate %s, %b, dim = 1 : (tensor<2x5xf32>, tensor<2x3xf32>) -> tensor<2x8xf32>"
BROADCAST = f"%b = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<f32>) -> tensor<2x3xf32>\n{JOINED}"
FINITE = f"""%c = stablehlo.constant dense<[0.5, -0.5, 0.1]> : tensor<3xf32>
  %b = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  {JOINED}"""
CONSTANT = f"%b = stablehlo.constant dense<0xFF800000> : tensor<2x3xf32>\n{JOINED}"
MIXED = f"""%b = stablehlo.constant dense<[[0xFF800000, 0.5, 0xFF800000], [0.2, -0.5, 0xFF800000]]> : tensor<2x3xf32>
  {JOINED}"""
COUNTED = f"""%i = stablehlo.iota dim = 1 : tensor<2x3xf32>
  %b = stablehlo.tanh %i : tensor<2x3xf32>
  {JOINED}"""
MAXIMUM = """%row = stablehlo.constant dense<[0.1, 0xFF800000, 0.3, 0.0, 0xFF800000, 0.2, 0.1, 0.0]> : tensor<8xf32>
  %b = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<8xf32>) -> tensor<2x8xf32>
  %a = stablehlo.maximum %m, %b : tensor<2x8xf32>"""
GATHERED = """%table = stablehlo.constant dense<[[0.0, 0.0, 0xFF800000, 0.0, 0.0, 0.0, 0xFF800000, 0.0],
    [0.0, 0xFF800000, 0xFF800000, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]>
    : tensor<3x8xf32>
  %first = stablehlo.slice %x [0:2, 0:1] : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %size = stablehlo.abs %first : tensor<2x1xf32>
  %at = stablehlo.convert %size : (tensor<2x1xf32>) -> tensor<2x1xi32>
  %g = "stablehlo.gather"(%table, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>,
    indices_are_sorted = false}> : (tensor<3x8xf32>, tensor<2x1xi32>) -> tensor<2x8xf32>
  %a = stablehlo.add %m, %g : tensor<2x8xf32>"""
BODIES = {
    "broadcast": BROADCAST,
    "finite": FINITE,
    "constant": CONSTANT,
    "mixed": MIXED,
    "iota": COUNTED,
    "maximum": MAXIMUM,
    "gathered": GATHERED,
}


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime"])
@pytest.mark.parametrize("body", BODIES)
def test_operands_that_do_not_depend_on_inputs_need_no_statistics(body: str, target: str) -> None:
    """They were refused on some target: "found no statistics", or "found NaN or infinities in a constant"."""
    random = np.random.default_rng(0)
    weights = random.normal(0, 0.3, (8, 8)).round(4).tolist()
    text = HEAD.replace("BODY", BODIES[body]).replace("WEIGHTS", str(weights))
    data = random.normal(size=(32, 2, 8)).astype(np.float32)
    data[:, :, 0] = random.integers(0, 3, (32, 2)) + 0.5  # rows of the table, where rounding selects no other row
    (output,) = zp.compare(zp.load(text), zp.quantize(text, data, target=target, effort="none"), data).outputs
    assert output.sqnr > 30
