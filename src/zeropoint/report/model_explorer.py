"""A report for Model Explorer: the integer program as a graph, and the metrics of its kernels as node data.

Node data use the names of the original model's nodes as ids, so that they fit both the ONNX model and the graph written
here. In the graph, the ops of a kernel form a group. The op that produces the kernel's result has the kernel's name as
id.

Source: Model Explorer's `graph_builder.GraphCollection` and `node_data_builder.GraphNodeData`, as JSON; the file names
are those of AI Edge Quantizer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.numerics.noise import decibels
from zeropoint.report.document import Document, ReportGraph, ReportNode, graph_of

GOOD, MIDDLE, BAD = "#eef2f7", "#fbc77a", "#d8432b"


@dataclass(frozen=True)
class Metric:
    """A number for every kernel. `worst` says which end of its values is red."""

    title: str
    worst: str
    of: Callable[[Document, str], float | None]


def _noise(part: str) -> Callable[[Document, str], float | None]:
    def of(document: Document, node: str) -> float | None:
        found = document.noise.get(node)
        share = None if found is None else getattr(found, part)
        return None if share is None else decibels(1.0, share)

    return of


def _microseconds(document: Document, node: str) -> float | None:
    found = document.times.get(node)
    return None if found is None else 1e6 * found.seconds


def _headroom(document: Document, node: str) -> float | None:
    return min((float(bound.headroom) for bound in document.bounds.get(node, ())), default=None)


def _clipped(document: Document, node: str) -> float | None:
    found = document.values.get(node)
    return None if found is None or found.clipped is None else 100 * found.clipped


METRICS: Mapping[str, Metric] = {
    "sqnr": Metric("SQNR of the result, dB", "low", _noise("total")),
    "own_noise": Metric("SQNR by the kernel's own noise, dB", "low", _noise("added")),
    "time": Metric("time, us", "high", _microseconds),
    "headroom": Metric("headroom of sums, bits", "low", _headroom),
    "clipped": Metric("clipped values, %", "high", _clipped),
}
"""The metrics by name; the name is part of the file name."""


def files(document: Document, program: Program) -> dict[str, str]:
    """The texts of the files by file name: the graph, and node data for every metric in the report."""
    stem = document.header.model.rpartition(".")[0] or document.header.model
    made = {f"{stem}_graph.json": json.dumps(_collection(document, program))}
    for name, metric in METRICS.items():
        data = _node_data(document, metric)
        if data["results"]:
            made[f"{stem}_me_input_{name}.json"] = json.dumps(data, indent=1)
    return made


def _node_data(document: Document, metric: Metric) -> dict[str, Any]:
    """The number of every kernel, at each op of the original model that it covers. Exact kernels have none."""
    results: dict[str, dict[str, float]] = {}
    for node in document.nodes:
        value = metric.of(document, node.id)
        if value is not None and isfinite(value):
            shown = float(f"{value:.4g}")  # Model Explorer prints every digit that it is given
            results |= {name: {"value": shown} for name in (node.name, *node.covers)}
    colours = (BAD, MIDDLE, GOOD) if metric.worst == "low" else (GOOD, MIDDLE, BAD)
    gradient = [{"stop": stop, "bgColor": colour} for stop, colour in zip((0, 0.5, 1), colours, strict=True)]
    return {"name": metric.title, "results": results, "gradient": gradient}


def _collection(document: Document, program: Program) -> dict[str, Any]:
    graph = graph_of(program)
    ids = dict(_ids(graph))
    nodes = [entry for node in graph.nodes for entry in _entries(node, graph, ids)]
    return {"label": document.header.model, "graphs": [{"id": "integer program", "nodes": nodes}]}


def _ids(graph: ReportGraph) -> Iterator[tuple[Operation, str]]:
    """The id of every op: for the last op of a node, the node's name if no other op has it."""
    taken: set[str] = {node.id for node in graph.nodes}
    for node in graph.nodes:
        for index, op in enumerate(ops := graph.ops.get(node.id, [])):
            name = node.name if op is ops[-1] and node.name not in taken else f"{node.id}.{index}"
            taken.add(name)
            yield op, name


def _entries(node: ReportNode, graph: ReportGraph, ids: Mapping[Operation, str]) -> Iterator[dict[str, Any]]:
    """The entries of a node: one per op, or one for an input or output."""
    ops = graph.ops.get(node.id, [])
    if not ops:
        edges = [_edge(_last(read, graph, ids), number) for number, read in enumerate(node.reads)]
        yield _entry(node.id, f"{node.kind} {node.name}", "", edges, {}, "x".join(map(str, node.shape)))
    group = f"{node.name.replace('/', '.')} ({node.kernel})" if len(ops) > 1 else ""
    known = {"kernel": node.kernel, "covers": ", ".join(node.covers), "reason": node.reason}
    attributes = {key: text for key, text in known.items() if text}
    for op in ops:
        edges = [_edge(name, number) for number, value in enumerate(op.operands) if (name := _source(value, ids))]
        label = op.name if group else f"{node.name} ({node.kernel})"
        yield _entry(ids[op], label, group, edges, attributes, _type(op.results[0]) if op.results else "")


def _last(node: str, graph: ReportGraph, ids: Mapping[Operation, str]) -> str:
    """The id of the entry that produces a node's result."""
    return ids[graph.ops[node][-1]] if node in graph.ops else node


def _source(value: SSAValue, ids: Mapping[Operation, str]) -> str | None:
    """The id of the entry that produces a value; None for constants, which the graph leaves out."""
    if isinstance(value.owner, Operation):
        return None if isinstance(value.owner, ConstantOp) else ids.get(value.owner)
    return f"in{value.index}" if isinstance(value, BlockArgument) else None


def _edge(source: str, number: int) -> dict[str, str]:
    return {"sourceNodeId": source, "sourceNodeOutputId": "0", "targetNodeInputId": str(number)}


def _entry(
    identity: str, label: str, group: str, edges: list[dict[str, str]], attributes: Mapping[str, str], shape: str
) -> dict[str, Any]:
    return {
        "id": identity,
        "label": label,
        "namespace": group,
        "attrs": [{"key": key, "value": value} for key, value in attributes.items()],
        "incomingEdges": edges,
        "outputsMetadata": [{"id": "0", "attrs": [{"key": "shape", "value": shape}]}] if shape else [],
    }


def _type(value: SSAValue) -> str:
    """The type of a value, `1x16x28x28 x i8`, without scales per channel."""
    if not isinstance(value.type, TensorType):
        return str(value.type)
    element = str(element_of(value)).partition(", {")[0]
    shape = shape_of(value)
    return f"{'x'.join(map(str, shape))} x {element}" if shape else element
