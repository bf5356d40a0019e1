"""Tensors that have another name than the node that computes them are known by both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import zeropoint as zp
from frontend.onnx.models import model, random, tensor
from zeropoint.ir.annotations import TENSORS


def network(hidden: str, node: str = "fc") -> onnx.ModelProto:
    """A matrix product `node`, whose result is called `hidden`, and a tanh."""
    nodes = [
        helper.make_node("MatMul", ["x", "fc.weight"], [hidden], name=node),
        helper.make_node("Tanh", [hidden], ["y"], name="act"),
    ]
    weights = {"fc.weight": random(64, 32)}
    return model(nodes, [tensor("x", (1, 64))], [tensor("y", (1, 32))], weights)


def quantized(hidden: str, **options: object) -> zp.Model:
    return zp.quantize(network(hidden), [random(1, 64, seed=n) for n in range(4)], effort="none", **options)


@pytest.mark.parametrize("hidden", ["Gemm7", "fc_output_0", "fc:0"])
def test_explain_finds_a_value_by_the_name_of_its_tensor(hidden: str) -> None:
    made = quantized(hidden)
    assert str(made.explain(hidden)) == str(made.explain("fc"))
    assert str(made.explain(hidden)).startswith("fc: !quant.uniform<i8")
    floats = zp.load(network(hidden))
    assert str(floats.explain(hidden)) == str(floats.explain("fc"))


def test_explain_finds_the_kernel_that_reads_a_weight() -> None:
    made = quantized("h")
    assert str(made.explain("fc.weight")) == str(made.explain("fc"))
    with pytest.raises(zp.Error, match=r"found no value 'fc\.bias' in the program"):
        made.explain("fc.bias")


def test_a_name_of_a_node_comes_before_that_of_a_tensor() -> None:
    assert str(quantized("act").explain("act")).startswith("act: !quant.uniform<i8")
    assert "tanh" in str(quantized("act").explain("act"))


def test_a_recipe_finds_an_op_by_the_name_of_its_tensor() -> None:
    made = quantized("h", recipe=[{"name": "h", "quantize": False}])
    assert "fc" in {op.name for op in made.explain().float_ops}
    made = quantized("h", recipe=[{"subgraph": {"from": "h", "to": "act"}, "quantize": False}])
    assert {op.name for op in made.explain().float_ops} == {"fc", "act"}


def test_only_names_that_follow_no_rule_are_stored() -> None:
    def stored(hidden: str) -> str:
        return str(zp.load(network(hidden)).program.module.attributes.get(TENSORS))

    assert stored("h") == '[["h", "fc"]]'
    assert stored("fc_output_0") == stored("fc") == "None"


def test_a_gather_has_the_name_of_its_node_and_not_one_of_its_positions(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="embed"),
        helper.make_node("Tanh", ["rows"], ["y"], name="act"),
    ]
    ids = tensor("ids", (1, 4), onnx.TensorProto.INT64)
    proto = model(nodes, [ids], [tensor("y", (1, 4, 8))], {"table": random(9, 8)})
    made = zp.quantize(proto, [np.arange(4)[None], np.arange(4, 8)[None]], effort="none")
    assert [value.shown_name for value in made.explain().values] == ["ids", "embed", "act"]
    made.save(tmp_path / "m.mlir")
    assert '%embed = "stablehlo.gather"' in (tmp_path / "m.mlir").read_text()


def test_names_of_tensors_are_saved(tmp_path: Path) -> None:
    quantized("h").save(tmp_path / "m.mlir")
    assert str(zp.load(tmp_path / "m.mlir").explain("h")).startswith("fc: ")
    assert np.isfinite(zp.load(tmp_path / "m.mlir")(random(1, 64))["y"]).all()
