"""Local functions of a model: default attributes and references to attributes."""

from __future__ import annotations

from pathlib import Path

import onnx.parser
import pytest

from frontend.onnx.models import assert_same_as_onnxruntime, load, random
from zeropoint.frontend import ModelError

HEADER = '<ir_version: 8, opset_import: ["": 17, "m": 1]>\n'
LEAKY = (
    '<domain: "m", opset_import: ["": 17]> Leaky <al: float = 0.3> (a) => (b) { b = LeakyRelu<alpha: float = @al>(a) }'
)
TWICE = """<domain: "m", opset_import: ["": 17, "m": 1]> Twice <{}> (p) => (r)
{{ q = m.Leaky<al: float = @be>(p)  r = m.Leaky(q) }}"""
INSIDE = """<domain: "m", opset_import: ["": 17, "m": 1]> Inside (p, c) => (r)
{ r = If(c) <then_branch = t () => (float[3,4] u) { u = m.Leaky(p) },
             else_branch = e () => (float[3,4] v) { v = Neg(p) }> }"""


def model(call: str, *functions: str) -> onnx.ModelProto:
    body = f"g (float[3,4] x) => (float[3,4] y) <bool yes = {{1}}> {{ y = m.{call} }}\n"
    return onnx.parser.parse_model(HEADER + body + "\n".join(functions))


@pytest.mark.parametrize(
    ("call", "functions"),
    [
        ("Leaky(x)", [LEAKY]),
        ("Leaky<al = 0.2>(x)", [LEAKY]),
        ("Twice<be = 0.2>(x)", [LEAKY, TWICE.format("be")]),
        ("Twice(x)", [LEAKY, TWICE.format("be")]),
        ("Twice(x)", [TWICE.format("be: float = 0.4"), LEAKY]),
        ("Inside(x, yes)", [LEAKY, INSIDE]),
    ],
    ids=["default", "given", "given-outside", "neither", "two-defaults", "branch"],
)
def test_attributes_that_a_call_leaves_out_have_the_default_of_the_function(
    call: str, functions: list[str], tmp_path: Path
) -> None:
    assert_same_as_onnxruntime(model(call, *functions), tmp_path, {"x": random(3, 4)})


def test_an_attribute_with_two_defaults_has_to_be_given(tmp_path: Path) -> None:
    other = LEAKY.replace("Leaky", "Other", 1).replace("0.3", "0.1")
    both = TWICE.format("be").replace("m.Leaky(q)", "m.Other<al: float = @be>(q)")
    assert_same_as_onnxruntime(model("Twice<be = 0.2>(x)", LEAKY, other, both), tmp_path, {"x": random(3, 4)})
    with pytest.raises(ModelError, match=r"found a call of 'm::Twice' without attribute 'be', expected it"):
        load(model("Twice(x)", LEAKY, other, both), tmp_path)
