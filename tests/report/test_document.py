"""The document of a report: what each section reads from the program."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from digits import network, quantized_digits
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.report.document import Header, ReportParts, document, graph_of
from zeropoint.report.document.reaches import bounds
from zeropoint.report.document.reasons import reasons
from zeropoint.report.document.texts import texts
from zeropoint.report.document.weights import POINTS, weight_scales
from zeropoint.report.explain import reaches

RESCALED = """func.func @main(%x: tensor<4xi8> {zeropoint.name = "x"}) -> (tensor<4xi8> {zeropoint.name = "y"}) {
  %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %s = stablehlo.constant dense<31> : tensor<1xi32>
  %a = stablehlo.convert %x : (tensor<4xi8>) -> tensor<4xi32>
  %r = "fxpmath.requantize"(%a, %m, %s) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
    storage_max = 127 : i64}> {zeropoint.rescale = "two demands", zeropoint.facts = [
      {name = "has", value = "the scale of 'a'", salience = "kernel", source = "!quant.uniform<i8:f32, 5.000000e-01>"},
      {name = "required", value = "kernel 'b'", salience = "kernel", source = "!quant.uniform<i8:f32, 1.000000e+00>"}]}
    : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi8>
  return %r : tensor<4xi8>
}"""


def integer() -> Program:
    return quantized_digits().integer


def names(kind: str) -> list[str]:
    return [node.name for node in graph_of(integer()).nodes if node.kind == kind]


def test_a_kernel_an_island_and_every_port_has_a_node() -> None:
    assert names("input") == ["image"]
    assert names("output") == ["probabilities"]
    assert names("float") == ["softmax"]
    assert names("rescale") == []
    assert len(names("kernel")) == 12
    assert names("kernel")[0] == "stem.conv"
    assert "classifier" in names("kernel")  # an accumulator that only floats read has no facts


def test_every_op_belongs_to_one_node() -> None:
    graph = graph_of(integer())
    listed = [op for ops in graph.ops.values() for op in ops]
    assert len(listed) == len(set(listed))
    constants = ("stablehlo.constant", "func.return")
    assert set(listed) == {op for op in integer().entry.ops if op.name not in constants}


def test_edges_are_those_of_the_network() -> None:
    graph = graph_of(integer())
    node = {found.name: found for found in graph.nodes}
    by_id = {found.id: found.name for found in graph.nodes}
    assert [by_id[read] for read in node["block.add"].reads] == ["separable.pointwise.conv", "block.project.conv"]
    assert [by_id[read] for read in node["probabilities"].reads] == ["softmax"]
    assert node["image"].reads == ()


def test_a_rescale_has_a_node_and_its_two_demands() -> None:
    program = parse_program(RESCALED)
    graph = graph_of(program)
    (found,) = [node for node in graph.nodes if node.kind == "rescale"]
    assert found.reads == ("in0",)
    has, required, why = reasons(program, graph)[found.id]
    assert "the scale of 'a'" in has
    assert "kernel 'b'" in required
    assert why.startswith("The two requirements conflict")


def test_parameters_are_those_of_the_types() -> None:
    node = {found.name: found for found in graph_of(integer()).nodes}
    pooled, before = node["pool"].parameters, node["stem.conv"].parameters
    assert pooled is not None
    assert pooled == before  # the pool keeps its operand's integers, and its facts say so
    assert (pooled.storage, pooled.zero_point, pooled.low) == ("i8", -128, 0.0)
    assert node["image"].parameters is not None
    assert node["classifier"].parameters is not None
    assert node["classifier"].parameters.low is None  # one scale per channel


def test_values_without_parameters_have_their_element_type() -> None:
    text = """func.func @main(%ids: tensor<4xi64>, %x: tensor<4xf32>) -> (tensor<4xi64>, tensor<4xi1>) {
      %0 = stablehlo.add %ids, %ids : tensor<4xi64>
      %1 = stablehlo.compare GT, %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
      return %0, %1 : tensor<4xi64>, tensor<4xi1>
    }"""
    found = {node.id: node.element for node in graph_of(parse_program(text)).nodes}
    assert list(found.values()) == ["i64", "f32", "i64", "i1", "i64", "i1"]


def test_bounds_are_those_of_explain() -> None:
    graph = graph_of(integer())
    listed = [bound for found in bounds(integer(), graph).values() for bound in found]
    expected = reaches(integer())
    assert len(listed) == len(expected)
    assert sorted(bound.headroom for bound in listed) == sorted(reach.headroom[reach.worst] for reach in expected)


def test_texts_have_the_float_ops_and_the_integer_ops_without_facts() -> None:
    made = quantized_digits()
    graph = graph_of(made.integer)
    identity = next(node.id for node in graph.nodes if node.name == "block.expand.conv")
    text = texts(made.integer, made.fused, graph)[identity]
    assert text.before is not None
    assert "xf32>" in text.before
    assert "stablehlo.clamp" in text.before
    assert "fxpmath.requantize" in text.after
    assert "zeropoint.facts" not in text.after
    assert texts(made.integer, None, graph)[identity].before is None


def test_texts_leave_no_uses_behind() -> None:
    def uses() -> list[int]:
        return [len(list(result.uses)) for op in integer().entry.ops for result in op.results]

    before = uses()
    texts(integer(), quantized_digits().fused, graph_of(integer()))
    assert uses() == before


def test_long_lists_of_numbers_are_cut_and_attributes_are_not() -> None:
    graph = graph_of(integer())
    identity = next(node.id for node in graph.nodes if node.name == "stem.conv")
    after = texts(integer(), None, graph)[identity].after
    assert ", ...]> : tensor<16xi32>" in after
    assert "storage_min = -128 : i64, zero_point = -128 : i64}>" in after


def test_weight_scales_are_those_of_the_types_or_of_groups_of_channels() -> None:
    made = quantized_digits()
    graph = graph_of(made.integer)
    found = weight_scales(made.propagated, graph)
    identity = next(node.id for node in graph.nodes if node.name == "block.expand.conv")
    scales = found[identity]
    assert (scales.channels, scales.group, len(scales.low)) == (96, 1, 96)
    assert scales.high == ()
    assert all(len(one.low) <= POINTS for one in found.values())


def test_reasons_are_sentences() -> None:
    graph = graph_of(integer())
    found = reasons(integer(), graph)
    listed = [text for sentences in found.values() for text in sentences]
    assert all(text[0].isupper() or text[0] == "'" for text in listed)
    assert all(text.endswith(".") for text in listed)
    island = next(node.id for node in graph.nodes if node.kind == "float")
    assert found[island] == ("Stays in float: target cpu has no kernel 'softmax'.",)


def test_the_document_is_json_and_the_same_each_time() -> None:
    def made() -> str:
        graph = graph_of(integer())
        return document(integer(), graph, Header("m", "", "cpu", "fixed16"), ReportParts()).json()

    record = json.loads(made())
    assert record["format"] == "zeropoint report 1"
    assert record["ops"]["counts"]["floats"] == 7
    assert made() == made()


def test_a_float_program_has_a_graph_without_kernels() -> None:
    kinds = {node.kind for node in graph_of(network()).nodes}
    assert "kernel" not in kinds


@pytest.mark.parametrize("program", [lambda: parse_program(RESCALED), integer], ids=["rescaled", "digits"])
def test_nodes_come_after_those_that_they_read(program: Callable[[], Program]) -> None:
    seen: set[str] = set()
    for node in graph_of(program()).nodes:
        assert set(node.reads) <= seen
        seen.add(node.id)


def test_corrections_and_the_budget_are_those_of_explain() -> None:
    program = parse_program(f"""builtin.module attributes {{
  zeropoint.corrections = [{{name = "equalize", salience = "calibrated", source = "16 samples held back",
    value = "43.40 dB, 42.58 dB without; undone"}}],
  zeropoint.budget = [{{name = "mean", salience = "calibrated", source = "budget quality=45dB: 49.9 dB",
    value = "i16; 12.7% of the noise at the outputs"}}]}} {{
{RESCALED}
}}""")
    found = document(program, graph_of(program), Header("m", "", "cpu", "fixed16"), ReportParts())
    assert found.corrections == (
        "corrections, by SQNR on 16 samples held back:",
        "equalize: 43.40 dB, 42.58 dB without; undone",
    )
    assert found.budget == ("budget quality=45dB: 49.9 dB", "mean: i16; 12.7% of the noise at the outputs")
