"""Casts that OpenVINO computes in a convolution: millions of values, some of which are near the middle of two steps."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from zeropoint.check_target.runtimes import has_vnni, openvino_profile
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.ir.regions import regions_of

pytestmark = [
    pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO, an extra"),
    pytest.mark.skipif(not has_vnni(), reason="needs VNNI"),
]
CHANNELS, SIZE, READ = 64, 192, 8
FUNCTIONS = {
    "none": "r = Identity(c)",
    "a hard swish": "r = HardSwish(c)",
    "a leaky relu": "r = LeakyRelu<alpha=0.1>(c)",
}


def model(function: str, kind: str, zero_point: int, *, bias: bool, by_channel: bool) -> onnx.ModelProto:
    """A convolution, a function, and a depthwise convolution whose float results are multiples of the integers."""
    drawn, axis = np.random.default_rng(1), "<axis=1>" if by_channel else ""
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,{READ},{SIZE},{SIZE}] x) => (float y)
        <float s = {{0.0203}}, uint8 z = {{117}}> {{
          q = QuantizeLinear(x, s, z)
          a = DequantizeLinear(q, s, z)
          f = DequantizeLinear<axis=0>(w, ws, wz)
          c = Conv(a, f{", b" if bias else ""})
          {FUNCTIONS[function]}
          t = QuantizeLinear{axis}(r, rs, rz)
          d = DequantizeLinear{axis}(t, rs, rz)
          g = DequantizeLinear<axis=0>(v, vs, wz)
          y = Conv<group={CHANNELS}>(d, g)
        }}""")
    arrays = {"w": drawn.integers(-127, 128, (CHANNELS, READ, 1, 1)).astype(np.int8), "wz": np.zeros(CHANNELS, np.int8)}
    arrays |= {"ws": drawn.uniform(0.001, 0.003, CHANNELS), "b": drawn.normal(0, 1, CHANNELS)}
    arrays |= {"rs": drawn.uniform(0.01, 0.02, CHANNELS), "rz": np.full(CHANNELS, zero_point, kind)}
    if not by_channel:
        arrays |= {"rs": np.array(0.0173), "rz": np.array(zero_point, kind)}
    arrays |= {"v": np.full((CHANNELS, 1, 1, 1), 127, np.int8), "vs": np.full(CHANNELS, 1 / 127)}
    for name, array in arrays.items():
        if name != "b" or bias:
            held = array if array.dtype.kind in "iu" else array.astype(np.float32)
            made.graph.initializer.append(numpy_helper.from_array(held, name))
    return made


def equal(made: onnx.ModelProto, path: Path) -> bool:
    """Whether all results are those of OpenVINO."""
    stored = np.random.default_rng(2).integers(0, 256, (1, READ, SIZE, SIZE))
    x = ((stored - 117) * np.float32(0.0203)).astype(np.float32)
    onnx.save(made, path)
    (wanted,) = OpenVinoFile(path)({"x": x}).values()
    (found,) = (
        zp.quantize(zp.load(made), target="openvino-vnni", profile=openvino_profile()).native()({"x": x}).values()
    )
    return bool(np.array_equal(found, wanted))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kind", "zero_point"), [("uint8", 101), ("int8", 0), ("int8", 9)])
def test_a_convolution_with_one_scale_has_openvinos_bits(
    kind: str, zero_point: int, bias: bool, tmp_path: Path
) -> None:
    """Without a bias there is a factor per channel. Sums times factors are rounded before the shift is added."""
    assert equal(model("none", kind, zero_point, bias=bias, by_channel=False), tmp_path / "m.onnx")


@pytest.mark.parametrize("function", ["a hard swish", "a leaky relu"])
@pytest.mark.parametrize(("kind", "zero_point"), [("uint8", 101), ("int8", 0), ("int8", 9)])
def test_a_function_of_a_convolution_has_openvinos_bits(
    function: str, kind: str, zero_point: int, tmp_path: Path
) -> None:
    """The cast was one with two roundings, as at an input."""
    assert equal(model(function, kind, zero_point, bias=True, by_channel=False), tmp_path / "m.onnx")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_scales_per_channel_have_one_shift(function: str, tmp_path: Path) -> None:
    """The zero points in f32, 128 or 127.99999, differ by channel. OpenVINO takes the first."""
    if openvino_profile() == "openvino-amx":
        pytest.skip("OpenVINO's kernels for AMX take each channel's (docs/export.md)")
    assert equal(model(function, "int8", 0, bias=True, by_channel=True), tmp_path / "m.onnx")


def test_the_file_is_exported_again_with_the_same_casts(tmp_path: Path) -> None:
    made = model("a leaky relu", "int8", 0, bias=True, by_channel=False)
    quantized = zp.quantize(zp.load(made), target="openvino-vnni", profile=openvino_profile())
    assert any(
        region.logical_kernel.data == "function_of_product" for region in regions_of(quantized.quantization.propagated)
    )
    quantized.export(tmp_path / "again.onnx")
    again = onnx.load(tmp_path / "again.onnx")
    kinds = [node.op_type for node in again.graph.node]
    assert kinds.count("QuantizeLinear") == 2
    assert equal(again, tmp_path / "again.onnx")
