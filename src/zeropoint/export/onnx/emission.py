"""What the conversion of one kernel works with: values of the program as tensors, and ops between casts.

A quantized tensor is its integers in the file. The form of the file says how an op reads them:

- QDQ: `DequantizeLinear` of every operand, the float op, `QuantizeLinear` of its result; runtimes fuse these.
- QOperator: the operator on integers where ONNX or onnxruntime has one (`qoperators.py`), QDQ elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from xdsl.ir import Attribute, Block, Operation, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import Kernel
from zeropoint.export.onnx.graph import Attributes, GraphBuilder
from zeropoint.export.onnx.qoperators import MOVES, QOPERATORS, Parts
from zeropoint.ir.constants import constant_array
from zeropoint.ir.locations import location_text
from zeropoint.ir.quant import UniformQuantizedType, stored_array
from zeropoint.ir.stablehlo import BroadcastInDimOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights

WIDE_OPSET, NARROW_OPSET = 21, 21
"""The opsets that quantize to 16 bits, and to 4 bits or by blocks."""
NARROW = 4
"""The bits of integers of which two share a byte."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file: its name, the type of its elements, its shape; integers where the type is quantized."""

    name: str
    kind: Attribute
    shape: tuple[int, ...]

    @property
    def quantized(self) -> UniformQuantizedType | None:
        """The quantized type, None of other tensors."""
        return self.kind if isinstance(self.kind, UniformQuantizedType) else None


