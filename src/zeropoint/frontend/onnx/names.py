"""Checks of the names in a model: each value is defined once, and functions read only values that they define.

ONNX requires this (IR specification, "Names within a graph"). Without the check, readers would disagree about the
meaning of a model with two definitions of a name, or with a function that reads a name of its caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.onnx.bodies import graphs_inside, graphs_inside_node


def check_names(model: ModelProto) -> None:
    """Check the graph, the graphs nested in it, and the functions.

    Raises ModelError for a value, an input, an output or an opset that is defined twice, and for a value that a
    function reads but does not define.
    """
    for graph in (model.graph, *graphs_inside(model.graph, deep=True)):
        _check_graph(graph)
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        version = versions.setdefault(entry.domain or "ai.onnx", entry.version)
        if version != entry.version:
            raise ModelError(f"found opsets {version} and {entry.version} of '{entry.domain}', expected one version")
    for function in model.functions:
        _check_function(function)


def _once(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name and name in seen:
            raise ModelError(f"found {what} '{name}' twice, expected a unique name; the file is broken")
        seen.add(name)


def _check_graph(graph: GraphProto) -> None:
    """Check the definitions of a graph. An initializer may have the name of an input, as its default."""
    inputs = [port.name for port in graph.input]
    _once(inputs, "input")
    _once((port.name for port in graph.output), "output")
    held = [*(one.name for one in graph.initializer), *(one.values.name for one in graph.sparse_initializer)]
    _once(held, "initializer")
    made = [name for node in graph.node for name in node.output]
    _once([*dict.fromkeys([*inputs, *held]), *made], "value")


def _check_function(function: FunctionProto) -> None:
    named = f"parameter of function '{function.domain}::{function.name}'"
    _once(function.input, named)
    _once([*function.input, *(name for node in function.node for name in node.output)], "value")
    for node, name in _unknown(function.node, set(function.input)):
        raise ModelError(
            f"function '{function.domain}::{function.name}': node '{node.name or node.op_type}': found value '{name}', "
            f"which nothing before it in the function defines; the file is broken"
        )


def _unknown(nodes: Iterable[NodeProto], known: set[str]) -> Iterator[tuple[NodeProto, str]]:
    """The nodes that read an unknown name, with the name, also in graphs nested in the nodes."""
    for node in nodes:
        for name in node.input:
            if name and name not in known:
                yield node, name
        for graph in graphs_inside_node(node):
            own = {*(port.name for port in graph.input), *(tensor.name for tensor in graph.initializer)}
            yield from _unknown(graph.node, known | own)
        known |= set(node.output)
