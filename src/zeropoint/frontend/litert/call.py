"""A converter's view of an operator of a .tflite file: operands as real values, constants, options.

Quantized operands are real values, from a pair of quantize and dequantize casts that pins their parameters. Results are
pinned in the same way after they are computed. A converter only builds the float op in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import helper
from xdsl.ir import SSAValue

from zeropoint.frontend.errors import NodeError
from zeropoint.frontend.litert.graph import LiteRtModel, LiteRtTensor, Operator
from zeropoint.frontend.litert.sizes import evaluated
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.converters import CONVERTERS
from zeropoint.frontend.onnx.node import OnnxNode, axis_of
from zeropoint.ir.constants import with_rest
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConstantOp, TransposeOp
from zeropoint.ir.tensors import Array, with_element

OPSET = 21
"""The ONNX opset whose converters are reused for ops that both formats have."""
COMPUTED = "found a computed"
"""How a message starts about an operand that depends on an input or is not evaluated."""
ACTIVATIONS: dict[int, tuple[float, float]] = {1: (0.0, np.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""Bounds of the clamping fused activation functions: RELU, RELU_N1_TO_1, RELU6."""


def _none(operators: Sequence[Operator]) -> None:
    """Convert no operators."""


@dataclass
class CallValues:
    """The values converted so far, by tensor index."""

    model: LiteRtModel
    build: Builder
    found: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])
    exact: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])
    """Values of quantized tensors before the casts that pin them, where these change no number."""
    convert: Callable[[Sequence[Operator]], None] = field(default=_none)
    """Converts the operators of a graph where the builder is."""

    def pinned(self, value: SSAValue, kind: UniformQuantizedType) -> SSAValue:
        """The value after a quantize-dequantize pair of casts, which pins its type."""
        cast = self.build.insert(QuantizeCastOp(value, with_element(value, kind)))
        return self.build.insert(DequantizeCastOp(cast, value.type))

    def put(self, index: int, value: SSAValue) -> None:
        """Record the value of a tensor. The value of a quantized tensor is pinned."""
        kind = self.model.tensors[index].quantized
        self.found[index] = value if kind is None else self.pinned(value, kind)

    def value(self, index: int) -> SSAValue:
        """The value of a tensor. Raises NodeError if no earlier operator computes it."""
        if index not in self.found:
            tensor = self.model.tensors[index]
            if tensor.data is None:
                raise NodeError(self._why_missing(index))
            self.found[index] = self.constant(tensor, tensor.data, tensor.quantized)
        return self.found[index]

    def _why_missing(self, index: int) -> str:
        tensor = self.model.tensors[index]
        if any(index in operator.outputs for operator in self.model.every_operator()):
            return f"found a use of '{tensor.name}', which no earlier node computes; the file is broken"
        return (
            f"found 0 bytes in tensor '{tensor.name}', expected {tensor.stored_bytes} for {tensor.type_name} "
            f"{list(tensor.shape)}, or an operator that computes it; convert the model again"
        )

    def constant(self, tensor: LiteRtTensor, stored: Array, kind: UniformQuantizedType | None) -> SSAValue:
        """A constant: the stored elements, or the dequantized ones of a quantized tensor (f32, pinned if `kind`)."""
        with self.build.at(self.model.origin(tensor)):
            return self._constant(tensor, stored, kind)

    def _constant(self, tensor: LiteRtTensor, stored: Array, kind: UniformQuantizedType | None) -> SSAValue:
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
    values: CallValues

    @property
    def build(self) -> Builder:
        """The builder that inserts ops."""
        return self.values.build

    def has(self, index: int) -> bool:
        """Whether operand `index` is given."""
        return index < len(self.operator.inputs) and self.operator.inputs[index] >= 0

    def tensor(self, index: int) -> LiteRtTensor:
        """The tensor of an operand. Raises NodeError if the operand is omitted."""
        if not self.has(index):
            raise NodeError(f"found no operand {index}, expected one")
        return self.values.model.tensors[self.operator.inputs[index]]

    def result(self, index: int = 0) -> LiteRtTensor:
        """The tensor of a result. Raises NodeError if there is none."""
        if index >= len(self.operator.outputs):
            raise NodeError(f"found no result {index}, expected one")
        return self.values.model.tensors[self.operator.outputs[index]]

    def operand(self, index: int) -> SSAValue:
        """The value of an operand. A quantized operand is given as real values."""
        self.tensor(index)
        return self.values.value(self.operator.inputs[index])

    def exact(self, index: int) -> SSAValue:
        """Like `operand`, but without the casts that pin its type if they change no number."""
        found = self.operand(index)
        return self.values.exact.get(self.operator.inputs[index], found)

    def bias(self, index: int, data: int, weights: int) -> SSAValue:
        """An operand that is a bias. LiteRT adds its integers to products, whatever its own scale is, if it has one."""
        tensor, given, product = self.tensor(index), self.tensor(data).scales, self.tensor(weights).scales
        if tensor.data is None or tensor.dtype.kind == "f" or given.size != 1 or product.size not in (1, *tensor.shape):
            return self.operand(index)
        scales = given * product
        found = self.values.constant(
            replace(tensor, scales=scales, zero_points=np.zeros(scales.size)), tensor.data, None
        )
        if isinstance(found.owner, ConstantOp):
            with_rest(found.owner, tensor.data * scales, self.build.weights)
        return found

    def operands(self) -> list[SSAValue]:
        """The values of all operands."""
        return [self.operand(index) for index in range(len(self.operator.inputs))]

    def known(self, index: int) -> Array | None:
        """The stored elements of an operand that is constant or computed from shapes; None for others."""
        tensor = self.tensor(index)
        if tensor.data is not None or tensor.is_quantized:
            return tensor.data
        return evaluated(self.operand(index), self.build.weights)

    def array(self, index: int, name: str) -> Array:
        """Like `known`. Raises NodeError for other operands."""
        found = self.known(index)
        if found is None:
            raise NodeError(f"{COMPUTED} '{name}', expected a constant")
        return found

    def integers(self, index: int, name: str) -> tuple[int, ...]:
        """The elements of `array` as Python integers."""
        return tuple(int(number) for number in self.array(index, name).reshape(-1))

    def axis(self, index: int, rank: int) -> int:
        """A constant operand that names a dimension, as a nonnegative index."""
        (axis, *more) = self.integers(index, "axis") or (0,)
        if more:
            raise NodeError(f"found {1 + len(more)} axes, expected one")
        return axis_of(axis, rank)

    def turned(self, index: int, axes: Sequence[int]) -> SSAValue:
        """A constant operand, maybe behind a DEQUANTIZE, with its dimensions in reverse order."""
        tensor = self.tensor(index)
        found = self.values.model.stored(self.operator.inputs[index])
        if found.data is None:
            raise NodeError("found computed weights, expected constant ones")
        turned = np.ascontiguousarray(np.flip(found.data, tuple(axes)))
        stored = turned if found.is_quantized else turned.astype(tensor.dtype)
        return self.values.constant(found, stored, found.quantized)

    def option(self, name: str, default: Any = 0) -> Any:
        """A field of the options, by schema name."""
        table = self.operator.options
        found = None if table is None else getattr(table, name[0].upper() + name[1:], None)
        return default if found is None else found()

    def listed(self, name: str) -> tuple[int, ...]:
        """An integer list field of the options."""
        found = self.option(f"{name}AsNumpy", 0)
        return () if isinstance(found, int) else tuple(int(number) for number in found)

    def onnx(self, op: str, *inputs: SSAValue | Array | None, **attributes: Any) -> SSAValue:
        """Build the equivalent ONNX operator with ONNX's converter. Arrays become constant inputs."""
        names: list[str] = []
        for index, given in enumerate(inputs):
            name = "" if given is None else f"{self.operator.index}:{op}:{index}:{len(self.build.values)}"
            if isinstance(given, SSAValue):
                self.build.values[name] = given
            elif given is not None:
                self.build.set_array(name, given)
            names.append(name)
        proto = helper.make_node(op, names, [f"{op}:0"], **attributes)
        found = CONVERTERS[op](OnnxNode(proto, OPSET, self.build), self.build)
        return found[0] if isinstance(found, tuple) else found

    def like_result(self, value: SSAValue) -> SSAValue:
        """An intermediate value pinned to the type of the result, for operators that only move elements."""
        kind = self.result().quantized
        return value if kind is None else self.values.pinned(value, kind)

    def bounded(self, value: SSAValue) -> SSAValue:
        """The value after the fused activation function. Raises NodeError if that is not a clamp."""
        number = self.option("fusedActivationFunction")
        if not number:
            return value
        if number not in ACTIVATIONS:
            raise NodeError(f"found fused activation function {number}, expected NONE, RELU, RELU_N1_TO_1 or RELU6")
        return self.clipped(value, *ACTIVATIONS[number])

    def bounded_elements(self, value: SSAValue) -> SSAValue:
        """Like `bounded`, where operands and result have one type: the clamp is a kernel of its own."""
        return self.bounded(self.like_result(value)) if self.option("fusedActivationFunction") else value

    def clipped(self, value: SSAValue, low: float, high: float) -> SSAValue:
        """The value clamped to bounds."""
        if high == np.inf and low == 0:
            return self.onnx("Relu", value)
        return self.onnx("Clip", value, np.array(low, np.float32), np.array(high, np.float32))

    def transposed(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """The value transposed; the value itself if the order is the identity."""
        return value if list(order) == sorted(order) else self.build.insert(TransposeOp(value, order))

    @property
    def is_real(self) -> bool:
        """Whether the first result has real values: it is a float or quantized."""
        tensor = self.result()
        return tensor.dtype.kind == "f" or tensor.is_quantized
