"""The weight scales of each channel, from the regions of the propagated program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.report.document.graph import ReportGraph, occurrences

POINTS = 128
"""Maximum number of points of a chart. More channels are grouped."""
DIGITS = 5
"""Significant digits of a scale in the document."""


@dataclass(frozen=True)
class WeightScales:
    """The scales of a kernel's weight: one per channel, or the smallest and the largest of each group of channels.

    `group` is the number of channels per point. If it is 1, `low` has the scales, and `high` is empty.
    """

    storage: str
    channels: int
    group: int
    low: tuple[float, ...]
    high: tuple[float, ...]


def weight_scales(propagated: Program, graph: ReportGraph) -> dict[str, WeightScales]:
    """The weight scales of every kernel whose weights have one scale per channel."""
    nodes = graph.by_occurrence()
    found: dict[str, WeightScales] = {}
    for occurrence, op in occurrences(propagated).items():
        if isinstance(op, QuantizeRegionOp) and occurrence in nodes:
            kinds = [spec for spec in op.input_specs if isinstance(spec, UniformQuantizedType) and spec.is_per_channel]
            if kinds:
                found[nodes[occurrence].id] = _scales(kinds[0])
    return found


def _scales(kind: UniformQuantizedType) -> WeightScales:
    scales = kind.scales
    group = -(-len(scales) // POINTS)
    starts = np.arange(0, len(scales), group)
    low, high = np.minimum.reduceat(scales, starts), np.maximum.reduceat(scales, starts)
    return WeightScales(str(kind.storage), len(scales), group, _rounded(low), _rounded(high) if group > 1 else ())


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{value:.{DIGITS}g}") for value in values)
