"""The arena: one block of memory in which every buffer has its place for as long as it is used.

Largest first, each at the lowest place where it meets no other that is in use at the same time. Source: "Efficient
Memory Management for Deep Neural Net Inference" (greedy by size for offset calculation). An elementwise kernel writes
its output over an operand that nobody needs any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.codegen.graph import ALIGNMENT, Buffer, Graph, Space


@dataclass(frozen=True)
class Arena:
    """`size` bytes are needed; no plan needs fewer than `lower_bound`: the buffers in use during some step."""

    size: int
    lower_bound: int


def plan(graph: Graph) -> Arena:
    """Give every arena buffer its offset."""
    spans = _spans(graph)
    places = _shared_places(graph, spans)
    placed: list[Buffer] = []
    for buffer in sorted(spans, key=lambda found: (-found.size, spans[found])):
        first, last = spans[buffer]
        others = [
            (other.offset, other.offset + _rounded(other.size))
            for other in placed
            if spans[other][0] <= last and first <= spans[other][1]
        ]
        buffer.offset = _lowest(_rounded(buffer.size), sorted(others))
        placed.append(buffer)
    for buffer, place in places.items():
        buffer.offset = place.offset
    size = max((buffer.offset + _rounded(buffer.size) for buffer in placed), default=0)
    during = [0] * len(graph.steps)
    for buffer, (first, last) in spans.items():
        for step in range(first, last + 1):
            during[step] += _rounded(buffer.size)
    return Arena(size, max(during, default=0))


def _spans(graph: Graph) -> dict[Buffer, tuple[int, int]]:
    """The first and the last step that uses each buffer."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for index, step in enumerate(graph.steps):
        for buffer in (*step.writes, *step.reads):
            if buffer.space is Space.ARENA:
                spans[buffer] = (spans.get(buffer, (index, index))[0], index)
    return spans


def _shared_places(graph: Graph, spans: dict[Buffer, tuple[int, int]]) -> dict[Buffer, Buffer]:
    """Outputs that take the place of an operand that ends with their step, and whose place: removed from `spans`.

    The place is in use from the operand's first step to the output's last.
    """
    places: dict[Buffer, Buffer] = {}
    for index, step in enumerate(graph.steps):
        over = step.over
        if over is None or len(step.writes) != 1 or (over not in spans and over not in places):
            continue
        (output,) = step.writes
        place = places.get(over, over)
        if output in spans and spans[output][0] == index == spans[place][1] and output.size == place.size:
            spans[place] = (spans[place][0], spans.pop(output)[1])
            places[output] = place
    return places


def _lowest(size: int, taken: list[tuple[int, int]]) -> int:
    offset = 0
    for begin, end in taken:
        if offset + size <= begin:
            break
        offset = max(offset, end)
    return offset


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
