"""Powers of integers as products, by repeated squaring: the exponent's bits select which squares are multiplied."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from zeropoint.ir.tensors import Array
from zeropoint.standard.scalars import ScalarArithmetic


def integer_power(ops: ScalarArithmetic, x: SSAValue, y: SSAValue, exponents: Array | None) -> SSAValue:
    """Emit x^y modulo 2^width, where `exponents` are the elements of y if they are constant.

    A negative exponent gives 1 / x^|y| truncated to an integer: 1 or -1 for a base of 1 or -1, otherwise 0.
    """
    known = exponents is not None and exponents.size > 0 and bool((exponents >= 0).all())
    if known and exponents is not None:
        found = _product(ops, x, y, [int(found) for found in set(exponents.reshape(-1).tolist())])
        return ops.of(1, x) if found is None else found
    width = cast("IntegerType", x.type).bitwidth
    bits = width if ops.unsigned else width - 1
    # 0 and the greatest exponent stand for all: no bit is shared, and every bit is used.
    power = cast("SSAValue", _product(ops, x, y, [0, (1 << bits) - 1]))
    if ops.unsigned:
        return power
    odd = ops.compare("ne", ops.bit_and(y, 1), 0)
    one = ops.of(1, x)
    of_minus_one = ops.select(ops.compare("eq", x, -1), ops.select(odd, x, one), ops.of(0, x))
    inverse = ops.select(ops.compare("eq", x, 1), one, of_minus_one)
    return ops.select(ops.compare("lt", y, 0), inverse, power)


def _product(ops: ScalarArithmetic, x: SSAValue, y: SSAValue, exponents: list[int]) -> SSAValue | None:
    """x^y for a y among `exponents`; None if these are all 0. A bit that all of them share needs no select."""
    shared, some = exponents[0], 0
    for exponent in exponents:
        shared, some = shared & exponent, some | exponent
    found: SSAValue | None = None
    square = x
    for bit in range(some.bit_length()):
        if bit:
            square = ops.multiply(square, square)
        if not some >> bit & 1:
            continue
        multiplied = square if found is None else ops.multiply(found, square)
        if shared >> bit & 1:
            found = multiplied
            continue
        chosen = ops.compare("ne", ops.bit_and(y, 1 << bit), 0)
        found = ops.select(chosen, multiplied, ops.of(1, x) if found is None else found)
    return found
