"""Verification of fixed-point ops. Verified ops have the same result in every implementation.

Inline constants are checked with the op. Those behind a handle are checked when a program's text is parsed, with its
weights (`check_stored_numbers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from zeropoint.ir.quant.checks import refusal
from zeropoint.ir.stablehlo.constant import ConstantOp
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.elementwise import CommonScaleSum
from zeropoint.numerics.requantize import RequantizeBehaviour, behaviour_ranges
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN
from zeropoint.numerics.storage import half_range, signed_range

WORD = 32


def number(attribute: IntegerAttr[Any]) -> int:
    """The value of an integer property."""
    return int(attribute.value.data)


def _element(value: SSAValue) -> Attribute | None:
    """The element type of a ranked tensor; None for any other value."""
    return element_of(value) if isinstance(value.type, TensorType) else None


def check_tensor(op: Operation, role: str, value: SSAValue, widths: Sequence[int]) -> None:
    """Check that a value is a ranked tensor of signless integers of one of the given widths."""
    if _element(value) not in [IntegerType(width) for width in widths]:
        listed = " or ".join(f"i{width}" for width in widths)
        raise refusal(op, f"{role} must be a tensor of {listed}, but got '{value.type}'")


def check_same_shape(op: Operation, role: str, value: SSAValue, like: SSAValue) -> None:
    """Check that two values have the same shape: these ops do not broadcast."""
    if shape_of(value) != shape_of(like):
        raise refusal(op, f"{role} must have the shape of the result, but got '{value.type}' and '{like.type}'")


def check_bounds(op: Operation, result: SSAValue, zero_point: int, low: int, high: int) -> None:
    """Check that the bounds are in order, and that bounds and zero point are in the range of the result's type."""
    element = element_of(result)
    assert isinstance(element, IntegerType)
    width: int = element.bitwidth
    half = half_range(width)
    if low > high:
        raise refusal(op, f"storage_min must be at most storage_max, but got {low} and {high}")
    for name, found in (("storage_min", low), ("storage_max", high), ("zero_point", zero_point)):
        if not -half <= found < half:
            raise refusal(op, f"{name} must be in {-half}..{half - 1} ({element}), but got {found}")


def check_behaviour(op: Operation, name: str) -> RequantizeBehaviour:
    """The requantization behaviour of that name; it must be one that `numerics` defines."""
    if name not in {behaviour.value for behaviour in RequantizeBehaviour}:
        listed = ", ".join(behaviour.value for behaviour in RequantizeBehaviour)
        raise refusal(op, f"behaviour must be one of {listed}, but got '{name}'")
    return RequantizeBehaviour(name)


_FLOATS: Mapping[RequantizeBehaviour, Attribute] = {
    RequantizeBehaviour.FLOAT32_RNE: f32,
    RequantizeBehaviour.FLOAT64_AWAY: f64,
    RequantizeBehaviour.EXACT: f64,
}
"""The types of multipliers that are floats."""


def check_multiplier(
    op: Operation, behaviour: RequantizeBehaviour, multiplier: SSAValue, shift: SSAValue | None, channels: int | None
) -> None:
    """Check the count (1 or `channels`), types and ranges of multipliers, and of shifts if the behaviour has them."""
    expected = _FLOATS.get(behaviour, IntegerType(WORD))
    if (shift is None) != (behaviour_ranges(behaviour)[1] is None):
        has = "a" if shift is None else "no"
        raise refusal(
            op, f"behaviour '{behaviour.value}' has {has} shift, but got {'none' if shift is None else 'one'}"
        )
    sizes = (1,) if channels is None else (1, channels)
    for role, value, element in (("multiplier", multiplier, expected), ("shift", shift, IntegerType(WORD))):
        if value is None:
            continue
        if _element(value) != element or len(shape_of(value)) != 1 or shape_of(value)[0] not in sizes:
            count = "1" if channels is None else f"1 or {channels}"
            raise refusal(op, f"{role} must be a vector of {count} elements {element}, but got '{value.type}'")
    if shift is not None and shape_of(shift) != shape_of(multiplier):
        raise refusal(op, f"multiplier and shift must have one shape, but got '{multiplier.type}' and '{shift.type}'")
    _check_numbers(op, behaviour, inline_array(multiplier), None if shift is None else inline_array(shift))


def check_stored_numbers(
    op: Operation, behaviour: RequantizeBehaviour, operands: Sequence[SSAValue], weights: Weights
) -> None:
    """Check multiplier and shift, where they are constants in a program's weights."""
    arrays = [_stored_array(value, weights) for value in operands]
    _check_numbers(op, behaviour, *[*arrays, None][:2])


