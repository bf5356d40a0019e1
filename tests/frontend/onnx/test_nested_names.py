"""Names that several nested graphs define: each graph has its own value, compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import onnx.parser
import pytest
from onnx import helper

from frontend.onnx.models import assert_same_as_onnxruntime, random
from zeropoint.frontend.onnx.bodies import graphs_inside
from zeropoint.frontend.onnx.nested_names import make_names_unique
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


def renaming(count: int) -> float:
    """The processor time for as many graphs that define one name."""
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["p"])], "branch", [], [])
    nodes = [helper.make_node("If", ["c"], [f"y{n}"], then_branch=branch, else_branch=branch) for n in range(count)]
    graph = helper.make_graph(nodes, "g", [], [])
    start = process_time()
    make_names_unique(graph)
    spent = process_time() - start
    assert len({inner.node[0].output[0] for inner in graphs_inside(graph)}) == 2 * count
    return spent


def test_one_name_in_thousands_of_graphs_takes_linear_time() -> None:
    """14 Ifs in each other, each in both branches of the one around it, have some 30,000 graphs."""
    assert renaming(8000) < 8 * max(renaming(2000), 0.02)
