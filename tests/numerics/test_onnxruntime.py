"""onnxruntime's CPU kernels give the bits that profile onnxruntime names."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize
from zeropoint.numerics.onnxruntime import softmax_factor, softmax_table, sum_factors
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour, requantize

onnx = pytest.importorskip("onnx", reason="onnx writes the one-op models")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is the oracle")

TYPES = {np.dtype(np.int8): "INT8", np.dtype(np.uint8): "UINT8", np.dtype(np.float32): "FLOAT"}


def run(op: str, output: np.dtype, **inputs: np.ndarray) -> np.ndarray:
    """The output of a model of one op, whose inputs are all given."""
    from onnx import TensorProto, helper

    def port(name: str, dtype: np.dtype, rank: int):
        return helper.make_tensor_value_info(name, getattr(TensorProto, TYPES[np.dtype(dtype)]), [None] * rank)

    node = helper.make_node(op, list(inputs), ["result"])
    given = [port(name, array.dtype, array.ndim) for name, array in inputs.items()]
    rank = max(array.ndim for array in inputs.values())
    graph = helper.make_graph([node], "one", given, [port("result", output, rank)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: np.asarray(array) for name, array in inputs.items()})[0]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("zero_point", [0, 3, 100])
def test_quantize_rounds_half_even_before_the_zero_point(dtype, zero_point):
    scale = np.float32(0.37)
    x = np.concatenate([np.arange(-700, 701) * np.float32(0.185), np.linspace(-120, 120, 3001), [1e9, -1e9, np.inf]])
    x = x.astype(np.float32)
    found = run("QuantizeLinear", dtype, x=x, scale=scale, zero_point=np.array(zero_point, dtype))
    limits = np.iinfo(dtype)
    behaviour = QuantizeBehaviour.RNE_BEFORE_ZERO_POINT
    assert np.array_equal(found, quantize(x, scale, zero_point, limits.min, limits.max, behaviour=behaviour))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_dequantize_is_the_one_formula(dtype):
    q, zero_point = np.arange(256, dtype=np.uint8).view(dtype), np.array(7, dtype)
    found = run("DequantizeLinear", np.float32, q=q, scale=np.float32(0.037), zero_point=zero_point)
    assert np.array_equal(found, dequantize(q, np.float32(0.037), 7))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("per_channel", [False, True], ids=["per-tensor", "per-channel"])
def test_matmul_requantizes_in_f32(seed, per_channel):
    generator = np.random.default_rng(seed)
    a, za = generator.integers(0, 256, (300, 40)).astype(np.uint8), np.array(131, np.uint8)
    # Without VNNI, onnxruntime's u8 x s8 products saturate in 16 bits; |w| <= 64 keeps them exact on every machine.
    b = generator.integers(-64, 65, (40, 16)).astype(np.int8)
    sa, sy = np.float32(0.021), np.float32(0.17)
    sb = generator.uniform(0.001, 0.02, 16 if per_channel else ()).astype(np.float32)
    zy = np.array(97, np.uint8)
    zb = np.zeros(sb.shape, np.int8)
    found = run("QLinearMatMul", np.uint8, a=a, sa=sa, za=za, b=b, sb=np.asarray(sb), zb=zb, sy=sy, zy=zy)
    acc = (a.astype(np.int32) - 131) @ b.astype(np.int32)
    # onnxruntime forms the multiplier in f32, from left to right.
    multiplier = Multiplier.of(sa * sb / sy, RequantizeBehaviour.FLOAT32_RNE, 8)
    assert np.array_equal(found, requantize(acc, multiplier, 97, 0, 255, axis=1))


def contributed(op: str, operands: dict[str, np.ndarray], order: list[str], **attributes: object) -> np.ndarray:
    """The output of one of onnxruntime's own operators, u8 in and out."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node(op, order, ["result"], domain="com.microsoft", **attributes)
    data = {name: array for name, array in operands.items() if array.ndim}
    given = [helper.make_tensor_value_info(name, TensorProto.UINT8, array.shape) for name, array in data.items()]
    constants = [numpy_helper.from_array(array, name) for name, array in operands.items() if not array.ndim]
    result = helper.make_tensor_value_info("result", TensorProto.UINT8, None)
    graph = helper.make_graph([node], "one", given, [result], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, data)[0]


def fma(a: np.ndarray, b: np.float32, c: np.ndarray | np.float32) -> np.ndarray:
    return (a.astype(np.float64) * np.float64(b) + np.asarray(c, np.float64)).astype(np.float32)


@pytest.mark.parametrize("seed", range(6))
def test_sums_are_two_fused_multiply_adds_on_all_pairs(seed):
    random = np.random.default_rng(seed)
    scales = random.integers(1, 9, 3) / 80 if seed % 2 else random.uniform(0.01, 0.1, 3)
    points = random.integers(0, 256, 3)
    kinds = [AffineParameters(np.float32(s), z, 0, 255) for s, z in zip(scales, points, strict=True)]
    a, b = np.repeat(np.arange(256, dtype=np.uint8), 256), np.tile(np.arange(256, dtype=np.uint8), 256)
    named = {f"s{i}": np.asarray(np.float32(s)) for i, s in enumerate(scales)}
    named |= {f"z{i}": np.asarray(z, np.uint8) for i, z in enumerate(points)}
    found = contributed("QLinearAdd", {"a": a, "b": b, **named}, ["a", "s0", "z0", "b", "s1", "z1", "s2", "z2"])
    factors = sum_factors(*kinds)
    total = fma(a, factors.first, fma(b, factors.second, factors.offset))
    assert np.array_equal(found, np.clip(np.rint(total), 0, 255))


DIVIDES_IN_F64 = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 32)
"""Older kernels divide in f32: half-way cases differ, and small scales overflow."""


@pytest.mark.skipif(not DIVIDES_IN_F64, reason="onnxruntime 1.32 divides in f64")
@pytest.mark.parametrize("steps", [256, 1031.3, 20011.7])
@pytest.mark.parametrize("terms", [2, 3, 64, 1000])
def test_softmax_looks_exponentials_up_and_divides_in_f64(terms, steps):
    random = np.random.default_rng(terms)
    x = random.integers(0, 256, (120_000 // terms, terms)).astype(np.uint8)
    scale, wanted = np.float32(0.07 if steps == 256 else 0.0123), np.float32(1 / steps)
    named = {
        "s": np.asarray(scale),
        "z": np.asarray(9, np.uint8),
        "t": np.asarray(wanted),
        "y": np.asarray(0, np.uint8),
    }
    found = contributed("QLinearSoftmax", {"x": x, **named}, ["x", "s", "z", "t", "y"], axis=-1, opset=13)
    exponentials = softmax_table(scale, terms)[x.astype(int) + 255 - x.max(1, keepdims=True)]
    total = np.zeros((len(x), 1), np.float32)
    for column in exponentials.T:
        total = total + column[:, None]
    shares = exponentials.astype(np.float64) * np.float64(softmax_factor(wanted)) / total
    assert np.array_equal(found, np.clip(np.rint(shares), 0, 255))