def _stored_array(value: SSAValue, weights: Weights) -> Array | None:
    found = value.op.value if isinstance(value, OpResult) and isinstance(value.op, ConstantOp) else None
    if not isinstance(found, DenseResourceAttr) or found.resource_handle.data not in weights:
        return None
    return weights.array(found)


def _check_numbers(
    op: Operation, behaviour: RequantizeBehaviour, factors: Array | None, exponents: Array | None
) -> None:
    """Check that constants are in the ranges of the behaviour."""
    multipliers, shifts = behaviour_ranges(behaviour)
    for role, array, bounds in (("multiplier", factors, multipliers), ("shift", exponents, shifts)):
        if array is None or bounds is None:
            continue
        wrong = ~((array >= bounds[0]) & (array <= bounds[1]))
        if wrong.any():
            low, high = (f"{bound:.6g}" if isinstance(bound, float) else str(bound) for bound in bounds)
            found = array[wrong].flat[0]
            raise refusal(op, f"{role} must be in {low}..{high} for behaviour '{behaviour.value}', but got {found}")
    if behaviour is RequantizeBehaviour.FIXED32 and factors is not None and exponents is not None:
        past = (exponents < 0) & (factors >= 1 << 30)
        if past.any():
            found = factors[past].flat[0]
            raise refusal(op, f"multiplier must be below 2^30 with a negative shift, but got {found}")


def inline_array(value: SSAValue) -> Array | None:
    """The elements of an inline constant; None for any other value."""
    if not isinstance(value, OpResult) or not isinstance(value.op, ConstantOp):
        return None
    attribute = value.op.value
    return Weights().array(attribute) if isinstance(attribute, DenseIntOrFPElementsAttr) else None


def check_factors(op: Operation, role: str, numbers: Sequence[int], count: int) -> None:
    """Check that there is one 32-bit number per input."""
    if len(numbers) != count:
        raise refusal(op, f"{role} must have one number per input ({count}), but got {len(numbers)}")
    half = half_range(WORD)
    for found in numbers:
        if not -half <= found < half:
            raise refusal(op, f"{role} must be in {-half}..{half - 1} (i{WORD}), but got {found}")


def sum_bounds(inputs: Sequence[SSAValue], parameters: CommonScaleSum) -> tuple[int, int]:
    """The least and the greatest sum, with the rounding term, before the shift, over all numbers of the inputs' types.

    Both are exact and attained.
    """
    low = high = 1 << (parameters.shift - 1)
    for value, factor, zero in zip(inputs, parameters.multipliers, parameters.zero_points, strict=True):
        element = element_of(value)
        assert isinstance(element, IntegerType)
        ends = [(bound - zero) * factor for bound in signed_range(element.bitwidth)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def sums_fit(inputs: Sequence[SSAValue], parameters: CommonScaleSum) -> bool:
    """Whether every sum fits i32, in which `weighted_sum` computes it."""
    low, high = sum_bounds(inputs, parameters)
    return low >= INT32_MIN and high <= INT32_MAX


def check_sums(op: Operation, inputs: Sequence[SSAValue], parameters: CommonScaleSum) -> None:
    """Check that every sum fits i32."""
    if sums_fit(inputs, parameters):
        return
    low, high = sum_bounds(inputs, parameters)
    excess = max(high, -low - 1).bit_length() - (WORD - 1)
    fix = f"divide the multipliers by {1 << excess} and subtract {excess} from shift"
    if excess >= parameters.shift:
        fix = "use smaller multipliers"
    expected = f"{INT32_MIN}..{INT32_MAX} (i{WORD})"
    raise refusal(op, f"sums must be in {expected}, but inputs of these types give {low}..{high}; {fix}")


def check_table(op: Operation, operand: SSAValue, table: SSAValue, result: SSAValue) -> None:
    """Check that the table has an entry of the result's type for each number of the operand's 8 or 16 bits."""
    element = _element(operand)
    if element not in (IntegerType(8), IntegerType(8, Signedness.UNSIGNED), IntegerType(16)):
        raise refusal(op, f"operand must be a tensor of i8, ui8 or i16, but got '{operand.type}'")
    assert isinstance(element, IntegerType)
    check_tensor(op, "result", result, (8, 16, WORD))
    check_same_shape(op, "operand", operand, result)
    width: int = element.bitwidth
    wanted = TensorType(element_of(result), [1 << width])
    if table.type != wanted:
        raise refusal(op, f"table must be '{wanted}', but got '{table.type}'")
