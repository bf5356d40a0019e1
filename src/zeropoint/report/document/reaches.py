"""The bounds of a report: for each node, the largest magnitude of its integers and the bits that stay free."""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.ir.program import Program
from zeropoint.ranges import EXACT
from zeropoint.report.document.graph import ReportGraph
from zeropoint.report.explain import Reach, reaches_by_op


@dataclass(frozen=True)
class Bound:
    """The bound of a number that a kernel computes in `width` bits, in the channel where the bound is largest.

    `bound` is the largest magnitude for any input; None if it is not known exactly (about 2^63 or more). `channels` is
    the number of channels. `grown` is the number of channels whose weight scale was increased so that their bias or
    sums fit, and `grown_most` the largest factor.
    """

    op: str
    what: str
    width: int
    bound: int | None
    bits: int
    headroom: int
    channel: int
    channels: int
    grown: int
    grown_most: float


def bounds(program: Program, graph: ReportGraph) -> dict[str, tuple[Bound, ...]]:
    """The bounds of every node that computes in integers."""
    nodes = graph.by_op()
    found: dict[str, list[Bound]] = {}
    for op, reach in reaches_by_op(program):
        if op in nodes:
            found.setdefault(nodes[op], []).append(_bound(reach))
    return {node: tuple(listed) for node, listed in found.items()}


def _bound(reach: Reach) -> Bound:
    at = reach.worst
    grown = reach.grown_factors
    most = reach.bound[at]
    return Bound(
        reach.op,
        reach.what,
        reach.width,
        most if most <= EXACT else None,
        reach.bits[at],
        reach.headroom[at],
        at,
        len(reach.bound),
        len(grown),
        max(grown, default=1.0),
    )
