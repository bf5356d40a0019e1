"""Differences of quantized values in OpenVINO, which are float ops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper, parser

import zeropoint as zp
from export.text_networks import text_network
from zeropoint.check_target.runtimes import openvino_profile
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.ir.tensors import Array

IMAGE = "(float[1,8,12,12] x, float[1,8,12,12] u) => (float[1,4,12,12] y)"
ROWS = "(float[1,30,8] x, float[1,30,8] u) => (float[1,30,4] y)"
CONV, MATMUL = {"w": (8, 8, 3, 3), "b": (8,), "v": (4, 8, 1, 1)}, {"w": (8, 8), "v": (8, 4)}
DIFFERENCES = {
    "a convolution minus an input": (IMAGE, CONV, "c = Conv<pads=[1,1,1,1]>(x, w, b)\n s = Sub(c, u)\n y = Conv(s, v)"),
    "an input minus a convolution": (IMAGE, CONV, "c = Conv<pads=[1,1,1,1]>(x, w, b)\n s = Sub(u, c)\n y = Conv(s, v)"),
    "a product minus an input": (ROWS, MATMUL, "c = MatMul(x, w)\n s = Sub(c, u)\n y = MatMul(s, v)"),
    "an input minus a product": (ROWS, MATMUL, "c = MatMul(x, w)\n s = Sub(u, c)\n y = MatMul(s, v)"),
}


def _network(name: str) -> tuple[ModelProto, list[dict[str, Array]]]:
    return text_network(*DIFFERENCES[name], deviation=0.3)


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("target", ["openvino", "openvino-vnni"])
def test_a_difference_reads_rounded_results(name: str, target: str, tmp_path: Path) -> None:
    """OpenVINO computed a difference in the convolution, without rounding its result: 36 % of the values were wrong."""
    pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    model, samples = _network(name)
    made = zp.quantize(model, samples, target=target, effort="none")
    made.export(tmp_path / "m.onnx")
    file, predict = OpenVinoFile(tmp_path / "m.onnx"), made.interpreted()
    for sample in samples:
        np.testing.assert_array_equal(file(sample)["y"], predict(**sample)["y"])


def test_a_constant_is_subtracted_without_reshapes(tmp_path: Path) -> None:
    model, samples = _network("a convolution minus an input")
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(np.full((1, 8, 1, 1), 0.3, np.float32), "u"))
    made = zp.quantize(model, [{"x": sample["x"]} for sample in samples], target="openvino", effort="none")
    made.export(tmp_path / "m.onnx")
    assert "Reshape" not in {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}


TYPES = {
    "u8": ("uint8", (117, 90, 131)),
    "u8, zero points at the end": ("uint8", (0, 0, 128)),
    "i8": ("int8", (0, 0, 0)),
    "i8 with zero points": ("int8", (5, -8, 3)),
    "i8, a result above 0": ("int8", (-8, 7, -128)),
}
ZEROS_OF_I8 = ("i8 with zero points", "i8, a result above 0")
SCALES = [(0.02, 0.01, 0.04), (0.02, 0.02, 0.04), (0.01, 0.03, 0.02), (0.0203, 0.0117, 0.0311)]
CASTS = "p = QuantizeLinear(x, s, a)\n pd = DequantizeLinear(p, s, a)\n q = QuantizeLinear(u, t, b)\n"
CASTS += "qd = DequantizeLinear(q, t, b)\n"
BESIDE = (
    "w = DequantizeLinear(wq, o, wz)\n c = Conv({}, w)\n f = QuantizeLinear(c, o, z)\n g = DequantizeLinear(f, o, z)\n"
)
COMPUTED = (
    "w = DequantizeLinear(wq, ws, wz)\n c = Conv(pd, w, bias)\n r = QuantizeLinear(c, s, a)\n"
    "cd = DequantizeLinear(r, s, a)\n"
)
FLOAT = "c = Sigmoid({})\n f = QuantizeLinear(c, o, z)\n g = DequantizeLinear(f, o, z)\n"
BODIES = {
    "inputs": "d = Sub(pd, qd)\n",
    "a sum of inputs": "d = Add(pd, qd)\n",
    "pooled values": "m = MaxPool<kernel_shape=[2,2]>(pd)\n n = MaxPool<kernel_shape=[2,2]>(qd)\n"
    "mq = QuantizeLinear(m, s, a)\n md = DequantizeLinear(mq, s, a)\n nq = QuantizeLinear(n, t, b)\n"
    "nd = DequantizeLinear(nq, t, b)\n d = Sub(md, nd)\n",
    "a value that a convolution reads": f"{BESIDE.format('qd')} d = Sub(pd, qd)\n",
    "the first value, which a convolution reads": f"{BESIDE.format('pd')} d = Sub(pd, qd)\n",
    "a value that convolutions and a sum read": f"{BESIDE.format('qd')} d = Add(pd, qd)\n",
    "a value that a sigmoid reads": f"{FLOAT.format('qd')} d = Sub(pd, qd)\n",
    "a sum with a value that a sigmoid reads": f"{FLOAT.format('qd')} d = Add(pd, qd)\n",
    "values that a convolution and a sigmoid read": "i = Sigmoid(qd)\n h = QuantizeLinear(i, s, a)\n"
    f"hd = DequantizeLinear(h, s, a)\n{BESIDE.format('hd')} d = Add(hd, qd)\n",
    "a convolution minus a value": f"{COMPUTED} d = Sub(cd, qd)\n",
    "a value minus a convolution": f"{COMPUTED} d = Sub(qd, cd)\n",
}
OTHER = "e2 = QuantizeLinear(h, t, z)\n g = DequantizeLinear(e2, t, z)\n"
AFTER = "k = Conv(cd, w)\n f = QuantizeLinear(k, o, z)\n g = DequantizeLinear(f, o, z)\n"
ALONE = {
    "a max pool": "d = MaxPool<kernel_shape=[1,1]>(cd)\n i = Sigmoid(qd)\n j = Add(i, i)\n",
    "a cast to another type": "d = Identity(cd)\n i = Sigmoid(qd)\n j = Add(i, i)\n",
    "a sigmoid": "i = Sigmoid(cd)\n j = Add(i, qd)\n d = Add(i, cd)\n",
    "a sum": "d = Add(cd, qd)\n",
    "a product": "d = Mul(cd, qd)\n",
    "a sum and a sigmoid": "g = Sigmoid(cd)\n d = Add(cd, qd)\n",
    "a product and a sigmoid": "g = Sigmoid(cd)\n d = Mul(cd, qd)\n",
    "a sum and a convolution": f"{AFTER} d = Add(cd, qd)\n",
    "a product and a convolution": f"{AFTER} d = Mul(cd, qd)\n",
    "two sums": f"h = Add(cd, pd)\n {OTHER} d = Add(cd, qd)\n",
    "a product and a sum": f"h = Mul(cd, pd)\n {OTHER} d = Add(cd, qd)\n",
    "a product that a sum reads": f"h = Mul(cd, qd)\n {OTHER} d = Add(g, qd)\n",
    "a product that a product reads": f"h = Mul(cd, qd)\n {OTHER} d = Mul(g, pd)\n",
}
"""What reads a convolution, besides a sum that OpenVINO may compute in it."""


def _cast_difference(body: str, kind: str, scales: tuple[float, float, float]) -> ModelProto:
    """A file with casts around a difference. Its inputs are at the scales of the casts."""
    dtype, points = TYPES[kind]
    types = "".join(f", {dtype} {name} = {{{point}}}" for name, point in zip("abz", points, strict=True))
    beside = ", float[1,4,16,32] g" if " g = " in body else ""
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,4,16,32] x, float[1,4,16,32] u) => (float y{beside}) <float s = {{{scales[0]}}}, int8 wz = {{0}},
        float ws = {{0.004}},         float t = {{{scales[1]}}}, float o = {{{scales[2]}}}{types}>
        {{ {CASTS}{body}e = QuantizeLinear(d, o, z)\n y = DequantizeLinear(e, o, z) }}""")
    weights = np.random.default_rng(0).integers(-100, 100, (4, 4, 1, 1)).astype(np.int8)
    made.graph.initializer.append(numpy_helper.from_array(weights, "wq"))
    biases = np.array([0.4, -0.1, 0.02, -0.7], np.float32)
    made.graph.initializer.append(numpy_helper.from_array(biases, "bias"))
    return made


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("scales", SCALES)
def test_a_difference_is_one_of_steps(body: str, kind: str, scales: tuple[float, float, float], tmp_path: Path) -> None:
    """Up to 10 % of the integers were a step off where scales are simple multiples of each other.

    OpenVINO computes those of a convolution in it, without rounding its result: a quarter of the integers was wrong.
    """
    pytest.importorskip("openvino", reason="OpenVINO runs the files")
    if kind in ZEROS_OF_I8 and COMPUTED in BODIES[body] and openvino_profile() == "openvino-amx":
        pytest.skip("differences with a float convolution of i8 are not predicted on AMX (docs/export.md)")
    _check_bits(BODIES[body], kind, scales, tmp_path)


