"""Biases of integers for which a file has no scale: LiteRT adds the integers to the products."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp
from oracle.litert import evaluate, evaluate_by_default
from zeropoint.export.litert.builder import ModelBuilder
from zeropoint.ir.quant import Storage, UniformQuantizedType

CONVOLUTION = ("CONV_2D", ("Conv2DOptions", {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}))
CASES = {
    "convolution": (*CONVOLUTION, (1, 6, 6, 4), (3, 1, 1, 4), (1, 6, 6, 3)),
    "fully connected": ("FULLY_CONNECTED", ("FullyConnectedOptions", {}), (6, 4), (3, 4), (6, 3)),
}


def typed(scale: float, zero_point: int) -> UniformQuantizedType:
    return UniformQuantizedType.per_layer(Storage.of("i8"), float(np.float32(scale)), zero_point)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_integers_are_those_of_the_runtime(case: tuple, tmp_path: Path) -> None:
    """The import failed: requires compatible element types. XNNPACK does not take such convolutions."""
    operator, options, shape, weights, result = case
    random, build = np.random.default_rng(0), ModelBuilder()
    source = build.tensor("x", shape, "int8", typed(0.02, -8))
    made = build.tensor("y", result, "int8", typed(0.03, 2))
    operands = [
        source,
        build.constant("w", random.integers(-127, 128, weights).astype(np.int8), typed(0.01, 0)),
        build.constant("b", random.integers(-3000, 3000, weights[0]).astype(np.int32)),
    ]
    build.operator(operator, operands, [made], options, 4)
    content = build.finish({"x": source}, {"y": made}, "", {})
    (tmp_path / "m.tflite").write_bytes(content)
    program = zp.quantize(tmp_path / "m.tflite", target="litert", io="integer")
    for _ in range(4):
        sample = random.integers(-128, 128, shape).astype(np.int8)
        found = program(x=sample)["y"]
        np.testing.assert_array_equal(found, evaluate(content, sample)[0])
        np.testing.assert_array_equal(found, evaluate_by_default(content, sample)[0])
