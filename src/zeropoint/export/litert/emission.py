"""The context in which kernels are emitted: it maps values of the program to tensors of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Block, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.litert.builder import ModelBuilder, OperatorOptions
from zeropoint.export.reshaped_orders import moves_units
from zeropoint.ir.constants import broadcast_array
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.locations import location_of, location_text
from zeropoint.ir.quant import Storage, UniformQuantizedType, stored_array
from zeropoint.ir.stablehlo import BroadcastInDimOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights

BIAS_BITS = 32
OPTION_DIMENSIONS = 8
"""The most dimensions that the options of RESHAPE hold (LiteRT 2.3.0, `core/api/flatbuffer_conversions.cc`)."""


@dataclass
class LitertEmission:
    """The model under construction, and the tensors of each value of the program.

    A value has one tensor for each type in which it is read: the one that its kernel computes, and those that QUANTIZE
    and DEQUANTIZE derive from it.
    """

    builder: ModelBuilder
    weights: Weights
    tensors: dict[tuple[SSAValue, Attribute], int] = field(default_factory=dict[tuple[SSAValue, Attribute], int])
    made: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    returned: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """The names of float results that the program returns: those of its outputs."""

    def name(self, value: SSAValue) -> str:
        """The name of a value's tensor."""
        found = location_text(location_of(value))
        return found or ("input" if isinstance(value.owner, Block) else value.owner.name)

    def declare(self, value: SSAValue, kind: Attribute, name: str | None = None) -> int:
        """Add the tensor of a value, in the type in which the next operators compute it."""
        quantized = kind if isinstance(kind, UniformQuantizedType) else None
        if quantized is not None and not quantized.storage.is_full_range:
            raise ExportError(
                f"found a value of storage {quantized.storage}, expected its full range: LiteRT saturates at its ends",
                defining_op(value),
            )
        dtype = element_dtype(kind).name
        port = self.returned.get(value) if quantized is None and name is None else None
        index = self.builder.tensor(port or name or self.name(value), shape_of(value), dtype, quantized)
        self.tensors[value, kind] = index
        self.made[value] = kind
        return index

    def operand(self, value: SSAValue, kind: Attribute) -> int:
        """The tensor of a value in a given type: a constant, or the value cast from the type it was computed in."""
        found = self.tensors.get((value, kind))
        if found is not None:
            return found
        array = self.array(value)
        if array is not None:
            self.tensors[value, kind] = index = self.held(value, array, kind)
            return index
        made = self.made.get(value)
        if made is None:
            raise ExportError("found a value that no exported op computes", defining_op(value))
        source = self.tensors[value, made]
        quantized = kind if isinstance(kind, UniformQuantizedType) else None
        # The tensor of a sort may have only the elements that are read.
        tensor = self.builder.tensors[source]
        index = self.temporary(tensor.name.decode(), tensor.shape, kind)
        # Between integer types, QUANTIZE is LiteRT's requantization.
        self.builder.operator("QUANTIZE" if quantized is not None else "DEQUANTIZE", [source], [index])
        self.tensors[value, kind] = index
        return index

    def held(self, value: SSAValue, array: Array, kind: Attribute, made: SSAValue | None = None) -> int:
        """The tensor of a constant operand, with the constant's own name if it differs from that of the result `made`.

        Otherwise its name follows the operator's result, as those of `part` do.
        """
        while isinstance(op := value.owner, BroadcastInDimOp):
            value = op.operand
        name = location_text(location_of(value))
        shares = made is not None and name == location_text(location_of(made))
        return self.part("constant", array, kind) if shares or not name else self.constant(array, kind, name)

    def stands_for(self, value: SSAValue, other: SSAValue) -> None:
        """Make `value` an alias of another value, in float."""
        kind = element_of(other)
        self.tensors[value, kind] = self.operand(other, kind)
        self.made[value] = kind

    def alias(self, value: SSAValue, kind: Attribute, tensor: int) -> None:
        """Let a tensor stand for a value that is computed in a type."""
        self.tensors[value, kind] = tensor
        self.made[value] = kind

    def array(self, value: SSAValue) -> Array | None:
        """The array of a constant or of a broadcast constant; None for a computed value."""
        return broadcast_array(value, self.weights)

    def constant(self, array: Array, kind: Attribute, name: str) -> int:
        """A constant tensor: quantized to integers if `kind` is a quantized type, else the array itself."""
        return self.builder.constant(name, *_stored(array, kind))

    def part(self, role: str, array: Array, kind: Attribute) -> int:
        """Like `constant`, for a constant of one operator (`ModelBuilder.part`)."""
        return self.builder.part(role, *_stored(array, kind))

    def stored(self, array: Array, kind: Attribute) -> Array:
        """The integers of a float array in a quantized type."""
        assert isinstance(kind, UniformQuantizedType)
        return stored_array(array, kind)

    def product_type(self, data: UniformQuantizedType, weight: UniformQuantizedType) -> UniformQuantizedType:
        """The type of a bias of zeros: i32 at the scale of a product."""
        scales = data.scale * weight.scales
        if weight.is_per_channel:
            return UniformQuantizedType.per_channel(Storage.of("i32"), 0, scales)
        return UniformQuantizedType.per_layer(Storage.of("i32"), float(scales[0]))

    def zeros(self, count: int, data: Attribute, weight: Attribute) -> int:
        """A bias of zeros: i32, or i64 for 16-bit activations, or f32 for floats."""
        if not isinstance(data, UniformQuantizedType) or not isinstance(weight, UniformQuantizedType):
            return self.builder.part("bias", np.zeros(count, np.float32))
        wide = data.storage.type.width > BIAS_BITS // 4
        stored = np.zeros(count, np.int64 if wide else np.int32)
        return self.builder.part("bias", stored, self.product_type(data, weight))

    def integers(self, values: Sequence[int], name: str = "shape") -> int:
        """An i32 constant of one operator: a shape, axes, paddings."""
        return self.builder.part(name, np.asarray(values, np.int32))

    def temporary(self, name: str, shape: Sequence[int], kind: Attribute) -> int:
        """Add a tensor between two operators of one kernel."""
        quantized = kind if isinstance(kind, UniformQuantizedType) else None
        return self.builder.tensor(name, shape, element_dtype(kind).name, quantized)

    def reshape(self, source: int, result: int) -> None:
        """RESHAPE one tensor into another. The second operand has all dimensions, the options at most eight."""
        shape = list(self.builder.tensors[result].shape)
        options = ("ReshapeOptions", {"newShape": shape} if len(shape) <= OPTION_DIMENSIONS else {})
        self.operator("RESHAPE", [source, self.integers(shape)], [result], options)

    def reshaped(self, source: int, shape: Sequence[int], kind: Attribute, name: str = "") -> int:
        """The same elements in another shape, with its name unless one is given; the tensor itself if it fits."""
        if tuple(self.builder.tensors[source].shape) == tuple(shape):
            return source
        made = self.temporary(name or self.builder.tensors[source].name.decode(), shape, kind)
        self.reshape(source, made)
        return made

    def transposed(self, source: int, order: Sequence[int], kind: Attribute) -> int:
        """The transposed tensor; the tensor itself if the order is the identity."""
        if list(order) == sorted(order):
            return source
        tensor = self.builder.tensors[source]
        shape = [tensor.shape[axis] for axis in order]
        if moves_units(tensor.shape, tuple(order)):
            return self.reshaped(source, shape, kind)
        made = self.temporary(tensor.name.decode(), shape, kind)
        self.operator("TRANSPOSE", [source, self.integers(order, "permutation")], [made], ("TransposeOptions", {}), 4)
        return made

    def dequantized(self, source: int) -> int:
        """The tensor as f32."""
        tensor = self.builder.tensors[source]
        made = self.temporary(tensor.name.decode(), tensor.shape, f32)
        self.operator("DEQUANTIZE", [source], [made])
        return made

    def operator(
        self,
        op: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: OperatorOptions | None = None,
        version: int = 1,
    ) -> None:
        """Add an operator to the model."""
        self.builder.operator(op, inputs, outputs, options, version)


def _stored(array: Array, kind: Attribute) -> tuple[Array, UniformQuantizedType | None]:
    if isinstance(kind, UniformQuantizedType):
        return stored_array(array, kind), kind
    return np.asarray(array, order="C"), None
