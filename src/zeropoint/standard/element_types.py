"""The element types of standard MLIR. In arith and linalg, integers are signless; the op interprets their sign.

| StableHLO | standard | ops |
|---|---|---|
| i8, si8, !quant.uniform<i8:...> | i8 | signed: maxsi, divsi, extsi, cmpi slt |
| ui8, !quant.uniform<u8:...> | i8 | unsigned: maxui, divui, extui, cmpi ult |
| i1 | i1 | unsigned; a sum is "or" |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, Signedness, TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.ir.locations import describe
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.storage import signedness_of
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.storage import as_signed
from zeropoint.quant_passes.errors import LoweringError

if TYPE_CHECKING:
    from zeropoint.standard.arithmetic import Element


def signless(found: Attribute) -> Attribute:
    """The standard type of an element: for quantized types, of its storage."""
    if isinstance(found, UniformQuantizedType):
        found = found.storage.mlir_type
    return IntegerType(found.bitwidth) if isinstance(found, IntegerType) else found


def scalar_type(op: Operation, value: SSAValue) -> Element:
    """The standard type of an element of a value. Raises LoweringError if there is none: tuples, complex numbers."""
    given: Attribute = value.type
    found = signless(element_of(value)) if isinstance(given, TensorType) else given
    if not isinstance(given, TensorType) or not isinstance(found, IntegerType | AnyFloat):
        raise LoweringError(f"{describe(op)}: found {value.type}, expected a tensor of integers or floats", op)
    return cast("Element", found)


def signless_tensor(value: SSAValue) -> TensorType[Attribute]:
    """The standard type of a tensor."""
    return TensorType(signless(element_of(value)), shape_of(value))


def is_unsigned(value: SSAValue) -> bool:
    """Whether ops on a tensor have to be unsigned: its elements are unsigned integers or booleans."""
    found = element_of(value)
    return found == i1 or signedness_of(found) is Signedness.UNSIGNED


def signless_array(values: AnyArray, element: Attribute) -> AnyArray:
    """A constant's elements with the same bits, in the dtype that holds signless elements."""
    dtype = element_dtype(element)
    found = np.asarray(values, order="C").astype(dtype, copy=False)
    if dtype.kind != "i" or not isinstance(element, IntegerType):
        return found
    # Signless integers below 8 bits are sign-extended in their containers.
    spare = 8 * dtype.itemsize - element.bitwidth
    return (found << spare) >> spare if spare else found


def number_attribute(value: float, element: Element | IndexType) -> IntegerAttr[IntegerType | IndexType] | FloatAttr:
    """The attribute of a constant; an unsigned number becomes the signed one with the same bits."""
    if isinstance(element, IndexType):
        return IntegerAttr(int(value), element)
    if not isinstance(element, IntegerType):
        return FloatAttr(float(value), element)
    whole, width = int(value), element.bitwidth
    return IntegerAttr(as_signed(whole, width) if width > 1 else whole, element)
