"""The context for lowering one op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import Storage, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConcatenateOp,
    ConvertOp,
    ConvolutionOp,
    DotGeneralOp,
    DynamicBroadcastInDimOp,
    GetDimensionSizeOp,
    MultiplyOp,
    ReshapeOp,
    SubtractOp,
    UniformQuantizeOp,
    XorOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.numerics.profile import Profile
from zeropoint.numerics.requantize import Multiplier
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN
from zeropoint.numerics.storage import half_range, signed_range
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.ranges import EXACT, Interval, Ranges

OperationT = TypeVar("OperationT", bound=Operation)
Combination = AddOp | SubtractOp | MultiplyOp


class Correction(StrEnum):
    """The places where a contraction corrects zero points (`lower/zero_points.py`)."""

    INSIDE = "inside"
    AFTER = "after"


def correction_named(name: str) -> Correction:
    """The form of that name. Raises ValueError, listing the names, if there is none."""
    if name not in list(Correction):
        raise ValueError(f"found zero_points = {name}, expected one of: {', '.join(Correction)}")
    return Correction(name)


def storage_element(quantized: UniformQuantizedType) -> IntegerType:
    """The signless integer type in which a quantized value is stored."""
    return _signless(quantized.storage.type.width)


@lru_cache
def _signless(width: int) -> IntegerType:
    return IntegerType(width)


def stored_element(value: SSAValue) -> UniformQuantizedType | None:
    """The quantized element type of a value as the program has it, or None."""
    if not isinstance(value.type, TensorType):
        return None
    element = element_of(value)
    return element if isinstance(element, UniformQuantizedType) else None


def quantized_element(value: SSAValue) -> UniformQuantizedType | None:
    """The quantized element type of a value in the integer program, where all storage is signed; or None.

    An unsigned type becomes signed by subtracting half the range from its integers and zero points.
    """
    kind = stored_element(value)
    return kind if kind is None or kind.storage.type.signed else kind.signed


def signed_integers(array: Array) -> Array:
    """Unsigned storage integers minus half the range, as signed integers. Signed arrays are returned unchanged."""
    if array.dtype.kind != "u":
        return array
    # Flipping the highest bit subtracts half the range, without overflow.
    half = array.dtype.type(half_range(8 * array.dtype.itemsize))
    return (array ^ half).view(f"i{array.dtype.itemsize}")


def check_storage(op: Operation) -> None:
    """Raise LoweringError for storage that the integer program does not support."""
    for value in (*op.operands, *op.results):
        element = stored_element(value)
        if element is None:
            continue
        check_width(op, element, value.type)
        sums = isinstance(op, ConvolutionOp | DotGeneralOp)
        if sums and element.storage.type.width == 32 and element.zero_points.any():
            raise LoweringError(f"{describe(op)}: found a zero point in {value.type}, expected 0 for 32-bit storage")


def check_width(op: Operation, element: UniformQuantizedType, where: Attribute) -> None:
    """Raise LoweringError for a storage width or signedness that the integer program does not support."""
    storage = element.storage.type
    plain = storage.signed or (element.storage.spelling is None and storage.width < 32)
    if not plain or storage.width not in (8, 16, 32):
        written = storage if element.storage.spelling is None else element.storage.spelling
        raise LoweringError(f"{describe(op)}: found storage {written} in {where}, expected i8, u8, i16, u16 or i32")


def is_widening(before: UniformQuantizedType, after: UniformQuantizedType) -> bool:
    """Whether a requantization only subtracts the zero point, and its result always fits the other type."""
    # Scales are compared exactly, because any difference involves rounding.
    if before.is_per_channel or after.is_per_channel or before.scale != after.scale or after.zero_point != 0:
        return False
    low, high = before.affine.centred_range
    return after.storage.minimum <= low and high <= after.storage.maximum


def widened_from(value: SSAValue) -> SSAValue:
    """The operand of a `uniform_quantize` that only subtracts the zero point; otherwise the value itself."""
    made = value.owner
    if not isinstance(made, UniformQuantizeOp):
        return value
    before, after = quantized_element(made.operand), quantized_element(value)
    return made.operand if before is not None and after is not None and is_widening(before, after) else value


def refusal(op: Operation, what: str, found: Interval, bits: int, remedy: str, *, unsigned: bool = False) -> str:
    """The message for numbers too large for their type: it names the op, the channel, the bound, and the remedy."""
    bound = int(found.magnitude.max(initial=0))
    number = f"up to {bound}" if bound <= EXACT else "beyond 2^63"
    channel = f"channel {', '.join(map(str, found.worst))}: " if found.worst else ""
    most = f"at most {signed_range(bits)[1]} (i{bits})"
    if unsigned:
        number = f"{found.least}..{found.greatest}" if bound <= EXACT else number
        most = f"0..{(1 << bits) - 1} (ui{bits})"
    return f"{describe(op)}: {channel}found {what} {number}, expected {most}; {remedy}"


@dataclass
class Lowering:
    """The state of one lowering.

    `values` maps quantized values to tensors of their storage integers, `ranges` has their bounds, `made` lists the ops
    emitted so far. `lower_ops` lowers the ops of a block in place, and returns the values that became integers.
    """

    profile: Profile
    """The profile of the op that is being lowered."""
    default: Profile
    """The profile of ops that carry none."""
    weights: Weights
    builder: Builder
    ranges: Ranges
    lower_ops: Callable[[Lowering, Block], None]
    made: list[Operation] = field(default_factory=list[Operation])
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    rounded_rows: dict[tuple[object, ...], tuple[SSAValue, ...]] = field(
        default_factory=dict[tuple[object, ...], tuple[SSAValue, ...]]
    )
    """Activations that were rounded to 8 bits by rows, and the numbers of each row (`row_scales.py`)."""
    location: LocationAttr | None = None
    zero_points: Correction | None = None
    """The forced form of corrections, if any."""

    def stored(self, value: SSAValue) -> SSAValue:
        """The storage integers of a quantized value. A value that was not lowered is cast, once."""
        if value not in self.values:
            self.values[value] = self.cast(value)
        return self.values[value]

    def cast(self, value: SSAValue) -> SSAValue:
        """Emit a cast from a quantized value to its signed storage integers."""
        element = stored_element(value)
        assert element is not None
        cast = self.insert(StorageCastOp(value, with_element(value, storage_element(element))))
        return cast.result if element.storage.type.signed else self.flipped(cast.result)

    def quantized_again(self, integers: SSAValue, kind: UniformQuantizedType) -> SSAValue:
        """Emit a cast from signed storage integers to a quantized value of type `kind`."""
        stored = integers if kind.storage.type.signed else self.flipped(integers)
        return self.insert(StorageCastOp(stored, with_element(stored, kind))).result

    def flipped(self, integers: SSAValue) -> SSAValue:
        """Convert stored integers between signed and unsigned by flipping the highest bit."""
        width = 8 * element_dtype(element_of(integers)).itemsize
        half = self.filled(integers, -half_range(width), IntegerType(width))
        return self.insert(XorOp(integers, half)).result

    def integers(self, value: SSAValue) -> Array | None:
        """The signed storage integers of a constant; None for other values."""
        array = constant_array(value, self.weights)
        return None if array is None else signed_integers(array)

    def insert(self, op: OperationT) -> OperationT:
        """Insert an op at the op that is being lowered, with its location.

        Raises ValueError for a broadcast to a dynamic shape, which needs sizes from run time (`spread`).
        """
        if isinstance(op, BroadcastInDimOp) and DYNAMIC_INDEX in (shape := shape_of(op.result)):
            raise ValueError(
                f"found the dynamic dimension {shape.index(DYNAMIC_INDEX)} in {op.result.type}, expected a static one, "
                f"because integers such as zero points are broadcast to it; fix the shapes of the inputs"
            )
        if self.location is not None:
            op.location = self.location
        # `prove` checks all of these at the end (`proof.py`).
        self.made.append(op)
        return self.builder.insert(op)

    def constant(
        self, array: Array, location: LocationAttr | None = None, element: IntegerType | None = None
    ) -> SSAValue:
        """A constant tensor of integers, with the location of the op that is being lowered if none is given.

        `element` is the element type if it is narrower than the array's.
        """
        made = self.insert(constant_op(array, self.weights, element_type=element))
        # A weight keeps the name of its tensor in the model, which files and reports use.
        made.location = made.location if location is None else location
        return made.output

    def filled(self, like: SSAValue, number: int, element_type: IntegerType = i32) -> SSAValue:
        """A number broadcast to the shape of `like`."""
        dtype = np.dtype(f"i{element_type.width.data // 8}")
        scalar = self.constant(np.array(number, dtype))
        if not shape_of(like):
            return scalar
        return self.spread(scalar, like, [])

    def channels(self, like: SSAValue, array: Array, axis: int) -> SSAValue:
        """`array`, of one number per index of `axis`, broadcast to the shape of `like`."""
        return self.spread(self.constant(array), like, [axis])

    def spread(self, value: SSAValue, like: SSAValue, dims: Sequence[int]) -> SSAValue:
        """Integers broadcast along `dims` to the shape of `like`, whose dynamic sizes are read at run time."""
        result = with_element(like, element_of(value))
        # `broadcast_in_dim` needs a static result. Only dynamic shapes pay for reading their sizes.
        if DYNAMIC_INDEX not in shape_of(like):
            return self.insert(BroadcastInDimOp(value, result, dims)).result
        sizes = [self._size(like, number) for number in range(len(shape_of(like)))]
        shape = self.insert(ConcatenateOp(sizes, 0)).result
        made = DynamicBroadcastInDimOp.create(
            operands=[value, shape],
            result_types=[result],
            properties={"broadcast_dimensions": DenseArrayBase.from_list(i64, list(dims))},
        )
        return self.insert(made).results[0]

    def _size(self, value: SSAValue, dimension: int) -> SSAValue:
        """The size of a dimension, as a tensor of one element."""
        size = shape_of(value)[dimension]
        if size != DYNAMIC_INDEX:
            return self.constant(np.array([size], np.int32))
        read = GetDimensionSizeOp.create(
            operands=[value],
            result_types=[TensorType(i32, [])],
            properties={"dimension": IntegerAttr(dimension, i64)},
        )
        return self.insert(ReshapeOp(self.insert(read).results[0], TensorType(i32, [1]))).result

    def converted(self, value: SSAValue, element: IntegerType) -> SSAValue:
        """Convert integers to a type that can represent them."""
        if element_of(value) == element:
            return value
        return self.insert(ConvertOp(value, with_element(value, element))).result

    def widened(self, value: SSAValue, zero_point: int, element: IntegerType = i32) -> SSAValue:
        """`value - zero_point` in i32, or in `element` if that is given. In i64 if 32 bits may overflow."""
        if zero_point == 0:
            return self.converted(value, element)
        # Decide by the proved range, not by the type: an i32 accumulator usually uses much less than 32 bits.
        if not (self.ranges.of(value) - Interval.of(zero_point, zero_point)).fits(element.width.data):
            # q - z of 32-bit numbers may need 33 bits.
            element = i64
        width = max(element.width.data, 8 * element_dtype(element_of(value)).itemsize)
        wide = self.converted(value, IntegerType(width))
        # Subtract in the wider of both types, then narrow: the difference fits `element`, but the operand may not.
        less = self.insert(SubtractOp(wide, self.filled(wide, zero_point, IntegerType(width)))).result
        return self.converted(less, element)

    def combined(self, kind: type[Combination], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """lhs + rhs, lhs - rhs or lhs * rhs, in i32 if every possible result fits, otherwise in i64."""
        a, b = self.ranges.of(lhs), self.ranges.of(rhs)
        # Bounds beyond `EXACT` become `UNBOUNDED` and never wrap around, so `prove` refuses them.
        exact = {AddOp: a + b, SubtractOp: a - b, MultiplyOp: a * b}[kind]
        narrow = element_of(lhs) == element_of(rhs) == i32 and exact.fits(32)
        element = i32 if narrow else i64
        return self.insert(kind(self.converted(lhs, element), self.converted(rhs, element))).result

    def saturated(self, value: SSAValue, low: int, high: int, element: IntegerType) -> SSAValue:
        """Convert integers to a type that covers low..high, with a clamp if they may be outside."""
        # A clamp without effect would keep native code from fusing the conversion.
        if self.ranges.of(value).within(low, high):
            return self.converted(value, element)
        return self.clamped(value, low, high, element)

    def clamped(self, value: SSAValue, low: int, high: int, element: IntegerType) -> SSAValue:
        """Clamp integers to low..high and convert them to a type that covers these."""
        dtype = element_dtype(element_of(value))
        least, greatest = (self.constant(np.array(bound, dtype)) for bound in (low, high))
        return self.converted(self.insert(ClampOp(least, value, greatest)).result, element)

    def saturated_result(self, value: SSAValue, op: Operation) -> SSAValue:
        """Convert integers to the storage of the op's quantized result, with a clamp if they may be outside."""
        result = quantized_element(op.results[0])
        assert result is not None
        return self.saturated(value, result.storage.minimum, result.storage.maximum, storage_element(result))

    def check_fits(self, op: Operation, value: SSAValue, bits: int, what: str, remedy: str) -> None:
        """Raise LoweringError, with the channel and the bound, if some integers need more than `bits` bits."""
        found = self.ranges.of(value)
        if not found.fits(bits):
            raise LoweringError(refusal(op, what, found, bits, remedy), op)

    def shifted(self, accumulator: SSAValue, amount: Array | int, axis: int | None) -> SSAValue:
        """`accumulator + amount`, per channel along `axis` if the amount is an array; in i64 if i32 may overflow."""
        amounts = np.asarray(amount, np.int64)
        if not amounts.any():
            return accumulator
        # A constant of i64 would make the whole addition i64, so it is i32 if each amount fits. `combined` checks the
        # sums.
        narrow = element_of(accumulator) == i32 and amounts.min() >= INT32_MIN and amounts.max() <= INT32_MAX
        element = i32 if narrow else i64
        if amounts.ndim == 0:
            other = self.filled(accumulator, int(amounts), element)
        else:
            assert axis is not None
            other = self.channels(accumulator, amounts.astype(element_dtype(element)), axis)
        return self.combined(AddOp, accumulator, other)

    def rescaled(
        self, accumulator: SSAValue, multiplier: Multiplier, zero_point: int, storage: Storage, axis: int | None = None
    ) -> SSAValue:
        """Emit `fxpmath.requantize` with a resolved multiplier."""
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
        """Emit the same op on storage integers."""
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
    """The constant operands of `fxpmath.requantize`: i32 multipliers and shifts, or only float multipliers."""
    if multiplier.shift is None:
        return [np.atleast_1d(multiplier.multiplier)]
    return [
        np.atleast_1d(multiplier.multiplier).astype(np.int32),
        np.atleast_1d(multiplier.shift).astype(np.int32),
    ]
