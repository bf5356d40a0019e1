"""Reductions in .tflite files have the shapes of the model, also where channels moved before them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import zeropoint as zp
from zeropoint.export.litert.runtime import LiteRTFile


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax"])
def test_a_reduction_that_keeps_a_dimension_elsewhere(op: str, tmp_path: Path) -> None:
    """The file returned [4, 1]: the mean is over the last dimension, because channels moved there."""
    proto = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[2,8,4,3] x) => (float[2,8,4,3] c, float[1,4] y)
        <int64[2] outer = {0, 3}, int64[1] first = {0}> {
        c = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)
        m = ReduceMax<keepdims = 0>(c, outer)  y = OP<keepdims = 1>(m, first) }""".replace("OP", op)
    )
    samples = [{"x": np.random.default_rng(i).normal(0, 1, (2, 8, 4, 3)).astype(np.float32)} for i in range(2)]
    made = zp.quantize(proto, samples, target="litert", effort="none")
    made.export(tmp_path / "m.tflite")
    for sample in samples:
        found, expected = LiteRTFile(tmp_path / "m.tflite", reference=True)(sample), made(**sample)
        for name in ("c", "y"):
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("quantized", [True, False])
def test_a_mean_of_all_dimensions_after_channels_moved(quantized: bool, tmp_path: Path) -> None:
    """The sum was lost: its one number counted as a constant that keeps its order."""
    proto = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,4,5,6] x) => (float[1,4,5,6] c, float y) {
        c = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)  y = ReduceMean<keepdims = 0>(c) }"""
    )
    samples = [{"x": np.random.default_rng(i).normal(0, 1, (1, 4, 5, 6)).astype(np.float32)} for i in range(2)]
    made = zp.quantize(proto, samples, target="litert", effort="none", recipe=[{"op": "mean", "quantize": quantized}])
    made.export(tmp_path / "m.tflite")
    for sample in samples:
        found, expected = LiteRTFile(tmp_path / "m.tflite", reference=True)(sample), made(**sample)
        np.testing.assert_allclose(found["y"], expected["y"], rtol=0 if quantized else 1e-6)
        np.testing.assert_array_equal(found["c"], expected["c"])
