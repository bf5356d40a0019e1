"""Collect the model constraints that a program states about its values, in any of the forms below.

```mlir
%1 = "quant.stats"(%0) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} ...      an observed range
%3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
%4 = quant.dcast %3 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>      pinned parameters
%6 = "quant.coupled_ref"(%5) {coupledKey = "gate"} ...                            one type for all values of a key
```
A pair of casts with `!quant.any` requests a bit width, one with `!quant.calibrated` states a range, and one with
`!quant.none` keeps the value float. The specs of regions state the same for single ports. If a `dcast` produces a value
from an already quantized one, or a `qcast` turns it into a quantized result of the program, the value is pinned to that
element type. Ops that only state constraints are removed.

Source: the RFC on quantization transformations, section "Model Constraints"; "MLIR Quantization", section
"Instrumentation and constraint ops".
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import (
    ANNOTATED,
    DERIVED,
    EXTREMES,
    FROM_STATED,
    OF_TARGET,
    PINNED,
    QUANTILES,
    STATED,
    Fact,
    Salience,
    demanded_by,
    state_facts,
)
from zeropoint.ir.constants import constant_array, is_constant
from zeropoint.ir.element_types import OPEN
from zeropoint.ir.locations import written_name
from zeropoint.ir.normalizations import epsilon, stated_variances
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    CalibratedQuantizedType,
    CoupledRefOp,
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
    QuantizeRegionOp,
    StatisticsOp,
    StatisticsRefOp,
    UniformQuantizedType,
)
from zeropoint.ir.stablehlo import ConstantOp, GatherOp, ReshapeOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.weights import Weights, inline_array
from zeropoint.numerics.ranges import held_scale
from zeropoint.solve.bodies import check_contractions
from zeropoint.solve.classes import real_range
from zeropoint.solve.composed import is_composed
from zeropoint.solve.errors import PropagationError
from zeropoint.solve.quantized_files.casts_beside_floats import has_other_readers, rescaled, saturates
from zeropoint.solve.quantized_files.quantized_twice import casts_of_floats, copied, has_other_integers, read_unrounded
from zeropoint.solve.rescale import rescale_region
from zeropoint.solve.value_constraint import ValueConstraint

QUANTIZES = (QuantizeCastOp, UniformQuantizeOp)
DEQUANTIZES = (DequantizeCastOp, UniformDequantizeOp)
WIDEST = 16
"""The width of the widest activation in bits. Wider types are accumulators."""


@dataclass
class Constraints:
    """The constraints of all values.

    `simulated` has the types of the removed pairs of quantize and dequantize. `variances` has, for each region that
    normalizes rows, quantiles of the rows' variances. If the target cannot have a type because its scales are not of
    `scale_type` (`held_scale`), only the range of the type is recorded.
    """

    scale_type: str = "f64"
    of_value: dict[SSAValue, ValueConstraint] = field(default_factory=dict[SSAValue, ValueConstraint])
    simulated: dict[SSAValue, UniformQuantizedType] = field(default_factory=dict[SSAValue, UniformQuantizedType])
    variances: dict[Operation, tuple[float, ...]] = field(default_factory=dict[Operation, tuple[float, ...]])
    before_narrowing: dict[SSAValue, ValueConstraint] = field(default_factory=dict[SSAValue, ValueConstraint])
    """The constraints of narrowed values before `value_ranges/read_ranges.py` narrowed them."""
    apart: frozenset[object] = frozenset()
    """The casts that read floats, not the integers of another cast."""
    copies: list[ReshapeOp] = field(default_factory=list[ReshapeOp])  # `quantized_files/quantized_twice.py`
    unrounded: frozenset[tuple[Operation, int]] = frozenset()
    """The operands, by op and index, that the model reads beside a cast of the same value, not through the cast."""
    rescales: list[QuantizeRegionOp] = field(default_factory=list[QuantizeRegionOp])
    """Casts beside which others read more than the cast's type holds (`quantized_files/casts_beside_floats.py`)."""

    def of(self, value: SSAValue) -> ValueConstraint:
        """The constraint of a value. Adds an empty one if there is none."""
        return self.of_value.setdefault(value, ValueConstraint())

    def get(self, value: SSAValue) -> ValueConstraint | None:
        """The constraint of a value, or None."""
        return self.of_value.get(value)

    def state(self, value: SSAValue, stated: QuantizedType, salience: Salience, source: str) -> None:
        """Add what a type states about a value. Raises PropagationError for a second, different pinned type."""
        if not self.holds(stated):
            self.observe_range(value, stated, salience, source)
            return
        try:
            self.of(value).state(stated, salience, source)
        except ValueError as error:
            op = value.owner if isinstance(value.owner, Operation) else None
            raise PropagationError(f"'{written_name(value)}': {error}", op) from error

    def holds(self, stated: Attribute) -> bool:
        """Whether the target can have the type."""
        if not isinstance(stated, UniformQuantizedType) or self.scale_type != "power_of_two":
            return True
        return bool((held_scale(stated.scales, self.scale_type) == stated.scales).all())

    def observe_range(self, value: SSAValue, stated: Attribute, salience: Salience, source: str) -> None:
        """Add only the range of a type. Per-channel types and accumulators (more than 16 bits) state no range."""
        if isinstance(stated, UniformQuantizedType) and stated.is_per_layer and stated.storage.type.width <= WIDEST:
            self.of(value).observe(*real_range(stated), salience, source)


