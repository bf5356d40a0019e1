"""Histograms of the float values of every node, with the chosen range and those of other observers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from zeropoint.calibrate.distribution import Distribution
from zeropoint.ir.quant import StorageCastOp
from zeropoint.report.document import Histogram, NodeValues, ReportGraph
from zeropoint.report.document.graph import CONVERSIONS, ReportNode, ShownParameters

BINS = 64
"""The number of bins of a histogram in a report."""


def calibrated_values(graph: ReportGraph, distributions: Mapping[str, Distribution]) -> dict[str, NodeValues]:
    """The values that calibration saw, by node. `distributions` is by statistics key, which is the name of a value.

    Kernels that share their name are left out, because the keys do not distinguish them. Casts at the edges have the
    name of the kernel next to them, but are not kernels.
    """
    counted = list(filter(_has_values, graph.nodes))
    names = Counter(node.name for node in counted)
    return {
        node.id: values_of(distributions[node.name], "calibration", node.parameters)
        for node in counted
        if node.name in distributions and names[node.name] == 1
    }


def _has_values(node: ReportNode) -> bool:
    return node.kind not in ("output", *CONVERSIONS.values()) and node.kernel != StorageCastOp.name


def observed_values(
    graph: ReportGraph, distributions: Mapping[str, Distribution], source: str
) -> dict[str, NodeValues]:
    """The values that the float program had on the data of the report, by node."""
    chosen = {node.id: node.parameters for node in graph.nodes}
    return {node: values_of(found, source, chosen[node]) for node, found in distributions.items()}


def values_of(found: Distribution, source: str, chosen: ShownParameters | None) -> NodeValues:
    """The record of a distribution. Values within half a step of the chosen range are rounded into it, not clipped."""
    least, most = found.extremes.minimum, found.extremes.maximum
    clipped = None
    if chosen is not None and chosen.low is not None and chosen.high is not None:
        half = chosen.scales[0] / 2
        clipped = found.outside(chosen.low - half, chosen.high + half)
    width = most - least
    low, high = (least, most) if width > 0 else (least - 0.5, most + 0.5)
    counts = tuple(int(count) for count in found.histogram(low, high, BINS))
    return NodeValues(source, found.extremes.count, least, most, Histogram(low, high, counts), found.ranges(), clipped)
