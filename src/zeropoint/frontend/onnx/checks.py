"""Checks of a model before anything else reads it, because ONNX's C++ code does not validate its input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnx.external_data_helper import uses_external_data

from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.onnx.bodies import graphs_inside, graphs_inside_node, nodes_of
from zeropoint.frontend.onnx.tensors import check_external
from zeropoint.numerics.rounding import INT32_MAX

_INT32 = range(1, INT32_MAX + 1)
_EQUATION = re.compile(rb"[A-Za-z., ]*(->[A-Za-z. ]*)?")


def check_text(message: Message) -> None:
    """Check that all text of a model is UTF-8. protobuf returns other text as bytes.

    Raises ModelError.
    """
    for field, value in _fields(message):
        values: Iterable[Any] = [value] if isinstance(value, str | bytes | Message) else value
        if field.type == field.TYPE_MESSAGE:
            for one in values:
                check_text(one)
        elif field.type == field.TYPE_STRING:
            for one in values:
                if isinstance(one, bytes):
                    raise ModelError(
                        f"found text that is not UTF-8 in '{field.name}', {one[:40]!r}, expected an ONNX file; "
                        f"it is broken"
                    )


def _fields(message: Message) -> Iterable[tuple[Any, Any]]:
    """The descriptors and values of fields that are set, without the data of tensors, which would be copied."""
    if not isinstance(message, TensorProto):
        return message.ListFields()
    return [(message.DESCRIPTOR.fields_by_name[name], getattr(message, name)) for name in ("name", "external_data")]


def check_versions(model: ModelProto) -> None:
    """Check that versions are in the range that ONNX accepts: 1 to 2^31 - 1.

    Raises ModelError.
    """
    if model.ir_version not in _INT32:
        raise ModelError(f"found IR version {model.ir_version}, expected one of 1 or more; the file is broken")
    opsets = [*model.opset_import, *(entry for function in model.functions for entry in function.opset_import)]
    for entry in opsets:
        if entry.version not in _INT32:
            raise ModelError(f"found opset {entry.version} of '{entry.domain}', expected 1 or more; the file is broken")


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    yield model.graph
    yield from graphs_inside(model.graph, deep=True)


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    yield from nodes_of(model.graph)
    for function in model.functions:
        yield from function.node


def _tensors(graphs: Iterable[GraphProto], nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for graph in graphs:
        yield from graph.initializer
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            yield from attribute.tensors


def check_external_data(model: ModelProto, folder: Path) -> None:
    """Check the external data references of the model's tensors.

    Raises ModelError if a file is outside of the model's folder, is not a regular file, or is too short.
    """
    for tensor in _tensors(_graphs(model), _nodes(model)):
        if uses_external_data(tensor):
            check_external(tensor, folder)


def _check_equation(equation: bytes, node: NodeProto) -> None:
    if _EQUATION.fullmatch(equation) is None:  # ONNX's shape inference reads past the end of invalid ones
        raise ModelError(
            f"node '{node.name or node.op_type}': found equation '{equation.decode(errors='replace')}', expected "
            f"letters, commas, '...' and '->'"
        )


def check_attributes(model: ModelProto) -> None:
    """Check that only functions refer to the attributes of their calls, and that the equations of Einsum are valid.

    Raises ModelError.
    """
    for node in nodes_of(model.graph):
        for attribute in node.attribute:
            if node.op_type == "Einsum" and attribute.name == "equation":
                _check_equation(attribute.s, node)
            if attribute.ref_attr_name:
                raise ModelError(
                    f"node '{node.name or node.op_type}': found attribute '{attribute.name}' that refers to "
                    f"'{attribute.ref_attr_name}' of a function's call, expected that in functions only"
                )


def check_outputs(model: ModelProto) -> None:
    """Check that the graph has outputs, and that the graphs of `If`, `Loop` and `Scan` have as many as the node needs.

    Raises ModelError.
    """
    if not model.graph.output:
        raise ModelError("found a graph without outputs, expected at least one; name the values to compute")
    for node in _nodes(model):
        least = _OUTPUTS.get(node.op_type, _no_outputs)(node)
        for graph in graphs_inside_node(node):
            found = len(graph.output)
            if found < least or (node.op_type == "If" and found > least):
                name = node.name or node.op_type
                raise ModelError(f"node '{name}': found {found} outputs of graph '{graph.name}', expected {least}")


def _no_outputs(_: NodeProto) -> int:
    return 0


def _of_loop(node: NodeProto) -> int:
    """The outputs that a body of `Loop` needs: the condition, and at least one for each carried value and output."""
    return 1 + max(len(node.input) - 2, len(node.output))


def _of_scan(node: NodeProto) -> int:
    """The outputs that a body of `Scan` needs: at least one for each state and output."""
    scanned = next((each.i for each in node.attribute if each.name == "num_scan_inputs"), 0)
    return max(len(node.input) - scanned, len(node.output))


_OUTPUTS: dict[str, Callable[[NodeProto], int]] = {
    "If": lambda node: len(node.output),
    "Loop": _of_loop,
    "Scan": _of_scan,
}
"""The minimum number of outputs of the graphs in a node."""