def root(value: SSAValue) -> SSAValue:
    """The value at the start of a chain of annotation ops (statistics, references, pairs of casts)."""
    while isinstance(value, OpResult):
        if isinstance(value.op, StatisticsOp | StatisticsRefOp | CoupledRefOp):
            value = value.op.arg
        elif (pair := _simulated(value.op)) is not None and not has_other_integers(pair, value.op.operands[0]):
            value = pair
        else:
            break
    return value


def _simulated(op: Operation) -> SSAValue | None:
    """The x of `dcast(qcast(x))`, a simulated quantization; None for any other op."""
    if not isinstance(op, DEQUANTIZES):
        return None
    made = op.operands[0].owner
    return made.operands[0] if isinstance(made, QUANTIZES) and made.operands[0].type == op.results[0].type else None


_SAYS = (StatisticsOp, StatisticsRefOp, CoupledRefOp, *QUANTIZES)


def meets_region(value: SSAValue) -> bool:
    """Whether a region produces the value, or reads it directly or through annotation ops."""
    if isinstance(value.owner, QuantizeRegionOp):
        return True
    # Only through annotations, because a float op in between would change the value.
    pending = [value]
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if isinstance(user, QuantizeRegionOp):
                return True
            if isinstance(user, _SAYS) or _simulated(user) is not None:
                pending += user.results
    return False


def _read(op: Operation, constraints: Constraints) -> SSAValue | None:
    """Record what an op states. Returns the value that replaces its result, or None if the op stays."""
    if isinstance(op, StatisticsOp):
        _read_statistics(op, constraints)
        return op.arg
    if isinstance(op, StatisticsRefOp):
        return op.arg
    if isinstance(op, ConstantOp):
        _read_pinned(op, constraints)
        return None
    if isinstance(op, CoupledRefOp):
        found = constraints.of(root(op.arg))
        found.coupled = op.coupled_key.data
        found.facts.append(Fact("coupled", op.coupled_key.data, "user", f"quant.coupled_ref '{written_name(op.res)}'"))
        return op.arg
    value = _simulated(op)
    if value is not None and has_other_integers(value, op.operands[0]):
        return None
    if value is None or meets_region(root(value)):
        return None if value is None else _read_pair(op, value, constraints)
    return value if isinstance(element_of(op.operands[0]), OPEN) else None


def _read_pinned(op: ConstantOp, constraints: Constraints) -> None:
    """Record the type that a constant is pinned to.

    If the target cannot have the type, the pin is dropped and the type follows from the constant's values. A range from
    the user's recipe is kept: it gets the next scale that the target has.
    """
    pinned, rule = op.attributes.get(PINNED), demanded_by(op)
    if not isinstance(pinned, UniformQuantizedType):
        return
    if not constraints.holds(pinned):
        del op.attributes[PINNED]
        if rule is None:
            return
        # The next larger power of two: a smaller one would saturate.
        scales = held_scale(pinned.scales, constraints.scale_type)
        pinned = UniformQuantizedType(replace(pinned.data, scales=tuple(scales.tolist())))
        op.attributes[PINNED] = pinned
    constraints.state(op.output, pinned, "user", rule or f"constant '{written_name(op.output)}'")


