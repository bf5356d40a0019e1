"""Native code for programs of floats with casts between them, as QDQ files are imported."""

from __future__ import annotations

import numpy as np

import zeropoint as zp

TEXT = """
func.func @main(%x: tensor<1x4xf32>) -> (tensor<1x2xf32>) {
  %q = quant.qcast %x : tensor<1x4xf32> to tensor<1x4x!quant.uniform<u8:f32, 0.1:142>>
  %d = quant.dcast %q : tensor<1x4x!quant.uniform<u8:f32, 0.1:142>> to tensor<1x4xf32>
  %w = stablehlo.constant dense<[[1.0, -2.0], [0.1, 0.7], [-1.5, 0.2], [0.9, 0.8]]> : tensor<4x2xf32>
  %y = stablehlo.dot_general %d, %w, contracting_dims = [1] x [0]
    : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
"""


def test_casts_between_floats_run_in_native_code_with_the_same_bits() -> None:
    model = zp.load(TEXT)
    x = np.array([[0.05, -0.15, 99.0, -99.0]], np.float32)
    (expected,), (found,) = model.interpreted()(x).values(), model.native()(x).values()
    np.testing.assert_array_equal(found, expected)
