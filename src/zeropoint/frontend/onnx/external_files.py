"""The files beside an ONNX model that hold its weights, so that no command overwrites them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, TensorProto

from zeropoint.frontend.onnx.bodies import graphs_inside
from zeropoint.frontend.onnx.inline_data import model_of


def external_files(path: Path) -> set[str]:
    """The files that the tensors of a model refer to, relative to the model's folder; empty for a broken file."""
    try:
        model = model_of(path)
    except (OSError, DecodeError, UnicodeDecodeError, ValueError):
        return set()  # loading the model reports the error
    return {entry.value for tensor in _tensors(model) for entry in tensor.external_data if entry.key == "location"}


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """The weights of a model's graphs and functions, and the tensors in attributes of their nodes."""
    for outer in (model.graph, *(GraphProto(node=function.node) for function in model.functions)):
        for graph in (outer, *graphs_inside(outer, deep=True)):
            yield from graph.initializer
            for node in graph.node:
                for attribute in node.attribute:
                    yield from (attribute.t, *attribute.tensors)
