"""The context in which kernels are emitted: it maps values of the program to values of the TOSA function."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.tosa.arithmetic import dequantized, from_unsigned, quantized, to_unsigned
from zeropoint.export.tosa.builder import ELEMENTS, FunctionBuilder, TosaValue
from zeropoint.export.tosa.moves import reshaped
from zeropoint.ir.constants import broadcast_array
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.locations import location_text
from zeropoint.ir.quant import UniformQuantizedType, stored_array
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ConcatenateOp,
    ConvertOp,
    GatherOp,
    ReshapeOp,
    ReverseOp,
    SelectOp,
    SliceOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.profile import Profile

INDEX_LIMIT = np.iinfo(np.int32)
UNSIGNED = {"uint8": "i8", "uint16": "i16"}
"""The types of unsigned inputs and outputs. Inside the function, they are i32."""
MOVES = (BroadcastInDimOp, ConcatenateOp, GatherOp, ReshapeOp, ReverseOp, SelectOp, SliceOp, TransposeOp)
"""The ops whose results are elements of their operands."""


def element_text(kind: Attribute, op: Operation | None) -> str:
    """The element type of a value: the storage type of a quantized one, and i32 for i64 and for unsigned integers.

    Raises ExportError if TOSA does not have the type, and for arithmetic of unsigned integers, which wraps around.
    """
    if isinstance(kind, UniformQuantizedType):
        if kind.storage.type.signed and kind.storage.type.width in (8, 32):
            return f"i{kind.storage.type.width}"
        raise ExportError(f"found storage {kind.storage}, expected i8", op)
    name = element_dtype(kind).name
    if name == "int64":  # positions and sizes, which fit 32 bits; TOSA has no 64-bit integers
        return "i32"
    if name in UNSIGNED and _keeps_unsigned(op):
        return "i32"
    if name not in ELEMENTS:
        raise ExportError(
            f"found a tensor of {name}, expected one of: {', '.join(ELEMENTS)}, int64; use --target onnxruntime -o "
            "model.onnx, or another type in the model",
            op,
        )
    return ELEMENTS[name]


def unsigned_text(kind: Attribute) -> str | None:
    """The element type of an input or output of unsigned integers; None for other ones."""
    return None if isinstance(kind, UniformQuantizedType) else UNSIGNED.get(element_dtype(kind).name)


def _keeps_unsigned(op: Operation | None) -> bool:
    """Whether an op gives the unsigned integers that it reads, or those of floats (dynamic quantization)."""
    return isinstance(op, MOVES) or (isinstance(op, ConvertOp) and isinstance(element_of(op.operand), AnyFloat))


@dataclass
class TosaEmission:
    """The function under construction, and the values that represent each value of the program, one for each type."""

    f: FunctionBuilder
    weights: Weights
    profile: Profile
    values: dict[tuple[SSAValue, Attribute], TosaValue] = field(
        default_factory=dict[tuple[SSAValue, Attribute], TosaValue]
    )
    made: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])

    def argument(self, name: str, value: SSAValue, kind: Attribute) -> None:
        """Add an input of the function. Unsigned integers are widened."""
        narrow = unsigned_text(kind)
        found = self.f.argument(name, shape_of(value), narrow or element_text(kind, None))
        self.define(value, kind, found if narrow is None else from_unsigned(self.f, found, self.profile))

    def result(self, name: str, value: SSAValue, kind: Attribute) -> None:
        """Return a value. Unsigned integers are narrowed."""
        found, narrow = self.operand(value, kind), unsigned_text(kind)
        self.f.result(name, found if narrow is None else to_unsigned(self.f, found, narrow, self.profile))

    def at(self, op: Operation) -> None:
        """Give the next ops the location of an op of the program."""
        self.f.location = location_text(op.location)

    def define(self, value: SSAValue, kind: Attribute, found: TosaValue) -> None:
        """Record the value of the function that represents a value of the program in a type."""
        self.values[value, kind] = found
        self.made[value] = kind

    def operand(self, value: SSAValue, kind: Attribute) -> TosaValue:
        """A value in a given type: a constant, or the value cast from the type it was computed in."""
        found = self.values.get((value, kind))
        if found is None:
            array = self.array(value)
            made = self.made.get(value)
            if array is not None:
                found = self.constant(array, kind)
            elif made is not None:
                found = self.cast(self.values[value, made], made, kind, defining_op(value))
            else:
                raise ExportError("found a value that no exported op computes", defining_op(value))
            self.values[value, kind] = found
        return found

    def cast(self, value: TosaValue, given: Attribute, wanted: Attribute, op: Operation | None) -> TosaValue:
        """A value cast to another type: between real numbers and storage integers.

        Raises ExportError for a type with several scales.
        """
        for kind in (given, wanted):
            if isinstance(kind, UniformQuantizedType) and not kind.is_per_layer:
                raise ExportError(f"found a cast of {kind}, expected one scale for the whole tensor", op)
        if isinstance(given, UniformQuantizedType):
            value = dequantized(self.f, value, given)
        if isinstance(wanted, UniformQuantizedType):
            element_text(wanted, op)
            value = quantized(self.f, value, wanted, self.profile)
        return value

    def array(self, value: SSAValue) -> Array | None:
        """The array of a constant or of a broadcast constant; None for a computed value."""
        return broadcast_array(value, self.weights)

    def constant(self, array: Array, kind: Attribute) -> TosaValue:
        """A constant: storage integers if `kind` is a quantized type, else the array itself; 64-bit integers as i32."""
        if isinstance(kind, UniformQuantizedType):
            array = stored_array(array, kind)
        elif array.dtype == np.int64:
            if array.size and (array.min() < INDEX_LIMIT.min or array.max() > INDEX_LIMIT.max):
                raise ExportError(
                    f"found integers up to {np.abs(array).max()}, expected 32 bits: TOSA has no wider ones"
                )
            array = array.astype(np.int32)
        elif array.dtype.name in UNSIGNED:
            array = array.astype(np.int32)
        return self.f.constant(array)

    def source(self, kernel: ExportKernel, port: int = 0) -> TosaValue:
        """An operand of a kernel in the type of its port."""
        return self.operand(kernel.region.inputs[port], kernel.specs[port])

    def side(self, kernel: ExportKernel, value: SSAValue) -> tuple[TosaValue, Attribute]:
        """An operand of an elementwise op, and its type: a port, or the operand of a broadcast in the result's rank."""
        op = value.owner
        inner = op.operand if isinstance(op, BroadcastInDimOp) else value
        port = kernel.port(inner)
        kind, given = kernel.specs[port], kernel.region.inputs[port]
        if not isinstance(op, BroadcastInDimOp):
            return self.operand(given, kind), kind
        array = self.array(given)
        if array is not None:
            return self.constant(array.reshape(op.aligned_shape), kind), kind
        return reshaped(self.f, self.operand(given, kind), op.aligned_shape), kind

    def finish(self, kernel: ExportKernel, value: TosaValue) -> None:
        """Record the result of a kernel, reshaped to the shape in the program."""
        self.define(kernel.region.outputs[0], kernel.output_spec, reshaped(self.f, value, kernel.output_shape))

    def stands_for(self, value: SSAValue, other: SSAValue) -> None:
        """Make `value` an alias of another value, in float."""
        self.define(value, element_of(other), self.operand(other, element_of(other)))
