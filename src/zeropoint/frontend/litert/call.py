"""An operator of a .tflite file as converters read it: operands as real numbers, constants, options.

Quantized operands are the real numbers that their integers stand for, through a pair of casts that pins the
parameters; so are results, once they are made. A converter makes the float op between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper
from xdsl.ir import SSAValue

from zeropoint.frontend.errors import NodeError
from zeropoint.frontend.litert.reader import Model, Operator, Tensor
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.converters import CONVERTERS
from zeropoint.frontend.onnx.node import Node, axis_of
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import TransposeOp
from zeropoint.ir.tensors import Array, with_element

OPSET = 21
"""The ONNX opset whose converters make the ops that both formats have."""
ACTIVATIONS: dict[int, tuple[float, float]] = {1: (0.0, np.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""The fused activation functions that bound: RELU, RELU_N1_TO_1, RELU6."""


@dataclass
class Values:
    """The values of a graph so far, by tensor."""

    model: Model
    build: Builder
    found: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])

    def pinned(self, value: SSAValue, kind: UniformQuantizedType) -> SSAValue:
        """The value through a pair of casts."""
        cast = self.build.insert(QuantizeCastOp(value, with_element(value, kind)))
        return self.build.insert(DequantizeCastOp(cast, value.type))

    def put(self, index: int, value: SSAValue) -> None:
        """Say what a tensor is; real numbers of a quantized one are pinned."""
        kind = self.model.tensors[index].quantized
        self.found[index] = value if kind is None else self.pinned(value, kind)

    def value(self, index: int) -> SSAValue:
        """The value of a tensor. Raises NodeError where nothing has made it."""
        if index not in self.found:
            tensor = self.model.tensors[index]
            if tensor.data is None:
                raise NodeError(f"found a use of '{tensor.name}', which nothing before it makes")
            self.found[index] = self.constant(tensor, tensor.data, tensor.quantized)
        return self.found[index]

    def constant(self, tensor: Tensor, stored: Array, kind: UniformQuantizedType | None) -> SSAValue:
        """A constant of stored elements, or of the real numbers that they stand for."""
        if not tensor.is_quantized:
            return self.build.constant(stored)
        scales, points = tensor.scales, tensor.zero_points
        axis = tensor.axis if kind is None or kind.axis is None else kind.axis
        along = [-1 if i == axis and scales.size > 1 else 1 for i in range(stored.ndim)]
        real = (stored.astype(np.float64) - points.reshape(along)) * scales.reshape(along)
        made = self.build.constant(real.reshape(stored.shape).astype(np.float32))
        return made if kind is None else self.pinned(made, kind)


@dataclass
class Call:
    """One operator under conversion."""

    operator: Operator
    values: Values

    @property
    def build(self) -> Builder:
        """Where ops go."""
        return self.values.build

    def has(self, index: int) -> bool:
        """Whether operand `index` is given."""
        return index < len(self.operator.inputs) and self.operator.inputs[index] >= 0

    def tensor(self, index: int) -> Tensor:
        """What the file says of an operand. Raises NodeError where it is left out."""
        if not self.has(index):
            raise NodeError(f"found no operand {index}, expected one")
        return self.values.model.tensors[self.operator.inputs[index]]

    def result(self, index: int = 0) -> Tensor:
        """What the file says of a result. Raises NodeError where there is none."""
        if index >= len(self.operator.outputs):
            raise NodeError(f"found no result {index}, expected one")
        return self.values.model.tensors[self.operator.outputs[index]]

    def operand(self, index: int) -> SSAValue:
        """The value of an operand: real numbers where it is quantized."""
        self.tensor(index)
        return self.values.value(self.operator.inputs[index])

    def operands(self) -> list[SSAValue]:
        """The values of all operands."""
        return [self.operand(index) for index in range(len(self.operator.inputs))]

    def array(self, index: int, name: str) -> Array:
        """The elements of an operand that has to be constant, as they are stored. Raises NodeError for another."""
        tensor = self.tensor(index)
        if tensor.data is None:
            raise NodeError(f"found a computed '{name}', expected a constant")
        return tensor.data

    def integers(self, index: int, name: str) -> tuple[int, ...]:
        """`array` as integers."""
        return tuple(int(number) for number in self.array(index, name).reshape(-1))

    def axis(self, index: int, rank: int) -> int:
        """An operand that is one dimension, counted from the start."""
        (axis, *more) = self.integers(index, "axis") or (0,)
        if more:
            raise NodeError(f"found {1 + len(more)} axes, expected one")
        return axis_of(axis, rank)

    def turned(self, index: int, axes: Sequence[int]) -> SSAValue:
        """A constant operand with dimensions reversed."""
        tensor = self.tensor(index)
        stored = np.ascontiguousarray(np.flip(self.array(index, "weights"), tuple(axes)))
        return self.values.constant(tensor, stored, tensor.quantized)

    def option(self, name: str, default: Any = 0) -> Any:
        """A field of the options, by its name in the schema."""
        table = self.operator.options
        found = None if table is None else getattr(table, name[0].upper() + name[1:], None)
        return default if found is None else found()

    def listed(self, name: str) -> tuple[int, ...]:
        """A list of integers of the options."""
        found = self.option(f"{name}AsNumpy", 0)
        return () if isinstance(found, int) else tuple(int(number) for number in found)

    def onnx(self, op: str, *inputs: SSAValue | Array | None, **attributes: Any) -> SSAValue:
        """The ONNX operator that computes the same: its converter makes the ops. Arrays are its constant inputs."""
        return self.onnx_results(op, inputs, 1, attributes)[0]

    def onnx_results(
        self, op: str, inputs: Sequence[SSAValue | Array | None], outputs: int, attributes: dict[str, Any]
    ) -> tuple[SSAValue, ...]:
        """The same of an operator with several results."""
        names: list[str] = []
        for index, given in enumerate(inputs):
            name = "" if given is None else f"{self.operator.index}:{op}:{index}:{len(self.build.values)}"
            if isinstance(given, SSAValue):
                self.build.values[name] = given
            elif given is not None:
                self.build.set_array(name, given)
            names.append(name)
        proto = helper.make_node(op, names, [f"{op}:{index}" for index in range(outputs)], **attributes)
        found = CONVERTERS[op](Node(proto, OPSET, self.build), self.build)
        return found if isinstance(found, tuple) else (found,)

    def like_result(self, value: SSAValue) -> SSAValue:
        """A value on the way, with the parameters of the result: elements that are only moved."""
        kind = self.result().quantized
        return value if kind is None else self.values.pinned(value, kind)

    def bounded(self, value: SSAValue) -> SSAValue:
        """The value behind the fused activation function. Raises NodeError for one that does not bound."""
        number = self.option("fusedActivationFunction")
        if not number:
            return value
        if number not in ACTIVATIONS:
            raise NodeError(f"found fused activation function {number}, expected NONE, RELU, RELU_N1_TO_1 or RELU6")
        return self.clipped(value, *ACTIVATIONS[number])

    def clipped(self, value: SSAValue, low: float, high: float) -> SSAValue:
        """The value between bounds."""
        if high == np.inf and low == 0:
            return self.onnx("Relu", value)
        return self.onnx("Clip", value, np.array(low, np.float32), np.array(high, np.float32))

    def transposed(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """The dimensions in another order."""
        return value if list(order) == sorted(order) else self.build.insert(TransposeOp(value, order))

    @property
    def is_real(self) -> bool:
        """Whether the first result holds real numbers."""
        tensor = self.result()
        return tensor.dtype.kind == "f" or tensor.is_quantized