def stated_range(op: StatisticsOp) -> tuple[float, float]:
    """The minimum and maximum that a `quant.stats` states."""
    low, high = inline_array(op.layer_stats).tolist()
    return low, high


def _stated_numbers(op: StatisticsOp, name: str) -> tuple[float, ...]:
    numbers = op.attributes.get(name)
    return tuple(map(float, numbers.get_values())) if isinstance(numbers, DenseIntOrFPElementsAttr) else ()


def _read_statistics(op: StatisticsOp, constraints: Constraints) -> None:
    """Record the ranges of a `quant.stats`."""
    value, (low, high) = root(op.arg), stated_range(op)
    if not (isfinite(low) and isfinite(high) and low <= high):
        raise PropagationError(
            f"'{written_name(value)}': found the range [{low:g}, {high:g}] in quant.stats '{written_name(op.res)}', "
            "expected finite numbers, the least first; calibrate again, or leave the statistics out",
            op,
        )
    rule = demanded_by(op)
    derived = op.attributes.get(DERIVED)
    source = rule or (derived.data if isinstance(derived, StringAttr) else f"quant.stats '{written_name(op.res)}'")
    constraints.of(value).observe(low, high, "calibrated" if rule is None else "user", source)
    if op.axis_stats is not None and op.axis is not None:
        axis, ranges = _channels(op, op.axis.value.data, inline_array(op.axis_stats), value)
        constraints.of(value).channels = axis, ranges
        if not is_constant(value):
            stated = f"{len(ranges)} along dimension {axis}; an activation has one scale, by the range of all"
            constraints.of(value).facts.append(Fact("channel ranges", stated, "default", source))
    constraints.of(value).quantiles = _stated_numbers(op, QUANTILES) or constraints.of(value).quantiles
    if ends := _stated_numbers(op, EXTREMES):
        constraints.of(value).extremes = min(ends), max(ends)


def _channels(op: StatisticsOp, axis: int, ranges: Array, value: SSAValue) -> tuple[int, Array]:
    """The axis and its ranges. Raises PropagationError for a range that is not finite, or whose ends are swapped."""
    low, high = ranges.astype(np.float64).T
    wrong = ~(np.isfinite(low) & np.isfinite(high) & (low <= high))
    if wrong.any():
        at = int(wrong.argmax())
        raise PropagationError(
            f"'{written_name(value)}': found the range [{low[at]:g}, {high[at]:g}] of channel {at} in quant.stats "
            f"'{written_name(op.res)}', expected finite numbers, the least first",
            op,
        )
    return axis, ranges.astype(np.float64)


def _read_pair(op: Operation, value: SSAValue, constraints: Constraints) -> SSAValue:
    """Record what a pair of casts states about a value. Returns the value that replaces its result."""
    if OF_TARGET in op.attributes:
        _observe_fixed(constraints, value, op)
        return value
    pinned, element = _pinned(constraints, root(value)), _element(op.operands[0])
    if pinned is not None and isinstance(element, UniformQuantizedType) and element != pinned:
        if op.operands[0].owner not in constraints.apart:
            # Two casts with different types are an op, not an annotation: the model requantizes here.
            return requantized(value, pinned, element, op)
        constraints.copies.append(copied(value, op))
        value = constraints.copies[-1].result
    elif pinned is None and isinstance(element, UniformQuantizedType) and ANNOTATED not in op.attributes:
        value = _beside_floats(value, element, op, constraints)
    _state_element(constraints, root(value), op.operands[0], op)
    if isinstance(element, UniformQuantizedType) and constraints.holds(element) and ANNOTATED not in op.attributes:
        # The pair is put back later if the value gets no quantized type, because the model rounds here.
        constraints.simulated[root(value)] = element
    return value


