"""Rows that require a zero point, and the operands that suit them.

A table may have a row for operands with zero point 0, whose kernel is faster, and a row for any others after it. The
first is taken if it loses nothing: the operand has no other stated zero point, and values that are stored without a
sign are never negative.
"""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.value_ranges.moved_ranges import moved_operand
from zeropoint.targets import DATA, KernelRow, PortRule


def zero_points_fit(region: QuantizeRegionOp, row: KernelRow, constraints: Constraints) -> bool:
    """Whether the operands of a region suit the zero points that a row requires."""
    return not row.requires_zero_points or all(
        _fits(row.input_rule(index), value, spec, constraints)
        for index, (value, spec) in enumerate(zip(region.inputs, region.input_specs, strict=True))
        if row.input_rule(index).role in DATA and row.input_rule(index).zero_point is not None
    )


def _fits(rule: PortRule, value: SSAValue, spec: Attribute, constraints: Constraints) -> bool:
    stated = spec if isinstance(spec, UniformQuantizedType) else _stated(value, constraints)
    if stated is not None:
        # i8 and u8 that differ by half of the range in integers and zero points are the same real values.
        shift = rule.storage.type.middle - stated.storage.type.middle
        return bool((stated.zero_points + shift == rule.zero_point).all())
    return rule.zero_point != rule.storage.minimum or _is_never_negative(value, constraints)


def _stated(value: SSAValue, constraints: Constraints) -> UniformQuantizedType | None:
    """The type that is stated for a value, or for the one whose elements it has; None if there is none."""
    while (known := constraints.get(value)) is None or known.pinned is None:
        moved = moved_operand(value.owner) if isinstance(value.owner, QuantizeRegionOp) else None
        if moved is None:
            return None
        value = moved
    return known.pinned


def _is_never_negative(value: SSAValue, constraints: Constraints) -> bool:
    """Whether no observed element of a value is negative. False if nothing was observed."""
    while True:
        known, maker = constraints.get(value), value.owner
        if known is not None and known.minimum is not None:
            return known.minimum >= 0
        moved = moved_operand(maker) if isinstance(maker, QuantizeRegionOp) else None
        if moved is None:
            return False
        value = moved
