"""Builds the document of a report from a program and its measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, cast

from zeropoint.ir.annotations import BUDGET, CORRECTIONS, facts_of
from zeropoint.ir.program import Program
from zeropoint.report.counts import Ops, constant_bytes
from zeropoint.report.document.graph import ReportGraph, ReportNode
from zeropoint.report.document.measurements import Header, NodeValues, Noise, SectionNote, Time, Worst
from zeropoint.report.document.reaches import Bound, bounds
from zeropoint.report.document.reasons import reasons
from zeropoint.report.document.texts import Text, texts
from zeropoint.report.document.weights import WeightScales, weight_scales
from zeropoint.report.explain.text import budget_text, correction_text

FORMAT = "zeropoint report 1"


@dataclass(frozen=True)
class ReportParts:
    """The sources of a report besides the integer program; every part may be missing.

    `fused` is the float program with regions, `propagated` the program with quantized types. `values`, `noise` and
    `times` are by node id. `notes` say which sections are missing and what they need.
    """

    fused: Program | None = None
    propagated: Program | None = None
    values: Mapping[str, NodeValues] = field(default_factory=dict[str, NodeValues])
    noise: Mapping[str, Noise] = field(default_factory=dict[str, Noise])
    noise_samples: int = 0
    times: Mapping[str, Time] = field(default_factory=dict[str, Time])
    worst: Sequence[Worst] = ()
    worst_samples: int = 0
    notes: Sequence[SectionNote] = ()


@dataclass(frozen=True)
class Document:
    """A report as data. Sections are by node id; a node without an entry has no data in that section.

    `corrections` and `budget` are the lines of `explain` about the corrections that were tried, and about a search.
    """

    format: str
    header: Header
    ops: Ops
    float_summary: tuple[str, ...]
    corrections: tuple[str, ...]
    budget: tuple[str, ...]
    integer_bytes: int
    nodes: tuple[ReportNode, ...]
    reasons: dict[str, tuple[str, ...]]
    bounds: dict[str, tuple[Bound, ...]]
    texts: dict[str, Text]
    weights: dict[str, WeightScales]
    values: dict[str, NodeValues]
    noise: dict[str, Noise]
    noise_samples: int
    times: dict[str, Time]
    worst: tuple[Worst, ...]
    worst_samples: int
    notes: tuple[SectionNote, ...]

    def record(self) -> dict[str, Any]:
        """The document as JSON values; infinities and NaN become null."""
        return cast("dict[str, Any]", _plain(asdict(self)))

    def json(self) -> str:
        """JSON text."""
        return json.dumps(self.record(), separators=(",", ":"), allow_nan=False)


def document(program: Program, graph: ReportGraph, header: Header, parts: ReportParts) -> Document:
    """The document of an integer program; every section reads the program or comes from `parts`."""
    ops = Ops.of(program)
    return Document(
        format=FORMAT,
        header=header,
        ops=ops,
        float_summary=tuple(map(str, ops.floats)),
        corrections=_lines(correction_text(facts_of(program.module, CORRECTIONS))),
        budget=_lines(budget_text(facts_of(program.module, BUDGET))),
        integer_bytes=constant_bytes(program),
        nodes=graph.nodes,
        reasons=reasons(program, graph),
        bounds=bounds(program, graph),
        texts=texts(program, parts.fused, graph),
        weights={} if parts.propagated is None else weight_scales(parts.propagated, graph),
        values=dict(parts.values),
        noise=dict(parts.noise),
        noise_samples=parts.noise_samples,
        times=dict(parts.times),
        worst=tuple(parts.worst),
        worst_samples=parts.worst_samples,
        notes=tuple(parts.notes),
    )


def _lines(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(line.strip() for text in texts for line in text.splitlines())


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in cast("Sequence[Any]", value)]
    return value
