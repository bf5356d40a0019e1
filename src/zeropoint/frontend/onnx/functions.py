"""Local functions of a model. They are checked, then inlined by `onnx.inliner`.

The inliner has no limits. Without the checks, recursive functions, or functions whose size doubles at each level of
calls, would exhaust memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import FunctionProto, ModelProto, NodeProto, inliner

from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.onnx.bodies import graphs_inside_node, nodes_of

MOST_NODES = 1_000_000
"""Maximum number of nodes in a model after its functions are inlined."""

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


def inline_functions(model: ModelProto) -> ModelProto:
    """The model without local functions.

    Raises ModelError for recursive functions, for more than `MOST_NODES` nodes, for two functions with the same name,
    and for functions that the inliner rejects.
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
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # the C++ inliner raises no specific exception
        raise ModelError(f"found functions that cannot be inlined: {error}") from error
