"""Local functions of a model. They are checked, then inlined by `onnx.inliner`.

The inliner has no limits. Without the checks, recursive functions, or functions whose size doubles at each level of
calls, would exhaust memory. Nor does it apply the defaults of functions' attributes, so calls are given them first.

Source: ONNX's specification of the intermediate representation, "Functions".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, defs, inliner

from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.onnx.bodies import graphs_inside_node, nodes_of
from zeropoint.frontend.onnx.graph import DEFAULT_DOMAINS, opset_of

MOST_NODES = 1_000_000
"""Maximum number of nodes in a model after its functions are inlined."""

BROADCASTING_OPSET = 7
"""The first opset whose operators broadcast all their operands."""

_Key = tuple[str, str, str]


def _key(found: FunctionProto | NodeProto) -> _Key:
    name = found.name if isinstance(found, FunctionProto) else found.op_type
    return found.domain, name, found.overload


def _with_inner(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes, and the nodes of their nested graphs."""
    for node in nodes:
        yield node
        for graph in graphs_inside_node(node):
            yield from nodes_of(graph)


def _by_key(model: ModelProto) -> dict[_Key, FunctionProto]:
    functions: dict[_Key, FunctionProto] = {}
    for function in model.functions:
        if _key(function) in functions:
            raise ModelError(
                f"found two functions '{function.domain}::{function.name}', expected one; the file is broken"
            )
        functions[_key(function)] = function
    return functions


def _size(key: _Key, functions: Mapping[_Key, FunctionProto], known: dict[_Key, int], around: tuple[_Key, ...]) -> int:
    """The number of nodes of a function after inlining. `around` is the stack of callers."""
    if key in around or len(around) > len(functions):
        called = " -> ".join(name for _, name, _ in (*around[around.index(key) :], key))
        raise ModelError(f"found functions that call themselves ({called}), expected no recursion")
    if key not in known:
        nodes = list(_with_inner(functions[key].node))
        known[key] = len(nodes) + sum(
            _size(_key(node), functions, known, (*around, key)) for node in nodes if _key(node) in functions
        )
    return known[key]


def _default(function: FunctionProto, name: str, functions: Mapping[_Key, FunctionProto]) -> AttributeProto | None:
    """What an attribute is if a call leaves it out; None if the nodes that refer to it are without it, too.

    Without a default of its own, it has that of the functions whose attributes refer to it. Raises ModelError if they
    differ.
    """
    for attribute in function.attribute_proto:
        if attribute.name == name:
            return attribute
    wanted: dict[bytes, AttributeProto | None] = {}
    for node in _with_inner(function.node):
        for attribute in node.attribute:
            if attribute.ref_attr_name == name:
                called = functions.get(_key(node))
                found = None if called is None else _default(called, attribute.name, functions)
                made = None if found is None else _named(found, name)
                wanted[b"" if made is None else made.SerializeToString(deterministic=True)] = made
    if len(wanted) > 1:
        raise ModelError(
            f"found a call of '{function.domain}::{function.name}' without attribute '{name}', expected it: the nodes "
            f"that read it have different defaults"
        )
    return next(iter(wanted.values()), None)


def _named(attribute: AttributeProto, name: str) -> AttributeProto:
    copied = AttributeProto()
    copied.CopyFrom(attribute)
    copied.name = name
    return copied


def _write_defaults(nodes: Iterable[NodeProto], functions: Mapping[_Key, FunctionProto]) -> None:
    """Give calls of functions the attributes that they leave out."""
    for node in nodes:
        function = functions.get(_key(node))
        if function is None:
            continue
        given = {attribute.name for attribute in node.attribute}
        for name in (*function.attribute, *(attribute.name for attribute in function.attribute_proto)):
            if name not in given and (default := _default(function, name, functions)) is not None:
                node.attribute.append(_named(default, name))


def inline_functions(model: ModelProto) -> ModelProto:
    """The model, which is changed, without local functions.

    Raises ModelError for recursive functions, for more than `MOST_NODES` nodes, for two functions with the same name,
    for a call without an attribute that has several defaults, and for functions that the inliner rejects.
    """
    if not model.functions:
        return model
    functions = _by_key(model)
    sizes: dict[_Key, int] = {}
    for key in functions:
        _size(key, functions, sizes, ())
    total = sum(1 + sizes.get(_key(node), 0) for node in nodes_of(model.graph))
    if total > MOST_NODES:
        raise ModelError(f"found functions of {total:,} nodes after inlining, expected at most {MOST_NODES:,}")
    _write_defaults(nodes_of(model.graph), functions)
    for function in functions.values():
        _write_defaults(_with_inner(function.node), functions)
    others = [function for function in model.functions if not _adopts(function, opset_of(model))]
    try:
        return inliner.inline_local_functions(model, convert_version=bool(others))
    except Exception as error:  # the C++ inliner raises no specific exception
        if others:
            named = f"function '{others[0].domain}::{others[0].name}' of opset {_opset(others[0])}"
            raise ModelError(
                f"found {named} in a model of opset {opset_of(model)}, expected one opset, or one that onnx can convert"
            ) from error
        raise ModelError(f"found functions that cannot be inlined: {error}") from error


def _opset(function: FunctionProto) -> int:
    return max((entry.version for entry in function.opset_import if entry.domain in DEFAULT_DOMAINS), default=0)


def _adopts(function: FunctionProto, opset: int) -> bool:
    """Whether a function is one of the model's opset, as it becomes if its operators are the same in both opsets.

    The inliner leaves out functions of another opset.
    """
    own = _opset(function)
    nodes = [node for node in _with_inner(function.node) if node.domain in DEFAULT_DOMAINS]
    if own and own != opset and not all(_is_same(node, own, opset) for node in nodes):
        return False
    for entry in function.opset_import:
        if entry.domain in DEFAULT_DOMAINS:
            entry.version = opset
    return True


def _is_same(node: NodeProto, own: int, opset: int) -> bool:
    """Whether an operator is the same in two opsets, up to the element types that it takes.

    Opsets that change what an operator computes change its attributes, their defaults or its inputs, too, except for
    opset 7, which changed how operands are broadcast.
    """
    first, second = _schema(node, own), _schema(node, opset)
    if first is None or second is None:
        return first is second
    if first.since_version == second.since_version:
        return True
    return min(own, opset) >= BROADCASTING_OPSET and _interface(first) == _interface(second)


def _schema(node: NodeProto, opset: int) -> defs.OpSchema | None:
    try:
        return defs.get_schema(node.op_type, opset)
    except defs.SchemaError:
        return None


def _interface(schema: defs.OpSchema) -> object:
    """The inputs, the outputs and the attributes of an operator, with their defaults."""
    ports = [[(port.name, port.option) for port in ports] for ports in (schema.inputs, schema.outputs)]
    return ports, {
        name: (attribute.type, attribute.required, attribute.default_value.SerializeToString())
        for name, attribute in schema.attributes.items()
    }
