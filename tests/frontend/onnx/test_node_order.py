"""Nodes before those whose results they read, as onnxruntime's quantization tools write them."""

from __future__ import annotations

from pathlib import Path

import onnx.parser
import pytest

from frontend.onnx.models import assert_same_as_onnxruntime, load, random
from zeropoint.frontend import ModelError

HEADER = '<ir_version: 8, opset_import: ["": 17]>\n'
CHAIN = "c = Tanh(b)  y = Neg(c)  a = Abs(x)  b = Sqrt(a)"
BRANCH = """y = If(yes) <then_branch = t () => (float[3] u) { v = Sqrt(b)  u = Neg(v) },
else_branch = e () => (float[3] w) { w = Neg(x) }>  b = Exp(a)  a = Tanh(x)"""
LOOP = """z = Neg(y)  y = Loop(n, yes, s) <body = l (int64 i, bool c, float[3] h) => (bool d, float[3] g)
{ k = Mul(h, x)  g = Add(k, a)  d = Identity(c) }>  s = Tanh(a)  a = Exp(x)"""


def model(nodes: str) -> onnx.ModelProto:
    result = "z" if "z = " in nodes else "y"
    text = f"g (float[3] x) => (float[3] {result}) <bool yes = {{1}}, int64 n = {{3}}> {{ {nodes} }}"
    return onnx.parser.parse_model(HEADER + text)


@pytest.mark.parametrize("nodes", [CHAIN, BRANCH, LOOP], ids=["chain", "branch", "loop"])
def test_nodes_are_imported_in_the_order_of_their_data(nodes: str, tmp_path: Path) -> None:
    assert_same_as_onnxruntime(model(nodes), tmp_path, {"x": random(3)})


def test_nodes_that_read_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="found input 'b', which no earlier node computes; the file is broken"):
        load(model("a = Tanh(b)  b = Neg(a)  y = Add(a, x)"), tmp_path)
