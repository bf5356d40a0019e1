"""Names that fusion gives to functions of one value."""

from __future__ import annotations

import numpy as np

import zeropoint as zp

SQUARED_ROOT = """
func.func @main(%x: tensor<8xf32> {zeropoint.name = "x"}) -> (tensor<8xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.sqrt %x : tensor<8xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
"""


def test_the_square_of_a_root_is_no_leaky_relu() -> None:
    """It is NaN below 0, where a leaky relu has a slope. The power of a spectrum is such a function."""
    model = zp.load(SQUARED_ROOT)
    samples = [{"x": np.random.default_rng(seed).uniform(0, 4, 8).astype(np.float32)} for seed in range(8)]
    integers = zp.quantize(model, samples, target="litert", effort="none")
    (found,), (expected,) = integers(**samples[0]).values(), model(**samples[0]).values()
    np.testing.assert_allclose(found, expected, atol=0.1)
