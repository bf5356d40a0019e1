"""Applies a recipe: writes its demands onto the regions that its rules select.

```mlir
%1 = "quant.region"(%0) ({...}) {logical_kernel = "softmax", input_specs = [f32], output_specs = [f32]} loc("probs")
```
with the rule `{op: softmax, quantize: false}` becomes
```mlir
%1 = "quant.region"(%0) ({...}) {logical_kernel = "softmax", input_specs = [!quant.none<f32>],
       output_specs = [!quant.none<f32>], zeropoint.float_reason = "...", zeropoint.demands = [{name = "quantize"...}]}
```
A bit width becomes `!quant.any<i16:f32>` on the output, a range becomes `!quant.calibrated`, and scale and zero point
become `!quant.uniform` (8 bits unless the recipe has `bits`). An input of the model gets statistics or a pair of casts.
Names are those of the original model. An op that was fused into a kernel keeps its name; a demand on it applies to the
whole kernel.

Source: the RFC on quantization transformations, "Model Constraints" and "Quantization region".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, StringAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.ir.annotations import DEMANDS, FLOAT_ACTIVATIONS, FLOAT_REASON, FUNCTION, Fact, facts_of, state_facts
from zeropoint.ir.locations import location_of, location_text, model_names, value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    DequantizeCastOp,
    NoQuantizedType,
    QuantizeCastOp,
    QuantizedType,
    QuantizeRegionOp,
    StatisticsOp,
    Storage,
    UniformQuantizedType,
)
from zeropoint.ir.quant.parameters import CalibratedParameters
from zeropoint.ir.stablehlo import ConstantOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensor_names import ops_of_tensor
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.recipe.rules import OF_TENSORS, RecipeError, RecipeRules, Rule, Subgraph, check_numbers, numbers_of
from zeropoint.recipe.weights import demand_constants, selected_constants


def op_names(op: Operation) -> set[str]:
    """The names, in the original model, of an op and of the ops inside it except constants."""
    named = (inner for inner in op.walk() if inner is op or not isinstance(inner, ConstantOp))
    return {name for inner in named for name in model_names(inner)}


def op_kinds(op: Operation) -> set[str]:
    """The kinds of an op, for example `stablehlo.add`; for a region its kernel, its function and its inner ops."""
    kinds = {inner.name for inner in op.walk() if inner.name.startswith(("stablehlo.", "chlo."))}
    if isinstance(op, QuantizeRegionOp):
        kinds.add(op.logical_kernel.data)
        function = op.attributes.get(FUNCTION)
        if isinstance(function, StringAttr):
            kinds.add(function.data)
    return kinds


def _candidates(program: Program) -> list[Operation]:
    return [op for op in program.entry.ops if not isinstance(op, ConstantOp | ReturnOp)]


def _reached(start: Iterable[Operation], neighbours: Callable[[Operation], Iterator[Operation]]) -> set[Operation]:
    seen: set[Operation] = set()
    pending = list(start)
    while pending:
        op = pending.pop()
        if op not in seen:
            seen.add(op)
            pending += neighbours(op)
    return seen


def _users(op: Operation) -> Iterator[Operation]:
    return (use.operation for result in op.results for use in result.uses)


def _makers(op: Operation) -> Iterator[Operation]:
    return (operand.owner for operand in op.operands if isinstance(operand.owner, Operation))


def _named(program: Program, name: str, rule: Rule) -> list[Operation]:
    """The ops named `name`, and the users of an input of that name. Raises RecipeError if there are none."""
    found = [op for op in _candidates(program) if name in op_names(op)]
    for argument, port in zip(program.entry.args, program.inputs, strict=True):
        if port.name == name:
            found += [use.operation for use in argument.uses]
    found = found or _of_tensor(program, name)
    if not found:
        raise RecipeError(f"{rule}: key 'subgraph': found no op or input '{name}' in the model")
    return found


def _between(program: Program, pattern: Subgraph, rule: Rule) -> list[Operation]:
    after = _reached([op for name in pattern.first for op in _named(program, name, rule)], _users)
    before = _reached([op for name in pattern.last for op in _named(program, name, rule)], _makers)
    return [op for op in _candidates(program) if op in after and op in before]


def _selected(program: Program, rule: Rule) -> list[Operation]:
    pattern = rule.pattern
    if isinstance(pattern, Subgraph):
        return _between(program, pattern, rule)
    if rule.selector == "op":
        return [op for op in _candidates(program) if pattern in op_kinds(op)]
    found = [op for op in _candidates(program) if any(map(rule.names, op_names(op)))]
    return found or (_of_tensor(program, str(pattern)) if rule.selector == "name" else [])


def _of_tensor(program: Program, name: str) -> list[Operation]:
    """The ops that compute a tensor of the original model, for tensors whose names differ from their op's."""
    wanted = set(ops_of_tensor(program.module, name))
    return [op for op in _candidates(program) if wanted & op_names(op)] if wanted else []