def _beside_floats(value: SSAValue, element: UniformQuantizedType, op: Operation, constraints: Constraints) -> SSAValue:
    """The value to which a pair of casts gives its type: another one if others read more than the type holds."""
    start = root(value)
    known = constraints.get(start)
    if known is None or not saturates(known, element) or not has_other_readers(start, op, constraints.unrounded):
        return value
    if op.operands[0].owner in constraints.apart:
        constraints.copies.append(copied(value, op))
        return constraints.copies[-1].result
    constraints.rescales.append(rescaled(value, known, element, op))
    return constraints.rescales[-1].outputs[0]


def _pinned(constraints: Constraints, value: SSAValue) -> UniformQuantizedType | None:
    """The type that a value is pinned to. A rescale that a pair of casts became states that of its result, and a pair
    that stays states that of its integers."""
    owner = value.owner
    if isinstance(owner, DEQUANTIZES):
        stored = _element(owner.operands[0])
        return stored if isinstance(stored, UniformQuantizedType) else None
    if isinstance(owner, QuantizeRegionOp) and FROM_STATED in owner.attributes:
        spec = owner.output_specs.data[0]
        return spec if isinstance(spec, UniformQuantizedType) else None
    return constraints.of(value).pinned


def _observe_fixed(constraints: Constraints, value: SSAValue, op: Operation) -> None:
    """Record the range of a type that the kernel of another target fixed."""
    source = f"{op.name} '{written_name(op.results[0])}'"
    constraints.observe_range(root(value), element_of(op.operands[0]), "calibrated", source)


def requantized(value: SSAValue, given: UniformQuantizedType, wanted: UniformQuantizedType, op: Operation) -> SSAValue:
    """A rescale of a value of type `given` that `op` casts to `wanted`. The model itself requires it."""
    source = f"{op.name} '{written_name(op.results[0])}'"
    made = rescale_region(value, given, wanted, (str(given), f"{wanted} ({source})"))
    state_facts(made, [Fact("has", str(given), "user", source), Fact("required", str(wanted), "user", source)])
    made.attributes[FROM_STATED] = made.attributes[STATED] = UnitAttr()
    assert op.parent is not None
    op.parent.insert_op_before(made, op)
    return made.outputs[0]


def _state_element(constraints: Constraints, value: SSAValue, quantized: SSAValue, op: Operation) -> None:
    element = _element(quantized)
    if isinstance(element, QuantizedType):
        salience = "calibrated" if ANNOTATED in op.attributes else "user"
        constraints.state(value, element, salience, demanded_by(op) or f"{op.name} '{written_name(op.results[0])}'")


def _element(quantized: SSAValue) -> Attribute:
    """The element type of a value. A sub-channel type with one scale, or one per channel, becomes that simpler type."""
    element = element_of(quantized)
    return element.normalized if isinstance(element, UniformQuantizedType) else element


def _read_edges(program: Program, constraints: Constraints) -> None:
    """Pin values that the program dequantizes before a region or quantizes after one.

    A value that the program quantizes to several types stays float.
    """
    for op in program.entry.ops:
        if isinstance(op, DEQUANTIZES) and meets_region(op.results[0]):
            _state_element(constraints, op.results[0], op.operands[0], op)
        elif isinstance(op, QUANTIZES) and isinstance(op.operands[0].owner, QuantizeRegionOp):
            casts = [use.operation for use in op.operands[0].uses if isinstance(use.operation, QUANTIZES)]
            kinds = dict.fromkeys(_element(cast.results[0]) for cast in casts)
            if len(kinds) < 2:
                _read_cast(op, constraints)
            else:
                constraints.of(op.operands[0]).float_reason = f"the model quantizes it to {len(kinds)} types"


def _read_cast(op: Operation, constraints: Constraints) -> None:
    """Pin a result of a region to the type that the program stores. If a pair of casts pins it to another, it is
    rescaled."""
    pinned, element = _pinned(constraints, op.operands[0]), _element(op.results[0])
    if pinned is not None and isinstance(element, UniformQuantizedType) and element != pinned:
        op.operands[0] = requantized(op.operands[0], pinned, element, op)
    _state_element(constraints, op.operands[0], op.results[0], op)


