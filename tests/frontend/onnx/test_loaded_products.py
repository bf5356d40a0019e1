"""Float weights that onnxruntime quantizes, because it moves casts and fuses ops before that."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from oracle.qdq import optimized

NUMBERS = """float s = {0.0371}, uint8 z = {120}, float t = {0.0213}, float c0 = {0.3}, float[1] c1 = {0.3},
    float[1,4] row = {0.3, 0.1, 0.22, -0.4}, float[4] b = {0.1234, -0.777, 0.5, 0.333}, int8 w0 = {0}, float u = {0.02},
    int8[4,4] wq = {1, 5, -9, 40, 3, 2, -1, -22, 4, 5, 8, -19, 20, 11, -13, 33}, int64[2] flat = {20, 4},
    int64[1] l = {0}, int64[1] n1 = {1}, int64[1] n3 = {3}, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}"""
TWO = """f = QuantizeLinear(c, s, z)  d = DequantizeLinear(f, s, z)
    g = Conv(m, v)  h = QuantizeLinear(g, s, z)  j = DequantizeLinear(h, s, z)  r = Add(d, j)"""
CASES = {
    "a product behind a reshape": ([5, 4, 4], "m = Reshape(a, flat)  r = Gemm(m, w, b)"),
    "a product behind a flatten, which keeps its weights": ([5, 2, 2], "m = Flatten(a)  r = Gemm(m, w, b)"),
    "a product behind a squeeze": ([1, 5, 4], "m = Squeeze(a, l)  r = Gemm(m, w, b)"),
    "a product and a bias": ([2, 5, 4], "m = MatMul(a, w)  r = Add(m, b)"),
    "a product and a bias behind a transpose": ([4, 5], "m = Transpose(a)  n = MatMul(m, w)  r = Add(b, n)"),
    "a product and a number, which keeps its weights": ([5, 4], "m = MatMul(a, w)  r = Add(m, c0)"),
    "a product without a bias, which keeps its weights": ([5, 4], "r = MatMul(a, w)"),
    "a convolution behind moves": (
        [1, 6, 6, 4],
        "m = Transpose<perm=[0,3,1,2]>(a)  n = MaxPool<kernel_shape=[2,2]>(m)  o = Slice(n, n1, n3, n1)  "
        "p = Unsqueeze(o, l)  e = Squeeze(p, l)  r = Conv(e, v2, b)",
    ),
    "two convolutions of a pooled image": (
        [1, 4, 6, 6],
        f"m = MaxPool<kernel_shape=[2,2]>(a)  c = Conv(m, v, b) {TWO}",
    ),
    "a convolution behind padding": ([1, 4, 6, 6], "m = Pad(a, pads)  r = Conv(m, v, b)"),
    "a convolution behind padding by a number": ([1, 4, 6, 6], "m = Pad(a, pads, c0)  r = Conv(m, v, b)"),
    "a product and a bias that is one number": ([5, 4], "k = DequantizeLinear(wq, u, w0)  r = Gemm(a, k, c0)"),
    "a product and a bias of one element": ([5, 4], "k = DequantizeLinear(wq, u, w0)  r = Gemm(a, k, c1)"),
    "a product and a bias of one row": ([5, 4], "k = DequantizeLinear(wq, u, w0)  r = Gemm(a, k, row)"),
}


def model(shape: list[int], body: str) -> onnx.ModelProto:
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> graph (float[{",".join(map(str, shape))}] x)
        => (float y) <{NUMBERS}> {{ q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)
        {body}
        last = QuantizeLinear(r, t, z)  y = DequantizeLinear(last, t, z) }}""")
    drawn = np.random.default_rng(1)
    for name, size in (("w", (4, 4)), ("v", (4, 4, 1, 1)), ("v2", (4, 2, 1, 1))):
        made.graph.initializer.append(numpy_helper.from_array(drawn.normal(0, 0.3, size).astype(np.float32), name))
    return made


@pytest.mark.parametrize("case", CASES)
def test_the_program_has_the_weights_of_onnxruntime(case: str) -> None:
    shape, body = CASES[case]
    made = model(shape, body)
    quantized = zp.quantize(zp.load(made), target="onnxruntime")
    runtime, drawn = optimized(made), np.random.default_rng(2)
    for _ in range(10):
        x = {"x": drawn.uniform(-4, 4, shape).astype(np.float32)}
        np.testing.assert_array_equal(quantized(x)["y"], runtime.run(x)[0])
