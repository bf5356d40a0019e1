"""Cut the port graph where demands conflict, at the cheapest edges, until every piece can have one type.

There are three kinds of conflict, checked in this order:

- Two fixed types, or a fixed type that cannot represent a range.
- A zero point that one kernel requires and another reader does not.
- A scale so coarse that a reader loses more than half a bit at a node that its value passes through (`precision.py`).

A cut separates the two sides permanently, so there are fewer cuts than nodes.

Source: the RFC on quantization transformations, section "Propagation pass": a conflict is resolved by a rescale. The
choice of the cheapest edge is ours: a minimum cut with the cost elements * width. Ties are broken by the order of
`order.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from zeropoint.solve.classes import holds
from zeropoint.solve.mincut import FlowNetwork
from zeropoint.solve.nodes import PortNode
from zeropoint.solve.ports import Edge, PortGraph
from zeropoint.solve.precision import coarser, own_step, step_of
from zeropoint.solve.termination import NoProgress


@dataclass(frozen=True)
class Collision:
    """Two sets of nodes that cannot have one type, and the demand of each side."""

    first: list[int]
    second: list[int]
    demands: tuple[str, str]


@dataclass
class Pieces:
    """The connected pieces of a graph as its edges are cut. `around` has the uncut edges at each node."""

    graph: PortGraph
    around: dict[int, list[Edge]]

    @staticmethod
    def of(graph: PortGraph) -> Pieces:
        """The pieces of a graph after cutting the edges with incompatible ends."""
        around: dict[int, list[Edge]] = {number: [] for number in graph.nodes}
        for edge in graph.edges:
            value, port = graph.find(edge.value_node), graph.find(edge.port_node)
            first, second = graph.nodes[value], graph.nodes[port]
            # Edges with such ends are cut at once. Other conflicts depend on the whole piece.
            edge.reason = _differ(first, second)
            if edge.reason is None and value != port:
                around[value].append(edge)
                around[port].append(edge)
        return Pieces(graph, around)

    def ends(self, edge: Edge) -> tuple[int, int]:
        """The nodes of the value and of the port at an edge."""
        return self.graph.find(edge.value_node), self.graph.find(edge.port_node)

    def collect(self, start: int, seen: set[int]) -> list[int]:
        """The nodes reachable from `start`, in canonical order."""
        found, pending = [start], [start]
        seen.add(start)
        while pending:
            for edge in self.around[pending.pop()]:
                for number in self.ends(edge):
                    if number not in seen:
                        seen.add(number)
                        found.append(number)
                        pending.append(number)
        # A canonical order, so that the same program gives the same cuts, whatever the iteration order of sets.
        return sorted(found, key=lambda number: (self.graph.nodes[number].position, number))

    def split(self, piece: Sequence[int]) -> list[list[int]]:
        """The connected pieces of a piece after a cut."""
        seen: set[int] = set()
        return [self.collect(number, seen) for number in piece if number not in seen]

    def cut(self, piece: Sequence[int], collision: Collision) -> None:
        """Cut the cheapest edges between the two sides of a collision. Raises NoProgress if there is no edge to cut."""
        side = self._side(piece, collision)
        # The edges from one side to the other.
        edges = [edge for edge in self._edges(piece) if len(side.intersection(self.ends(edge))) == 1]
        # Without an edge, no rescale could resolve the conflict, and the loop in `separate` would not end.
        if not edges:
            raise NoProgress(f"found nothing to cut between {collision.demands[0]} and {collision.demands[1]}")
        for edge in edges:
            value, port = self.ends(edge)
            first, second = collision.demands
            edge.reason = (first, second) if value in side else (second, first)
            self.around[value].remove(edge)
            self.around[port].remove(edge)

    def _edges(self, piece: Sequence[int]) -> list[Edge]:
        """The edges inside a piece, each once."""
        return list(dict.fromkeys(edge for number in piece for edge in self.around[number]))

    def _side(self, piece: Sequence[int], collision: Collision) -> set[int]:
        """The nodes on the first side of a minimum cut."""
        edges = self._edges(piece)
        index = {number: i for i, number in enumerate(piece)}
        # One unit of cost outweighs the sum of all positions, which break ties. Among equal cuts, one at a result is
        # the last choice, so that float users read the value as the kernel produces it.
        last = max(edge.position for edge in edges) + 1
        unit = (2 * last + 1) * (len(edges) + 1)
        network = FlowNetwork(len(piece))
        users: dict[SSAValue, list[Edge]] = {}
        for edge in edges:
            value, port = self.ends(edge)
            if edge.is_output:
                capacity = edge.cost * unit + last + edge.position
                network.connect(index[value], index[port], capacity, capacity)
            else:
                users.setdefault(edge.value, []).append(edge)
        unbounded = sum(edge.cost * unit + 2 * last for edge in edges) + 1
        for uses in users.values():
            self._connect_users(network, index, uses, unit, unbounded)
        near = network.source_side([index[i] for i in collision.first], [index[i] for i in collision.second])
        # Readers that belong to neither side stay on the first side unless an edge connects them to the second.
        return set(piece) - self._reached(collision.second, {number for number in piece if index[number] in near})

    def _reached(self, start: Sequence[int], barred: set[int]) -> set[int]:
        """The nodes reachable from `start` without passing through `barred`."""
        seen, pending = set(start), list(start)
        while pending:
            for edge in self.around[pending.pop()]:
                for number in self.ends(edge):
                    if number not in seen and number not in barred:
                        seen.add(number)
                        pending.append(number)
        return seen

    def _connect_users(
        self, network: FlowNetwork, index: dict[int, int], uses: Sequence[Edge], unit: int, unbounded: int
    ) -> None:
        """Connect a value to the ports that read it.

        One rescale serves all readers on the other side. So its cost is counted once, on the edge to an auxiliary node.
        """
        value = index[self.ends(uses[0])[0]]
        capacity = uses[0].cost * unit + min(edge.position for edge in uses)
        if len(uses) == 1:
            network.connect(value, index[self.ends(uses[0])[1]], capacity, capacity)
            return
        to_users, from_users = network.add_node(), network.add_node()
        network.connect(value, to_users, capacity)
        network.connect(from_users, value, capacity)
        for edge in uses:
            port = index[self.ends(edge)[1]]
            # Unbounded, so that the cut is at the edge to the auxiliary node, which is the rescale that they share.
            network.connect(to_users, port, unbounded)
            network.connect(port, from_users, unbounded)


def _differ(value: PortNode, port: PortNode) -> tuple[str, str] | None:
    """The demands of the value and of the port if the ends of an edge can never have one type; None if they can."""
    if value.fixed is not None and port.fixed is not None and value.fixed != port.fixed:
        return f"{value.fixed} ({value.fixed_by})", f"{port.fixed} ({port.fixed_by})"
    if value.storage.type != port.storage.type:
        return f"storage {value.storage} ({value.reader})", f"storage {port.storage} ({port.reader})"
    return None


def separate(graph: PortGraph) -> list[list[int]]:
    """The pieces whose nodes can share one type, in canonical order. The edges cut between them get a reason."""
    pieces = Pieces.of(graph)
    pending = pieces.split(sorted(graph.nodes, key=lambda number: (graph.nodes[number].position, number)))[::-1]
    settled: list[list[int]] = []
    while pending:
        piece = pending.pop()
        collision = find_collision([(number, graph.nodes[number]) for number in piece])
        if collision is None:
            settled.append(piece)
            continue
        pieces.cut(piece, collision)
        pending += pieces.split(piece)[::-1]
    return settled


Numbered = Sequence[tuple[int, PortNode]]


def find_collision(piece: Numbered) -> Collision | None:
    """Two sides of a piece that cannot have one type, for the strongest reason; None if the piece can have one type."""
    return _of_fixed(piece) or _of_zero_points(piece) or _of_ranges(piece)


def _of_fixed(piece: Numbered) -> Collision | None:
    """The first fixed type against all nodes that cannot have it."""
    fixed = next((node for _, node in piece if node.fixed is not None), None)
    if fixed is None or fixed.fixed is None:
        return None
    kind = fixed.fixed
    first = [number for number, node in piece if node.fixed == kind]
    others = [(number, node) for number, node in piece if node.fixed != kind and _unsuited(node, fixed)]
    if not others:
        return None
    return Collision(first, _numbers(others), (f"{kind} ({fixed.fixed_by})", _wish(others[0][1])))


def _unsuited(node: PortNode, fixed: PortNode) -> bool:
    kind = fixed.fixed
    assert kind is not None
    if node.fixed is not None or not holds(kind, node.minimum, node.maximum) or coarser(kind.scale, node.need):
        return True
    return node.zero_point is not None and node.zero_point != kind.zero_point


def _wish(node: PortNode) -> str:
    """The demand of a node, for messages."""
    if node.fixed is not None:
        return f"{node.fixed} ({node.fixed_by})"
    if node.zero_point is not None:
        return f"zero point {node.zero_point} ({node.zero_point_by})"
    return f"the range [{node.minimum:g}, {node.maximum:g}] of '{node.range_of or node.name}'"


def _of_zero_points(piece: Numbered) -> Collision | None:
    """A required zero point against other required ones, and against values with readers that accept any."""
    wanting = next((node for _, node in piece if node.zero_point is not None), None)
    # A fixed type determines the zero point of the piece, and `_of_fixed` has compared it.
    if wanting is None or any(node.fixed is not None for _, node in piece):
        return None
    first = [number for number, node in piece if node.zero_point == wanting.zero_point]
    others = [
        (number, node)
        for number, node in piece
        if node.zero_point != wanting.zero_point and (node.zero_point is not None or node.exposed)
    ]
    if not others:
        return None
    wish = others[0][1]
    text = _wish(wish) if wish.zero_point is not None else f"any zero point (other users of '{wish.name}')"
    return Collision(first, _numbers(others), (f"zero point {wanting.zero_point} ({wanting.zero_point_by})", text))


def _of_ranges(piece: Numbered) -> Collision | None:
    """Nodes whose readers need a finer scale than the shared one, against the nodes whose ranges make it coarse."""
    nodes = [node for _, node in piece]
    if any(node.fixed is not None for node in nodes):
        return None
    shared = _shared_step(nodes)
    hurt = [(number, node) for number, node in piece if coarser(shared, node.need)]
    if not hurt:
        return None
    # The least demanding reader that is hurt. A scale that is too coarse for it is also too coarse for the others.
    least = max(hurt, key=lambda pair: pair[1].need)[1]
    apart = [pair for pair in piece if coarser(_shared_step([least, pair[1]]), least.need)] or _farthest(least, piece)
    widest = max((node for _, node in apart), key=own_step)
    steps = least.storage.maximum - least.storage.minimum
    own = f"a range of width {least.need * steps:g} (readers of '{least.name}')"
    wide = f"the shared range of width {shared * steps:g} ('{widest.name}')"
    second = _numbers(apart)
    return Collision([number for number in _numbers(hurt) if number not in set(second)], second, (own, wide))


def _shared_step(nodes: Sequence[PortNode]) -> float:
    """The scale of nodes that share one type."""
    lows = [node.minimum for node in nodes if node.minimum is not None]
    highs = [node.maximum for node in nodes if node.maximum is not None]
    zero_point = next((node.zero_point for node in nodes if node.zero_point is not None), None)
    return step_of(min(lows, default=None), max(highs, default=None), nodes[0].storage, zero_point)


def _farthest(node: PortNode, piece: Numbered) -> list[tuple[int, PortNode]]:
    """The nodes that extend farthest beyond the range of `node`, for the case that no single node makes its scale too
    coarse."""

    def beyond(other: PortNode) -> float:
        low, high = (node.minimum or 0.0) - (other.minimum or 0.0), (other.maximum or 0.0) - (node.maximum or 0.0)
        return max(low, high, 0.0)

    most = max(beyond(other) for _, other in piece)
    return [pair for pair in piece if beyond(pair[1]) == most]


def _numbers(piece: Iterable[tuple[int, PortNode]]) -> list[int]:
    return [number for number, _ in piece]
