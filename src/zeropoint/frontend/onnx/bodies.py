"""Inline operators that ONNX defines as functions of other operators.

Source: the function bodies of the ONNX operator schemas (`onnx.defs.OpSchema.function_body`), by `onnx.inliner`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, defs, helper, inliner

from zeropoint.frontend.errors import ModelError, NodeError
from zeropoint.frontend.onnx.attributes import check_enumerated

DOMAINS = ("", "ai.onnx", "ai.onnx.preview")
_DEPTH = 8
"""Maximum nesting depth of inlined bodies."""
_REDUCTIONS = ("none", "sum", "mean")
_CHOICES = {
    ("NegativeLogLikelihoodLoss", "reduction"): _REDUCTIONS,
    ("SoftmaxCrossEntropyLoss", "reduction"): _REDUCTIONS,
    ("LinearAttention", "update_rule"): ("linear", "gated", "delta", "gated_delta"),
    ("CausalConvWithState", "activation"): ("none", "silu", "swish"),
}
"""The strings that an attribute may have, for operators whose body does not check them."""


def graphs_inside_node(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in the attributes of a node."""
    return (attribute.g for attribute in node.attribute if attribute.type == AttributeProto.GRAPH)


def graphs_inside(graph: GraphProto, *, deep: bool = False) -> Iterator[GraphProto]:
    """The graphs in the nodes of a graph. With `deep`, also the graphs nested in these."""
    for node in graph.node:
        for inner in graphs_inside_node(node):
            yield inner
            if deep:
                yield from graphs_inside(inner, deep=True)


def nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the graphs nested in it."""
    for each in (graph, *graphs_inside(graph, deep=True)):
        yield from each.node


def _schema(node: NodeProto, versions: dict[str, int]) -> defs.OpSchema | None:
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        return defs.get_schema(node.op_type, versions.get(domain, versions.get("", 1)), domain)
    except defs.SchemaError:
        return None


def _has_body(node: NodeProto, versions: dict[str, int]) -> bool:
    schema = _schema(node, versions)
    # onnx's type stubs do not have these two attributes.
    kinds = ("has_function", "has_context_dependent_function")
    return schema is not None and any(bool(getattr(schema, kind, False)) for kind in kinds)


def _check_choices(node: NodeProto) -> None:
    """Raise ModelError for a string or an integer that an operator's body would treat as another one."""
    name = f"'{node.name or node.output[0]}' ({node.op_type})"
    try:
        check_enumerated(node)
    except NodeError as error:
        raise ModelError(f"{name}: {error}") from error
    for attribute in node.attribute:
        known = _CHOICES.get((node.op_type, attribute.name))
        if known is not None and (found := attribute.s.decode(errors="replace")) not in known:
            raise ModelError(f"{name}: found {attribute.name} '{found}', expected one of: {', '.join(known)}")


def _write_defaults(node: NodeProto, versions: dict[str, int]) -> None:
    """Write a node's default attributes explicitly, because the inliner does not apply defaults in the body."""
    schema = _schema(node, versions)
    assert schema is not None
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type:
            node.attribute.append(attribute.default_value)


def _say_types(graph: GraphProto) -> None:
    """Add the types of the graph's constants and of the empty name '', which the inliner needs."""
    said = {value.name for value in (*graph.input, *graph.value_info)}
    for tensor in graph.initializer:
        if tensor.name not in said:
            graph.value_info.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    for node in graph.node:
        while node.input and not node.input[-1]:
            node.input.pop()
    if any("" in node.input for node in graph.node) and "" not in said:
        graph.value_info.append(helper.make_tensor_value_info("", TensorProto.FLOAT, [1]))


def inline_bodies(model: ModelProto, known: Collection[str]) -> ModelProto:
    """Inline all operators that have a body and are not `known`.

    Raises ModelError if a body cannot be inlined, or if an attribute has an unknown string.
    """
    for _ in range(_DEPTH):
        versions = {"" if i.domain == "ai.onnx" else i.domain: i.version for i in model.opset_import}
        found = [
            node
            for node in nodes_of(model.graph)
            if node.domain in DOMAINS
            and (node.op_type not in known or node.domain == "ai.onnx.preview")
            and _has_body(node, versions)
        ]
        if not found:
            break
        _say_types(model.graph)
        wanted = {(node.domain, node.op_type) for node in found}
        for node in found:
            _check_choices(node)
            _write_defaults(node, versions)
        try:
            model = inliner.inline_selected_functions(model, sorted(wanted), inline_schema_functions=True)
        except Exception as error:  # the C++ inliner raises no specific exception
            names = ", ".join(sorted(name for _, name in wanted))
            raise ModelError(f"found {names}, whose bodies cannot be inlined: {error}") from error
    for value in [value for value in model.graph.value_info if not value.name]:
        model.graph.value_info.remove(value)
    return model
