"""Local functions of a model: default attributes, references to attributes, and opsets of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from frontend.onnx.models import assert_same_as_onnxruntime, load, random
from zeropoint.frontend import ModelError
from zeropoint.interp import run

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


def test_a_function_may_import_an_older_opset(tmp_path: Path) -> None:
    older = '<domain: "m", opset_import: ["": 11]> F (a) => (b) { s = ReduceSum<axes = [1]>(a)  b = Sub(a, s) }'
    x = random(3, 4)
    found = run(load(model("F(x)", older), tmp_path), {"x": x})["y"]
    np.testing.assert_allclose(found, x - x.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_a_function_of_an_opset_that_cannot_be_converted_is_named(tmp_path: Path) -> None:
    newer = (
        '<domain: "m", opset_import: ["": 18]> F (a) => (b) { n = Constant<value_ints = [1]>()  b = ReduceMean(a, n) }'
    )
    with pytest.raises(
        ModelError, match=r"found function 'm::F' of opset 18 in a model of opset 17, expected one opset"
    ):
        load(model("F(x)", newer), tmp_path)


def test_operators_that_are_the_same_in_both_opsets_need_no_conversion(tmp_path: Path) -> None:
    older = TWICE.format("be").replace('"": 17', '"": 16')
    proto = model("Twice(x)", LEAKY, older)
    assert_same_as_onnxruntime(proto, tmp_path, {"x": random(3, 4)})
    assert_same_as_onnxruntime(
        model("Inside(x, yes)", LEAKY, INSIDE.replace('"": 17', '"": 18')), tmp_path, {"x": random(3, 4)}
    )


def test_operators_that_gained_only_element_types_need_no_conversion(tmp_path: Path) -> None:
    leaky = LEAKY.replace('"": 17', '"": 15')
    outer = TWICE.format("be").replace('"": 17', '"com.microsoft": 1, "": 13')
    outer = outer.replace("r = m.Leaky(q)", "s = com.microsoft.Gelu(q)  r = m.Leaky(s)")
    assert_same_as_onnxruntime(model("Twice(x)", leaky, outer), tmp_path, {"x": random(3, 4)})


def test_operators_that_changed_are_converted(tmp_path: Path) -> None:
    """A softmax of opset 11 flattens its operand."""
    older = '<domain: "m", opset_import: ["": 11]> F (a) => (b) { b = Softmax<axis = 0>(a) }'
    x = random(3, 4)
    powers = np.exp(x - x.max())
    found = run(load(model("F(x)", older), tmp_path), {"x": x})["y"]
    np.testing.assert_allclose(found, powers / powers.sum(), rtol=1e-5, atol=1e-6)
