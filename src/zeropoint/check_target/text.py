"""Findings as a table for the terminal, and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zeropoint.check_target.check import Finding
from zeropoint.targets import port_text

HEADS = ("kernel", "ports", "runtime", "models", "equal values", "worst step", "what differs, or was not compared")


def _ports(finding: Finding) -> str:
    row = finding.row
    return f"{', '.join(map(port_text, row.inputs))} -> {', '.join(map(port_text, row.outputs))}"


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.row.kernel, _ports(finding), finding.runtime


def _cells(kernel: str, ports: str, runtime: str, group: Sequence[Finding]) -> tuple[str, ...]:
    compared = [finding for finding in group if finding.values]
    values, equal = sum(f.values for f in compared), sum(f.equal for f in compared)
    share = f"{100 * equal / values:.2f} % of {values}" if values else "-"
    worst = f"{max(f.steps for f in compared):g}" if compared else "-"
    return kernel, ports, runtime, str(len(group)), share, worst, "; ".join(dict.fromkeys(_notes(group)))


def _notes(group: Sequence[Finding]) -> Iterable[str]:
    for finding in group:
        if finding.problem:
            yield finding.problem
        elif finding.outcome == "differs":
            why = finding.cause or "not explained"
            yield f"{finding.variant}: up to {finding.steps:g} ({why})"


def _grouped(findings: Iterable[Finding]) -> list[tuple[str, ...]]:
    """A line for each row and runtime, in the order of the table."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_key(finding), []).append(finding)
    return [_cells(*key, group) for key, group in groups.items()]


def finding_table(findings: Iterable[Finding]) -> str:
    """One line for each row of the table and runtime."""
    found = list(findings)
    lines = [HEADS, *_grouped(found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([*texts, "", summary(found)])


def finding_page(target: str, findings: Iterable[Finding]) -> str:
    """The page `docs/checked-TARGET.md`."""
    found = list(findings)
    rows = "\n".join(f"| {' | '.join(line)} |" for line in _grouped(found))
    return f"""# What the runtime computes of target `{target}`

Made by `zeropoint check-target {target} --page FILE`: every row of the table as models of one op, exported, run by the
runtime, compared with our interpreter under the row's profile.

| {" | ".join(HEADS)} |
|{"---|" * len(HEADS)}
{rows}

{summary(found)}
"""


def summary(findings: Sequence[Finding]) -> str:
    """The number of models with equal results."""
    counts = {outcome: sum(f.outcome == outcome for f in findings) for outcome in ("equal", "differs", "not compared")}
    equal, differ, rest = counts.values()
    return f"{len(findings)} models: {equal} equal, {differ} differ, {rest} not compared"
