"""Check the demands of a recipe against the kernels of a target: its observers, and rules without effect.

Whether a rule has an effect depends on the program (`recipe`) and on the kernels (`targets`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isclose

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from zeropoint.ir.annotations import (
    DEMANDS,
    DEMANDS_ON_RESULTS,
    EXPRESSED_SUMS,
    FLOAT_ACTIVATIONS,
    FLOAT_REASON,
    PINNED,
    WEIGHT_BITS,
    WEIGHT_SYMMETRIC,
    Fact,
    facts_of,
)
from zeropoint.ir.constants import is_constant
from zeropoint.ir.locations import value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsRefOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ReshapeOp, TransposeOp
from zeropoint.materialize.stored_tables import table_of
from zeropoint.materialize.stored_weights import weights_of
from zeropoint.numerics.ranges import held_scale
from zeropoint.recipe import RecipeError, RecipeRules
from zeropoint.recipe.apply import keeping_float
from zeropoint.recipe.rules import OF_STORED_OUTPUTS, OF_TENSORS, numbers_of
from zeropoint.solve.blocks import unfit_blocks
from zeropoint.solve.rescale import is_rescale
from zeropoint.targets import Role, Target

OTHER_STORAGE = ("scale", "range")
"""Demands that fix the output's storage or range. With one of them, `bits` refers to that storage."""
DEFAULT_BITS = 8
"""The bits of an output that no rule names."""
_DEFAULTS = {("granularity", "per_channel"), ("weight_bits", "8"), ("weight_symmetric", "true")}
"""Demands on weights that restate what holds without them."""


def demanded_observers(asked: Program) -> dict[str, str]:
    """The observers that a recipe demands for the outputs of regions, by statistics key."""
    return {
        op.stats_key.data: fact.value
        for op in asked.entry.ops
        if isinstance(op, StatisticsRefOp) and isinstance(op.arg.owner, Operation)
        for fact in facts_of(op.arg.owner, DEMANDS)
        if fact.name == "observer"
    }


def check_observers(asked: Program) -> None:
    """Raise RecipeError for an observer of a value whose range is not observed because other values determine it."""
    references = [op for op in asked.entry.ops if isinstance(op, StatisticsRefOp)]
    observed = {op.arg.owner for op in references if isinstance(op.arg.owner, Operation)}
    demanded = [(region, fact) for region, fact, _ in _demands(asked) if fact.name == "observer"]
    effective = {fact.source for region, fact in demanded if region in observed}
    for _, fact in demanded:
        if fact.source not in effective:
            raise RecipeError(
                f"{fact.source}: key 'observer': found {fact.value}, expected a value whose range is observed; "
                f"it would change nothing"
            )


def check_scales(recipe: RecipeRules, target: Target) -> None:
    """Raise RecipeError for a scale that is not a power of two, on a target that requires it."""
    if target.scale_type != "power_of_two":
        return
    for rule in recipe.rules:
        for scale in numbers_of(rule.settings["scale"]) if "scale" in rule.settings else ():
            if held_scale(scale, target.scale_type) != scale:
                raise RecipeError(
                    f"{rule}: key 'scale': found {scale:g}, expected a power of two, which target "
                    f"{target.name} requires"
                )


def check_demands(fused: Program, target: Target) -> None:
    """Raise RecipeError for a demand that has no effect on any kernel that its rule selects."""
    refused: dict[tuple[str, str], str] = {}
    effective: set[tuple[str, str]] = set()
    for region, fact, demands in _demands(fused):
        reason = _nothing(fact.name, region, demands, target)
        rule = (fact.source, fact.name)
        if reason is None:
            effective.add(rule)
        else:
            refused.setdefault(rule, f"{fact.source}: key '{fact.name}': found {fact.value}, {reason}")
    for rule, message in refused.items():
        if rule not in effective:
            raise RecipeError(f"{message}; it would change nothing")