def _ports(region: QuantizeRegionOp) -> Iterator[tuple[SSAValue, Attribute]]:
    yield from zip(region.outputs, region.output_specs, strict=True)
    yield from zip(region.inputs, region.input_specs, strict=True)


def _read_specs(region: QuantizeRegionOp, constraints: Constraints) -> None:
    """Record what a region's specs state about the values at its ports.

    `!quant.none` and `!quant.any` apply to the port alone, not to the value (see `kernels.py`).
    """
    source = demanded_by(region) or f"specs of {region.logical_kernel.data} '{written_name(region.outputs[0])}'"
    for value, spec in _ports(region):
        if isinstance(spec, UniformQuantizedType | CalibratedQuantizedType):
            constraints.state(value, spec, "user", source)


def take_constraints(
    program: Program, scale_type: str = "f64", *, integer_io: bool = False, kernels: Container[str] | None = None
) -> Constraints:
    """Collect the constraints of a program for a target's `scale_type`. Removes the ops that only state them, in place.

    `kernels` are those that the target has, by default all; a region of another kernel stays float. With `integer_io`,
    all readers of an input share one type. Raises PropagationError if a value has two pinned types, a range is not
    finite, or a region does not fit its kernel.
    """
    apart = frozenset[object]() if integer_io else casts_of_floats(program, kernels)
    constraints = Constraints(scale_type, apart=apart, unrounded=read_unrounded(program))
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp):
            check_contractions(op)
    for op in list(program.entry.ops):
        value = _read(op, constraints)
        if value is None:
            continue
        op.results[0].replace_all_uses_with(value)
        quantize = op.operands[0].owner
        Rewriter.erase_op(op)
        if isinstance(quantize, Operation) and isinstance(quantize, QUANTIZES) and not quantize.results[0].first_use:
            Rewriter.erase_op(quantize)
    _read_edges(program, constraints)
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp):
            _read_specs(op, constraints)
            _read_variances(op, constraints, program.weights)
            if not is_composed(op, program.weights):
                drop_inside(op)
            _read_table(op, constraints, program.weights)
    return constraints


def _read_table(region: QuantizeRegionOp, constraints: Constraints, weights: Weights) -> None:
    """Every number of a constant table may be gathered, not only those that calibration observes.

    What is gathered has the type that the model or the user states for the table.
    """
    op = region.body.block.first_op
    table = constant_array(region.inputs[0], weights) if isinstance(op, GatherOp) and region.inputs else None
    if table is None:
        return
    known, result = constraints.get(region.inputs[0]), constraints.of(region.outputs[0])
    if known is not None and known.pinned is not None and known.pinned.is_per_layer and result.pinned is None:
        result.state(known.pinned, "user", known.facts[-1].source)
    elif table.size and np.isfinite(table).all():
        result.observe(float(table.min()), float(table.max()), "default", "the table")


def _read_variances(region: QuantizeRegionOp, constraints: Constraints, weights: Weights) -> None:
    """Record the variances of the rows that a region normalizes. Constant rows are left out."""
    stated = stated_variances(region)
    if stated is not None:
        low, high = stated_range(stated)
        points = _stated_numbers(stated, QUANTILES) or (low, high)
        # A row with a variance near epsilon is constant. Its result is noise in float, too.
        least = 2 * epsilon(stated.arg, weights)
        constraints.variances[region] = tuple(point for point in points if point > least)


def drop_inside(region: QuantizeRegionOp) -> None:
    """Remove annotations and simulated quantizations inside a region. The RFC does not consider constraints there.

    Composites keep theirs until they are split (`split_composites.py`).
    """
    for op in list(region.body.block.ops):
        identity = isinstance(op, StatisticsOp | StatisticsRefOp | CoupledRefOp)
        value = op.operands[0] if identity else _simulated(op)
        if value is not None:
            op.results[0].replace_all_uses_with(value)
            Rewriter.erase_op(op)
    for op in list(region.body.block.ops):
        if isinstance(op, QUANTIZES) and op.results[0].first_use is None:
            Rewriter.erase_op(op)
