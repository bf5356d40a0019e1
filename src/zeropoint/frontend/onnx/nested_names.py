"""Rename what a nested graph defines if another graph defines the same name.

```
y = If(c) <then_branch = { w = {1, 2}  p = Mul(x, w) }, else_branch = { w = {3, 4}  q = Mul(x, w) }>
```
becomes
```
y = If(c) <then_branch = { w = {1, 2}  p = Mul(x, w) }, else_branch = { w_1 = {3, 4}  q = Mul(x, w_1) }>
```
The specification demands unique names only of graphs that see each other. The importer looks up constants and casts by
name in all graphs.

Source: ONNX's specification of the intermediate representation, "Names Within a Graph".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSequence

from onnx import GraphProto

from zeropoint.frontend.onnx.bodies import graphs_inside, graphs_inside_node
from zeropoint.ir.value_names import Names


def make_names_unique(graph: GraphProto) -> None:
    """Change the nested graphs, so that no name is defined in two of the graphs."""
    inner = list(graphs_inside(graph, deep=True))
    if inner:
        taken = Names()
        for name in {name for each in (graph, *inner) for name in _defined(each)}:
            taken.keep(name)
        defined = set(_defined(graph))
        for node in graph.node:
            for each in graphs_inside_node(node):
                _rename(each, {}, defined, taken)


def _defined(graph: GraphProto) -> Iterator[str]:
    """The names of the values that a graph defines."""
    yield from (port.name for port in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    yield from (name for node in graph.node for name in node.output if name)


def _rename(graph: GraphProto, outside: Mapping[str, str], defined: set[str], taken: Names) -> None:
    """Rename in a graph and in those nested in it. `outside` has the new names of values around the graph."""
    names = dict(outside)
    for name in dict.fromkeys(_defined(graph)):
        names[name] = taken.free(name) if name in defined else name
        defined.add(names[name])
    for each in (*graph.input, *graph.initializer, *graph.output, *graph.value_info):
        each.name = names.get(each.name, each.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, sparse.values.name)
    for annotation in graph.quantization_annotation:
        annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
        for entry in annotation.quant_parameter_tensor_names:
            entry.value = names.get(entry.value, entry.value)
    for node in graph.node:
        _replace(node.input, names)
        _replace(node.output, names)
        for inner in graphs_inside_node(node):
            _rename(inner, names, defined, taken)


def _replace(found: MutableSequence[str], names: Mapping[str, str]) -> None:
    for index, name in enumerate(found):
        if names.get(name, name) != name:
            found[index] = names[name]
