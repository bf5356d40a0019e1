"""Files for Model Explorer: the graph of the integer program, and node data by the names of the model's nodes."""

from __future__ import annotations

import json
from typing import Any

import onnx

from digits import DIGITS, quantized_digits
from zeropoint.report.document import Header, Noise, ReportParts, Time, document, graph_of
from zeropoint.report.model_explorer import files


def made(**parts: Any) -> dict[str, Any]:
    program = quantized_digits().integer
    graph = graph_of(program)
    found = files(document(program, graph, Header("digits.mlir", "", "cpu", "fixed16"), ReportParts(**parts)), program)
    return {name: json.loads(text) for name, text in found.items()}


def test_the_graph_has_every_op_and_its_edges() -> None:
    (graph,) = made()["digits_graph.json"]["graphs"]
    ids = [node["id"] for node in graph["nodes"]]
    assert len(ids) == len(set(ids))
    ops = [op for op in quantized_digits().integer.entry.ops if op.name not in ("stablehlo.constant", "func.return")]
    assert len(ids) == len(ops) + 2  # an input and an output
    sources = {edge["sourceNodeId"] for node in graph["nodes"] for edge in node["incomingEdges"]}
    assert sources <= set(ids)
    alone = [node["label"] for node in graph["nodes"] if not node["incomingEdges"]]
    assert set(alone) == {"input image", "stablehlo.broadcast_in_dim"}  # those broadcast constants


def test_the_ops_of_a_kernel_are_a_group_and_the_last_one_has_its_name() -> None:
    (graph,) = made()["digits_graph.json"]["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert nodes["stem.conv"]["label"] == "fxpmath.requantize"
    assert nodes["stem.conv"]["namespace"] == "stem.conv (convolution)"
    assert {"key": "covers", "value": "stem.conv, stem.norm, stem.act"} in nodes["stem.conv"]["attrs"]
    assert nodes["stem.conv"]["outputsMetadata"][0]["attrs"] == [{"key": "shape", "value": "1x16x28x28 x i8"}]
    reasons = [one["value"] for one in nodes["softmax"]["attrs"] if one["key"] == "reason"]
    assert reasons == ["target cpu has no kernel 'softmax'"]


def test_node_data_are_by_the_names_of_the_models_nodes() -> None:
    program = quantized_digits().integer
    node = next(node.id for node in graph_of(program).nodes if node.name == "down.conv")
    exact = next(node.id for node in graph_of(program).nodes if node.name == "pool")
    noise = {node: Noise(1e-3, 1e-4, 1e-4), exact: Noise(1e-3, 1e-3, 0.0)}
    found = made(noise=noise, times={node: Time(2e-6, 0, 0, ())})
    assert found["digits_me_input_sqnr.json"]["results"]["down.conv"]["value"] == 30
    assert set(found["digits_me_input_own_noise.json"]["results"]) == {"down.conv", "down.norm", "down.act"}
    assert found["digits_me_input_time.json"]["results"]["down.act"]["value"] == 2
    model = {node.name for node in onnx.load(DIGITS / "digits.onnx").graph.node}
    assert set(found["digits_me_input_headroom.json"]["results"]) - {"image"} <= model | {
        name for name in found["digits_me_input_headroom.json"]["results"] if "Constant" in name
    }
    assert [stop["stop"] for stop in found["digits_me_input_sqnr.json"]["gradient"]] == [0, 0.5, 1]


def test_a_metric_without_figures_has_no_file() -> None:
    assert set(made()) == {"digits_graph.json", "digits_me_input_headroom.json"}
