"""An explanation as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal

from zeropoint.ir.annotations import Fact, Salience
from zeropoint.report.explain.records import ExplainedOutput, ExplainedValue, FloatOp, Missing, Rescale
from zeropoint.report.tables import text_table

WIDTH = 140
BECAUSE: Mapping[Salience, str] = {
    "default": "by default",
    "calibrated": "observed",
    "user": "stated by the user or the model",
    "kernel": "required by a kernel",
}
"""The words for each salience in sentences."""


_END = r"-?(?:inf|\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
_RANGE = re.compile(rf"\[{_END}, {_END}\]")
"""A range as facts write it: `[-1.5, 2]`."""


def value_table(values: Sequence[ExplainedValue]) -> str:
    """A table of all values, with their types and the facts that decided them."""
    rows = [(value.shown_name, _shown_kind(value), short(value.type), short(_decisive(value))) for value in values]
    return text_table(("value", "kernel", "type", "because"), rows, width=WIDTH)


def _shown_kind(value: ExplainedValue) -> str:
    return f"{value.kind} in float" if value.float_reason else value.kind


def _decisive(value: ExplainedValue) -> str:
    """The fact that decided a type: the kernel, function or rule that fixed it, else the ranges that set its ends."""
    facts = [fact for fact in value.facts if fact.name != "same scale"]
    setting = [fact for fact in facts if fact.name == "parameters" and fact.value == value.type]
    shown = next((fact for fact in setting if fact.salience in ("user", "kernel")), next(iter(facts), None))
    if shown is None:
        return ""
    ranges = _strongest([fact for fact in facts if fact.name == "range" and _RANGE.fullmatch(fact.value)])
    if shown.name != "range" or not ranges:
        return f"{shown.name} {shown.value}: {shown.source}"
    ends = [tuple(map(float, fact.value[1:-1].split(","))) for fact in ranges]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    sources = dict.fromkeys(f.source for f, (a, b) in zip(ranges, ends, strict=True) if a == low or b == high)
    return f"range [{low:g}, {high:g}]: {', '.join(sources)}"


def _strongest(facts: Sequence[Fact]) -> list[Fact]:
    """The facts without those that a stronger fact overrides."""
    order = list(BECAUSE)
    most = max((order.index(fact.salience) for fact in facts), default=0)
    return [fact for fact in facts if order.index(fact.salience) == most]


def short(text: str) -> str:
    """The text with long decimals rounded to six places. Details show all digits."""
    return _DIGITS.sub(lambda found: f"{Decimal(found[0]):.6f}", text)


_DIGITS = re.compile(r"\d+\.\d{7,}(?!\d*e)")


def output_text(outputs: Sequence[ExplainedOutput]) -> list[str]:
    """The values that produce outputs, for outputs with another name than their value."""
    shown = [output for output in outputs if output.made_by != (output.name,)]
    return [f"output '{output.name}' is made by {_listed(output.made_by) or 'constants'}" for output in shown]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def value_text(value: ExplainedValue) -> str:
    """A value as text: its type, its kernel, its readers, and its chain of facts."""
    lines = [f"{value.shown_name}: {'float, read as ' if value.float_reason else ''}{value.type}"]
    covers = _listed(value.names)
    made = (
        "an input" if value.kind == "input" else f"kernel {_shown_kind(value)}" + (f", of {covers}" if covers else "")
    )
    rows = [("made by", made), ("from", ", ".join(value.made_from)), ("read by", ", ".join(value.read_by))]
    lines += [f"  {label:9s}{text}" for label, text in rows if text]
    label = "because"
    for fact in value.facts:
        lines.append(f"  {label:9s}{fact.name} {fact.value} ({BECAUSE[fact.salience]}: {fact.source})")
        label = ""
    return "\n".join(lines)


def rescale_text(rescale: Rescale) -> str:
    """A rescale as text: the parameters that the value has and those that its readers require."""
    lines = [
        f"rescale of {rescale.value}: two requirements conflict",
        f"  has      {rescale.has}",
        f"           {rescale.why_has}",
        f"  required {rescale.required}",
        f"           {rescale.why_required}",
    ]
    return "\n".join([*lines, f"  read by  {', '.join(rescale.read_by)}"] if rescale.read_by else lines)


def named_float_text(ops: Sequence[FloatOp]) -> list[str]:
    """Float ops as text, grouped by name and reason, with the number of ops of each kind."""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for op in ops:
        groups.setdefault((op.name, op.reason), Counter())[op.op] += 1
    return [_float_group(name, reason, kinds) for (name, reason), kinds in groups.items()]


def _float_group(name: str, reason: str, kinds: Counter[str]) -> str:
    if kinds.total() == 1:
        return f"{next(iter(kinds))} '{name}' is float: {reason}"
    listed = ", ".join(kind if count == 1 else f"{kind} x{count}" for kind, count in kinds.items())
    return f"{kinds.total()} ops of '{name}' are float: {reason}\n  {listed}"


def float_text(ops: Sequence[FloatOp]) -> list[str]:
    """Float ops as text, grouped by reason, each name once."""
    by_reason: dict[str, list[FloatOp]] = {}
    for op in ops:
        by_reason.setdefault(op.reason, []).append(op)
    found: list[str] = []
    for reason, group in by_reason.items():
        names = list(dict.fromkeys(op.name for op in group))
        shown = ", ".join(names[:NAMES_SHOWN]) + (
            f" and {len(names) - NAMES_SHOWN} more" if names[NAMES_SHOWN:] else ""
        )
        count = f"{len(group)} ops" if len(group) > 1 else "1 op"
        found.append(f"{count} in float, {reason}:\n  {shown}")
    return found


NAMES_SHOWN = 8


def missing_text(missing: Sequence[Missing]) -> list[str]:
    """The values that have no statistics yet."""
    if not missing:
        return []
    listed = ", ".join(f"'{one.value}' ({one.op})" for one in missing)
    count = len(missing)
    return [f"no statistics for {count} {'value' if count == 1 else 'values'}, calibrate the program:\n  {listed}"]


def correction_text(corrections: Sequence[Fact]) -> list[str]:
    """The corrections that were tried, each with its SQNR on the samples that it was judged on."""
    if not corrections:
        return []
    lines = [f"  {fact.name}: {fact.value}" for fact in corrections]
    return ["\n".join([f"corrections, by SQNR on {corrections[0].source}:", *lines])]


def budget_text(budget: Sequence[Fact]) -> list[str]:
    """The result of the search under a budget, and the kernels that it widened."""
    if not budget:
        return []
    return ["\n".join([budget[0].source, *(f"  {fact.name}: {fact.value}" for fact in budget)])]
