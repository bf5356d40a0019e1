"""Plan the arena: one block of memory in which every buffer has an offset during its lifetime.

Buffers are placed in order of size, the largest first, each at the lowest offset at which it overlaps no buffer that is
live at the same time. An elementwise kernel writes its output over an operand that is not used later.

Source: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (greedy by size for offset
calculation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.codegen.graph import Buffer, Graph
from zeropoint.codegen.parameters import ALIGNMENT
from zeropoint.ir.tensors import Array


@dataclass(frozen=True)
class Arena:
    """The `size` in bytes. `lower_bound` is the minimum size of any plan: the maximum of bytes live during a step."""

    size: int
    lower_bound: int


def plan(graph: Graph) -> Arena:
    """Assign every arena buffer its offset."""
    spans = _spans(graph)
    shared = _shared_buffers(graph, spans)
    # Rows: the first step, the last step, the begin and the end of each placed buffer; sorted by begin.
    laid = np.zeros((4, len(spans)), np.int64)
    # Largest first, because small buffers fit into gaps between large ones. Buffers of equal size are ordered by
    # lifetime, so that the plan does not depend on the order of a dictionary.
    for number, buffer in enumerate(sorted(spans, key=lambda found: (-found.size, spans[found]))):
        (first, last), size = spans[buffer], _rounded(buffer.size)
        starts, stops, begins, ends = laid[:, :number]
        # Only buffers whose lifetimes overlap; a buffer written in the step that reads another one counts as
        # overlapping.
        live = (starts <= last) & (stops >= first)
        buffer.offset = _lowest(size, begins[live], ends[live])
        place = int(begins.searchsorted(buffer.offset))
        laid[:, place + 1 : number + 1] = laid[:, place:number]
        laid[:, place] = first, last, buffer.offset, buffer.offset + size
    for buffer, buffer_below in shared.items():
        buffer.offset = buffer_below.offset
    changes = np.zeros(len(graph.steps) + 2, np.int64)  # what is read after the run is live behind the last step
    # Bytes that become live minus bytes that die at each step. The running sum is the number of live bytes.
    starts, stops, begins, ends = laid
    np.add.at(changes, starts, ends - begins)
    np.add.at(changes, stops + 1, begins - ends)
    return Arena(int(ends.max(initial=0)), int(changes.cumsum().max(initial=0)))


def _spans(graph: Graph) -> dict[Buffer, tuple[int, int]]:
    """The first and the last step that uses each buffer."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for index, step in enumerate(graph.steps):
        for buffer in (*step.writes, *step.reads):
            if buffer.space.in_arena:
                spans[buffer] = (spans.get(buffer, (index, index))[0], index)
    # They are read after the run, so that the last step may not write over them.
    read = [*graph.observed, *([] if graph.trips is None else [graph.trips.count])]
    for buffer in {view.buffer for view in read} & spans.keys():
        spans[buffer] = (spans[buffer][0], len(graph.steps))
    return spans


def _shared_buffers(graph: Graph, spans: dict[Buffer, tuple[int, int]]) -> dict[Buffer, Buffer]:
    """Map outputs to the operand whose memory they reuse, because its lifetime ends with their step.

    These outputs are removed from `spans`, and the lifetime of the operand is extended to the last step of the output.
    """
    shared: dict[Buffer, Buffer] = {}
    for index, step in enumerate(graph.steps):
        over = step.over
        if over is None or len(step.writes) != 1 or (over not in spans and over not in shared):
            continue
        (output,) = step.writes
        buffer_below = shared.get(over, over)
        # The operand must end and the output must begin with this step. Otherwise live data would be overwritten.
        if output in spans and spans[output][0] == index == spans[buffer_below][1] and output.size == buffer_below.size:
            spans[buffer_below] = (spans[buffer_below][0], spans.pop(output)[1])
            shared[output] = buffer_below
    return shared


def _lowest(size: int, begins: Array, ends: Array) -> int:
    """The lowest offset of `size` free bytes between blocks, which are sorted by begin."""
    # The running maximum of ends, because a long block may cover later, shorter ones.
    offsets = np.append(0, np.maximum.accumulate(ends))  # the gaps before each block, and after the last
    free = np.append(offsets[:-1] + size <= begins, True)
    return int(offsets[free.argmax()])


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