def stored_types(value: SSAValue) -> list[UniformQuantizedType]:
    """The types that a value is stored in: its own, those that readers take, and those that it is rescaled to."""
    found: list[Attribute] = []
    if isinstance(value, OpResult) and isinstance(value.op, QuantizeRegionOp):
        found.append(value.op.output_specs.data[value.index])
    for use in value.uses:
        if isinstance(reader := use.operation, QuantizeRegionOp):
            found.append(reader.input_specs.data[use.index])
            found += reader.output_specs.data if is_rescale(reader) else ()
    return [kind for kind in found if isinstance(kind, UniformQuantizedType)]


def check_results(decided: Program, recipe: RecipeRules, target: Target) -> None:
    """Raise RecipeError for a demand on a kernel that stays float, on sums that are not rounded, or on a fixed type.

    Which these are is known once all types are decided.
    """
    sources = {str(rule) for rule in recipe.rules}
    made = [entry for entry in _demands(decided) if entry[1].source in sources]
    effective = {(fact.source, fact.name) for region, fact, all_ in made if _unmet(region, fact, all_, target) is None}
    for region, fact, demands in made:
        if (fact.source, fact.name) not in effective:
            expected = _unmet(region, fact, demands, target)
            raise RecipeError(
                f"{fact.source}: key '{fact.name}': found {fact.value}, expected {expected}; it would change nothing"
            )


def check_constants(decided: Program, recipe: RecipeRules, target: Target) -> None:
    """Raise RecipeError for a type of a constant that no kernel reads it with: all of them have one for all values."""
    sources, refused, effective = {str(rule) for rule in recipe.rules}, dict[str, str](), set[str]()
    for op in decided.entry.ops:
        pinned = op.attributes.get(PINNED)
        facts = [fact for fact in facts_of(op, DEMANDS) if fact.name in OF_TENSORS and fact.source in sources]
        if not facts or not isinstance(pinned, UniformQuantizedType):
            continue
        for use in op.results[0].uses:
            reader, fact = use.operation, facts[0]
            kind = reader.input_specs.data[use.index] if isinstance(reader, QuantizeRegionOp) else None
            if not isinstance(kind, UniformQuantizedType) or _holds(kind, pinned) or _is_weight(reader, use.index):
                effective.add(fact.source)
            else:
                refused[fact.source] = (
                    f"{fact.source}: key '{fact.name}': found {fact.value}, expected a constant whose type is free; "
                    f"{value_name(reader.results[0])} of target {target.name} reads it as {kind}"
                )
    for source in refused.keys() - effective:
        raise RecipeError(f"{refused[source]}; it would change nothing")


def _holds(kind: UniformQuantizedType, pinned: UniformQuantizedType) -> bool:
    """Whether a type has the scales of another one, which may be held in f32."""
    return len(kind.scales) == len(pinned.scales) and bool(np.allclose(kind.scales, pinned.scales, rtol=1e-6, atol=0))


def _is_weight(reader: Operation, index: int) -> bool:
    """Whether an operand is the weight of a contraction, whose scales are raised where sums would not fit."""
    found = weights_of(reader) if isinstance(reader, QuantizeRegionOp) else None
    return found is not None and found[1] == index


