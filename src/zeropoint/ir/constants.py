"""Constants in a program: reads the array of a constant, builds a constant op from an array."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, LocationAttr, f64
from xdsl.ir import Attribute, OpResult, SSAValue

from zeropoint.ir.annotations import REST
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConstantOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.ir.weights import ElementsAttr, Weights


def is_constant(value: SSAValue) -> bool:
    """Whether the value is the result of a `stablehlo.constant`."""
    return isinstance(value, OpResult) and isinstance(value.op, ConstantOp)


def elements(op: ConstantOp, weights: Weights) -> Array:
    """The array of a constant, read-only, in the dtype of its result type.

    As upstream, the IR holds the storage of a quantized type in signless integers: `u8` elements appear as `i8` of the
    same bits.
    """
    return reinterpreted(weights.array(op.value), element_of(op.output))


def reinterpreted(integers: Array, element: Attribute) -> Array:
    """Signless integers as elements of another type of the same width: the same bits."""
    array = integers.view(element_dtype(element))
    if array.dtype.kind != "u" or not isinstance(element, UniformQuantizedType):
        return array
    width = element.storage.type.width
    # An unsigned integer below a byte has zeros in the bits of its container where the signless one has its sign.
    return array if width == 8 * array.dtype.itemsize else array & np.array((1 << width) - 1, array.dtype)


def constant_array(value: SSAValue, weights: Weights) -> Array | None:
    """The array behind a constant, read-only, or None if the value is not a constant."""
    if isinstance(value, OpResult) and isinstance(value.op, ConstantOp):
        return elements(value.op, weights)
    return None


def exact_array(value: SSAValue, weights: Weights) -> Array | None:
    """The array behind a constant, or None, with what its floats left out of the integers of a file (`REST`)."""
    array = constant_array(value, weights)
    rest = value.op.attributes.get(REST) if isinstance(value, OpResult) else None
    if array is None or not isinstance(rest, DenseArrayBase):
        return array
    exact = array + np.asarray(rest.get_values(), np.float64).reshape(array.shape)
    return exact if np.array_equal(exact.astype(array.dtype), array) else array  # else the constant was changed


WIDE = 1 << 22
"""f32 numbers of smaller integers, times a scale, are near enough that rounding finds the integers again."""


def is_wide(stored: Array) -> bool:
    """Whether f32 may lose storage integers of a bias."""
    return stored.dtype.itemsize > 2 and bool((np.abs(stored.astype(np.int64)) >= WIDE).any())


def with_rest(op: ConstantOp, exact: Array, weights: Weights) -> ConstantOp:
    """The constant, with what its floats leave out of exact numbers."""
    rest = exact - elements(op, weights)
    if rest.any():
        op.attributes[REST] = DenseArrayBase.from_list(f64, rest.reshape(-1).tolist())
    return op


def constant_reader(value: SSAValue, weights: Weights) -> Callable[[], Array] | None:
    """A function that reads the array behind a constant, without the program; None if the value is not a constant."""
    if not isinstance(value, OpResult) or not isinstance(op := value.op, ConstantOp):
        return None
    return partial(_read, weights.only(op.value), op.value, element_of(op.output))


def _read(weights: Weights, attribute: ElementsAttr, element: Attribute) -> Array:
    return reinterpreted(weights.array(attribute), element)


def broadcast_array(
    value: SSAValue, weights: Weights, given: Mapping[SSAValue, SSAValue] | None = None
) -> Array | None:
    """The array behind a constant or a broadcast of one, read-only, in the shape of the value; None for other values.

    `given` has the values that stand for a region's arguments.
    """
    value = value if given is None else given.get(value, value)
    if isinstance(value, OpResult) and isinstance(op := value.op, BroadcastInDimOp):
        inner = broadcast_array(op.operand, weights, given)
        return None if inner is None else np.broadcast_to(op.aligned(inner), shape_of(value))
    return constant_array(value, weights)


def splat_value(value: SSAValue, weights: Weights) -> float | None:
    """The number that every element of a constant, or of a broadcast constant, has; None if they differ."""
    while isinstance(value, OpResult) and isinstance(value.op, BroadcastInDimOp):
        value = value.op.operand
    array = constant_array(value, weights)
    if array is None or array.size == 0:
        return None
    first = array.reshape(-1)[0]
    return float(first) if array.size == 1 or bool((array == first).all()) else None


def constant_op(
    array: Array,
    weights: Weights,
    *,
    quantized: UniformQuantizedType | None = None,
    element_type: Attribute | None = None,
    location: LocationAttr | None = None,
    again: Callable[[], Array] | None = None,
) -> ConstantOp:
    """A `stablehlo.constant` of `array`. If `quantized` is given, the array holds its storage integers.

    `again` computes the array from one that takes less memory (`Weights.add`).
    """
    if quantized is not None:
        element_type = IntegerType(quantized.storage.type.width)
    value = weights.attribute(np.asarray(array), element_type, again)
    kind = value.get_type()
    result = kind if quantized is None else with_element(kind, quantized)
    # There are many constants. Other ways to make an op look for the places of its operands and results first.
    return ConstantOp.create(result_types=[result], properties={"value": value}, location=location)
