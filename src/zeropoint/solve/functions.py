"""Run a row's QuantFn: a Python function that derives the types of some ports of a kernel from the types of others.

The function sees the types of the RFC: `!quant.uniform` for decided ports, `!quant.calibrated` for open ports with an
observed range, `!quant.any` for other open ports, and None for ports that are never quantized. A constant weight always
has its default type (one scale per output channel if the row allows it). The bias has the scale of the products if the
input is decided. Otherwise it has its range, like other constant operands. The function may set any of these types.

Source: the RFC on quantization transformations, section "Target Constraints": QuantFn(inputs, outputs) returns the
indices of the ports that it updated.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat
from xdsl.ir import Attribute, SSAValue

from zeropoint.errors import running_foreign
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import weight_channel_axis
from zeropoint.ir.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    QuantizedType,
    QuantizeRegionOp,
    Storage,
    UniformQuantizedType,
)
from zeropoint.ir.quant.parameters import CalibratedParameters
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.ranges import held_scale
from zeropoint.solve.errors import PropagationError
from zeropoint.solve.kernel import ChosenKernel
from zeropoint.solve.operands import contraction_in, operand_type
from zeropoint.targets import Custom, KernelRow, Role

Types = dict[int, QuantizedType | None]
"""The types that a function sees, by port index."""


def open_type(value: SSAValue, storage: Storage, minimum: float | None, maximum: float | None) -> QuantizedType:
    """The type of an open port: `!quant.calibrated` if its range is known, else `!quant.any`."""
    expressed = element_of(value)
    assert isinstance(expressed, AnyFloat)
    if minimum is None or maximum is None or not min(minimum, 0.0) < max(maximum, 0.0):
        return AnyQuantizedType.of(storage, expressed)
    low, high = (minimum, maximum) if minimum < maximum else (min(minimum, 0.0), max(maximum, 0.0))
    return CalibratedQuantizedType(CalibratedParameters(expressed, low, high))


def constant_port(
    kernel: ChosenKernel,
    index: int,
    before: Sequence[Attribute | None],
    weights: Weights,
    pinned: UniformQuantizedType | None = None,
) -> QuantizedType:
    """The type of a constant operand as a function sees it.

    `before` has the types of the operands before it, `pinned` its pin. Until the input is decided, the scales of the
    weight leave room in the accumulator for an input at scale 1.
    """
    value, storage, role = kernel.region.inputs[index], kernel.storage(index), kernel.row.input_rule(index).role
    needed = {Role.WEIGHT: 1, Role.BIAS: 2}.get(role, 0)
    known = [found for found in before[:needed] if isinstance(found, UniformQuantizedType)]
    if role is Role.WEIGHT or (needed and len(known) == needed):
        given = known[0] if known else UniformQuantizedType.per_layer(kernel.storage(0), 1.0)
        made = operand_type(kernel, index, known or [given], given, weights, pinned)
        assert isinstance(made, QuantizedType)
        return made
    if pinned is not None and not needed:
        return pinned
    array = constant_array(value, weights)
    if array is None or not array.size:
        return open_type(value, storage, None, None)
    return open_type(value, storage, float(array.min()), float(array.max()))


def is_settable(row: KernelRow, region: QuantizeRegionOp, port: int) -> bool:
    """Whether a port has parameters that a function may set."""
    values, number = (region.inputs, port) if port >= 0 else (region.outputs, ~port)
    is_float = number < len(values) and isinstance(element_of(values[number]), AnyFloat)
    return is_float and row.rule(port).role is not Role.OTHER


def ask(
    row: KernelRow, region: QuantizeRegionOp, source: str, known: Types, scale_type: str = "f64"
) -> list[tuple[int, UniformQuantizedType]]:
    """Run the function of a row on the `known` types, and return the (port, type) pairs that it derives.

    Raises PropagationError, naming `source`, if the function fails or sets a type that its port, or a target with this
    `scale_type`, cannot have.
    """
    assert isinstance(row.relation, Custom)
    inputs: list[QuantizedType | None] = [known.get(i) for i in range(len(region.inputs))]
    outputs: list[QuantizedType | None] = [known.get(~i) for i in range(len(region.outputs))]
    with running_foreign(lambda what: PropagationError(f"{source}: found a function that fails: {what}", region)):
        set_inputs, set_outputs = row.relation.function(inputs, outputs)
        updated = [*((i, inputs[i]) for i in set_inputs), *((~i, outputs[i]) for i in set_outputs)]
    derived: list[tuple[int, UniformQuantizedType]] = []
    for port, made in updated:
        named = row.port_name(port)
        if not is_settable(row, region, port) or not isinstance(made, UniformQuantizedType):
            raise PropagationError(
                f"{source}: found {made} for {named}, expected !quant.uniform of a quantized port", region
            )
        if (misfit := _misfit(row, region, port, made, scale_type)) is not None:
            raise PropagationError(f"{source}: found {made} for {named}, {misfit}", region)
        derived.append((port, made))
    return derived


def _misfit(
    row: KernelRow, region: QuantizeRegionOp, port: int, made: UniformQuantizedType, scale_type: str
) -> str | None:
    """The reason why a port cannot have a type that a function set, as the end of a sentence; None if it can."""
    rule, value = row.rule(port), region.inputs[port] if port >= 0 else region.outputs[~port]
    if not made.is_per_layer and not (rule.per_channel and made.is_per_channel):
        return "expected one scale: its row allows no more"
    if not rule.accepts(made.storage):
        return "which its own row does not accept"
    if rule.zero_point is not None and bool((made.zero_points != rule.zero_point).any()):
        return f"expected zero point {rule.zero_point}: its row allows no other"
    if scale_type == "power_of_two" and bool((held_scale(made.scales, scale_type) != made.scales).any()):
        return "expected scales that are powers of two, which this target requires"
    contraction = contraction_in(region)
    axis = weight_channel_axis(contraction) if contraction and rule.role is Role.WEIGHT else made.axis
    if made.axis is not None and axis is not None:
        shape, count = shape_of(value), len(made.scales)
        if made.axis != axis or axis >= len(shape) or shape[axis] not in (DYNAMIC_INDEX, count):
            return f"expected one scale, or one for each index of dimension {axis} of {value.type}"
    return None


def checked_constant(
    kernel: ChosenKernel,
    index: int,
    made: UniformQuantizedType,
    before: Sequence[Attribute],
    weights: Weights,
    source: str,
) -> UniformQuantizedType:
    """The type `made` that a function gave a constant operand, checked against the settled types `before` it.

    Raises PropagationError if a weight's sums would overflow the accumulator, or if a bias is not at the scale of the
    products.
    """
    role, named = kernel.row.input_rule(index).role, kernel.row.port_name(index)
    if role is Role.WEIGHT:
        given = before[0]
        assert isinstance(given, UniformQuantizedType)
        held = operand_type(kernel, index, before, given, weights, made)
        if held != made:
            raise PropagationError(
                f"{source}: found {made} for {named}, expected scales at which the sums fit the accumulator of "
                f"{kernel.row.accumulator_bits} bits, at least those of {held}",
                kernel.region,
            )
    elif role is Role.BIAS:
        wanted = operand_type(kernel, index, before, None, weights)
        if made != wanted:
            raise PropagationError(
                f"{source}: found {made} for {named}, expected the scales of the products, {wanted}; do not set the "
                f"type of the bias, and it gets these scales",
                kernel.region,
            )
    return made