@pytest.mark.parametrize("body", ALONE)
@pytest.mark.parametrize("kind", ["u8", "i8"])
@pytest.mark.parametrize("scales", SCALES)
def test_results_are_rounded_as_openvino_stores_them(
    body: str, kind: str, scales: tuple[float, float, float], tmp_path: Path
) -> None:
    """Results of i8 that float ops, sums and products read were rounded as in u8: 1 of 2,048 integers was a step off.

    A sum of a value that a float op reads, too, is in steps of that value: 27 of 2,048 integers were a step off.
    """
    pytest.importorskip("openvino", reason="OpenVINO runs the files")
    _check_bits(COMPUTED + ALONE[body], kind, scales, tmp_path)


def _check_bits(body: str, kind: str, scales: tuple[float, float, float], folder: Path) -> None:
    """Check that a file, and the one to which it is exported again, has OpenVINO's integers."""
    onnx.save(made := _cast_difference(body, kind, scales), folder / "theirs.onnx")
    dtype, points = TYPES[kind]
    low, drawn = int(np.iinfo(dtype).min), np.random.default_rng(0)
    stored = [drawn.integers(low, low + 256, (1, 4, 16, 32)) - point for point in points[:2]]
    sample = {name: (q * np.float32(s)).astype(np.float32) for name, q, s in zip("xu", stored, scales, strict=False)}
    quantized = zp.quantize(zp.load(made), target="openvino-vnni", profile=openvino_profile())
    quantized.export(folder / "ours.onnx")
    expected = quantized(**sample)["y"]
    for name in ("theirs", "ours"):
        found = OpenVinoFile(folder / f"{name}.onnx")(sample)["y"]
        # OpenVINO dequantizes an output otherwise, in the last bits.
        steps = [np.rint(value / np.float32(scales[2])) for value in (found, expected)]
        np.testing.assert_array_equal(*steps)
