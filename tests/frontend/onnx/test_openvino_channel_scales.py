"""Results with a scale per channel: OpenVINO multiplies by 1 / scale. Results with one scale are divided by it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from zeropoint.check_target.runtimes import has_vnni
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.numerics.openvino import RangeFactors
from zeropoint.numerics.ranges import AffineParameters

CHANNELS, STEPS, ONE = 256, np.float32(255), np.float32(1)


def near_ties() -> tuple[np.ndarray, np.ndarray]:
    """Scales s and values v, one a channel, of which v * k and v / (1 / k) round to different integers: k = 1 / s."""
    drawn = np.random.default_rng(0)
    scales = drawn.uniform(0.005, 0.02, 40_000).astype(np.float32)
    steps = drawn.integers(1, 200, scales.size).astype(np.float32) + np.float32(0.5)
    multiplied = STEPS / (STEPS * scales)
    inverse = ONE / (ONE / multiplied)
    values = steps / multiplied
    differ = np.flatnonzero(np.rint(values * multiplied) != np.rint(values * inverse))
    assert differ.size >= CHANNELS
    return scales[differ[:CHANNELS]], values[differ[:CHANNELS]]


def affine(scales: np.ndarray) -> AffineParameters:
    return AffineParameters(scales.astype(np.float64), np.zeros(scales.size, np.int64), 0, 255)


def test_one_scale_is_inverted_twice_and_a_scale_per_channel_is_not() -> None:
    scales, values = near_ties()
    by = RangeFactors.of(affine(scales))
    np.testing.assert_array_equal(by.scale, STEPS / (STEPS * scales))
    assert by.is_scale
    for scale, value, each in zip(scales, values, np.ravel(by.scale), strict=True):
        (alone,) = np.ravel(RangeFactors.of(affine(np.array([scale]))).scale)
        assert alone == ONE / (ONE / (STEPS / (STEPS * scale)))
        assert np.rint(value * alone) != np.rint(value * each)


def test_equal_scales_are_one_scale() -> None:
    (scale, *_), _ = near_ties()
    by = RangeFactors.of(affine(np.full(4, scale)))
    np.testing.assert_array_equal(by.scale, RangeFactors.of(affine(np.array([scale]))).scale)


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO, an extra")
@pytest.mark.skipif(not has_vnni(), reason="needs VNNI")
def test_a_file_with_values_near_ties_has_openvinos_bits(tmp_path: Path) -> None:
    """The sums are 0, so that the results are the biases. The depthwise convolution returns the stored integers."""
    scales, values = near_ties()
    drawn = np.random.default_rng(1)
    arrays = {"b1": values, "ts": scales, "ys": np.zeros(CHANNELS, np.uint8), "z1": np.zeros(CHANNELS, np.int8)}
    arrays |= {"s1": drawn.uniform(0.001, 0.003, CHANNELS).astype(np.float32)}
    arrays |= {"w1q": drawn.integers(-127, 128, (CHANNELS, 16, 1, 1)).astype(np.int8)}
    arrays |= {"w3q": np.full((CHANNELS, 1, 1, 1), 127, np.int8)}
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,16,8,8] x) => (float c3)
        <float s = {{0.02}}, uint8 z = {{0}}> {{
          q = QuantizeLinear(x, s, z)
          a = DequantizeLinear(q, s, z)
          w1 = DequantizeLinear<axis=0>(w1q, s1, z1)
          c1 = Conv(a, w1, b1)
          r1 = Relu(c1)
          q1 = QuantizeLinear<axis=1>(r1, ts, ys)
          b = DequantizeLinear<axis=1>(q1, ts, ys)
          w3 = DequantizeLinear<axis=0>(w3q, s1, z1)
          c3 = Conv<group={CHANNELS}>(b, w3)
        }}""")
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    onnx.save(made, tmp_path / "theirs.onnx")
    x = np.zeros((1, 16, 8, 8), np.float32)
    (wanted,) = OpenVinoFile(tmp_path / "theirs.onnx")({"x": x}).values()
    (found,) = zp.quantize(zp.load(made), target="openvino-vnni")({"x": x}).values()
    np.testing.assert_array_equal(found, wanted)
