"""What the lowering of one op works with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import IntegerType, LocationAttr, TensorType, i32
from xdsl.ir import Attribute, Operation, Region, SSAValue

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import Storage, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvertOp, SubtractOp, UniformQuantizeOp, XorOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.numerics.profile import Profile
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.requantize import Multiplier
from zeropoint.numerics.storage import StorageType
from zeropoint.quant_passes.errors import LoweringError

OperationT = TypeVar("OperationT", bound=Operation)


def storage_element(quantized: UniformQuantizedType) -> IntegerType:
    """The signless integer type in which a quantized value is stored."""
    return IntegerType(quantized.storage.type.width)


def stored_element(value: SSAValue) -> UniformQuantizedType | None:
    """The quantized element type of a value as the program has it, None where it has another."""
    if not isinstance(value.type, TensorType):
        return None
    element = element_of(value)
    return element if isinstance(element, UniformQuantizedType) else None


def quantized_element(value: SSAValue) -> UniformQuantizedType | None:
    """The quantized element type of a value in the integer program, None where it has another: that of signed storage.

    An unsigned type stands for the signed one whose integers and zero points are half the range less.
    """
    kind = stored_element(value)
    return kind if kind is None or kind.storage.type.signed else signed(kind)


def signed(kind: UniformQuantizedType) -> UniformQuantizedType:
    """The same real values in signed storage."""
    storage, half = kind.storage, 1 << (kind.storage.type.width - 1)
    moved = Storage(StorageType(True, storage.type.width), storage.minimum - half, storage.maximum - half)
    points = tuple(point - half for point in kind.data.zero_points)
    return UniformQuantizedType(replace(kind.data, storage=moved, zero_points=points))


def signed_integers(array: Array) -> Array:
    """Unsigned storage integers as the signed ones that stand for them: half the range less. Others as they are."""
    if array.dtype.kind != "u":
        return array
    half = array.dtype.type(1 << (8 * array.dtype.itemsize - 1))
    return (array ^ half).view(f"i{array.dtype.itemsize}")


def check_storage(op: Operation) -> None:
    """Raise LoweringError for storage that has no place in the integer program."""
    for value in (*op.operands, *op.results):
        element = stored_element(value)
        if element is None:
            continue
        storage = element.storage.type
        plain = storage.signed or (element.storage.spelling is None and storage.width < 32)
        if not plain or storage.width not in (8, 16, 32):
            raise LoweringError(f"{describe(op)}: found storage {storage} in {value.type}, expected 8, 16 or 32 bits")
        if storage.width == 32 and element.zero_points.any():
            raise LoweringError(f"{describe(op)}: found a zero point in {value.type}, expected 0 for 32-bit storage")


def is_widening(before: UniformQuantizedType, after: UniformQuantizedType) -> bool:
    """Whether a change of parameters only takes the zero point off: stored - zero_point, which the other type holds."""
    if before.is_per_channel or after.is_per_channel or before.scale != after.scale or after.zero_point != 0:
        return False
    low, high = before.storage.minimum - before.zero_point, before.storage.maximum - before.zero_point
    return after.storage.minimum <= low and high <= after.storage.maximum


def widened_from(value: SSAValue) -> SSAValue:
    """What a value is without the `uniform_quantize` that only takes its zero point off; else the value itself."""
    made = value.owner
    if not isinstance(made, UniformQuantizeOp):
        return value
    before, after = quantized_element(made.operand), quantized_element(value)
    return made.operand if before is not None and after is not None and is_widening(before, after) else value


def reach(value: SSAValue) -> int:
    """The greatest |stored - zero_point| of a value that is quantized per layer."""
    kind = quantized_element(value)
    assert kind is not None
    return max(kind.storage.maximum - kind.zero_point, kind.zero_point - kind.storage.minimum)


def affine(quantized: UniformQuantizedType) -> AffineParameters:
    """The parameters of a per-layer type, as numerics takes them."""
    storage = quantized.storage
    return AffineParameters(np.array(quantized.scale), np.array(quantized.zero_point), storage.minimum, storage.maximum)


@dataclass
class Lowering:
    """State of one walk: integer values that stand for quantized ones.

    `values` maps quantized values to tensors of their storage integers.
    """

    profile: Profile
    weights: Weights
    builder: Builder
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    location: LocationAttr | None = None

    def stored(self, value: SSAValue) -> SSAValue:
        """The storage integers of a quantized value; a value from outside is cast once, where it is made."""
        if value not in self.values:
            self.values[value] = self.cast(value)
        return self.values[value]

    def cast(self, value: SSAValue) -> SSAValue:
        """The storage integers of a quantized value that is no integer one, signed."""
        element = stored_element(value)
        assert element is not None
        cast = self.insert(StorageCastOp(value, with_element(value, storage_element(element))))
        return cast.result if element.storage.type.signed else self.flipped(cast.result)

    def quantized_again(self, integers: SSAValue, kind: UniformQuantizedType) -> SSAValue:
        """The quantized value of a type whose (signed) storage integers are given."""
        stored = integers if kind.storage.type.signed else self.flipped(integers)
        return self.insert(StorageCastOp(stored, with_element(stored, kind))).result

    def flipped(self, integers: SSAValue) -> SSAValue:
        """Stored integers of one sign to those of the other: the highest bit flips."""
        width = 8 * element_dtype(element_of(integers)).itemsize
        half = self.filled(integers, -(1 << (width - 1)), IntegerType(width))
        return self.insert(XorOp(integers, half)).result

    def integers(self, value: SSAValue) -> Array | None:
        """The (signed) storage integers of a constant, None for another value."""
        array = constant_array(value, self.weights)
        return None if array is None else signed_integers(array)

    def insert(self, op: OperationT) -> OperationT:
        """Add an op at the place, and with the location, of the op that is being lowered."""
        if self.location is not None:
            op.location = self.location
        return self.builder.insert(op)

    def constant(self, array: Array) -> SSAValue:
        """A constant tensor of integers."""
        return self.insert(constant_op(array, self.weights)).output

    def filled(self, like: SSAValue, number: int, element_type: IntegerType = i32) -> SSAValue:
        """A tensor of the shape of `like` that repeats one number."""
        dtype = np.dtype(f"i{element_type.width.data // 8}")
        scalar = self.constant(np.array(number, dtype))
        if not shape_of(like):
            return scalar
        return self.insert(BroadcastInDimOp(scalar, with_element(like, element_type), [])).result

    def channels(self, like: SSAValue, array: Array, axis: int) -> SSAValue:
        """A tensor of the shape of `like` that repeats `array` along every dimension but `axis`."""
        constant = self.constant(array)
        return self.insert(BroadcastInDimOp(constant, with_element(like, element_of(constant)), [axis])).result

    def widened(self, value: SSAValue, zero_point: int, element: IntegerType = i32) -> SSAValue:
        """`value - zero_point` in i32, or in another type that holds it."""
        wide = value
        if element_of(value) != element:
            wide = self.insert(ConvertOp(value, with_element(value, element))).result
        if zero_point == 0:
            return wide
        return self.insert(SubtractOp(wide, self.filled(wide, zero_point, element))).result

    def shifted(self, accumulator: SSAValue, amount: Array | int, axis: int | None) -> SSAValue:
        """`accumulator + amount`, the amount per channel where there is an axis."""
        if isinstance(amount, int):
            if amount == 0:
                return accumulator
            return self.insert(AddOp(accumulator, self.filled(accumulator, amount))).result
        if not amount.any():
            return accumulator
        assert axis is not None
        other = self.channels(accumulator, amount.astype(np.int32), axis)
        return self.insert(AddOp(accumulator, other)).result

    def rescaled(
        self, accumulator: SSAValue, multiplier: Multiplier, zero_point: int, storage: Storage, axis: int | None = None
    ) -> SSAValue:
        """`fxpmath.requantize` by a multiplier that is resolved already."""
        constants = multiplier_arrays(multiplier)
        op = RequantizeOp(
            accumulator,
            self.constant(constants[0]),
            None if len(constants) == 1 else self.constant(constants[1]),
            with_element(accumulator, IntegerType(storage.type.width)),
            behaviour=multiplier.behaviour.value,
            zero_point=zero_point,
            storage_min=storage.minimum,
            storage_max=storage.maximum,
            axis=axis,
        )
        return self.insert(op).result

    def retyped(self, op: Operation, element_type: Attribute, region: Region | None = None) -> SSAValue:
        """The same op on storage integers."""
        made = type(op).create(
            operands=[
                operand if quantized_element(operand) is None else self.stored(operand) for operand in op.operands
            ],
            result_types=[with_element(op.results[0], element_type)],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
            regions=[] if region is None else [region],
        )
        return self.insert(made).results[0]


def multiplier_arrays(multiplier: Multiplier) -> Sequence[Array]:
    """The operands of `fxpmath.requantize`: i32 multipliers and shifts, or float multipliers alone."""
    if multiplier.shift is None:
        return [np.atleast_1d(multiplier.multiplier)]
    return [
        np.atleast_1d(multiplier.multiplier).astype(np.int32),
        np.atleast_1d(multiplier.shift).astype(np.int32),
    ]