def _around_constants(program: Program, rule: Rule) -> Iterator[QuantizeRegionOp]:
    """The kernels that contain a constant which a rule selects by name."""
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp):
            constants = (inner for inner in op.walk() if isinstance(inner, ConstantOp))
            if any(rule.names(name) for inner in constants for name in model_names(inner)):
                yield op


def _is_quantized(op: Operation) -> bool:
    """Whether an op computes with quantized values, as those of a quantized StableHLO file do."""
    kinds = [element_of(value) for value in (*op.operands, *op.results)]
    is_cast = isinstance(op, UniformQuantizeOp | UniformDequantizeOp | QuantizeCastOp | DequantizeCastOp)
    return not is_cast and any(isinstance(kind, UniformQuantizedType) for kind in kinds)


def _check_effect(program: Program, rule: Rule, selected: list[Operation], original: Program | None) -> None:
    """Raise RecipeError if a rule has no effect: it matches nothing, or nothing that it can change.

    Constants are pinned here, if a rule selects constants only.
    """
    if not selected and (_inputs_of(program, rule) or demand_constants(program, rule)):
        return
    if not selected:
        folded = original is not None and not isinstance(rule.pattern, Subgraph) and bool(_selected(original, rule))
        if not folded and any(selected_constants(program, rule)):
            raise RecipeError(f"{rule}: selects only constants, for which {', '.join(OF_TENSORS)} can be set")
        holder = next(_around_constants(program, rule), None)
        if holder is not None:
            name = location_text(holder.location) or holder.logical_kernel.data
            raise RecipeError(
                f"{rule}: selects only a constant inside kernel '{name}', which has no type of its own on this target; "
                f"name the op that uses it"
            )
        if folded:
            raise RecipeError(
                f"{rule}: matches only ops that were folded into other ops or constants; name the op that is left"
                f"{_advice(program, rule)}"
            )
        raise RecipeError(f"{rule}: matches nothing in the model, expected one op or more{_advice(program, rule)}")
    if any(isinstance(op, QuantizeRegionOp) for op in selected):
        return
    if any(map(_is_quantized, selected)):
        raise RecipeError(
            f"{rule}: matches only ops that the file has quantized already, which no recipe changes; quantize the "
            "float model with it"
        )
    if set(rule.settings) != {"quantize"}:
        kinds = ", ".join(sorted({op.name for op in selected}))
        raise RecipeError(f"{rule}: matches only {kinds}, which no kernel covers and which stays float")