def _unmet(region: QuantizeRegionOp, fact: Fact, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The expectation of a demand on a region, if it has no effect there; None if it has one, or restates a default."""
    restates = fact.value == "false" or (fact.name == "bits" and int(fact.value) <= DEFAULT_BITS)
    if restates or (fact.name, fact.value) in _DEFAULTS:
        return None
    if fact.name in _OF_WEIGHTS:
        return None if region.is_quantized or _only_weights(demands) else _quantized(region)
    return _unmet_by_results(region, fact, target) if fact.name in DEMANDS_ON_RESULTS else None


def _unmet_by_results(region: QuantizeRegionOp, fact: Fact, target: Target) -> str | None:
    """The expectation of a demand that the results of a region do not meet; None if they do, or if it decides them."""
    name, facts = value_name(region.outputs[0]), facts_of(region)
    if EXPRESSED_SUMS in facts:
        return (
            f"a result that is rounded; only float ops read '{name}', so its accumulator is dequantized directly "
            f"('range' rounds it)"
        )
    types = [spec for spec in region.output_specs if isinstance(spec, UniformQuantizedType)]
    if fact.name == "symmetric" and not types:
        return _quantized(region)
    found = (one for one in facts if one.name == "parameters" and one.salience in ("kernel", "user"))
    fixed = next((one for one in found if one.source != fact.source), None)
    if fixed is None or _is_met(fact, stored_types(region.outputs[0]) if fact.name == "scale" else types, fixed):
        return None
    of_target = f" of target {target.name}" if fixed.salience == "kernel" else ""
    return f"a result whose type is free; {fixed.source}{of_target} fixes that of '{name}'"


def _is_met(fact: Fact, types: Iterable[UniformQuantizedType], fixed: Fact) -> bool:
    """Whether types that something fixes are as demanded. A kernel that fixes them was chosen by the width.

    Scales may be held in f32.
    """
    if fact.name == "scale":
        return any(one.is_per_layer and isclose(one.scale, float(fact.value), rel_tol=1e-6) for one in types)
    if fact.name == "bits":
        return fixed.salience == "kernel" or all(one.storage.type.width >= int(fact.value) for one in types)
    return fact.name == "symmetric" and all(one.zero_point == one.storage.type.middle for one in types)


def _quantized(region: QuantizeRegionOp) -> str:
    """The expectation of a kernel that is quantized, with the reason why a region is not."""
    reason = region.attributes.get(FLOAT_REASON)
    why = f": {reason.data}" if isinstance(reason, StringAttr) else ""
    return f"a kernel that is quantized; '{value_name(region.outputs[0])}' stays float{why}"


def _nothing(name: str, region: QuantizeRegionOp, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The reason why a demand has no effect on a region; None if it has one."""
    stays = keeping_float(demands)
    stored = OF_STORED_OUTPUTS if _only_weights(demands) else (*OF_STORED_OUTPUTS, *_OF_WEIGHTS)
    if stays is not None and name in stored:
        return f"expected a kernel that is quantized; {stays.source} keeps this one in float"
    return _NOTHING[name](region, demands, target) if name in _NOTHING else None


def _demands(fused: Program) -> Iterator[tuple[QuantizeRegionOp, Fact, Mapping[str, Fact]]]:
    """Every demand, with its region and all demands of that region."""
    for op in fused.entry.ops:
        if isinstance(op, QuantizeRegionOp):
            demands = {fact.name: fact for fact in facts_of(op, DEMANDS)}
            for fact in demands.values():
                yield op, fact, demands


def _too_narrow(region: QuantizeRegionOp, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The reason why a minimum width has no effect: the kernel that is used without it is not that narrow."""
    if any(name in demands for name in OTHER_STORAGE):
        return None
    rows = target.by_kernel.get(region.logical_kernel.data, ())
    bits = int(demands["bits"].value)
    if not rows:
        return None if bits == DEFAULT_BITS else _unknown(region, target)
    least = rows[0].output.widths[0]
    if bits >= least:
        return None
    widths = sorted({width for row in rows for width in row.output.widths if width >= least})
    listed = " or ".join(map(str, widths)) + (", the widths" if len(widths) > 1 else ", the width")
    return f"expected {listed} of kernel '{region.logical_kernel.data}' on target {target.name}"


def _without_weights(region: QuantizeRegionOp, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The reason why a granularity has no effect: the kernel has no weights."""
    if _only_weights(demands):
        return _without_constants(region, demands, target)
    kernel = region.logical_kernel.data
    rows = target.by_kernel.get(kernel, ())
    if any(rule.role is Role.WEIGHT for row in rows for rule in row.inputs):
        return None
    return f"expected a kernel with weights; '{kernel}' has none on target {target.name}"


def _without_rows(region: QuantizeRegionOp, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The reason why scales of activations have no effect: the kernel rounds no rows."""
    kernel = region.logical_kernel.data
    if any(row.activation_scales for row in target.by_kernel.get(kernel, ())):
        return None
    return f"expected a kernel that rounds rows of activations; '{kernel}' does not on target {target.name}"


def _without_width(region: QuantizeRegionOp, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The reason why a width of weights has no effect: the kernel has no weights of that width."""
    if _only_weights(demands):
        return _without_constants(region, demands, target)
    rows = target.by_kernel.get(region.logical_kernel.data, ())
    weights = [rule for row in rows for rule in row.inputs if rule.role is Role.WEIGHT]
    widths = sorted({width for rule in weights for width in rule.widths})
    if int(demands[WEIGHT_BITS].value) in widths:
        return None
    listed = " or ".join(map(str, widths)) or "no width: it has no weights"
    return f"expected {listed}, for kernel '{region.logical_kernel.data}' on target {target.name}"


def _without_blocks(region: QuantizeRegionOp, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The reason why blocks have no effect: no kernel takes them, or the weights cannot be divided into such blocks."""
    kernel = region.logical_kernel.data
    rows = target.by_kernel.get(kernel, ())
    if not _only_weights(demands) and not any(rule.blocks for row in rows for rule in row.inputs):
        return f"expected a kernel that takes blocks of weights; '{kernel}' does not on target {target.name}"
    return unfit_blocks(region, {name: fact.value for name, fact in demands.items()}, None)


def _only_weights(demands: Mapping[str, Fact]) -> bool:
    """Whether only the weights of a kernel are quantized."""
    return all(name in demands and demands[name].value == value for name, value in FLOAT_ACTIVATIONS.items())


def _without_constants(region: QuantizeRegionOp, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The reason why float activations have no effect: there are no weights to store."""
    del target
    found = weights_of(region)
    index = 0 if table_of(region) is not None else None if found is None else found[1]
    if not _only_weights(demands) or (index is not None and is_constant(region.inputs[index])):
        return None
    return f"expected a kernel with constant weights; '{region.logical_kernel.data}' here has none"


def _without_zero_points(region: QuantizeRegionOp, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The reason why zero points of weights have no effect: kernels of quantized activations have none."""
    if demands[WEIGHT_SYMMETRIC].value == "true" or _only_weights(demands):
        return _without_constants(region, demands, target)
    return "expected 'activations: float' with it; kernels of quantized activations take no zero points of weights"


def _same_values(region: QuantizeRegionOp, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The reason why an observer has no effect: the kernel moves the values of another one, and has their type."""
    source = region.inputs[0].owner
    source = source.arg.owner if isinstance(source, StatisticsRefOp) else source
    moves = all(isinstance(op, ReshapeOp | TransposeOp) for op in region.body.block.ops if op.results)
    if not moves or not isinstance(source, QuantizeRegionOp):
        return None
    kernel = region.logical_kernel.data
    return f"expected a kernel that computes values; '{kernel}' has the range of its input"


def _without_kernel(region: QuantizeRegionOp, demands: Mapping[str, Fact], target: Target) -> str | None:
    """The reason why a zero point of 0 has no effect: no kernel produces the output."""
    if demands["symmetric"].value == "false" or target.by_kernel.get(region.logical_kernel.data):
        return None
    return _unknown(region, target)


def _unknown(region: QuantizeRegionOp, target: Target) -> str:
    return f"expected a kernel of target {target.name}, which has no '{region.logical_kernel.data}'"


_OF_WEIGHTS = ("block_size", "granularity", "weight_bits", "weight_symmetric")
"""Demands on a kernel's weights."""

_NOTHING: Mapping[str, Callable[[QuantizeRegionOp, Mapping[str, Fact], Target], str | None]] = {
    "activation_scales": _without_rows,
    "activations": _without_constants,
    "bits": _too_narrow,
    "block_size": _without_blocks,
    "granularity": _without_weights,
    "observer": _same_values,
    "symmetric": _without_kernel,
    "weight_bits": _without_width,
    "weight_symmetric": _without_zero_points,
}
"""By key, a function that returns the reason why the demand has no effect on a region, or None if it has one."""