@dataclass
class Emission:
    """The model under construction, and where every value of the program is in it."""

    builder: GraphBuilder
    weights: Weights
    qoperators: bool = False
    tensors: dict[tuple[SSAValue, Attribute], Tensor] = field(default_factory=dict[tuple[SSAValue, Attribute], Tensor])
    made: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    reals: dict[str, str] = field(default_factory=dict[str, str])
    loose: dict[SSAValue, Tensor] = field(default_factory=dict[SSAValue, Tensor])
    """Broadcasts before they are repeated, in the rank of their result: arithmetic repeats its operands itself."""

    def name(self, value: SSAValue) -> str:
        """What to call a value: the node of the model that makes it."""
        owner = value.owner
        found = None if isinstance(owner, Block) else location_text(owner.location)
        return found or ("input" if isinstance(owner, Block) else owner.name)

    def put(self, value: SSAValue, tensor: Tensor) -> None:
        """Say which tensor a value is."""
        self.tensors[value, tensor.kind] = tensor
        self.made[value] = tensor.kind

    def operand(self, value: SSAValue, kind: Attribute) -> Tensor:
        """The tensor of a value in a type; a constant, or the value cast from the type in which it was made."""
        found = self.tensors.get((value, kind))
        if found is None:
            if value in self.loose and value not in self.made:
                self.put(value, self.repeated(self.loose[value], shape_of(value), self.name(value)))
                return self.operand(value, kind)
            array = self.array(value)
            made = self.made.get(value)
            if array is not None:
                found = self.constant(array, kind, self.name(value))
            elif made is not None:
                found = self.cast(self.tensors[value, made], kind, self.name(value))
            else:
                owner = value.owner if isinstance(value.owner, Operation) else None
                raise ExportError("found a value that no exported op makes", owner)
            self.tensors[value, kind] = found
        return found

    def cast(self, tensor: Tensor, kind: Attribute, name: str) -> Tensor:
        """The tensor in another type, by `DequantizeLinear` and `QuantizeLinear`."""
        if tensor.kind == kind:
            return tensor
        real = self.real(tensor)
        if not isinstance(kind, UniformQuantizedType):
            return Tensor(real, kind, tensor.shape)
        return self._stored(real, kind, tensor.shape, name)

    def array(self, value: SSAValue) -> Array | None:
        """The array behind a constant; None for a computed value."""
        op = value.owner
        if isinstance(op, BroadcastInDimOp):
            inner = self.array(op.operand)
            return None if inner is None else np.broadcast_to(spread(inner, op), shape_of(op.result))
        return constant_array(value, self.weights)

    def constant(self, array: Array, kind: Attribute, name: str) -> Tensor:
        """A constant: the integers of a quantized type, or the array as it is."""
        stored = stored_array(array, kind).astype(file_dtype(kind)) if isinstance(kind, UniformQuantizedType) else array
        return Tensor(self.builder.constant(name, stored), kind, array.shape)

    def integers(self, values: Sequence[int], name: str = "shape") -> str:
        """A constant of i64: a shape, axes, starts."""
        return self.builder.constant(name, np.asarray(values, np.int64))

    def parameters(self, kind: UniformQuantizedType, name: str) -> tuple[str, str]:
        """Scale and zero point of a type, as constants."""
        scales, points = kind.scales.astype(np.float32), kind.zero_points.astype(file_dtype(kind))
        if kind.is_per_layer:
            scales, points = scales.reshape(()), points.reshape(())
        return self.builder.constant(f"{name}_scale", scales), self.builder.constant(f"{name}_zero_point", points)

    def real(self, tensor: Tensor) -> str:
        """The real numbers of a tensor: its `DequantizeLinear`, one for all who read it."""
        kind = tensor.quantized
        if kind is None:
            return tensor.name
        if tensor.name not in self.reals:
            stem = tensor.name.removesuffix("_quantized")
            self.reals[tensor.name] = made = self.builder.unique(f"{stem}_dequantized")
            inputs = [tensor.name, *self.parameters(kind, stem)]
            self.builder.node("DequantizeLinear", inputs, [made], made, self._layout(kind))
        return self.reals[tensor.name]

    def _stored(self, real: str, kind: UniformQuantizedType, shape: tuple[int, ...], name: str) -> Tensor:
        made = self.builder.unique(f"{name}_quantized")
        inputs = [real, *self.parameters(kind, name)]
        self.builder.node("QuantizeLinear", inputs, [made], made, self._layout(kind))
        return self._within(Tensor(made, kind, shape), name)

    def _within(self, tensor: Tensor, name: str) -> Tensor:
        """The integers within the part of the storage range that the type uses."""
        kind = tensor.quantized
        if kind is None or kind.storage.is_full_range:
            return tensor
        ends = [np.array(end, file_dtype(kind)) for end in (kind.storage.minimum, kind.storage.maximum)]
        limits = [self.builder.constant("bound", end) for end in ends]
        return self.direct("Clip", [tensor], kind, tensor.shape, f"{name}/storage", extra=limits)

    def _layout(self, kind: UniformQuantizedType) -> Attributes:
        if kind.storage.type.width == 16:
            self.builder.needs(WIDE_OPSET)
        if kind.storage.type.width < 8:
            self.builder.needs(NARROW_OPSET)
        if kind.blocks is not None:
            self.builder.needs(NARROW_OPSET)
            axis, size = max(kind.blocks, key=lambda pair: pair[1])
            return {"axis": axis, "block_size": size}
        return {} if kind.axis is None else {"axis": kind.axis}

    def apply(
        self,
        op: str,
        inputs: Sequence[Tensor],
        kind: Attribute,
        shape: Sequence[int],
        name: str,
        attributes: Attributes | None = None,
        extra: Sequence[str] = (),
    ) -> Tensor:
        """An op of these operands whose result is of a type; `extra` are inputs that are no data: shapes, axes.

        Operands and result are cast where they are quantized, or the op becomes its QOperator.
        """
        shape = tuple(shape)
        if self.qoperators and isinstance(kind, UniformQuantizedType):
            found = self._qoperator(op, inputs, kind, shape, name, attributes or {}, extra)
            if found is not None:
                return found
        result = self.builder.unique(name)
        self.builder.node(op, [*map(self.real, inputs), *extra], [result], name, attributes)
        if not isinstance(kind, UniformQuantizedType):
            return Tensor(result, kind, shape)
        return self._stored(result, kind, shape, name)

    def direct(
        self,
        op: str,
        inputs: Sequence[Tensor],
        kind: Attribute,
        shape: Sequence[int],
        name: str,
        attributes: Attributes | None = None,
        extra: Sequence[str] = (),
    ) -> Tensor:
        """An op on the elements as they are stored."""
        made = self.builder.unique(f"{name}_quantized" if isinstance(kind, UniformQuantizedType) else name)
        self.builder.node(op, [*(tensor.name for tensor in inputs), *extra], [made], made, attributes)
        return Tensor(made, kind, tuple(shape))

    def _qoperator(
        self,
        op: str,
        inputs: Sequence[Tensor],
        kind: UniformQuantizedType,
        shape: tuple[int, ...],
        name: str,
        attributes: Attributes,
        extra: Sequence[str],
    ) -> Tensor | None:
        rule = QOPERATORS.get(op)
        if op in MOVES and all(tensor.kind == kind for tensor in inputs):
            return self.direct(op, inputs, kind, shape, name, attributes, extra)
        if rule is None or any(tensor.quantized is None for tensor in inputs) or kind.storage.type.width != 8:
            return None
        parts = [
            Parts(tensor.name, *self.parameters(quantized, tensor.name.removesuffix("_quantized")))
            for tensor in inputs
            if (quantized := tensor.quantized) is not None
        ]
        made = self.builder.unique(f"{name}_quantized")
        node = rule.make(parts, Parts(made, *self.parameters(kind, name)))
        changed = {**attributes, **rule.attributes(self.builder.opset)}
        self.builder.node(rule.name, node, [made], name, changed, rule.domain)
        return self._within(Tensor(made, kind, shape), name)

    def reshaped(self, tensor: Tensor, shape: Sequence[int], name: str) -> Tensor:
        """The same elements in another shape."""
        if tuple(shape) == tensor.shape:
            return tensor
        return self.apply("Reshape", [tensor], tensor.kind, shape, f"{name}/reshape", extra=[self.integers(shape)])

    def transposed(self, tensor: Tensor, order: Sequence[int], name: str) -> Tensor:
        """The dimensions in another order; the tensor itself where they keep theirs."""
        if list(order) == sorted(order):
            return tensor
        shape = [tensor.shape[axis] for axis in order]
        return self.apply("Transpose", [tensor], tensor.kind, shape, f"{name}/transpose", {"perm": list(order)})

    def repeated(self, tensor: Tensor, shape: Sequence[int], name: str) -> Tensor:
        """The tensor with dimensions of size 1 repeated."""
        if tuple(shape) == tensor.shape:
            return tensor
        return self.apply("Expand", [tensor], tensor.kind, shape, f"{name}/expand", extra=[self.integers(shape)])