def _advice(program: Program, rule: Rule) -> str:
    """Advice for a rule without matches, such as similar names; empty if there is none."""
    if rule.selector != "name":
        return ""
    name, last = str(rule.pattern), program.entry.last_op
    if name in (port.name for port in program.inputs):
        return f"; it is an input, for which {', '.join(OF_TENSORS)} can be set"
    for port, value in zip(program.outputs, () if last is None else last.operands, strict=True):
        if port.name == name and isinstance(value.owner, Operation):
            return f"; it is an output, which is the result of '{value_name(value)}'"
    if "*" in name:
        return "; patterns are given with 'regex', such as 'conv.*'"
    names = sorted({known for op in _candidates(program) for known in op_names(op)})
    close = ", ".join(f"'{known}'" for known in get_close_matches(name, names, 3))
    return f"; similar names: {close}" if close else ""


def _specs(values: Iterable[SSAValue], make: Callable[[AnyFloat], Attribute]) -> ArrayAttr[Attribute]:
    """The specs of ports: from `make` for floats, otherwise the element type."""
    elements = [element_of(value) for value in values]
    return ArrayAttr([make(element) if isinstance(element, AnyFloat) else element for element in elements])


def _stated(demands: Mapping[str, Fact], element: AnyFloat) -> QuantizedType | None:
    """The type that expresses the demands on a tensor: parameters, a range, or a minimum width; None without these."""
    check_numbers(demands, element)
    storage = Storage.of(f"i{demands['bits'].value}" if "bits" in demands else "i8")
    if "scale" in demands:
        zero_point = int(demands["zero_point"].value) if "zero_point" in demands else 0
        if not storage.minimum <= zero_point <= storage.maximum:
            raise RecipeError(
                f"{demands['zero_point'].source}: key 'zero_point': found {zero_point}, expected one from "
                f"{storage.minimum} to {storage.maximum}, of storage {storage}; 'bits' sets another width"
            )
        scale, *others = numbers_of(demands["scale"].value)
        if others:
            found = f"found {1 + len(others)} scales, expected one: only weights have one per channel"
            raise RecipeError(f"{demands['scale'].source}: key 'scale': {found}")
        return UniformQuantizedType.per_layer(storage, scale, zero_point, expressed_type=element)
    if "range" in demands:
        low, high = numbers_of(demands["range"].value)
        return CalibratedQuantizedType(CalibratedParameters(element, low, high))
    return AnyQuantizedType.of(storage, element) if "bits" in demands else None


def _inputs_of(program: Program, rule: Rule) -> list[SSAValue]:
    """The float inputs of the model that a rule selects, if it has settings for tensors."""
    if not set(rule.settings) & set(OF_TENSORS):
        return []
    ports = zip(program.entry.args, program.inputs, strict=True)
    named = [argument for argument, port in ports if rule.names(port.name)]
    floats: list[SSAValue] = [argument for argument in named if isinstance(element_of(argument), AnyFloat)]
    if named and not floats and rule.selector == "name":
        raise RecipeError(
            f"{rule}: selects an input of {element_of(named[0])}, which is not quantized, expected floats"
        )
    return floats


def _pin_input(program: Program, argument: SSAValue, demands: Mapping[str, Fact]) -> None:
    """Let every use of an input read it through statistics or a pair of casts that express the demands."""
    element, first = element_of(argument), program.entry.first_op
    assert first is not None
    stated = _stated(demands, element) if isinstance(element, AnyFloat) else None
    if stated is None:
        return
    if isinstance(stated, CalibratedQuantizedType):
        observed = StatisticsOp(argument, (stated.minimum, stated.maximum))
        observed.location = location_of(argument)
        state_facts(observed, demands.values(), DEMANDS)
        program.entry.insert_op_before(observed, first)
        argument.replace_uses_with_if(observed.res, lambda use: use.operation is not observed)
        return
    quantize = QuantizeCastOp(argument, with_element(argument, stated))
    dequantize = DequantizeCastOp(quantize.result, argument.type)
    quantize.location = dequantize.location = location_of(argument)
    state_facts(dequantize, demands.values(), DEMANDS)
    program.entry.insert_ops_before([quantize, dequantize], first)
    argument.replace_uses_with_if(dequantize.results[0], lambda use: use.operation is not quantize)


