"""The view of an ONNX node that converters use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.frontend.errors import NodeError as NodeError
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.ir.annotations import BY_CHANNEL, WEIGHTS_OF_FILE
from zeropoint.ir.locations import name_location
from zeropoint.ir.quant import DequantizeCastOp, dequantize, stored_array
from zeropoint.ir.quantized_constants import quantized_constant
from zeropoint.ir.tensors import Array, shape_of

WRITTEN_AS_SUM = "zeropoint.written_as_sum"
"""The metadata of a hard sigmoid that the file has as a sum (`hard_sigmoids.py`)."""
KEPT_APART = "zeropoint.kept_apart"
"""The metadata of a difference that the file has between reshapes (`differences.py`)."""


class OnnxNode:
    """The attributes and inputs of a node.

    `opset` is the version of the default operator set, which determines the form of an op.
    """

    def __init__(self, proto: NodeProto, opset: int, build: Builder):
        self.opset = opset
        self._inputs: Sequence[str] = proto.input
        self._build = build
        self._attributes: Mapping[str, Any] = {
            attribute.name: helper.get_attribute_value(attribute) for attribute in proto.attribute
        }
        self._unread = set(self._attributes)
        self._outputs: Sequence[str] = proto.output
        self.op_type = proto.op_type
        self.output_count = len(proto.output)
        self.notes = frozenset(entry.key for entry in proto.metadata_props)

    @property
    def input_count(self) -> int:
        """The number of inputs, including omitted ones in the middle."""
        return len(self._inputs)

    def has(self, index: int) -> bool:
        """Whether input `index` is given."""
        return index < len(self._inputs) and self._inputs[index] != ""

    def is_read_as_integers(self) -> bool:
        """Whether an op other than a dequantization reads the output."""
        return self._outputs[0] in self._build.integers

    def bounds(self) -> tuple[int, int] | None:
        """The smallest and largest integer of the output after a following Clip; None if there is no Clip."""
        return self._build.clipped.get(self._outputs[0])

    def operand(self, index: int) -> SSAValue:
        """The value of a required input."""
        if not self.has(index):
            raise NodeError(f"found no input {index}, expected one")
        return self._build.value(self._inputs[index])

    def operands(self) -> list[SSAValue]:
        """The values of all inputs."""
        return [self.operand(index) for index in range(self.input_count)]

    def constant(self, index: int) -> Array | None:
        """The array of an input that is a constant of the model, in the model's dtype; None for any other input."""
        return self._build.array(self._inputs[index]) if self.has(index) else None

    def is_biased_product(self) -> bool:
        """Whether the output is a product that onnxruntime makes a Gemm of, with the bias that is added to it."""
        return self._outputs[0] in self._build.biased_products

    def note_float_weights(self, product: SSAValue) -> None:
        """Mark a contraction of data of one scale by constant floats, which onnxruntime quantizes at load."""
        constants = [self.constant(index) for index in (1, 2) if self.has(index)]
        name = self._inputs[0]
        data = self._build.value(self._build.moved_casts.get(name, name)).owner
        is_per_layer = isinstance(data, DequantizeCastOp) and BY_CHANNEL not in data.attributes
        if is_per_layer and all(array is not None for array in constants):
            assert isinstance(product.owner, Operation)
            product.owner.attributes[WEIGHTS_OF_FILE] = UnitAttr()

    def parameter(self, index: int, name: str) -> Array | None:
        """The array of an input that must be constant, such as axes; None if it is omitted.

        A quantized file may dequantize it. Raises NodeError if it is computed.
        """
        if not self.has(index):
            return None
        array = self.known(index)
        if array is None:
            raise NodeError(f"found a computed '{name}', expected a constant", self._inputs[index])
        return array

    def known(self, index: int) -> Array | None:
        """The array of an input that is constant, also a dequantized one of a quantized file; None for any other."""
        array = self.constant(index)
        return self._dequantized(index) if array is None else array

    def _dequantized(self, index: int) -> Array | None:
        """The real numbers of an input that is a dequantized constant; None for any other input."""
        op = self.operand(index).owner
        if not isinstance(op, DequantizeCastOp):
            return None
        found = quantized_constant(op.input, self._build.weights, stored_array)
        return None if found is None else dequantize(*found, expressed=np.float32)

    def scalar(self, index: int) -> SSAValue:
        """An input with a single number, as a tensor of rank 0.

        Raises NodeError if it has more elements.
        """
        value = self.operand(index)
        if prod(shape_of(value)) != 1:
            raise NodeError(f"found an input of shape {list(shape_of(value))}, expected one number")
        array = self.constant(index)
        if array is None or not shape_of(value):
            return self._build.reshape(value, ())
        return self._build.constant(array.reshape(()), location=name_location(self._inputs[index]))

    def input_name(self, index: int) -> str:
        """The name of the tensor that is an input."""
        return self._inputs[index]

    def integers_at(self, index: int, name: str) -> tuple[int, ...] | None:
        """`parameter` as integers."""
        array = self.parameter(index, name)
        return None if array is None else tuple(int(value) for value in array.reshape(-1))

    def _attribute(self, name: str, default: Any = None) -> Any:
        self._unread.discard(name)
        return self._attributes.get(name, default)

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return int(self._attribute(name, default))

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, or None if it is absent."""
        values = self._attribute(name)
        return None if values is None else tuple(int(value) for value in values)

    def number(self, name: str, default: float) -> float:
        """A float attribute."""
        return float(self._attribute(name, default))

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """A list of floats, or None if it is absent."""
        values = self._attribute(name)
        return None if values is None else tuple(float(value) for value in values)

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self._attribute(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def choice(self, name: str, default: str, known: Collection[str]) -> str:
        """A string attribute with one of the `known` values.

        Raises NodeError for any other value.
        """
        value = self.text(name, default)
        if value not in known:
            raise NodeError(f"found {name} '{value}', expected one of: {', '.join(known)}")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of strings, empty if it is absent."""
        return [value.decode() for value in self._attribute(name, [])]

    def graph(self, name: str) -> GraphProto:
        """A required graph attribute.

        Raises NodeError if it is not a graph.
        """
        found = self._attribute(name)
        if not isinstance(found, GraphProto):
            raise NodeError(f"found no graph '{name}', expected one")
        return found

    def tensor(self, name: str) -> TensorProto | None:
        """A tensor attribute, or None if it is absent."""
        return self._attribute(name)

    def has_attribute(self, name: str) -> bool:
        """Whether an attribute is given."""
        self._unread.discard(name)
        return name in self._attributes

    def unread_attributes(self) -> dict[str, Any]:
        """The attributes that the converter has not read, by name."""
        return {name: value for name, value in self._attributes.items() if name in self._unread}

    def axes(self, input_since: int, index: int = 1) -> tuple[int, ...] | None:
        """`axes`, which moved from an attribute to an input in opset `input_since`."""
        return self.integers_at(index, "axes") if self.opset >= input_since else self.integers("axes")


def axis_of(axis: int, rank: int) -> int:
    """A possibly negative axis as a dimension counted from the start.

    Raises NodeError if there is no such dimension.
    """
    if not -rank <= axis < rank:
        raise NodeError(f"found axis {axis}, expected {-rank} to {rank - 1}")
    return axis % rank if rank else 0


def axes_of(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """`axis_of` each axis, in ascending order.

    Raises NodeError if one is repeated.
    """
    found = sorted(axis_of(axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        raise NodeError(f"found axes {list(axes)}, expected each once")
    return tuple(found)


ValueConverter = Callable[[OnnxNode, Builder], SSAValue]
"""Converts a node to the value of its one result."""
