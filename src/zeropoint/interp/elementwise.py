"""Elementwise ops on floats, integers and booleans, by the functions of `zeropoint.numerics.functions`.

Source: the StableHLO specification. (C1) and so on are the constraints of an op. Integer results wrap modulo 2^width.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import ComplexType, IntegerType, Signedness
from xdsl.ir import Attribute

from zeropoint.interp.binding import ArrayFunction, Binary, Scope, Ternary, Unary
from zeropoint.interp.errors import UnsupportedError
from zeropoint.interp.exactness import DType
from zeropoint.ir.chlo import MulhiOp
from zeropoint.ir.functions import function_name
from zeropoint.ir.stablehlo import (
    BinaryOp,
    ClampOp,
    CompareOp,
    ComparisonType,
    ConvertOp,
    IsFiniteOp,
    SelectOp,
    UnaryOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.numerics import functions
from zeropoint.numerics.storage import integer_range

PREFIX = "stablehlo."


def unary(op: UnaryOp, scope: Scope) -> ArrayFunction:
    """result = f(operand), elementwise: `abs` to `tanh`, of one shape and element type (C1); `abs` is real (C2)."""
    return wrapped(functions.UNARY[function_name(op)], element_of(op.result))


def binary(op: BinaryOp, scope: Scope) -> ArrayFunction:
    """result = f(lhs, rhs), elementwise: `add` to `xor`, of one shape and element type (C1)."""
    name, element = function_name(op), element_of(op.result)
    if name in functions.REAL_ONLY and isinstance(element, ComplexType):
        raise UnsupportedError(f"found {element}; expected real numbers")
    return wrapped(functions.BINARY[name], element)


def upper_product(op: MulhiOp, scope: Scope) -> ArrayFunction:
    """result = (lhs * rhs) >> width, computed with Python integers, because NumPy has no 128-bit integers for i64."""
    integer = cast("IntegerType", element_of(op.result))
    width, dtype = integer.width.data, element_dtype(integer)

    def run(lhs: Array, rhs: Array) -> Array:
        # Python integers, because the product of two 64-bit integers has 128 bits.
        return np.asarray((lhs.astype(object) * rhs.astype(object)) >> width).astype(dtype)

    return run


def clamp(op: ClampOp, scope: Scope) -> Ternary:
    """result = minimum(maximum(operand, min), max); the bounds are scalars or have the operand's shape (C1, C2)."""
    return functions.clamp


def select(op: SelectOp, scope: Scope) -> Ternary:
    """result = pred ? on_true : on_false; pred is a scalar or has their shape (C1)."""
    return functions.select


def compare(op: CompareOp, scope: Scope) -> Binary:
    """result = lhs comparison_direction rhs, by compare_type (C3).

    Integers are compared signed or unsigned; floats as in IEEE 754 or, with TOTALORDER, in its total order; complex
    numbers by their real and then their imaginary parts.
    """
    relation = functions.COMPARISONS[op.comparison_direction.data.value]
    if op.compare_type is not None and op.compare_type.data is ComparisonType.TOTALORDER:
        return lambda lhs, rhs: relation(total_order(lhs), total_order(rhs))
    return relation


def is_finite(op: IsFiniteOp, scope: Scope) -> Unary:
    """y = whether x is neither infinite nor NaN (C1)."""
    return np.isfinite


def convert(op: ConvertOp, scope: Scope) -> Unary:
    """result = the operand's values in the element type of the result (C1); see `conversion`."""
    return conversion(element_of(op.result))


def conversion(target: Attribute) -> Unary:
    """The conversion to `target`, which is not quantized.

    Complex to real takes the real part. To i1 gives whether the value is not zero. Integer to integer is modulo
    2^width. To a float rounds to nearest, ties to even. Float to integer rounds towards zero and clamps to the range,
    and NaN becomes 0. The specification leaves values outside of the range open; its reference implementation clamps
    them.
    """
    dtype = element_dtype(target)
    integer = _integer_type(target)
    if dtype.kind == "c":
        return lambda operand: operand.astype(dtype, copy=False)
    if integer is None:
        return lambda operand: _real(operand).astype(dtype, copy=False)
    if dtype == np.bool_:
        return lambda operand: _real(operand) != 0

    def to_integers(operand: Array) -> Array:
        return _integers(_real(operand), dtype, integer)

    return wrapped(to_integers, integer)


def _real(operand: Array) -> Array:
    return np.real(operand) if operand.dtype.kind == "c" else operand


def _integer_type(element_type: Attribute) -> IntegerType | None:
    return cast("IntegerType", element_type) if isinstance(element_type, IntegerType) else None


def wrapped(function: ArrayFunction, element_type: Attribute) -> ArrayFunction:
    """`function` with results modulo 2^width, if the element type is narrower than its dtype (i4 in int8)."""
    integer = _integer_type(element_type)
    if integer is None:
        return function
    width, dtype = integer.width.data, element_dtype(integer)
    spare = dtype.itemsize * 8 - width
    if width == 1 or spare == 0:
        return function
    # A shift left and back right keeps the low bits, and sign-extends them (zero-extends them for an unsigned type).
    bits = np.asarray(spare, dtype)

    def run(*operands: Array) -> Array:
        return (function(*operands) << bits) >> bits

    return run


def _integers(operand: Array, dtype: DType, target: IntegerType) -> Array:
    if operand.dtype.kind in "iub":
        return operand.astype(dtype, copy=False)
    # Signless types are signed.
    low, high = integer_range(target.width.data, signed=target.signedness.data is not Signedness.UNSIGNED)
    truncated = np.nan_to_num(np.trunc(operand.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
    # f64 cannot represent 2^63 - 1, so values of 2^63 and above are clamped separately.
    inside = np.clip(truncated, float(low), float(high))
    above = inside >= float(1 << 63)
    integers = np.where(above, 0.0, inside).astype(np.uint64 if low == 0 and high >= 1 << 63 else np.int64)
    if above.any():
        integers = _past_int64(inside, above, integers, high)
    return integers.astype(dtype)


def _past_int64(values: Array, above: Array, integers: Array, high: int) -> Array:
    if high < 1 << 63:
        return np.where(above, np.int64(high), integers)
    below_end = above & (values < float(1 << 64))
    upper = (np.where(below_end, values - float(1 << 63), 0.0)).astype(np.uint64) + np.uint64(1 << 63)
    return np.where(below_end, upper, np.where(above, np.uint64(high), integers))


def total_order(floats: Array) -> Array:
    """Integers that order floats as -NaN, -inf, ..., -0, +0, ..., +inf, +NaN (totalOrder of IEEE 754)."""
    bits = floats.view(np.dtype(f"i{floats.dtype.itemsize}"))
    # Negative floats decrease as their bits increase, so all bits but the sign are flipped.
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