def file_dtype(kind: UniformQuantizedType) -> np.dtype[np.generic]:
    """The dtype of stored integers in the file, where integers of 4 bits have one."""
    storage = kind.storage.type
    if storage.width == NARROW:
        return np.dtype(ml_dtypes.int4 if storage.signed else ml_dtypes.uint4)
    return storage.dtype


def spread(array: Array, op: BroadcastInDimOp) -> Array:
    """The operand of a broadcast in the rank of its result, dimensions that are repeated of size 1."""
    return array.reshape(spread_shape(op))


def spread_shape(op: BroadcastInDimOp) -> list[int]:
    """The shape of the operand of a broadcast in the rank of its result."""
    shape = [1] * len(shape_of(op.result))
    for size, dimension in zip(shape_of(op.operand), array_values(op.broadcast_dimensions), strict=True):
        shape[dimension] = size
    return shape


def float_dtype(value: SSAValue) -> np.dtype[np.generic]:
    """The dtype of a value that nothing quantizes."""
    return element_dtype(element_of(value))


def clamped(kernel: Kernel, tensor: Tensor, emit: Emission, name: str) -> Tensor:
    """The result within the bounds behind a kernel: `Clip` where its storage does not bound it already.

    Rounding is monotone, so that integers can be bounded. Of a float result the bounds are floats.
    """
    low, high = kernel.bounds
    kind = tensor.quantized
    if kind is None:
        limits = [_limit(emit, bound) for bound in (low, high)]
        return (
            tensor if not any(limits) else emit.direct("Clip", [tensor], tensor.kind, tensor.shape, name, extra=limits)
        )
    ends = stored_array(np.array([low, high]), kind)
    if ends[0] <= kind.storage.minimum and ends[1] >= kind.storage.maximum:
        return tensor
    limits = [emit.builder.constant("bound", end.reshape(())) for end in ends]
    return emit.direct("Clip", [tensor], kind, tensor.shape, name, extra=limits)


def _limit(emit: Emission, bound: float) -> str:
    return emit.builder.constant("bound", np.asarray(bound, np.float32)) if np.isfinite(bound) else ""