def _demand(region: QuantizeRegionOp, facts: list[Fact]) -> None:
    """Add demands to a region, and express them in its specs where types can."""
    given = {fact.name for fact in facts}
    # `quantize: false` and `activations: float` exclude each other. The later rule replaces the earlier one.
    kept = [fact for fact in facts_of(region, DEMANDS) if not (fact.name in _EITHER and given & _EITHER)]
    merged = {fact.name: fact for fact in (*kept, *facts)}
    state_facts(region, merged.values(), DEMANDS)
    region.attributes.pop(FLOAT_REASON, None)
    region.input_specs = _specs(region.inputs, lambda element: element)
    region.output_specs = _specs(region.outputs, lambda element: element)
    region.output_specs = _specs(region.outputs, lambda element: _stated(merged, element) or element)
    if (stays := keeping_float(merged)) is not None:
        region.input_specs = _specs(region.inputs, NoQuantizedType)
        region.output_specs = _specs(region.outputs, NoQuantizedType)
        region.attributes[FLOAT_REASON] = StringAttr(f"{stays.source}: {_FLOAT[stays.name, stays.value]}")


_FLOAT = {
    ("quantize", "false"): "do not quantize",
    **dict.fromkeys(FLOAT_ACTIVATIONS.items(), "quantize only its weights"),
}
"""Maps demands that keep a kernel float to the reason that the kernel gets."""
_EITHER = {key for key, _ in _FLOAT}


def keeping_float(demands: Mapping[str, Fact]) -> Fact | None:
    """The demand that keeps a kernel float; None without one."""
    return next((fact for fact in demands.values() if (fact.name, fact.value) in _FLOAT), None)


def _check_contradicted(rule: Rule, selected: Iterable[Operation], rules: Iterable[Rule]) -> None:
    """Raise RecipeError for a rule that keeps kernels float if later rules keep all of them float in the other way.

    A general rule may precede rules for some of its ops, and in a small model these may be all ops. So only later rules
    that select by name, or that have the same selector and pattern, count as contradictions.
    """
    stated = keeping_float({fact.name: fact for fact in rule.facts()})
    regions = (op for op in selected if isinstance(op, QuantizeRegionOp))
    held = [keeping_float({fact.name: fact for fact in facts_of(region, DEMANDS)}) for region in regions]
    if stated is None or not held or held[0] is None or any(fact is None or fact.name == stated.name for fact in held):
        return
    mine = rule.selector, rule.pattern
    alike = {str(other) for other in rules if rule.selector == "name" or (other.selector, other.pattern) == mine}
    if held[0].source in alike:
        raise RecipeError(
            f"{rule}: key '{stated.name}': found {stated.value}, expected one of this and '{held[0].name}: "
            f"{held[0].value}' ({held[0].source}), which replaces it: this rule has no effect"
        )


def apply_recipe(program: Program, recipe: RecipeRules, original: Program | None = None) -> Program:
    """A copy of a fused program with the demands of a recipe on its regions.

    `original` is the program as imported. With it, messages distinguish a name that was folded away from an unknown
    one. Raises RecipeError for a rule that matches nothing, has no effect on its matches, or is contradicted by a later
    rule.
    """
    program = program.clone()
    pinned: dict[SSAValue, dict[str, Fact]] = {}
    chosen: list[tuple[Rule, list[Operation]]] = []
    for rule in recipe.rules:
        selected = _selected(program, rule)
        chosen.append((rule, selected))
        _check_effect(program, rule, selected, original)
        for op in selected:
            if isinstance(op, QuantizeRegionOp):
                _demand(op, rule.facts())
        for argument in _inputs_of(program, rule):
            pinned.setdefault(argument, {}).update({fact.name: fact for fact in rule.facts()})
    for argument, demands in pinned.items():
        _pin_input(program, argument, demands)
    for rule, selected in chosen:
        _check_contradicted(rule, selected, recipe.rules)
    return program
