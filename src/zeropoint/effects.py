"""Refuses choices about ranges that change nothing: observers and ranges of a recipe, the observer and the rule of
ranges of a whole model.

Whether they have an effect is known once all types are decided. If the type of a value ends where its range ends, they
have. If none of the types does, everything is decided once more with half the range. If that gives the same program,
no other range would have changed it either. Examples are types of 16 bits, which hold every observed value whatever an
observer chooses, and values that share their type with others of wider ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import cast

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, DenseIntOrFPElementsAttr, StringAttr, TensorType, f32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from zeropoint.calibrate import DEFAULT_OBSERVER, Report
from zeropoint.calibrate.bounded import state_bounded
from zeropoint.demands import check_constants, check_results, stored_types
from zeropoint.errors import Error, OptionError
from zeropoint.ir.annotations import (
    DEMANDS,
    EXTREMES,
    FACTS,
    FLOAT_REASON,
    RESCALE,
    RESCALE_COUNTS,
    Fact,
    demanded_by,
    facts_of,
    is_facts_name,
    listed_facts,
)
from zeropoint.ir.locations import value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    QuantizeRegionOp,
    StatisticsOp,
    UniformQuantizedType,
)
from zeropoint.ir.quant.parameters import CalibratedParameters
from zeropoint.ir.regions import regions_of
from zeropoint.numerics.ranges import RealRange
from zeropoint.options import Options
from zeropoint.passes import CALIBRATED_PASSES, DECIDING_PASSES, run_all
from zeropoint.recipe import RecipeError, Rule
from zeropoint.recipe.rules import numbers_of
from zeropoint.solve import DEFAULT_RANGES, is_rescale
from zeropoint.solve.classes import real_range
from zeropoint.solve.constraints import stated_range
from zeropoint.solve.value_constraint import NARROW
from zeropoint.targets import target as named_target

Picks = Callable[[Operation], bool]
"""Whether a choice decides the range that an op states."""
_OF_RANGES = ("observer", "range")
"""The keys of rules that decide ranges."""


@dataclass(frozen=True)
class Decided:
    """A program with all ranges that were observed or demanded, and the program with all types decided by them."""

    ranged: Program
    report: Report
    program: Program
    settings: Mapping[str, object]
    """The settings of the passes."""

    def would_change(self, ranged: Program, settings: Mapping[str, object]) -> bool:
        """Whether other ranges or settings give another program."""
        try:
            calibrated = run_all(CALIBRATED_PASSES, ranged, settings)
            made = run_all(DECIDING_PASSES, state_bounded(calibrated, self.report), settings)
        except Error:
            return True  # the present ranges give a program
        return _form(made) != self._own_form

    @cached_property
    def _own_form(self) -> list[object]:
        return _form(self.program)

    def has_effect(self, picks: Picks, *, observed: bool) -> bool:
        """Whether the ranges of some ops have an effect. Those that an observer chose have none on wide types."""
        known = {value_name(value): found for op in self.ranged.entry.ops if picks(op) for value, found in _ranges(op)}
        ends = (
            _ends_at(found, known[name])
            for value in _values(self.program)
            if (name := value_name(value)) in known
            for found in stored_types(value)
            if not observed or found.storage.type.width <= NARROW
        )
        return any(ends) or self.would_change(_halved(self.ranged, picks), self.settings)


def check_effects(decided: Decided, options: Options) -> None:
    """Raise RecipeError for a rule, and OptionError for an observer or a rule of ranges, that changes nothing."""
    if options.recipe is not None:
        target = named_target(options.target)
        check_results(decided.program, options.recipe, target)
        check_constants(decided.program, options.recipe, target)
        for rule in options.recipe.rules:
            for key in _OF_RANGES:
                if key in rule.settings and rule.settings[key] != options.observer:
                    _check_rule(decided, rule, key, target.name)
    if options.observer != DEFAULT_OBSERVER and any(map(_is_open, decided.ranged.entry.ops)):
        _check_observer(decided, options.observer)
    defaults = {**decided.settings, "ranges": DEFAULT_RANGES}
    if options.ranges != DEFAULT_RANGES and not decided.would_change(decided.ranged, defaults):
        raise OptionError(
            f"found ranges '{options.ranges}' for a model in which no range gets another type by this rule, where it "
            f"changes nothing; leave it out"
        )


def _check_observer(decided: Decided, observer: str) -> None:
    if not decided.has_effect(_is_open, observed=True):
        is_quantized = any(map(stored_types, _values(decided.program)))
        wide = f"a model without a type that it decides: types of more than {NARROW} bits hold all observed values"
        found = wide if is_quantized else "a program of which nothing is quantized"
        raise OptionError(f"found observer {observer} (--observer) for {found}, where it changes nothing; leave it out")


def _check_rule(decided: Decided, rule: Rule, key: str, target: str) -> None:
    picks = partial(_is_picked, rule=str(rule), key=key)
    picked = [value_name(value) for op in decided.ranged.entry.ops if picks(op) for value, _ in _ranges(op)]
    if picked and not decided.has_effect(picks, observed=key == "observer"):
        found = next((value for value in _values(decided.program) if value_name(value) in picked), None)
        expected = "a value whose type it decides" if found is None else _expected(found, key, decided.program, target)
        raise RecipeError(
            f"{rule}: key '{key}': found {rule.settings[key]}, expected {expected}; it would change nothing"
        )


def _is_open(op: Operation) -> bool:
    """Whether an op states a range that the observer of the whole model chose."""
    return isinstance(op, StatisticsOp) and demanded_by(op) is None and not _rules_of(op.arg.owner, "observer")


def _is_picked(op: Operation, rule: str, key: str) -> bool:
    """Whether an op states a range that a rule decides."""
    if key == "observer":
        return isinstance(op, StatisticsOp) and rule in _rules_of(op.arg.owner, key)
    return rule in _rules_of(op, key)


def _rules_of(op: object, key: str) -> list[str]:
    """The rules that demand something of an op."""
    return [fact.source for fact in facts_of(op, DEMANDS) if fact.name == key] if isinstance(op, Operation) else []


def _values(program: Program) -> Iterator[SSAValue]:
    """The inputs of a program and the results of its kernels; not of rescales, which have the names of those."""
    yield from program.entry.args
    yield from (value for region in regions_of(program) if not is_rescale(region) for value in region.outputs)


def _ranges(op: Operation) -> Iterator[tuple[SSAValue, RealRange]]:
    """The values that an op states a range of."""
    if isinstance(op, StatisticsOp):
        yield op.arg, stated_range(op)
    for value, spec in zip(op.outputs, op.output_specs, strict=True) if isinstance(op, QuantizeRegionOp) else ():
        if isinstance(spec, CalibratedQuantizedType):
            yield value, (spec.minimum, spec.maximum)


def _ends_at(found: UniformQuantizedType, known: RealRange) -> bool:
    """Whether a type ends within a step of an end of a range; 0 is in every type."""
    if not found.is_per_layer:
        return True
    low, high = real_range(found)
    ends = (known[0] < 0 and abs(known[0] - low) <= found.scale, known[1] > 0 and abs(known[1] - high) <= found.scale)
    return any(ends)


def _halved(ranged: Program, picks: Picks) -> Program:
    """The program with half of some of its ranges; the observed values are the same."""
    program = ranged.clone()
    for op in filter(picks, program.entry.ops):
        if isinstance(op, StatisticsOp):
            low, high = stated_range(op)
            op.attributes.setdefault(EXTREMES, op.layer_stats)
            op.layer_stats = DenseIntOrFPElementsAttr.from_list(TensorType(f32, [2]), [low / 2, high / 2])
        elif isinstance(op, QuantizeRegionOp):
            op.output_specs = ArrayAttr([_half(spec) for spec in op.output_specs])
    return program


def _half(spec: Attribute) -> Attribute:
    if not isinstance(spec, CalibratedQuantizedType):
        return spec
    return CalibratedQuantizedType(CalibratedParameters(spec.expressed_type, spec.minimum / 2, spec.maximum / 2))


_ABOUT = frozenset({RESCALE, RESCALE_COUNTS, FLOAT_REASON})
"""Attributes that explain a program, besides facts."""


def _form(program: Program) -> list[object]:
    """All ops of a program, without what explains them; two programs that compute the same are equal."""
    numbers: dict[SSAValue, int] = {}

    def number(value: SSAValue) -> int:
        return numbers.setdefault(value, len(numbers))

    found: list[object] = []
    for op in program.entry.walk():
        held = {**op.properties, **op.attributes}.items()
        kept = {key: _decided_types(each) for key, each in held if key not in _ABOUT and not is_facts_name(key)}
        found.append((op.name, [*map(number, op.operands)], [(number(each), each.type) for each in op.results], kept))
    return found


_UNDECIDED = (AnyFloat, AnyQuantizedType, CalibratedQuantizedType, NoQuantizedType)


def _decided_types(held: Attribute) -> object:
    """The specs of a region without those of floats, such as a demanded range; any other attribute as it is."""
    if not isinstance(held, ArrayAttr):
        return held
    return [None if isinstance(spec, _UNDECIDED) else spec for spec in cast("ArrayAttr[Attribute]", held)]


def _expected(value: SSAValue, key: str, program: Program, target: str) -> str:
    """What was expected instead of a value of which a range decides no type."""
    types, name, owner = stored_types(value), value_name(value), value.owner
    if not types:
        reason = owner.attributes.get(FLOAT_REASON) if isinstance(owner, Operation) else None
        why = f"stays float: {reason.data}" if isinstance(reason, StringAttr) else "is read by float ops only"
        return f"a value that is quantized; '{name}' {why}"
    least = min(found.storage.type.width for found in types)
    if key == "observer" and least > NARROW:
        kernel = f"kernel {owner.logical_kernel.data}" if isinstance(owner, QuantizeRegionOp) else "kernels"
        return (
            f"a result of {NARROW} bits or fewer; '{name}' has {least} bits in {kernel} of target {target}, which hold "
            f"all observed values"
        )
    facts = _facts(value, program)
    stated = [fact.source for fact in facts if fact.name == "parameters" and fact.salience == "user"]
    if stated:
        return f"a value whose type is free; {stated[0]} states that of '{name}'"
    ranges = {fact.source: numbers_of(fact.value.strip("[]")) for fact in facts if fact.name == "range"}
    if not ranges:
        return f"a value whose type is free; that of '{name}' is {types[0]}"
    low, high = min(low for low, _ in ranges.values()), max(high for _, high in ranges.values())
    widest = [source for source, ends in ranges.items() if low in ends or high in ends]
    return f"a range that decides the type of '{name}'; it follows from [{low:g}, {high:g}] ({', '.join(widest)})"


def _facts(value: SSAValue, program: Program) -> list[Fact]:
    """The facts about the type of a value."""
    if isinstance(value, BlockArgument):
        attributes = program.main.arg_attrs
        return listed_facts(None if attributes is None else attributes.data[value.index].data.get(FACTS))
    return facts_of(value.owner) if isinstance(value.owner, Operation) else []
