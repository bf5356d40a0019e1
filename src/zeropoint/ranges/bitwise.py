"""The ranges of ops on the bits of integers: logic and shifts.

All numbers between two ends of the same sign have the same bits above the highest bit in which the ends differ. Lower
bits are unknown. A range around 0 consists of two such ranges.

Source: the StableHLO specification, applied to bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import element_dtype, element_of
from zeropoint.numerics.storage import half_range
from zeropoint.ranges.analysis import Ranges, type_interval, width_of
from zeropoint.ranges.interval import Interval, joined


def bitwise_and(ranges: Ranges, op: hlo.AndOp) -> Interval:
    """lhs & rhs. If an operand is not negative, the result is from 0 to its upper bound."""
    found, bounds = _logic(ranges, op, int.__and__), [x.greatest for x in map(ranges.of, op.operands) if x.least >= 0]
    return Interval.of(max(found.least, 0), min(found.greatest, *bounds)) if bounds else found


def bitwise_or(ranges: Ranges, op: hlo.OrOp) -> Interval:
    """lhs | rhs. If both are not negative, the result is at least the greater of their lower bounds."""
    found, (x, y) = _logic(ranges, op, int.__or__), (ranges.of(operand) for operand in op.operands)
    return Interval.of(max(found.least, x.least, y.least), found.greatest) if min(x.least, y.least) >= 0 else found


def bitwise_xor(ranges: Ranges, op: hlo.XorOp) -> Interval:
    """lhs ^ rhs. If rhs is the least number of the type, only the sign bit flips, so the range is shifted."""
    x, y = (ranges.of(operand) for operand in op.operands)
    least = type_interval(element_of(op.result)).least
    if least < 0 and y.hull.within(least, least) and (x.least >= 0 or x.greatest < 0):
        return x + y if x.least >= 0 else x - y
    return _logic(ranges, op, int.__xor__)


def bitwise_not(ranges: Ranges, op: hlo.NotOp) -> Interval:
    """-1 - operand, or the greatest number of an unsigned type less the operand."""
    whole = type_interval(element_of(op.result))
    last = whole.greatest if whole.least == 0 else -1
    return Interval.of(last, last) - ranges.of(op.operand)


def _logic(ranges: Ranges, op: Any, function: Callable[[int, int], int]) -> Interval:
    """The range of a bitwise function: known bits are computed, and unknown bits are arbitrary."""
    whole = type_interval(element_of(op.result))
    x, y = (ranges.of(operand).hull for operand in op.operands)
    if not (x.is_bounded and y.is_bounded):
        return whole
    found: list[Interval] = []
    for known, unknown in _same_sign(x):
        for other, missing in _same_sign(y):
            # A bit is unknown if it depends on an unknown bit of an operand.
            ends = [function(a, b) for a in (known, known | unknown) for b in (other, other | missing)]
            any_bits = (ends[0] ^ ends[1]) | (ends[0] ^ ends[2]) | (ends[0] ^ ends[3])
            found.append(Interval.of(ends[0] & ~any_bits, ends[0] | any_bits))
    return joined(found)


def _same_sign(x: Interval) -> list[tuple[int, int]]:
    """For the negative numbers of a range, and for the others: the bits that they share, and a mask of the others."""
    parts = [(x.least, min(x.greatest, -1)), (max(x.least, 0), x.greatest)]
    # Python's integers are sign-extended without end, so ends of the same sign differ in finitely many bits.
    masks = [(low, (1 << (low ^ high).bit_length()) - 1) for low, high in parts if low <= high]
    return [(low & ~mask, mask) for low, mask in masks]


def shift_left(ranges: Ranges, op: hlo.ShiftLeftOp) -> Interval:
    """operand * 2^amount for amounts from 0 to less than the width, and 0 for all other amounts."""
    amounts, others = _amounts(ranges, op.rhs)
    # The result is monotone in the amount for each sign, so the least and greatest amount bound it.
    found = [ranges.of(op.lhs).times(1 << amount) for amount in amounts]
    return joined([*found, *([Interval.of(0, 0)] if others else [])])


def shift_right(ranges: Ranges, op: hlo.ShiftRightArithmeticOp) -> Interval:
    """floor(operand / 2^amount), with width - 1 for amounts outside of 0..width - 1.

    For unsigned numbers whose highest bit may be set, the range of the type, because that bit is copied.
    """
    x, width = ranges.of(op.lhs), width_of(element_of(op.result))
    if element_dtype(element_of(op.result)).kind == "u" and x.greatest >= half_range(width):
        return type_interval(element_of(op.result))
    amounts, others = _amounts(ranges, op.rhs)
    ends = {*amounts, *([width - 1] if others else [])}
    return joined([x.mapped(lambda bounds, n=amount: bounds >> np.int64(n)) for amount in ends])


def shift_right_logical(ranges: Ranges, op: hlo.ShiftRightLogicalOp) -> Interval:
    """floor(operand / 2^amount) of the operand's bits as an unsigned number; 0 for amounts outside of 0..width - 1."""
    x, width = ranges.of(op.lhs).hull, width_of(element_of(op.result))
    amounts, others = _amounts(ranges, op.rhs)
    if x.least < 0 and 0 in amounts:
        return type_interval(element_of(op.result))  # a negative number shifted by 0 stays negative
    least, greatest = x.least, x.greatest
    if least < 0:
        # As unsigned numbers, negative ones start at 2^(width - 1).
        least, greatest = (0, (1 << width) - 1) if greatest >= 0 else (least + (1 << width), greatest + (1 << width))
    if not x.is_bounded:
        least, greatest = 0, (1 << width) - 1
    found = [Interval.of(least >> amount, greatest >> amount) for amount in amounts]
    return joined([*found, *([Interval.of(0, 0)] if others else [])])


def _amounts(ranges: Ranges, value: SSAValue) -> tuple[list[int], bool]:
    """The least and the greatest shift amount in 0..width - 1, and whether there may be other amounts."""
    amounts, most = ranges.of(value).hull, width_of(element_of(value)) - 1
    ends = max(amounts.least, 0), min(amounts.greatest, most)
    return ([*ends] if ends[0] <= ends[1] else []), not amounts.within(0, most)
