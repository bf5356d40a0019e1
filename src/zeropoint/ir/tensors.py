"""Conversion between NumPy dtypes and MLIR element types, and between shapes and tensor types.

i1 maps to bool, signless and signed integers to NumPy's signed ones, unsigned to unsigned ones. Integers below 8 bits,
and floats of 4 and 6 bits, are held in 8-bit containers. Complex numbers have parts of f32 or f64. A quantized element
type maps to the dtype of its storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ComplexType, IntegerType, NoneAttr, Signedness, TensorType, f32, f64, i1
from xdsl.ir import Attribute, BlockArgument, OpResult, ParametrizedAttribute, SSAValue

from zeropoint.errors import Error
from zeropoint.ir.floats import FORMATS
from zeropoint.ir.quant import UniformQuantizedType

Array = np.ndarray[Any, np.dtype[Any]]

_FLOATS: dict[type[Attribute], np.dtype[Any]] = {
    float_type: number_format.dtype for float_type, number_format in FORMATS.items() if number_format.dtype is not None
}
_ELEMENTS: dict[np.dtype[Any], Attribute] = {
    **{dtype: cast("type[ParametrizedAttribute]", float_type)() for float_type, dtype in _FLOATS.items()},
    np.dtype(np.complex64): ComplexType(f32),
    np.dtype(np.complex128): ComplexType(f64),
}
_COMPLEX: dict[Attribute, np.dtype[Any]] = {f32: np.dtype(np.complex64), f64: np.dtype(np.complex128)}


class UnheldType(Error, TypeError):
    """A type has no array form: it is not a ranked tensor, or NumPy cannot hold its elements."""


def element_dtype(element_type: Attribute) -> np.dtype[Any]:
    """The NumPy dtype in which values of `element_type` are held.

    Raises UnheldType, a TypeError, for a type that has none.
    """
    if type(element_type) is IntegerType:  # exact types first, because isinstance on an abstract class is slow
        unsigned = element_type.signedness.data is Signedness.UNSIGNED  # pyright: ignore[reportUnknownMemberType] (xDSL leaves it open)
        return _integer_dtype(element_type.bitwidth, unsigned)
    if type(element_type) in _FLOATS:
        return _FLOATS[type(element_type)]
    if isinstance(element_type, UniformQuantizedType):
        return element_type.storage.dtype
    if isinstance(element_type, ComplexType):
        part = cast("ComplexType[Any]", element_type).element_type
        if part in _COMPLEX:
            return _COMPLEX[part]
    raise UnheldType(f"found element type {element_type}, which NumPy cannot hold")


@lru_cache
def _integer_dtype(width: int, unsigned: bool) -> np.dtype[Any]:
    if width == 1:
        return np.dtype(np.bool_)
    return np.dtype(f"{'u' if unsigned else 'i'}{max(8, 1 << (width - 1).bit_length()) // 8}")


@lru_cache
def _integer_element(width: int, unsigned: bool) -> Attribute:
    return IntegerType(width, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS)


def dtype_element(dtype: np.dtype[Any] | type) -> Attribute:
    """The element type of values held in `dtype`; the inverse of `element_dtype` for types that are not quantized.

    Raises UnheldType, a TypeError, for a dtype that has none.
    """
    dtype = np.dtype(dtype)
    if dtype in _ELEMENTS:
        return _ELEMENTS[dtype]
    if dtype.kind == "b":
        return i1
    if dtype.kind in "iu":
        return _integer_element(dtype.itemsize * 8, dtype.kind == "u")
    raise UnheldType(f"found dtype {dtype}, which has no MLIR element type")


def booleans(array: Array) -> Array:
    """Booleans as bytes 0 and 1. Files and memory of other programs may hold any byte; all but 0 are true."""
    return np.asarray(array.view(np.uint8) != 0)


def tensor_of(value: SSAValue | Attribute) -> TensorType[Attribute]:
    """The ranked tensor type of a value.

    Raises UnheldType, a TypeError, if it has none.
    """
    if type(value) is OpResult or type(value) is BlockArgument:  # isinstance on an abstract class is slow
        value = value.type
    if type(value) is TensorType:
        return value
    found = value.type if isinstance(value, SSAValue) else value
    if not isinstance(found, TensorType):
        raise UnheldType(f"found {found}, expected a ranked tensor")
    return cast("TensorType[Attribute]", found)


def shape_of(value: SSAValue | Attribute) -> tuple[int, ...]:
    """The shape of a value of ranked tensor type; DYNAMIC_INDEX for a dynamic dimension."""
    return tensor_of(value).get_shape()


def element_of(value: SSAValue | Attribute) -> Attribute:
    """The element type of a value of ranked tensor type."""
    return tensor_of(value).element_type


def has_floats(value: SSAValue | Attribute) -> bool:
    """Whether the elements of a value of ranked tensor type are floats."""
    return type(element_of(value)) in FORMATS  # isinstance on the 18 abstract classes of `AnyFloat` is slow


def real_element(element_type: Attribute) -> Attribute:
    """The element type of a complex type; a real type itself."""
    return (
        cast("ComplexType[Any]", element_type).element_type if isinstance(element_type, ComplexType) else element_type
    )


def with_element(value: SSAValue | Attribute, element_type: Attribute) -> TensorType[Attribute]:
    """The same shape with another element type."""
    shape = tensor_of(value).shape
    # The integers of an op have the same few types. A quantized type with a scale for each channel takes long to hash.
    return _of_integers(shape, element_type) if type(element_type) is IntegerType else _tensor(shape, element_type)


def _tensor(shape: Attribute, element_type: Attribute) -> TensorType[Attribute]:
    # By the attribute of the shape: one number for each dimension need not be made again.
    return TensorType.new((shape, element_type, NoneAttr()))


_of_integers = lru_cache(maxsize=4096)(_tensor)


def with_shape(value: SSAValue | Attribute, shape: Sequence[int]) -> TensorType[Attribute]:
    """The same element type with another shape."""
    return TensorType(element_of(value), shape)
