"""Bits of integers: BITWISE_XOR and RIGHT_SHIFT, and what LiteRT does not have as sums, products and shifts of i32.

All forms are exact. With h(x) = x >> 1, two integers have the common bits

    a & b = 2 * ((h(a) + h(b) - (h(a) ^ h(b))) >> 1) + (a - 2 * h(a)) * (b - 2 * h(b))

where no sum overflows, and a | b = (a ^ b) + (a & b). Integers of 8 and 16 bits are cast to i32 and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation

from zeropoint.export.errors import ExportError
from zeropoint.export.litert.composition import Composition
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import element_dtype, element_of


def _half(run: Composition, value: int) -> int:
    return run.apply("RIGHT_SHIFT", value, run.constant(1, whole=True))


def _and(run: Composition, first: int, second: int) -> int:
    left, right = _half(run, first), _half(run, second)
    common = _half(run, run.minus(run.plus(left, right), run.apply("BITWISE_XOR", left, right)))
    two = run.constant(2)
    last = run.times(*(run.minus(a, run.times(h, two)) for a, h in ((first, left), (second, right))))
    return run.plus(run.times(common, two), last)


def _or(run: Composition, first: int, second: int) -> int:
    return run.plus(run.apply("BITWISE_XOR", first, second), _and(run, first, second))


def _xor(run: Composition, first: int, second: int) -> int:
    return run.apply("BITWISE_XOR", first, second)


def _not(run: Composition, value: int) -> int:
    return run.minus(run.constant(-1), value)


WORD = 32
"""The width in bits of the integers that are computed."""
WORDS: Mapping[type[Operation], Callable[..., int]] = {
    hlo.AndOp: _and,
    hlo.NotOp: _not,
    hlo.OrOp: _or,
    hlo.XorOp: _xor,
}


def bits(op: Operation, emit: LitertEmission) -> None:
    """An op on the bits of integers of up to 32 bits."""
    run = _words(op, emit)
    operands = [run.cast(emit.operand(value, element_of(value)), element_of(value), i32) for value in op.operands]
    run.finish(run.cast(WORDS[type(op)](run, *operands), i32, element_of(op.results[0])))


def shift(op: hlo.ShiftLeftOp | hlo.ShiftRightArithmeticOp | hlo.ShiftRightLogicalOp, emit: LitertEmission) -> None:
    """A shift by constants. To the left, it is a product with a power of two; LiteRT's integers wrap around."""
    run, kind, counts = _words(op, emit), element_of(op.result), emit.array(op.rhs)
    if counts is None:
        raise ExportError("found a shift by a computed number of bits, expected a constant one", op)
    dtype = element_dtype(kind)
    width, counts = 8 * dtype.itemsize, counts.astype(np.int64)
    all_bits = (1 << width) - 1
    # A count of all bits or more, or below 0, leaves copies of the sign, or nothing.
    beyond = (counts < 0) | (counts >= width)
    inside = np.where(beyond, 0, counts)
    value = run.cast(emit.operand(op.lhs, kind), kind, i32)
    if isinstance(op, hlo.ShiftLeftOp):
        value = run.times(value, run.constant(np.where(beyond, 0, 1 << inside)))
    else:
        signed = isinstance(op, hlo.ShiftRightArithmeticOp)
        # The highest bit of an unsigned integer counts as a sign in an arithmetic shift.
        above = WORD - width if signed and dtype.kind == "u" else 0
        if above:
            value = run.times(value, run.constant(1 << above))
        steps = np.where(beyond, width - 1, counts) + above
        value = run.apply("RIGHT_SHIFT", value, run.constant(steps, whole=True))
        if not signed and dtype.kind == "i":
            value = _and(run, value, run.constant(np.where(beyond, 0, all_bits >> inside), whole=True))
        elif not signed and beyond.any():
            value = run.times(value, run.constant(np.where(beyond, 0, 1)))
    run.finish(run.cast(value, i32, kind))


def _words(op: Operation, emit: LitertEmission) -> Composition:
    """Composition on i32. Raises ExportError for integers that it does not hold."""
    kind = element_of(op.results[0])
    dtype = element_dtype(kind)
    if dtype.itemsize > np.dtype(np.int32).itemsize or dtype == np.uint32:
        raise ExportError(f"found {op.name} of {kind}, expected booleans, or integers that i32 holds", op)
    return Composition(emit, op, i32)
