"""Names that several nested graphs define: each graph has its own value, compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import onnx.parser
import pytest

from frontend.onnx.models import assert_same_as_onnxruntime, random
from zeropoint.ir.tensors import Array

HEADER = '<ir_version: 8, opset_import: ["" : 17]>\n'
CONDITION = "t = ReduceSum<keepdims = 0>(x)  yes = Greater(t, zero)"
CONSTANTS = f"""g (float[3] x) => (float[3] y) <float zero = {{0.0}}>
{{ {CONDITION}
  y = If(yes) <then_branch = a () => (float[3] p) <float[3] c = {{1, 2, 3}}> {{ p = Mul(x, c) }},
    else_branch = b () => (float[3] q) {{ c = Constant<value = float[1] {{7.0}}>()  q = Mul(x, c) }}> }}"""
INITIALIZERS = """g (float[3] x) => (float[3] y) <bool true = {1}, int64 n = {2}>
{ u = Loop(n, true, x) <body = l (int64 i, bool c, float[3] s) => (bool d, float[3] r)
    <float[3] w = {1, 2, 3}> { d = Identity(c)  r = Mul(s, w) }>
  y = Loop(n, true, u) <body = l (int64 i, bool c, float[3] s) => (bool d, float[3] r)
    <float[3] w = {4, 5, 6}> { d = Identity(c)  r = Add(s, w) }> }"""
COMPUTED = f"""g (float[3] x) => (float[3] y) <float zero = {{0.0}}>
{{ {CONDITION}
  y = If(yes) <then_branch = a () => (float[3] p) {{ v = Exp(x)  p = Mul(v, x) }},
    else_branch = b () => (float[3] p) {{ v = Neg(x)  o = If(yes) <
      then_branch = a () => (float[3] w) {{ w = Identity(v) }},
      else_branch = b () => (float[3] w) <float[3] r = {{1, 2, 3}}> {{ w = Mul(v, r) }}>  p = Abs(o) }}> }}"""
CASTS = f"""g (float[3] x) => (float[3] y) <float zero = {{0.0}}>
{{ {CONDITION}
  y = If(yes) <then_branch = a () => (float[3] p) <float s = {{0.1}}, int8 z = {{3}}>
      {{ q = QuantizeLinear(x, s, z)  p = DequantizeLinear(q, s, z) }},
    else_branch = b () => (float[3] p) <float s = {{0.5}}, int8 z = {{-7}}>
      {{ q = QuantizeLinear(x, s, z)  p = DequantizeLinear(q, s, z) }}> }}"""


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "text", [CONSTANTS, INITIALIZERS, COMPUTED, CASTS], ids=["constants", "initializers", "computed", "casts"]
)
def test_graphs_that_define_the_same_names_have_their_own_values(text: str, sign: int, tmp_path: Path) -> None:
    x: Array = abs(random(3)) * sign
    assert_same_as_onnxruntime(onnx.parser.parse_model(HEADER + text), tmp_path, {"x": x.astype("float32")})
