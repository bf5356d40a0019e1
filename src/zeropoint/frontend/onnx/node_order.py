"""Put the nodes of a graph after those whose results they read.

The specification demands this order. onnxruntime does not, and its quantization tools write files without it: with
`EnableSubgraph`, a DynamicQuantizeLinear follows the If whose branches read it.

Source: ONNX's specification of the intermediate representation, "Graphs".
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from onnx import GraphProto, NodeProto

from zeropoint.frontend.onnx.bodies import graphs_inside_node


def sort_nodes(graph: GraphProto) -> set[str]:
    """Sort the nodes of a graph and of the graphs nested in it, and return the names that it reads from outside.

    Nodes that are in order stay as they are. So do those of a cycle, which the importer refuses.
    """
    reads = [
        {name for name in node.input if name}.union(*map(sort_nodes, graphs_inside_node(node))) for node in graph.node
    ]
    order = _order(graph.node, reads)
    if order != list(range(len(order))):
        nodes = [graph.node[index] for index in order]
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
    own = {*(port.name for port in graph.input), *(tensor.name for tensor in graph.initializer)}
    return set[str]().union(*reads) - own - {name for node in graph.node for name in node.output}


def _order(nodes: Sequence[NodeProto], reads: Sequence[set[str]]) -> list[int]:
    """The indices of the nodes in an order of their data, otherwise as they were; as they were if there is a cycle."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needed = [{makers[name] for name in names if name in makers} for names in reads]
    if all(maker < index for index, before in enumerate(needed) for maker in before):
        return list(range(len(nodes)))
    readers: list[list[int]] = [[] for _ in nodes]
    for index, before in enumerate(needed):
        for maker in before:
            readers[maker].append(index)
    ready = [index for index, before in enumerate(needed) if not before]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(made := heappop(ready))
        for index in readers[made]:
            needed[index].discard(made)
            if not needed[index]:
                heappush(ready, index)
    return order if len(order) == len(nodes) else list(range(len(nodes)))
