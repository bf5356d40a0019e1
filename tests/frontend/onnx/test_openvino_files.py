"""Quantized files with float biases and batch norms, as NNCF writes them: OpenVINO's bits, float results included."""

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

pytestmark = [
    pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO, an extra"),
    pytest.mark.skipif(not has_vnni(), reason="needs VNNI"),
]
READ = "q = QuantizeLinear(x, s, z)\n a = DequantizeLinear(q, s, z)\n"
FIRST = "w1 = DequantizeLinear<axis=0>(w1q, s1, z1)\n c1 = Conv<pads=[1,1,1,1]>(a, w1, b1)\n"
TO_B = "q1 = QuantizeLinear(r1, t, y)\n b = DequantizeLinear(q1, t, y)\n"
LAST = "w2 = DequantizeLinear<axis=0>(w2q, s1, z1)\n "
SIGNED = "q1 = QuantizeLinear(c1, u, y8)\n b = DequantizeLinear(q1, u, y8)\n"
# OpenVINO computes the sum in the convolution only if the convolution has a bias of its own.
RESIDUAL = (
    FIRST + "r1 = Relu(c1)\n" + TO_B + "w3 = DequantizeLinear<axis=0>(w2q, s1, z1)\n"
    "c5 = Conv(b, w3, b3)\n r5 = Relu(c5)\n q5 = QuantizeLinear(r5, t, y)\n d5 = DequantizeLinear(q5, t, y)\n"
    "c3 = Conv(d5, w3, b4)\n q3 = QuantizeLinear(c3, u, y8)\n d3 = DequantizeLinear(q3, u, y8)\n o = Add(d3, b)\n"
    "r4 = {op}\n q4 = QuantizeLinear(r4, u, y8)\n d4 = DequantizeLinear(q4, u, y8)\n" + LAST + "c2 = Conv(d4, w2, b2)"
)
PADDED = "m = AveragePool<kernel_shape=[3,3],strides=[2,2],pads=[1,1,1,1],count_include_pad=1>({})\n"
BODIES = {
    "a convolution, a relu and a max pool": FIRST + "r1 = Relu(c1)\n" + TO_B + "m = MaxPool<kernel_shape=[2,2]>(b)\n"
    + LAST + "c2 = Conv(m, w2, b2)",
    "a batch norm and a clip": FIRST + "n1 = BatchNormalization(c1, f, b2, b1, v)\n r1 = Clip(n1, nil, six)\n" + TO_B
    + LAST + "c2 = Conv(b, w2, b2)",
    "a scale per channel before a depthwise convolution": FIRST + "r1 = Relu(c1)\n"
    "q1 = QuantizeLinear<axis=1>(r1, ts, ys)\n b = DequantizeLinear<axis=1>(q1, ts, ys)\n"
    "w3 = DequantizeLinear<axis=0>(w3q, s1, z1)\n c3 = Conv<group=4,pads=[1,1,1,1]>(b, w3, b2)\n"
    "q3 = QuantizeLinear(c3, u, y8)\n d3 = DequantizeLinear(q3, u, y8)\n" + LAST + "c2 = Conv(d3, w2, b2)",
    "a residual sum of i8 and u8": FIRST + "r1 = Relu(c1)\n" + TO_B + "w3 = DequantizeLinear<axis=0>(w2q, s1, z1)\n"
    "c3 = Conv(b, w3, b1)\n q3 = QuantizeLinear(c3, u, y8)\n d3 = DequantizeLinear(q3, u, y8)\n o = Add(d3, b)\n"
    "q4 = QuantizeLinear(o, u, y8)\n d4 = DequantizeLinear(q4, u, y8)\n" + LAST + "c2 = Conv(d4, w2, b2)",
    **{f"a residual sum before {op}": RESIDUAL.format(op=op) for op in ("LeakyRelu<alpha=0.1>(o)", "HardSwish(o)")},
    "a residual sum before an Elu": RESIDUAL.format(op="Elu(o)"),
    "a residual sum before a SiLU": RESIDUAL.format(op="Sigmoid(o)\n r4 = Mul(o, f4)").replace("r4 = S", "f4 = S"),
    "a concatenation of one type": FIRST + "r1 = Relu(c1)\n" + TO_B + "w5 = DequantizeLinear<axis=0>(w2q, s1, z1)\n"
    "c5 = Conv(b, w5, b2)\n r5 = Relu(c5)\n q5 = QuantizeLinear(r5, t, y)\n d5 = DequantizeLinear(q5, t, y)\n"
    "j = Concat<axis=1>(b, d5)\n"
    "w4 = DequantizeLinear<axis=0>(w4q, s1, z1)\n c2 = Conv(j, w4, b2)",
    "a clamp of a float result": FIRST + "r1 = Relu(c1)\n" + TO_B + LAST
    + "c4 = Conv(b, w2, b2)\n c2 = Clip(c4, nil, six)",
    "an average of the input whose padding counts": PADDED.format("a") + "qm = QuantizeLinear(m, s, z)\n"
    "am = DequantizeLinear(qm, s, z)\n" + FIRST.replace("(a,", "(am,") + "r1 = Relu(c1)\n" + TO_B + LAST
    + "c2 = Conv(b, w2, b2)",
    "an average of signed values whose padding counts": FIRST + SIGNED.replace("y8", "y9") + PADDED.format("b")
    + "qm = QuantizeLinear(m, u, y9)\n dm = DequantizeLinear(qm, u, y9)\n" + LAST + "c2 = Conv(dm, w2, b2)",
    "signed values that a convolution reads": FIRST + SIGNED + LAST + "c2 = Conv(b, w2, b2)",
}  # fmt: skip


