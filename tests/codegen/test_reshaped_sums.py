"""Sums over an image that are reshaped: native code computes what the interpreter does, wherever the channels go."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from codegen.exactness import HERE, assert_native_is_exact
from zeropoint.ir.text import parse_program

PROGRAM = """
builtin.module attributes {{zeropoint.profile = "fixed16"}} {{
  func.func @main(%x: tensor<2x4x{image}xi8>) -> tensor<{shape}xi8> {{
    %w = stablehlo.constant dense<{weights}> : tensor<4x4x{ones}xi8>
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, {axes}]x[o, i, {axes}]->[b, f, {axes}], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<2x4x{image}xi8>, tensor<4x4x{ones}xi8>) -> tensor<2x4x{image}xi32>
    %m = stablehlo.constant dense<20000> : tensor<1xi32>
    %e = stablehlo.constant dense<7> : tensor<1xi32>
    %1 = "fxpmath.requantize"(%0, %m, %e) <{{behaviour = "fixed16", storage_max = 127 : i64, storage_min = -128 : i64,
        zero_point = 0 : i64}}> : (tensor<2x4x{image}xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2x4x{image}xi8>
    %2 = stablehlo.convert %1 : (tensor<2x4x{image}xi8>) -> tensor<2x4x{image}xi32>
    %z = stablehlo.constant dense<-16> : tensor<2x4x{image}xi32>
    %3 = stablehlo.subtract %2, %z : tensor<2x4x{image}xi32>
    %none = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.reduce(%3 init: %none) applies stablehlo.add across dimensions = {summed}
        : (tensor<2x4x{image}xi32>, tensor<i32>) -> tensor<2x4xi32>
    %5 = stablehlo.reshape %4 : (tensor<2x4xi32>) -> tensor<{shape}xi32>
    %f = stablehlo.constant dense<-1> : tensor<1xi32>
    %6 = "fxpmath.requantize"(%5, %m, %f) <{{behaviour = "fixed16", storage_max = 127 : i64, storage_min = -128 : i64,
        zero_point = -47 : i64}}> : (tensor<{shape}xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<{shape}xi8>
    func.return %6 : tensor<{shape}xi8>
  }}
}}
"""


@pytest.mark.parametrize(
    ("image", "shape"),
    [
        ("14", "2x4x1"),  # the mean of a network over time that keeps its dimensions
        ("6x6", "1x8"),
        ("6x6", "1x8x1x1"),
        ("6x6", "2x1x4"),
    ],
)
def test_reshaped_sums_over_an_image_are_exact(image: str, shape: str) -> None:
    axes = [str(axis) for axis in range(image.count("x") + 1)]
    program = parse_program(
        PROGRAM.format(
            image=image,
            shape=shape,
            weights=np.random.default_rng(0).integers(-90, 90, (4, 4, *(1 for _ in axes))).tolist(),
            ones="x".join("1" for _ in axes),
            axes=", ".join(axes),
            summed=[2 + int(axis) for axis in axes],
        )
    )
    # Means differ by channel and sample.
    offsets = np.linspace(-90, 90, 8).reshape(2, 4, *(1 for _ in axes))
    noise = np.random.default_rng(1).integers(-30, 30, (2, 4, *map(int, image.split("x"))))
    sample = np.asarray(offsets + noise).astype(np.int8)
    assert prod(map(int, shape.split("x"))) == 8
    assert_native_is_exact(program, [{program.inputs[0].name: sample}], HERE[0])
