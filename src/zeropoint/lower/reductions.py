"""Lowers reductions of quantized values to integers.

```mlir
%0 = stablehlo.reduce(%x init: %z) across dimensions = [1]      : operands i8 at 0.5:10, result i8 at 2.0:3
   reducer(%a, %b) { add in i32 at 0.25:7 }
```
becomes
```mlir
%1 = "fxpmath.requantize"(convert %x to i32, minus 10), by 0.5 / 0.25, to i32 with zero point 0
%2 = stablehlo.reduce(%1 init: constant) applies stablehlo.add across dimensions = [1] : (tensor<5x4xi32>, ...)
%0 = "fxpmath.requantize"(%2), by 0.25 / 2.0, zero point 3, to i8
```
The body works on integers less the zero point: (a - z) + (b - z) = (a + b - z) - z. A sum is exact, in i64 if it may
overflow i32 for some input. It saturates to the type of the body once, at the end, so it does not depend on the
schedule. Requantization preserves the order of values, so it commutes with maxima and minima.

Any other body is lowered op by op (`bodies.py`).

Source: the RFC "StableHLO quantization for reduction ops"; `interp/reduction.py` states the schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, TensorType, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    CompareOp,
    MaximumOp,
    MinimumOp,
    ReduceOp,
    ReturnOp,
    SelectAndScatterOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import binary_body, body_op
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.lower.arithmetic import change_multiplier, less_zero_point, requantized, rescaled_accumulator
from zeropoint.lower.bodies import PARTS, ReductionOp, lower_by_body
from zeropoint.lower.context import (
    Lowering,
    LoweringError,
    check_width,
    is_widening,
    quantized_element,
    storage_element,
    stored_element,
)
from zeropoint.numerics.profile import Profile
from zeropoint.numerics.requantize import requantize
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN
from zeropoint.ranges import obligations

Combining = type[AddOp] | type[MaximumOp] | type[MinimumOp]
_COMBINING: dict[type[Operation] | None, Combining] = {AddOp: AddOp, MaximumOp: MaximumOp, MinimumOp: MinimumOp}
"""The bodies that have an integer form of one op."""


@dataclass(frozen=True)
class _Form:
    """The parts of a reduction: the combined values, the combining op, and the types of the body and the result."""

    values: Sequence[SSAValue]
    """The combined values, including the initial one."""
    combine: Combining
    body: UniformQuantizedType
    result: UniformQuantizedType


def lower_reduction(lowering: Lowering, op: ReductionOp) -> SSAValue | None:
    """The result integers; None, with the reason on the op, for a result with a scale for each channel."""
    form = _form(op)
    # Only an add, maximum or minimum in one type has an integer form of one op.
    if form is None:
        lowered = lower_by_body(lowering, op)
        return None if lowered is None else lowered[0]
    _check_sizes(op, form)
    same = all(quantized_element(value) == form.body for value in form.values)
    # A maximum commutes with the increasing map from storage to reals, so no zero point is subtracted.
    if form.combine is not AddOp and same:
        stored = [lowering.stored(value) for value in form.values]
        made = _made(lowering, op, form, stored, storage_element(form.body))
        return requantized(lowering, op, lowering.insert(made).results[0], form.body, form.result)
    centred = [_centred(lowering, op, value, form.body) for value in form.values]
    # All operands and the initial value of a reduction have one element type.
    word = i64 if any(element_of(value) == i64 for value in centred) else i32
    made = _made(lowering, op, form, [_in_word(lowering, value, word) for value in centred], word)
    if word == i32 and not all(shown.holds for shown in obligations(lowering.ranges, made)):
        # The i32 form was made only for its bounds.
        Rewriter.erase_op(made)
        made = _made(lowering, op, form, [_in_word(lowering, value, i64) for value in centred], i64)
    return _finished(lowering, op, form, lowering.insert(made).results[0])


def _check_sizes(op: ReductionOp, form: _Form) -> None:
    """Raise LoweringError for a sum along a dimension of unknown size: nothing bounds it."""
    if isinstance(op, ReduceOp) and form.combine is AddOp:
        shape = shape_of(op.inputs[0])
        axis = next((axis for axis in array_values(op.dimensions) if shape[axis] == DYNAMIC_INDEX), None)
        if axis is not None:
            raise LoweringError(
                f"{describe(op)}: found a sum along the dynamic dimension {axis} of {op.inputs[0].type}, expected a "
                f"static one, whose size bounds the integers; fix the shapes of the inputs",
                op,
            )


def _in_word(lowering: Lowering, value: SSAValue, word: IntegerType) -> SSAValue:
    """Convert integers to a wider type. A constant stays a constant, as padding must be."""
    array = lowering.integers(value)
    if array is None or element_of(value) == word:
        return lowering.converted(value, word)
    return lowering.constant(array.astype(element_dtype(word)))


def _finished(lowering: Lowering, op: ReductionOp, form: _Form, total: SSAValue) -> SSAValue:
    """The result integers, from the total less the body's zero point, after it saturates to the body's storage."""
    body, point = form.body, form.body.zero_point
    low, high = body.affine.centred_range
    # Storage bounds minus a zero point of 32 bits may need 33.
    word = i32 if low >= INT32_MIN and high <= INT32_MAX else i64
    # The clamp compares in the type of the total, so that type must hold the bounds.
    wide = total if word == i32 else lowering.converted(total, i64)
    inside = lowering.saturated(wide, low, high, word)
    if body == form.result:
        return lowering.converted(lowering.shifted(inside, point, None), storage_element(body))
    # The result type only drops the zero point, which the total does not have.
    if is_widening(body, form.result):
        return lowering.converted(inside, storage_element(form.result))
    return rescaled_accumulator(lowering, inside, body, form.result)


def _centred(lowering: Lowering, op: Operation, value: SSAValue, body: UniformQuantizedType) -> SSAValue:
    """A value requantized to the body's type, less the zero point. A constant stays a constant."""
    source, constant = quantized_element(value), lowering.integers(value)
    assert source is not None
    # An initial value must stay a constant, because the padding of windows and exporters read it.
    if constant is not None and source.is_per_layer:
        return lowering.constant(_changed(lowering.profile, constant, source, body))
    stored = lowering.stored(value)
    if source == body:
        wide = body.storage.type.width == 32 and body.zero_point != 0
        return lowering.widened(stored, body.zero_point, i64 if wide else i32)
    centred = less_zero_point(source, body) if body.storage.type.width == 32 else None
    if centred is not None:
        return requantized(lowering, op, stored, source, centred)
    # Requantize to the body's storage first, so that it saturates there, as the specification's `convert` does.
    return lowering.widened(requantized(lowering, op, stored, source, body), body.zero_point)


