"""What rewriting a graph with operators on integers needs: new nodes, and the parameters of integer tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from zeropoint.frontend.onnx.tensors import read_tensor
from zeropoint.ir.tensors import Array


@dataclass(frozen=True)
class Quantized:
    """The names of an integer tensor, its scale and its zero point. An empty name means an omitted input."""

    tensor: str
    scale: str
    zero_point: str = ""
    axis: int | None = None


def input_at(inputs: Sequence[str], index: int) -> str:
    """The name of an input of a node; empty if it is omitted."""
    return inputs[index] if index < len(inputs) else ""


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """The attributes of a node as Python values."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


@dataclass
class IntegerRewriting:
    """The new nodes of the graph, and the known parameters of integer tensors."""

    model: ModelProto
    folder: Path
    constants: Mapping[str, TensorProto]
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    known: dict[str, Quantized] = field(default_factory=dict[str, Quantized])
    exact: dict[str, str] = field(default_factory=dict[str, str])
    """Integer tensors whose real values exist under a name, and need no dequantization."""
    taken: set[str] = field(default_factory=set[str])

    def array(self, name: str) -> Array | None:
        """The array of an initializer; None for any other tensor."""
        return read_tensor(self.constants[name], self.folder) if name in self.constants else None

    def unique(self, name: str) -> str:
        """A name that is not yet used in the graph."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def constant(self, name: str, array: Array) -> str:
        """Add an initializer."""
        made = self.unique(name)
        self.model.graph.initializer.append(numpy_helper.from_array(array, made))
        return made

    def real(self, given: Quantized) -> str:
        """The name of the dequantized tensor; the tensor itself if it has no scale."""
        if not given.scale:
            return given.tensor
        if given.tensor in self.exact:
            return self.exact[given.tensor]
        made = self.unique(f"{given.tensor}_real")
        inputs = [name for name in (given.tensor, given.scale, given.zero_point) if name]
        node = helper.make_node("DequantizeLinear", inputs, [made], made)
        if given.axis is not None:
            node.attribute.append(helper.make_attribute("axis", given.axis))
        self.nodes.append(node)
        return made

    def quantized(self, output: str, wanted: Quantized) -> str:
        """Append a `QuantizeLinear` that computes `output`, and return the name of its real-valued input."""
        real = self.unique(f"{output}_real")
        inputs = [name for name in (real, wanted.scale, wanted.zero_point) if name]
        self.nodes.append(helper.make_node("QuantizeLinear", inputs, [output], output))
        self.known[output] = Quantized(output, wanted.scale, wanted.zero_point)
        return real

    def between_casts(
        self, node: NodeProto, op: str, inputs: Sequence[str], wanted: Quantized, attributes: Sequence[AttributeProto]
    ) -> None:
        """Append the float operator of a node, and casts of its results unless `wanted` has no scale."""
        made = helper.make_node(op, list(inputs), [], node.name or node.output[0])
        made.attribute.extend(attributes)
        self.nodes.append(made)
        for output in node.output:
            made.output.append(output if not wanted.scale else self.quantized(output, wanted))
