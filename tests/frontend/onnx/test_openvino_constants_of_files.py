"""Float weights that a file quantizes: OpenVINO rounds them between the ends of the type's range."""

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
from zeropoint.numerics.openvino import stored_constants

CHANNELS, SCALE = 64, np.float32(0.00608762)
I8 = (-128, 127)


def near_ties() -> np.ndarray:
    """Weights whose ratio to the scale, rounded, is another integer than the one between the ends."""
    drawn = np.random.default_rng(0)
    weights = (drawn.integers(-126, 126, 400_000) + 0.5).astype(np.float32) * SCALE
    weights = np.nextafter(weights, np.where(drawn.random(weights.size) < 0.5, np.inf, -np.inf).astype(np.float32))
    between = stored_constants(weights, I8, SCALE, np.zeros((), np.int64))
    return weights[between != np.rint(weights / SCALE)]


def test_constants_are_rounded_between_the_ends_of_the_range() -> None:
    weights = near_ties()
    low, high = np.float32(-128) * SCALE, np.float32(127) * SCALE
    steps = np.rint((weights - low) / (high - low) * np.float32(255))
    found = stored_constants(weights, I8, SCALE, np.zeros((), np.int64))
    np.testing.assert_array_equal(found, steps - 128)
    assert weights.size > CHANNELS


def test_constants_beyond_the_range_are_its_ends_and_nan_is_the_zero_point() -> None:
    found = stored_constants(np.float32([-9, 9, np.nan, np.inf]), (0, 255), np.float32(0.01), np.array(7))
    assert found.tolist() == [0, 255, 7, 255]


def test_each_channel_has_its_scale_and_zero_point() -> None:
    scales, points = np.float32([[0.5], [2]]), np.array([[0], [10]])
    assert stored_constants(np.float32([[1, -1], [4, 60]]), I8, scales, points).tolist() == [[2, -2], [12, 40]]


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO, an extra")
@pytest.mark.skipif(not has_vnni(), reason="needs VNNI")
def test_weights_that_the_file_quantizes_have_openvinos_integers(tmp_path: Path) -> None:
    """The input is 0 in all channels but one for each output."""
    weights = near_ties()[: CHANNELS * 3].reshape(CHANNELS, 3, 1, 1)
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,4,4] x) => (float y)
        <float s = {{0.02}}, uint8 z = {{0}}, float t = {{{SCALE:.8g}}}, int8 u = {{0}}> {{
          q = QuantizeLinear(x, s, z)
          a = DequantizeLinear(q, s, z)
          k = QuantizeLinear(w, t, u)
          f = DequantizeLinear(k, t, u)
          y = Conv(a, f)
        }}""")
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(made, tmp_path / "theirs.onnx")
    x = np.zeros((1, 3, 4, 4), np.float32)
    x[0, [0, 1, 2], [0, 1, 2], 0] = 0.02
    (wanted,) = OpenVinoFile(tmp_path / "theirs.onnx")({"x": x}).values()
    (found,) = zp.quantize(zp.load(made), target="openvino-vnni")({"x": x}).values()
    np.testing.assert_array_equal(found, wanted)
