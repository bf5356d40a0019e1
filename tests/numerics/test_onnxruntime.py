"""onnxruntime's CPU kernels give the bits that profile onnxruntime names: QuantizeLinear, QLinearMatMul."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize
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
