"""Demands on weights and other constants of a model: pins the type that a rule states to the constant.

```mlir
%w = stablehlo.constant dense<...> : tensor<4x3xf32> loc("conv.weight")
```
with the rule `{name: conv.weight, scale: 0.01}` gets `zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.01>`, the
attribute that the weights of a model trained with fake quantization have.

Source: the RFC on quantization transformations, "Model Constraints".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from xdsl.dialects.builtin import AnyFloat

from zeropoint.ir.annotations import DEMANDS, PINNED, Fact, facts_of, state_facts
from zeropoint.ir.contractions import weight_channel_axis
from zeropoint.ir.locations import model_names
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import ConstantOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.numerics.ranges import asymmetric, symmetric
from zeropoint.recipe.rules import OF_TENSORS, RecipeError, Rule, check_numbers, numbers_of

OF_CONSTANTS = {*OF_TENSORS, "bits"}
"""The settings that apply to constants."""


def demand_constants(program: Program, rule: Rule) -> bool:
    """Pin the constants that a rule selects, in place. Returns whether there are any and the rule has settings for
    them.

    Raises RecipeError for a setting that does not apply to constants, and for a rule that selects only biases.
    """
    found = list(selected_constants(program, rule))
    if not found or not set(rule.settings) & set(OF_TENSORS):
        return False
    other = next((key for key in rule.settings if key not in OF_CONSTANTS), None)
    if other is not None:
        listed = ", ".join(OF_TENSORS)
        raise RecipeError(f"{rule}: key '{other}': the rule selects a constant, expected {listed} or bits")
    pinned = [_pin(op, region, index, rule) for op, region, index in found]
    if not any(pinned):
        raise RecipeError(
            f"{rule}: selects only biases, which have the scales of the products: scale_in * scale_weight"
        )
    return True


def selected_constants(program: Program, rule: Rule) -> Iterator[tuple[ConstantOp, QuantizeRegionOp, int]]:
    """The float constants that a rule names, each with a region that reads it and the number of the operand."""
    for op in program.entry.ops:
        if not isinstance(op, ConstantOp) or not isinstance(element_of(op.output), AnyFloat):
            continue
        regions = [(use.operation, use.index) for use in op.output.uses]
        if any(map(rule.names, model_names(op))):
            yield from ((op, reader, index) for reader, index in regions if isinstance(reader, QuantizeRegionOp))


def _pin(op: ConstantOp, region: QuantizeRegionOp, index: int, rule: Rule) -> bool:
    """Pin a constant; returns True. A bias is left as it is; returns False."""
    body = region.body.block
    contraction = next((o for o in body.ops if isinstance(o, ConvolutionOp | DotGeneralOp)), None)
    is_weight = contraction is not None and contraction.rhs is body.args[index]
    if contraction is not None and not is_weight:
        return False
    merged = {fact.name: fact for fact in (*facts_of(op, DEMANDS), *rule.facts())}
    if "range" in rule.settings:
        merged = {name: fact for name, fact in merged.items() if name not in ("scale", "zero_point")}
    elif "scale" in rule.settings:
        merged.pop("range", None)
    state_facts(op, merged.values(), DEMANDS)
    axis = weight_channel_axis(contraction) if contraction is not None else None
    op.attributes[PINNED] = _type(op, merged, axis, rule, is_weight=is_weight)
    return True


def _type(
    op: ConstantOp, demands: Mapping[str, Fact], axis: int | None, rule: Rule, *, is_weight: bool
) -> UniformQuantizedType:
    """The type that demands state. Weights get a storage range that is symmetric about 0."""
    bits = demands["bits"].value if "bits" in demands else "8"
    storage = Storage.of(f"i{bits}")
    if is_weight:
        storage = Storage(storage.type, storage.type.narrow_min, storage.maximum)
    expressed = element_of(op.output)
    assert isinstance(expressed, AnyFloat)
    check_numbers(demands, expressed)
    if "range" in demands:
        low, high = numbers_of(demands["range"].value)
        if is_weight:
            chosen = symmetric(low, high, storage.type)
        else:
            chosen = asymmetric(low, high, storage.minimum, storage.maximum)
        return UniformQuantizedType.per_layer(
            storage, float(chosen.scale), int(chosen.zero_point), expressed_type=expressed
        )
    scales = numbers_of(demands["scale"].value)
    zero_point = int(demands["zero_point"].value) if "zero_point" in demands else 0
    if not storage.minimum <= zero_point <= storage.maximum:
        bounds = f"{storage.minimum} to {storage.maximum}, of storage {storage}"
        raise RecipeError(f"{rule}: key 'zero_point': found {zero_point}, expected one from {bounds}")
    if len(scales) == 1:
        return UniformQuantizedType.per_layer(storage, scales[0], zero_point, expressed_type=expressed)
    channels = 0 if axis is None else shape_of(op.output)[axis]
    if axis is None or len(scales) != channels:
        expected = f"1 or {channels}, one per output channel" if axis is not None else "1"
        raise RecipeError(f"{rule}: key 'scale': found {len(scales)} scales, expected {expected}")
    points = np.full(channels, zero_point)
    return UniformQuantizedType.per_channel(storage, axis, scales, points.tolist(), expressed_type=expressed)
