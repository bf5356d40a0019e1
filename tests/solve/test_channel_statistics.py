"""Statistics along an axis decide the scale of each channel of a weight, if the row has scales per channel."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.errors import Error
from zeropoint.interp import Interpreter
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import DotGeneralOp
from zeropoint.ir.tensors import element_of
from zeropoint.ir.text import parse_program, print_program
from zeropoint.lower import integer_program
from zeropoint.opt import parse_passes, run_passes

WEIGHT = "dense<[[0.5, -2.0, 0.1], [-1.0, 1.0, 0.3]]> : tensor<2x3xf32>"


def program(stats: str, weight: str = WEIGHT) -> str:
    return f"""func.func @main(%x: tensor<4x2xf32>) -> tensor<4x3xf32> {{
      %0 = "quant.stats"(%x) {{layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}} : (tensor<4x2xf32>) -> tensor<4x2xf32>
      %w = stablehlo.constant {weight}
      %1 = "quant.stats"(%w) {{layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>{stats}}}
        : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0]
        : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
      %3 = "quant.stats"(%2) {{layerStats = dense<[-3.0, 3.0]> : tensor<2xf32>}} : (tensor<4x3xf32>) -> tensor<4x3xf32>
      %4 = stablehlo.tanh %3 : tensor<4x3xf32>
      %5 = "quant.stats"(%4) {{layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}} : (tensor<4x3xf32>) -> tensor<4x3xf32>
      return %5 : tensor<4x3xf32>
    }}"""


def quantized(stats: str, target: str = "cpu"):
    passes = parse_passes(f"fuse{{target={target}}},propagate{{target={target}}},materialize")
    return run_passes(parse_program(program(stats)), passes)


def weight_type(stats: str, target: str = "cpu") -> UniformQuantizedType:
    (dot,) = [op for op in quantized(stats, target).module.walk() if isinstance(op, DotGeneralOp)]
    kind = element_of(dot.rhs)
    assert isinstance(kind, UniformQuantizedType)
    return kind


CHANNELS = ", axisStats = dense<[[-0.5, 0.25], [-4.0, 1.0], [0.0, 0.3]]> : tensor<3x2xf32>, axis = 1 : i64"


def test_each_channel_has_the_scale_of_its_range() -> None:
    kind = weight_type(CHANNELS)
    assert kind.axis == 1
    np.testing.assert_allclose(kind.scales * 127, [0.5, 4.0, 0.3], rtol=1e-6)


def test_without_them_it_has_the_scale_of_its_values() -> None:
    np.testing.assert_allclose(weight_type("").scales * 127, [1.0, 2.0, 0.3], rtol=1e-6)


def test_weights_beyond_their_range_saturate() -> None:
    before = quantized(CHANNELS)
    (constant,) = [op for op in before.module.walk() if isinstance(op, DotGeneralOp)]
    assert constant.rhs.owner is not None
    stored = before.weights.array(constant.rhs.owner.value)
    assert stored[:, 0].tolist() == [127, -127]
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
    results = [Interpreter(each).run_values([x])[0] for each in (before, integer_program(before))]
    np.testing.assert_array_equal(*results)


def test_a_row_with_one_scale_has_the_greatest() -> None:
    other = ", axisStats = dense<[[-0.5, 0.25], [-4.0, 1.0]]> : tensor<2x2xf32>, axis = 0 : i64"
    np.testing.assert_allclose(weight_type(other).scales * 127, [4.0] * 3, rtol=1e-6)


def test_a_range_that_is_not_finite_is_refused_with_its_channel() -> None:
    wrong = CHANNELS.replace("-4.0", "2.0")
    with pytest.raises(Error, match=r"found the range \[2, 1\] of channel 1 in quant\.stats"):
        quantized(wrong)


def test_an_activation_has_the_scale_of_its_whole_range_and_says_so() -> None:
    """No row takes an activation with a scale per channel: quantized StableHLO has one for operands of kernels."""
    given = "layerStats = dense<[-3.0, 3.0]> : tensor<2xf32>"
    channels = ", axisStats = dense<[[-1.0, 1.0], [-3.0, 3.0], [-0.5, 0.5]]> : tensor<3x2xf32>, axis = 1 : i64"
    text = program("").replace(given, given + channels)
    assert text != program("")
    made = run_passes(parse_program(text), parse_passes("fuse{target=cpu},propagate{target=cpu},materialize"))
    printed = print_program(made)
    assert "3 along dimension 1; an activation has one scale, by the range of all" in printed
