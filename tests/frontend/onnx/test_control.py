"""Graphs inside of nodes, and what ONNX's suite has no case of: compared with onnxruntime, and in native code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from frontend.onnx.models import assert_same_as_onnxruntime, load, random
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.frontend import ModelError
from zeropoint.interp import run
from zeropoint.simplify import simplify

HEADER = '<ir_version: 8, opset_import: ["" : 17]>\n'


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER + text)


LOOP = """g (float[2,3] x) => (float[2,3] y, float[4,2,3] all) <int64 trips = {4}, bool true = {1}>
{ y, all = Loop(trips, true, x) <body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t, float[2,3] o)
  { d = Identity(c)  f = Cast<to = 1>(i)  u = Mul(s, f)  t = Add(u, x)  o = Neg(t) }> }"""
CHOICE = """g (float[2,3] x) => (float[2,3] y) <float zero = {0.0}>
{ total = ReduceSum<keepdims = 0>(x)  positive = Greater(total, zero)
  y = If(positive) <then_branch = a () => (float[2,3] p) { p = Neg(x) }, else_branch = b () => (float[2,3] q)
  { q = Mul(x, x) }> }"""
STOPPED = """g (float[2,3] x) => (float[2,3] y) <int64 trips = {6}, bool true = {1}, float most = {9.0}>
{ y = Loop(trips, true, x) <body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t)
  { t = Add(s, s)  a = Abs(t)  m = ReduceMax<keepdims = 0>(a)  d = Less(m, most) }> }"""
POOL = "g (float[2,3,4,5] x) => (float[2,3,1,1] y) { y = GlobalLpPool<p = 3>(x) }"


@pytest.mark.parametrize("text", [LOOP, CHOICE, STOPPED, POOL], ids=["loop", "if", "condition", "global-lp-pool"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_graphs_inside_of_nodes_compute_what_onnxruntime_does(text: str, seed: int, tmp_path: Path) -> None:
    proto = parsed(text)
    shape = tuple(dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim)
    inputs = {"x": random(*shape, seed=seed)}
    program = assert_same_as_onnxruntime(proto, tmp_path, inputs)
    native = NativeProgram(simplify(program))(inputs)
    for name, array in run(program, inputs).items():
        np.testing.assert_allclose(native[name], array, rtol=1e-5, atol=1e-5)


def test_a_loop_without_an_end_is_refused(tmp_path: Path) -> None:
    endless = STOPPED.replace("{6}", "{1000000}")
    with pytest.raises(ModelError, match="found more than 512 trips"):
        load(parsed(endless), tmp_path)
