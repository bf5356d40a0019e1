"""Recognize hard sigmoids that are written as a sum of two quantized values, as zeropoint exports them.

```
r = DequantizeLinear(q, slope * s, z)          # q is quantized with s and z
c = DequantizeLinear(1, offset, 0)
y = QuantizeLinear(Add(r, c), s_y, z_y)        # which stores only numbers from 0 to 1
```
becomes
```
y = QuantizeLinear(HardSigmoid<alpha=slope, beta=offset>(DequantizeLinear(q, s, z)), s_y, z_y)
```
Without this, `q` would be read at two scales. It would have no quantized type, and the network would need calibration
data again.

Source: `export/onnx/rows.py`, `hard_sigmoid`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from zeropoint.frontend.onnx.node import WRITTEN_AS_SUM
from zeropoint.frontend.onnx.quantization import QUANTIZING
from zeropoint.frontend.onnx.tensors import read_tensor
from zeropoint.ir.tensors import Array

SLACK = 1e-5
"""By how much the largest number of the result's type may exceed 1, because its scale is rounded to f32."""


@dataclass(frozen=True)
class _Sum:
    """An Add, the dequantization `read` at another scale, and the line that it computes.

    `own` names the scale and zero point that the dequantized integers were quantized with.
    """

    add: NodeProto
    read: NodeProto
    own: tuple[str, str]
    slope: np.float32
    offset: np.float32


@dataclass
class _Graph:
    """The nodes of a graph by the tensors that they compute and read, and the constants of the graph."""

    graph: GraphProto
    folder: Path
    makers: Mapping[str, NodeProto] = field(init=False)
    readers: dict[str, list[NodeProto]] = field(init=False, default_factory=dict[str, list[NodeProto]])
    constants: Mapping[str, TensorProto] = field(init=False)

    def __post_init__(self) -> None:
        self.makers = {name: node for node in self.graph.node for name in node.output}
        self.constants = {tensor.name: tensor for tensor in self.graph.initializer}
        for node in self.graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def made_by(self, name: str, op: str) -> NodeProto | None:
        """The node of type `op` with three inputs that computes a tensor; None if there is none."""
        node = self.makers.get(name)
        return node if node is not None and node.op_type == op and len(node.input) == 3 else None

    def quantized_by(self, name: str) -> tuple[str, str] | None:
        """The names of the scale and zero point that a tensor was quantized with; None if it was not."""
        node = self.makers.get(name)
        index = None if node is None else QUANTIZING.get(node.op_type)
        if node is None or index is None or len(node.input) < index + 2:
            return None
        return node.input[index], node.input[index + 1]

    def only_reader(self, name: str, op: str) -> NodeProto | None:
        """The only reader of a tensor, if it is a node of type `op` with three inputs."""
        readers = self.readers.get(name, [])
        is_output = any(output.name == name for output in self.graph.output)
        single = len(readers) == 1 and not is_output and readers[0].op_type == op and len(readers[0].input) == 3
        return readers[0] if single else None

    def number(self, name: str) -> Array | None:
        """The number in a constant of one element; None for other tensors."""
        tensor = self.constants.get(name)
        if tensor is None or any(size != 1 for size in tensor.dims):
            return None
        return read_tensor(tensor, self.folder).reshape(())


def restore_hard_sigmoids(model: ModelProto, folder: Path) -> None:
    """Rewrite such sums as hard sigmoids, in place. `folder` contains the model's external data."""
    graph = _Graph(model.graph, folder)
    sums = {found.add.output[0]: found for node in model.graph.node for found in _sums(node, graph)}
    if not sums:
        return
    dropped = {found.read.output[0] for found in sums.values()}
    taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        found = sums.get(node.output[0]) if node.output else None
        if found is not None:
            nodes += _restored(found, taken)
        elif dropped.isdisjoint(node.output):
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _restored(found: _Sum, taken: set[str]) -> list[NodeProto]:
    real = f"{found.read.output[0]}_real"
    while real in taken:
        real += "_"
    taken.add(real)
    read = helper.make_node("DequantizeLinear", [found.read.input[0], *found.own], [real], real)
    alpha, beta = float(found.slope), float(found.offset)
    made = helper.make_node("HardSigmoid", [real], found.add.output, found.add.name, alpha=alpha, beta=beta)
    made.metadata_props.add(key=WRITTEN_AS_SUM)  # not part of the model: the importer reads it
    return [read, made]


def _sums(node: NodeProto, graph: _Graph) -> Iterator[_Sum]:
    """Yield the sum if the node is the Add of one."""
    if node.op_type != "Add" or len(node.input) != 2:
        return
    if not _is_a_share(graph.only_reader(node.output[0], "QuantizeLinear"), graph):
        return
    for value, constant in (node.input, node.input[::-1]):
        read = graph.made_by(value, "DequantizeLinear")
        made = None if read is None else graph.quantized_by(read.input[0])
        if read is None or made is None or len(graph.readers[value]) != 1:
            continue
        slope, offset = _ratio(made, read, graph), _real(graph.made_by(constant, "DequantizeLinear"), graph)
        if slope is not None and offset is not None and 0 < offset < 1:
            yield _Sum(node, read, made, slope, offset)
            return


def _is_a_share(node: NodeProto | None, graph: _Graph) -> bool:
    """Whether the type of a quantization represents only numbers from 0 to 1."""
    if node is None:
        return False
    scale, point = graph.number(node.input[1]), graph.number(node.input[2])
    if scale is None or point is None or point.dtype.kind not in "iu":
        return False
    ends = np.iinfo(point.dtype)
    low, high = ((int(end) - int(point)) * float(scale) for end in (ends.min, ends.max))
    return low >= 0 and high <= 1 + SLACK


def _real(node: NodeProto | None, graph: _Graph) -> np.float32 | None:
    """The number that a dequantization of a constant yields; None for other nodes."""
    if node is None:
        return None
    stored, scale, point = (graph.number(name) for name in node.input)
    if stored is None or scale is None or point is None:
        return None
    return np.float32((int(stored) - int(point)) * float(scale))


def _ratio(own: tuple[str, str], read: NodeProto, graph: _Graph) -> np.float32 | None:
    """The f32 slope with slope * own scale == the scale at which the integers are read; None if there is none."""
    scales = [graph.number(name) for name in (own[0], read.input[1])]
    points = [graph.number(name) for name in (own[1], read.input[2])]
    if scales[0] is None or scales[1] is None or points[0] is None or points[0] != points[1]:
        return None
    given, wanted = float(scales[0]), np.float32(scales[1])
    with np.errstate(all="ignore"):
        near = np.float32(float(wanted) / given)
        candidates = (near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(0)))
        exact = (slope for slope in candidates if np.float32(float(slope) * given) == wanted)
        slope = next(exact, None)
    return slope if slope is not None and np.isfinite(slope) and slope > 0 and slope != 1 else None
