"""Integer ops of the dialects arith and math, on scalars and tensors. A signless integer is held as a signed one.

Source: MLIR's documentation of the dialects arith and math. A shift by the width or more is poison there; here the
result is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IndexType, IntegerType, i1
from xdsl.ir import Operation, SSAValue

from zeropoint.interp.binding import Binary, BindingRule, Kernel, Scope, Unary
from zeropoint.ir.quant.containers import element_or_self
from zeropoint.ir.tensors import Array, element_dtype
from zeropoint.numerics import functions
from zeropoint.numerics.storage import half_range

INDEX = np.dtype(np.int64)


def dtype_of(value: SSAValue) -> np.dtype[Any]:
    """The dtype that holds a value; int64 for an index."""
    element = element_or_self(value.type)
    return INDEX if isinstance(element, IndexType) else element_dtype(element)


def of_arrays(function: Callable[..., Array]) -> BindingRule:
    """The rule for a function of arrays. The result has the dtype of the op's result, and wraps at its width."""

    def rule(op: Operation, scope: Scope) -> Kernel:
        del scope
        dtype, spare = dtype_of(op.results[0]), spare_bits(op.results[0])

        def run(*operands: Array) -> Array:
            return extended(np.asarray(function(*operands)).astype(dtype, copy=False), spare)

        return run

    return rule


def spare_bits(value: SSAValue) -> int:
    """The number of bits of a signed dtype beyond the width of its integers, which are stored sign-extended."""
    element, dtype = element_or_self(value.type), dtype_of(value)
    return 8 * dtype.itemsize - _width(value) if isinstance(element, IntegerType) and dtype.kind == "i" else 0


def extended(array: Array, spare: int) -> Array:
    """Integers without their spare bits, sign-extended."""
    return np.asarray((array << spare) >> spare) if spare else array


def unary(function: Unary) -> BindingRule:
    """The rule for a function of one array."""
    return of_arrays(function)


def binary(function: Binary) -> BindingRule:
    """The rule for a function of two arrays."""
    return of_arrays(function)


def _same(array: Array) -> Array:
    return array


def _width(value: SSAValue) -> int:
    if isinstance(element_or_self(value.type), IndexType):
        return 8 * INDEX.itemsize
    return cast("IntegerType", element_or_self(value.type)).width.data


def _unsigned(array: Array, width: int) -> Array:
    """Signless integers as unsigned ones. Integers below 8 bits are stored sign-extended."""
    return array.view(f"u{array.dtype.itemsize}") & np.asarray((1 << width) - 1, f"u{array.dtype.itemsize}")


def _from_unsigned(op: Operation, scope: Scope) -> Kernel:
    del scope
    width, dtype = _width(op.operands[0]), dtype_of(op.results[0])

    def run(array: Array) -> Array:
        return _unsigned(array, width).astype(dtype)

    return run


def _to_unsigned(op: Operation, scope: Scope) -> Kernel:
    del scope
    width, dtype = _width(op.results[0]), dtype_of(op.results[0])
    high = half_range(width)

    def run(array: Array) -> Array:
        whole = np.trunc(array.astype(np.float64)).astype(np.int64)
        return np.asarray(np.where(whole >= high, whole - 2 * high, whole)).astype(dtype)

    return run


def _of_unsigned(function: Binary) -> BindingRule:
    """The rule for a function of unsigned integers. Its result is signless again."""

    def rule(op: Operation, scope: Scope) -> Kernel:
        del scope
        width, dtype, spare = _width(op.results[0]), dtype_of(op.results[0]), spare_bits(op.results[0])

        def run(lhs: Array, rhs: Array) -> Array:
            return extended(np.asarray(function(_unsigned(lhs, width), _unsigned(rhs, width))).view(dtype), spare)

        return run

    return rule


def _shift(function: Binary) -> BindingRule:
    """The rule for a shift. For amounts of the width or more, which are poison in MLIR, the result is 0."""

    def rule(op: Operation, scope: Scope) -> Kernel:
        del scope
        width, dtype, spare = _width(op.results[0]), dtype_of(op.results[0]), spare_bits(op.results[0])

        def run(x: Array, amount: Array) -> Array:
            fits = (amount >= 0) & (amount < width)
            return extended(np.asarray(np.where(fits, function(x, np.where(fits, amount, 0)), 0)).astype(dtype), spare)

        return run

    return rule


