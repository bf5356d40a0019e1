"""Integer ops of arith and math, on scalars and tensors. A signless integer is held as a signed one.

Source: MLIR's pages of the dialects arith and math. A shift by the width or more is poison there, and 0 here.
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
    """The dtype that holds a value; of an index, int64."""
    element = element_or_self(value.type)
    return INDEX if isinstance(element, IndexType) else element_dtype(element)


def of_arrays(function: Callable[..., Array]) -> BindingRule:
    """The rule for a function of arrays; the result has the op's result dtype, and wraps around at its width."""

    def rule(op: Operation, scope: Scope) -> Kernel:
        del scope
        dtype, spare = dtype_of(op.results[0]), spare_bits(op.results[0])

        def run(*operands: Array) -> Array:
            return extended(np.asarray(function(*operands)).astype(dtype, copy=False), spare)

        return run

    return rule


def spare_bits(value: SSAValue) -> int:
    """The bits of a signed container beyond those of its integers, which are sign-extended in it."""
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
    """Signless integers as unsigned ones. Integers below 8 bits are sign-extended in their containers."""
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
    """A function of unsigned integers, whose result is signless again."""

    def rule(op: Operation, scope: Scope) -> Kernel:
        del scope
        width, dtype, spare = _width(op.results[0]), dtype_of(op.results[0]), spare_bits(op.results[0])

        def run(lhs: Array, rhs: Array) -> Array:
            return extended(np.asarray(function(_unsigned(lhs, width), _unsigned(rhs, width))).view(dtype), spare)

        return run

    return rule


def _shift(function: Binary) -> BindingRule:
    """A shift; amounts of the width or more are poison in MLIR, and 0 here."""

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
"""The predicates of `arith.cmpi` from 0 on: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge; whether unsigned."""


def _on_bits(function: Binary, of_booleans: np.ufunc) -> BindingRule:
    """A signed function of integers; for i1, whose bit is a sign (true is -1), the one of booleans."""

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
        # The bit of an i1 is a sign: true is -1.
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
"""The rules, by op name."""