def model(body: str) -> onnx.ModelProto:
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,32,32] x) => (float c2)
        <float s = {{0.0203}}, uint8 z = {{117}}, float t = {{0.0121}}, uint8 y = {{0}}, float u = {{0.0173}},
        int8 y8 = {{0}}, int8 y9 = {{9}}, float nil = {{0}}, float six = {{1.5}}, float[4] f = {{0.8, -1.3, 1.1, 0.6}},
        float[4] v = {{0.5, 1.5, 1.0, 2.5}}, float[4] ts = {{0.011, 0.0123, 0.009, 0.0131}},
        uint8[4] ys = {{0, 0, 0, 0}}, int8[4] z1 = {{0, 0, 0, 0}}> {{ {READ}{body} }}""")
    drawn = np.random.default_rng(0)
    arrays = {name: drawn.normal(0, 0.3, 4).astype(np.float32) for name in ("b1", "b2")}
    arrays["s1"] = drawn.uniform(0.001, 0.003, 4).astype(np.float32)
    for name, shape in (("w1q", (4, 3, 3, 3)), ("w2q", (4, 4, 1, 1)), ("w3q", (4, 1, 3, 3)), ("w4q", (4, 8, 1, 1))):
        arrays[name] = drawn.integers(-127, 128, shape).astype(np.int8)
    arrays |= {name: drawn.normal(0, 0.3, 4).astype(np.float32) for name in ("b3", "b4")}
    read = {name for node in made.graph.node for name in node.input}
    made.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in arrays.items() if name in read
    )
    return made


def expected(made: onnx.ModelProto, path: Path, x: np.ndarray) -> np.ndarray:
    onnx.save(made, path)
    (found,) = OpenVinoFile(path)({"x": x}).values()
    return np.asarray(found)


def stored_input() -> np.ndarray:
    stored = np.random.default_rng(1).integers(0, 256, (1, 3, 32, 32))
    return ((stored - 117) * np.float32(0.0203)).astype(np.float32)


@pytest.mark.parametrize("body", BODIES)
def test_a_file_has_openvinos_bits(body: str, tmp_path: Path) -> None:
    """Biases were rounded to steps of the products, results without a type were sums of floats, and a residual sum
    before a function was one of rounded values."""
    made, x = model(BODIES[body]), stored_input()
    (found,) = zp.quantize(zp.load(made), target="openvino-vnni", profile=openvino_profile())({"x": x}).values()
    np.testing.assert_array_equal(found, expected(made, tmp_path / "theirs.onnx", x))
    assert len(np.unique(found)) > 100


@pytest.mark.parametrize(
    "body",
    [
        "a convolution, a relu and a max pool",
        "a batch norm and a clip",
        "a scale per channel before a depthwise convolution",
        *(body for body in BODIES if body.startswith("a residual sum")),
    ],
)
def test_a_file_that_is_exported_again_has_the_same_bits(body: str, tmp_path: Path) -> None:
    """Its biases are floats, too."""
    made, x = model(BODIES[body]), stored_input()
    quantized = zp.quantize(zp.load(made), target="openvino-vnni", profile=openvino_profile())
    quantized.export(tmp_path / "ours.onnx")
    ours = onnx.load(tmp_path / "ours.onnx")
    np.testing.assert_array_equal(
        expected(ours, tmp_path / "again.onnx", x), expected(made, tmp_path / "theirs.onnx", x)
    )
    biases = [node.input[2] for node in ours.graph.node if node.op_type == "Conv"]
    floats = {array.name for array in ours.graph.initializer if array.data_type == onnx.TensorProto.FLOAT}
    assert biases
    assert set(biases) <= floats
