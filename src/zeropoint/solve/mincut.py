"""Minimum cut between two sets of nodes, by Dinic's maximum flow with integer capacities.

Source: E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation" (1970). Of
all minimum cuts, the one nearest to the sources is found. So the result does not depend on the order of the edges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class FlowNetwork:
    """A directed graph with capacities; nodes are numbered from 0."""

    def __init__(self, nodes: int):
        self._arcs: list[list[int]] = [[] for _ in range(nodes)]
        self._head: list[int] = []
        self._room: list[int] = []
        self._total = 1

    def add_node(self) -> int:
        """Add a node and return its number."""
        self._arcs.append([])
        return len(self._arcs) - 1

    def connect(self, first: int, second: int, capacity: int, backward: int = 0) -> None:
        """Add an arc with `capacity`, and its reverse with capacity `backward`."""
        for tail, head, room in ((first, second, capacity), (second, first, backward)):
            self._arcs[tail].append(len(self._head))
            self._head.append(head)
            self._room.append(room)
        self._total += capacity + backward

    @property
    def unbounded(self) -> int:
        """A capacity greater than any cut of the arcs so far."""
        return self._total

    def source_side(self, sources: Iterable[int], sinks: Iterable[int]) -> set[int]:
        """The nodes on the source side of a minimum cut between two sets of nodes."""
        source, sink = self.add_node(), self.add_node()
        unbounded = self.unbounded
        for node in sources:
            self.connect(source, node, unbounded)
        for node in sinks:
            self.connect(node, sink, unbounded)
        while True:
            levels = self._levels(source)
            if sink not in levels:
                # No path is left: the nodes that the source still reaches are its side of the cut.
                return set(levels)
            self._saturate(source, sink, levels)

    def _levels(self, source: int) -> dict[int, int]:
        """The BFS distance from the source of each node reachable over arcs with residual capacity."""
        levels = {source: 0}
        pending = deque([source])
        while pending:
            node = pending.popleft()
            for arc in self._arcs[node]:
                head = self._head[arc]
                if self._room[arc] > 0 and head not in levels:
                    levels[head] = levels[node] + 1
                    pending.append(head)
        return levels

    def _saturate(self, source: int, sink: int, levels: dict[int, int]) -> None:
        """Find a blocking flow: push along shortest paths until all are saturated."""
        cursor = dict.fromkeys(levels, 0)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                self._push(path)
                path, node = [], source
                continue
            arc = self._next_arc(node, levels, cursor)
            if arc is not None:
                path.append(arc)
                node = self._head[arc]
            elif path:
                # An arc and its reverse have neighbouring numbers, so xor with 1 maps each to the other.
                node = self._head[path.pop() ^ 1]
                cursor[node] += 1
            else:
                return

    def _next_arc(self, node: int, levels: dict[int, int], cursor: dict[int, int]) -> int | None:
        arcs = self._arcs[node]
        while cursor[node] < len(arcs):
            arc = arcs[cursor[node]]
            if self._room[arc] > 0 and levels.get(self._head[arc]) == levels[node] + 1:
                return arc
            cursor[node] += 1
        return None

    def _push(self, path: list[int]) -> None:
        amount = min(self._room[arc] for arc in path)
        for arc in path:
            self._room[arc] -= amount
            # Later paths may undo flow over the reverse arc.
            self._room[arc ^ 1] += amount
