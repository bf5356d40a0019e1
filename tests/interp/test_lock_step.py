"""An interpreted program contraction by contraction: what each reads and adds, and another bias."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

WEIGHT = [[1, -2], [3, 4], [0, -1]]
SAMPLES = [{"x": np.array([[1, 2, -3]], np.int8)}, {"x": np.array([[-7, 0, 5]], np.int8)}]


def network(bias: Array) -> Program:
    """A product with a constant, two biases, and another product that reads a byte of it."""
    return parse_program(f"""
    func.func @main(%x: tensor<1x3xi8> {{zeropoint.name = "x"}}) -> (tensor<1x2xi32> {{zeropoint.name = "y"}}) {{
      %w = stablehlo.constant dense<{WEIGHT}> : tensor<3x2xi8>
      %v = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
      %b = stablehlo.constant dense<{bias.tolist()}> : tensor<2xi32>
      %c = stablehlo.constant dense<[[10, 20]]> : tensor<1x2xi32>
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<1x3xi8>, tensor<3x2xi8>) -> tensor<1x2xi32>
      %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xi32>) -> tensor<1x2xi32>
      %2 = stablehlo.add %1, %0 : tensor<1x2xi32>
      %3 = stablehlo.add %2, %c : tensor<1x2xi32>
      %4 = stablehlo.convert %3 : (tensor<1x2xi32>) -> tensor<1x2xi8>
      %5 = stablehlo.dot_general %4, %v, contracting_dims = [1] x [0]
        : (tensor<1x2xi8>, tensor<2x2xi8>) -> tensor<1x2xi32>
      return %5 : tensor<1x2xi32>
    }}""")


def test_the_bias_is_the_sum_of_what_is_added() -> None:
    steps = Interpreter(network(np.array([5, -6]))).lock_step(SAMPLES, 1 << 20)
    assert steps is not None
    assert [bias.tolist() for bias in steps.biases] == [[15, 14], [0, 0]]
    assert steps.shapes == [(1, 3), (1, 2)]
    assert steps.names == [None, None]


def test_another_bias_gives_the_results_of_the_program_with_that_bias() -> None:
    bias, change = np.array([5, -6]), np.array([3, -1])
    program = Interpreter(network(bias))
    before = program(SAMPLES[0])["y"]
    steps = program.lock_step(SAMPLES, 1 << 20)
    assert steps is not None
    for found, sample in zip(steps.sources(0), SAMPLES, strict=True):
        np.testing.assert_array_equal(found, sample["x"])
    steps.add(0, change)
    for found, sample in zip(steps.sources(1), SAMPLES, strict=True):
        expected = sample["x"].astype(np.int32) @ np.array(WEIGHT) + bias + change + [10, 20]
        np.testing.assert_array_equal(found, expected)
    changed = Interpreter(network(bias + change))
    for sample in [*SAMPLES, {"x": np.array([[1, 1, 1]], np.int8)}]:
        np.testing.assert_array_equal(steps(sample)["y"], changed(sample)["y"])
    np.testing.assert_array_equal(program(SAMPLES[0])["y"], before)
    with pytest.raises(ValueError, match="found a bias of contraction 0 to be changed, expected one that has not run"):
        steps.add(0, change)


def test_a_program_without_contractions_of_bytes_has_no_lock_step() -> None:
    program = parse_program("""func.func @main(%x: tensor<1x3xi8> {zeropoint.name = "x"}) -> tensor<1x3xi8> {
      %0 = stablehlo.minimum %x, %x : tensor<1x3xi8>
      return %0 : tensor<1x3xi8>
    }""")
    assert Interpreter(program).lock_step(SAMPLES, 1 << 20) is None
