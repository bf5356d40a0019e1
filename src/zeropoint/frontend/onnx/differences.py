"""Recognize differences that zeropoint exported for OpenVINO, with one dimension more between reshapes.

```
a = Reshape(x, [1, *shape])   b = Reshape(y, [1, *shape])   "d/apart": c = Sub(a, b)   r = Reshape(c, shape)
```
becomes `"d": r = Sub(x, y)`, marked as a difference that OpenVINO computes of rounded operands. Without this, the
reshapes would be kernels of integers, with casts of their own in the next file.

Source: `export/onnx/differences.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import GraphProto, ModelProto, NodeProto, numpy_helper

from zeropoint.frontend.onnx.node import KEPT_APART

APART = re.compile(r"/apart(_\d+)?$")
"""The end of the name of such a difference."""


@dataclass
class _Graph:
    """The nodes of a graph by the tensors that they compute, and how often each tensor is read."""

    graph: GraphProto
    makers: Mapping[str, NodeProto] = field(init=False)
    readers: dict[str, list[NodeProto]] = field(init=False, default_factory=dict[str, list[NodeProto]])

    def __post_init__(self) -> None:
        self.makers = {name: node for node in self.graph.node for name in node.output}
        for node in self.graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def shape_to(self, reshape: NodeProto) -> list[int]:
        """The constant shape that a reshape returns; empty if it is computed."""
        for array in self.graph.initializer:
            if array.name == reshape.input[1]:
                return [int(size) for size in numpy_helper.to_array(array).flat]
        return []

    def adds_a_dimension(self, before: list[NodeProto], after: NodeProto) -> bool:
        """Whether the reshapes before a difference add a first dimension, which the one after it removes."""
        shapes, wanted = [self.shape_to(each) for each in before], [1, *self.shape_to(after)]
        if any(len(shape) != len(wanted) or shape[0] != 1 for shape in shapes):
            return False
        return [max(sizes) for sizes in zip(*shapes, strict=True)] == wanted

    def reshape_of(self, name: str) -> NodeProto | None:
        """The reshape that computes a tensor for one reader; None for other tensors."""
        made = self.makers.get(name)
        is_reshape = made is not None and made.op_type == "Reshape" and len(made.input) == 2
        return made if is_reshape and len(self.readers[name]) == 1 else None

    def reshape_from(self, name: str) -> NodeProto | None:
        """The reshape that is the only reader of a tensor; None if there is none."""
        readers = self.readers.get(name, [])
        is_output = any(output.name == name for output in self.graph.output)
        return readers[0] if len(readers) == 1 and not is_output and readers[0].op_type == "Reshape" else None


def restore_differences(model: ModelProto) -> None:
    """Rewrite such differences without reshapes, in place. Other models may have nodes with such names."""
    if model.producer_name != "zeropoint":
        return
    graph = _Graph(model.graph)
    made: dict[str, NodeProto] = {}
    dropped: set[str] = set()
    for node in model.graph.node:
        if node.op_type != "Sub" or not APART.search(node.name):
            continue
        before, after = [graph.reshape_of(name) for name in node.input], graph.reshape_from(node.output[0])
        operands = [each for each in before if each is not None]
        if len(operands) == len(node.input) and after is not None and graph.adds_a_dimension(operands, after):
            made[after.output[0]] = _restored(node, operands, after)
            dropped |= {node.output[0], *(each.output[0] for each in operands)}
    nodes = [made.get(node.output[0], node) if node.output else node for node in model.graph.node]
    kept = [node for node in nodes if dropped.isdisjoint(node.output)]
    if made:
        del model.graph.node[:]
        model.graph.node.extend(kept)


def _restored(node: NodeProto, operands: list[NodeProto], after: NodeProto) -> NodeProto:
    made = NodeProto(op_type="Sub", name=APART.sub("", node.name), output=after.output)
    made.input.extend(each.input[0] for each in operands)
    made.metadata_props.add(key=KEPT_APART)  # not part of the model: the importer reads it
    return made