def _shift_unsigned(op: Operation, scope: Scope) -> Kernel:
    width, dtype, spare = _width(op.results[0]), dtype_of(op.results[0]), spare_bits(op.results[0])
    del scope

    def run(x: Array, amount: Array) -> Array:
        fits = (amount >= 0) & (amount < width)
        shifted = _unsigned(x, width) >> np.where(fits, amount, 0).astype(f"u{x.dtype.itemsize}")
        return extended(np.asarray(np.where(fits, shifted, 0)).astype(dtype), spare)

    return run


_INTEGER_PREDICATES: tuple[tuple[Binary, bool], ...] = (
    (np.equal, False),
    (np.not_equal, False),
    (np.less, False),
    (np.less_equal, False),
    (np.greater, False),
    (np.greater_equal, False),
    (np.less, True),
    (np.less_equal, True),
    (np.greater, True),
    (np.greater_equal, True),
)
"""The predicates of `arith.cmpi`, from 0: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge; whether each is unsigned."""


def _on_bits(function: Binary, of_booleans: np.ufunc) -> BindingRule:
    """The rule for a signed function. For i1, whose only bit is the sign (true is -1), the function of booleans."""

    def rule(op: Operation, scope: Scope) -> Kernel:
        chosen = of_booleans if dtype_of(op.results[0]) == np.bool_ else function
        return of_arrays(chosen)(op, scope)

    return rule


def _bit_count(function: Callable[[Array, int], Array]) -> BindingRule:
    def rule(op: Operation, scope: Scope) -> Kernel:
        del scope
        width, dtype = _width(op.results[0]), dtype_of(op.results[0])

        def run(x: Array) -> Array:
            return function(_unsigned(x, width).astype(np.uint64), width).astype(dtype)

        return run

    return rule


def _leading_zeros(x: Array, width: int) -> Array:
    for distance in (1, 2, 4, 8, 16, 32):  # sets all bits below the highest one
        x = x | (x >> np.uint64(distance))
    return width - np.bitwise_count(x)


def _swapped(function: Binary) -> Binary:
    return lambda lhs, rhs: function(rhs, lhs)


def _compare_integers(op: Any, scope: Scope) -> Kernel:
    del scope
    function, unsigned = _INTEGER_PREDICATES[int(op.predicate.value.data)]
    element = element_or_self(op.operands[0].type)
    if not unsigned:
        # The only bit of an i1 is the sign, so true is -1.
        return _swapped(function) if element == i1 else function
    width = _width(op.operands[0])

    def run(lhs: Array, rhs: Array) -> Array:
        return function(_unsigned(lhs, width), _unsigned(rhs, width))

    return run


def _truncate_integer(op: Operation, scope: Scope) -> Kernel:
    del scope
    dtype, spare = dtype_of(op.results[0]), spare_bits(op.results[0])

    def run(x: Array) -> Array:
        return (x & 1).astype(np.bool_) if dtype == np.bool_ else extended(x.astype(dtype), spare)

    return run


INTEGERS: Mapping[str, BindingRule] = {
    "arith.addi": _on_bits(np.add, np.logical_xor),
    "arith.andi": binary(np.bitwise_and),
    "arith.cmpi": _compare_integers,
    "arith.divsi": binary(functions.BINARY["divide"]),
    "arith.divui": _of_unsigned(functions.BINARY["divide"]),
    "arith.extsi": unary(_same),
    "arith.extui": _from_unsigned,
    "arith.fptoui": _to_unsigned,
    "arith.maxsi": _on_bits(np.maximum, np.logical_and),
    "arith.maxui": _of_unsigned(np.maximum),
    "arith.minsi": _on_bits(np.minimum, np.logical_or),
    "arith.minui": _of_unsigned(np.minimum),
    "arith.muli": binary(np.multiply),
    "arith.ori": binary(np.bitwise_or),
    "arith.remsi": binary(functions.BINARY["remainder"]),
    "arith.remui": _of_unsigned(functions.BINARY["remainder"]),
    "arith.shli": _shift(np.left_shift),
    "arith.shrsi": _shift(np.right_shift),
    "arith.shrui": _shift_unsigned,
    "arith.subi": _on_bits(np.subtract, np.logical_xor),
    "arith.trunci": _truncate_integer,
    "arith.uitofp": _from_unsigned,
    "arith.xori": binary(np.bitwise_xor),
    "math.absi": unary(np.abs),
    "math.ctlz": _bit_count(_leading_zeros),
    "math.ctpop": _bit_count(lambda x, width: np.bitwise_count(x)),
}
"""The rules by op name."""
