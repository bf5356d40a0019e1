"""The noise of constant weights: found once for each way to read them, without a warning if they hold no numbers."""

from __future__ import annotations

import warnings

import numpy as np

from zeropoint.fuse import fuse
from zeropoint.ir.constants import constant_array
from zeropoint.ir.regions import regions_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.weights import Weights
from zeropoint.solve.widths.weight_noise import (
    _widened,  # pyright: ignore[reportPrivateUsage] (a warning has no other place)
    contraction_gain,
    weight_noise,
)
from zeropoint.targets import target

TWO_READERS = """
func.func @main(%x: tensor<2x9xf32>) -> tensor<2x9xf32> {
  %w = stablehlo.constant dense_resource<weights> : tensor<9x9xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x9xf32>, tensor<9x9xf32>) -> tensor<2x9xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [1]
    : (tensor<2x9xf32>, tensor<9x9xf32>) -> tensor<2x9xf32>
  func.return %1 : tensor<2x9xf32>
}
"""


def test_a_signalling_nan_among_weights_prints_no_warning() -> None:
    weights = np.array([[0x7F800001, 0x3F800000]], np.uint32).view(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(_widened(weights), [[np.nan, 1.0]])


def test_weights_that_are_read_in_two_ways_have_two_gains() -> None:
    weight = np.random.default_rng(0).normal(size=(9, 9)).astype(np.float32)
    cpu = target("cpu")
    program = fuse(parse_program(TWO_READERS, weights=Weights({"weights": weight})), cpu)
    regions = list(regions_of(program))
    assert [constant_array(region.inputs[1], program.weights) is None for region in regions] == [False, False]
    assert regions[0].inputs[1].owner is regions[1].inputs[1].owner
    squares = weight.astype(np.float64) ** 2
    for _ in range(2):
        gains = [contraction_gain(region, program.weights) for region in regions]
        np.testing.assert_allclose(gains, [squares.sum(axis=0).max(), squares.sum(axis=1).max()])
    row = cpu.row("fully_connected")
    assert row is not None
    noises = [weight_noise(region, row, program.weights) for region in regions]
    peaks = [np.abs(weight).max(axis=axis).astype(np.float64) / row.input_rule(1).storage.maximum for axis in (0, 1)]
    np.testing.assert_allclose(noises, [9 * (each**2).max() / 12 for each in peaks])