def _changed(profile: Profile, stored: Array, source: UniformQuantizedType, body: UniformQuantizedType) -> Array:
    """`_centred` for the array of a constant."""
    centred, storage, point = stored.astype(np.int64) - source.zero_point, body.storage, body.zero_point
    if source != body:
        multiplier = change_multiplier(profile, source, body)
        bounds = (storage.minimum, storage.maximum)
        centred = requantize(centred, multiplier, point, *bounds, dtype=np.int64) - point
    # i32 where possible, as i64 here would make the whole reduction i64.
    fits = abs(centred).max(initial=0) <= INT32_MAX
    return centred.astype(np.int32 if fits else np.int64)


def _form(op: ReductionOp) -> _Form | None:
    """The parts of a sum, maximum or minimum in one type; None for any other reduction."""
    values, regions = PARTS[type(op)](op)
    block: Block = regions[-1].block
    combine = _COMBINING.get(body_op(regions[-1]))
    body, result = quantized_element(block.args[0]), quantized_element(op.results[0])
    first = block.first_op
    if combine is None or first is None or body is None or result is None:
        return None
    if any(stored_element(value) != stored_element(block.args[0]) for value in (*first.operands, *first.results)):
        return None
    if result.is_per_channel or any(quantized_element(value) is None for value in values):
        return None
    # Integers have the order of the real values, which is enough only for a plain comparison of both arguments.
    if isinstance(op, SelectAndScatterOp) and not _compares(op.select.block):
        return None
    stored = stored_element(block.args[0])
    assert stored is not None
    check_width(op, stored, block.args[0].type)
    return _Form(values, combine, body, result)


def _compares(block: Block) -> bool:
    """Whether a body is one comparison of its two arguments."""
    first, *others = block.ops
    return (
        isinstance(first, CompareOp)
        and len(others) == 1
        and set(first.operands) == set(block.args)
        and tuple(others[0].operands) == (first.result,)
        and stored_element(first.lhs) is not None
        and element_of(first.lhs) == element_of(first.rhs)
    )


def _made(
    lowering: Lowering, op: ReductionOp, form: _Form, values: Sequence[SSAValue], element: IntegerType
) -> Operation:
    """The reduction on integers, not yet inserted into the program."""
    regions = [binary_body(form.combine, element)]
    operands = list(values)
    if isinstance(op, SelectAndScatterOp):
        regions.insert(0, _comparison(op.select.block, element))
        operands.insert(0, lowering.converted(lowering.stored(op.operand), element))
    attributes = {name: found for name, found in op.attributes.items() if name != FLOAT_REASON}
    made = type(op).create(
        operands=operands,
        result_types=[with_element(op.results[0], element)],
        properties=dict(op.properties),
        attributes=attributes,
        regions=regions,
    )
    made.location = op.location
    return made


def _comparison(block: Block, element: IntegerType) -> Region:
    """The comparison of a select on integers, which have the same order as the real values."""
    found = block.first_op
    assert isinstance(found, CompareOp)
    made = Block(arg_types=[TensorType(element, [])] * 2)
    # Keep the order of the arguments, because compare(b, a) selects the other one of two equal values.
    swapped = found.lhs is block.args[1]
    arguments = list(reversed(made.args)) if swapped else list(made.args)
    properties = {name: value for name, value in found.properties.items() if name != "compare_type"}
    compared = CompareOp.create(operands=arguments, result_types=[found.result.type], properties=properties)
    made.add_ops([compared, ReturnOp(compared.results)])
    return Region(made)
