"""Files with norms in floats, imported without data and exported again, are the same file.

A norm is written op by op, so an imported one is many kernels that stay float. Each repeated value between two of them
became an operator of its own: three more for each norm.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp
from export.text_networks import text_network

ENCODER = (
    "(float[1,16,24] x) => (float[1,16,24] y)",
    {
        **{f"w{name}": (24, 24) for name in "qkvo"},
        **{f"b{name}": (24,) for name in "qkvo"},
        **{"w1": (24, 48), "b1": (48,), "w2": (48, 24), "b2": (24,)},
        **{name: (24,) for name in ("g1", "t1", "g2", "t2", "g3", "t3")},
    },
    """
    heads = Constant<value_ints=[1,16,2,12]>()
    flat = Constant<value_ints=[1,16,24]>()
    n = LayerNormalization(x, g1, t1)
    q0 = MatMul(n, wq)  q1 = Add(q0, bq)  q2 = Reshape(q1, heads)  q = Transpose<perm=[0,2,1,3]>(q2)
    k0 = MatMul(n, wk)  k1 = Add(k0, bk)  k2 = Reshape(k1, heads)  k = Transpose<perm=[0,2,3,1]>(k2)
    v0 = MatMul(n, wv)  v1 = Add(v0, bv)  v2 = Reshape(v1, heads)  v = Transpose<perm=[0,2,1,3]>(v2)
    s = MatMul(q, k)  p = Softmax<axis=-1>(s)  a0 = MatMul(p, v)  a1 = Transpose<perm=[0,2,1,3]>(a0)
    a = Reshape(a1, flat)  o0 = MatMul(a, wo)  o = Add(o0, bo)
    r = Add(x, o)
    m = LayerNormalization(r, g2, t2)
    f0 = MatMul(m, w1)  f1 = Add(f0, b1)  f2 = Relu(f1)  f3 = MatMul(f2, w2)  f = Add(f3, b2)
    e = Add(r, f)
    y = LayerNormalization(e, g3, t3)
    """,
)
NETWORKS = {
    "an encoder": ENCODER,
    "an RMS norm of long rows": (
        "(float[1,6,600] x) => (float[1,6,600] y, float[1,6,8] z)",
        {"w": (600, 600), "g": (600,), "u": (600, 8)},
        """
        least = Constant<value_float=0.000001>()
        r = MatMul(x, w)  s = Mul(r, r)  m = ReduceMean<axes=[-1]>(s)  v = Add(m, least)  d = Sqrt(v)  n = Div(r, d)
        y = Mul(n, g)
        z = MatMul(y, u)
        """,
    ),
    "a norm of an embedding": (
        "(float[1,6] x) => (float[1,6,8] y)",
        {"t": (50, 24), "g": (24,), "b": (24,), "u": (24, 8)},
        "i = Cast<to=7>(x)\n e = Gather(t, i)\n n = LayerNormalization(e, g, b)\n y = MatMul(n, u)",
    ),
    "a norm of images": (
        "(float[1,4,24,24] x) => (float[1,4,24,24] y, float[1,3,24,24] z)",
        {"w": (4, 4, 1, 1), "g": (4,), "t": (4,), "u": (3, 4, 1, 1)},
        "r = Conv(x, w)\n y = InstanceNormalization(r, g, t)\n z = Conv(y, u)",
    ),
}
FILES = [("litert", "tflite"), ("litert-16x8", "tflite"), ("onnxruntime", "onnx"), ("openvino", "onnx")]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("target", "suffix"), FILES)
def test_a_file_with_norms_is_the_same_after_an_import(name: str, target: str, suffix: str, tmp_path: Path) -> None:
    model, samples = text_network(*NETWORKS[name])
    first = zp.quantize(model, samples, target=target, effort="none")
    first.export(tmp_path / f"first.{suffix}")
    second = zp.quantize(tmp_path / f"first.{suffix}", target=target)
    second.export(tmp_path / f"second.{suffix}")
    assert (tmp_path / f"first.{suffix}").read_bytes() == (tmp_path / f"second.{suffix}").read_bytes()
    expected, found = (model.interpreted()(**samples[0]) for model in (first, second))
    for output, array in expected.items():
        np.testing.assert_array_equal(found[output], array)
