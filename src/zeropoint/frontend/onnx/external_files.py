"""The files beside an ONNX model that hold its weights, so that no output replaces them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto


def external_files(path: Path) -> set[str]:
    """The locations, relative to the model's folder, that the tensors of a model name; empty for a broken file."""
    try:
        model = onnx.load_model_from_string(path.read_bytes(), "protobuf")
    except (OSError, DecodeError, UnicodeDecodeError, ValueError):
        return set()  # whoever loads the model says what is wrong
    nodes = [node for function in model.functions for node in function.node]
    tensors = [*_of_graph(model.graph), *(tensor for node in nodes for tensor in _of_node(node))]
    return {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}


def _of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        yield from _of_node(node)


def _of_node(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        yield from _of_attribute(attribute)


def _of_attribute(attribute: AttributeProto) -> Iterator[TensorProto]:
    yield from (attribute.t, *attribute.tensors)
    for graph in (attribute.g, *attribute.graphs):
        yield from _of_graph(graph)
