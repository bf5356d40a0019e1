"""The fewest and the cheapest rescales of a small program, by trying every type at every group of ports.

What ports demand is read off the solver's own graph of ports (storage, ranges, zero points, fixed types, what is tied);
which of them get which type is tried out here, without any of the solver's cuts, worklists and motions.

A rescale makes a value in one more type, for all who want that type; so a value costs as many rescales as the types
that its readers (and the program, where that reads it) want beyond the one that its kernel makes. A kernel whose output
is free makes whichever serves best; each reader of an input of the program
quantizes it to whichever serves best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import prod

from xdsl.ir import SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import shape_of
from zeropoint.numerics.ranges import asymmetric, symmetric
from zeropoint.solve import is_rescale
from zeropoint.solve.classes import DEFAULT_RANGES, holds
from zeropoint.solve.constants import duplicate_constants
from zeropoint.solve.constraints import take_constraints
from zeropoint.solve.nodes import PortNode
from zeropoint.solve.parts.joins import settle_kernels
from zeropoint.solve.ports import PortGraph
from zeropoint.solve.precision import coarser
from zeropoint.solve.termination import PortNumber
from zeropoint.targets import OUTPUT, Custom, Target

Type = UniformQuantizedType
Derive = Callable[[Type], Type]


@dataclass(frozen=True)
class Totals:
    """Rescales and their cost in elements times bits."""

    count: int
    cost: int

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.count + other.count, self.cost + other.cost)


def found_totals(program: Program) -> Totals:
    """What a solved program has."""
    rescales = [region for region in regions_of(program) if is_rescale(region)]
    made = [(region.outputs[0], region.output_specs.data[0]) for region in rescales]
    costs = [prod(shape_of(value)) * spec.storage.type.width for value, spec in made if isinstance(spec, Type)]
    return Totals(len(rescales), sum(costs))


@dataclass(frozen=True)
class Candidate:
    """A type that a port may take. `span` is the range that it was made from, None for a type that something fixes."""

    type: Type
    span: tuple[float, float] | None
    centred: bool = False
    derived: bool = False


def _fits(node: PortNode, candidate: Candidate) -> bool:
    """Whether a node can have a type, its policies (an exposed value, its zero point and precision) included."""
    kind = candidate.type
    if kind.storage.type != node.storage.type or node.zero_point not in (None, kind.zero_point):
        return False
    if node.fixed is not None:
        return kind == node.fixed
    if coarser(kind.scale, node.need) and not candidate.derived:  # what a function derives is the only way
        return False
    if candidate.derived:
        return True  # what a function derives decides the value, and what that is handed on to
    if candidate.span is None:
        return holds(kind, node.minimum, node.maximum)
    low, high = candidate.span
    if node.minimum is not None and node.maximum is not None and not (low <= node.minimum and node.maximum <= high):
        return False
    return not (node.exposed and candidate.centred and node.zero_point is None)


def _from_range(storage: Storage, span: tuple[float, float], zero_point: int | None) -> Candidate:
    if zero_point is None:
        chosen = asymmetric(*span, storage.minimum, storage.maximum)
    else:
        chosen = symmetric(*span, storage.type, narrow=False)
    kind = Type.per_layer(storage, float(chosen.scale), int(chosen.zero_point))
    return Candidate(kind, span, centred=zero_point is not None)


@dataclass
class Search:
    """A program's values and ports, and the groups whose types are tried out."""

    graph: PortGraph
    variables: list[int] = field(default_factory=list[int])
    derived: dict[int, tuple[int, Derive]] = field(default_factory=dict[int, tuple[int, Derive]])
    candidates: list[Candidate] = field(default_factory=list[Candidate])

    @staticmethod
    def of(program: Program, target: Target) -> Search:
        """Of a program before propagation."""
        program = program.clone()
        constraints = take_constraints(program)
        duplicate_constants(program, constraints)
        search = Search(settle_kernels(program, target, constraints, DEFAULT_RANGES)[0])
        search._classify()
        search._list_candidates()
        return search

    def _classify(self) -> None:
        graph = self.graph
        members: dict[int, int] = {}
        for number in range(len(graph.parents)):
            members[graph.find(number)] = members.get(graph.find(number), 0) + 1
        for kernel in self.graph.kernels:
            if isinstance(kernel.row.relation, Custom):
                ask = kernel.row.relation.function

                def derive(given: Type, ask=ask) -> Type:
                    outputs: list[object] = [None]
                    ask([given], outputs)
                    assert isinstance(outputs[0], Type)
                    return outputs[0]

                given, made = graph.of_port((kernel.region, 0)), graph.of_port((kernel.region, OUTPUT))
                self.derived[made] = (given, derive)
                members[given] = 2  # a variable, though nothing is tied to it
        self.variables = [n for n in graph.nodes if members[n] > 1 and graph.nodes[n].fixed is None]

    def _list_candidates(self) -> None:
        nodes = self.graph.nodes.values()
        kinds = dict.fromkeys(node.fixed for node in nodes if node.fixed is not None)
        found = [Candidate(kind, None) for kind in kinds]
        spans = dict.fromkeys(
            (min(node.minimum, 0.0), max(node.maximum, 0.0))
            for node in nodes
            if node.fixed is None and node.minimum is not None and node.maximum is not None
        )
        unions = dict.fromkeys(
            (min(low for low, _ in some), max(high for _, high in some))
            for size in range(1, len(spans) + 1)
            for some in combinations(spans, size)
        )
        points = dict.fromkeys([None, *(node.zero_point for node in nodes)])
        storages = dict.fromkeys(node.storage for node in nodes)
        found += [_from_range(s, span, point) for s in storages for span in unions for point in points]
        for _ in range(len(self.derived)):
            for _, derive in self.derived.values():
                found += [Candidate(derive(candidate.type), None, derived=True) for candidate in list(found)]
            found = list({candidate.type: candidate for candidate in reversed(found)}.values())[::-1]
        self.candidates = found

    def _is_tied(self, number: int) -> bool:
        return number in self.variables or number in self.derived or self.graph.nodes[number].fixed is not None

    def choices(self) -> list[list[Type]]:
        """For each variable the types that fit."""
        return [[c.type for c in self.candidates if _fits(self.graph.nodes[n], c)] for n in self.variables]

    def values(self) -> Iterator[ValueCost]:
        """Every value, with what its ports want."""
        edges: dict[SSAValue, list[PortNumber]] = {}
        for edge in self.graph.edges:
            edges.setdefault(edge.value, []).append(edge.port)
        tied = self.graph._tied_uses()
        for value, ports in edges.items():
            made = next((port for port in ports if port[1] == OUTPUT), None)
            out = self.graph.of_port(made) if made is not None else self.graph.of_value(value)
            wanting = [self.graph.of_port(port) for port in ports if port[1] != OUTPUT]
            own = self.graph.of_value(value)
            # Somebody reads it as whatever it is; or it is tied, and its kernel makes whatever is best.
            read = any((use.operation, use.index) not in tied for use in value.uses)
            if made is not None and (read or (self._is_tied(own) and not self._is_tied(out))):
                wanting.append(own)
            yield ValueCost(self, prod(shape_of(value)), out, tuple(dict.fromkeys(wanting)), own)

    def _is_called_for(self, assigned: dict[int, Type], values: Sequence[ValueCost]) -> bool:
        """Whether each group with a type that something fixes gets it from there, through ports that have it."""
        fixed = {candidate.type for candidate in self.candidates if candidate.span is None}
        reached = {n: kind for n, kind in assigned.items() if kind not in fixed}
        meet = [[(n, kind) for n, kind in value.known_types(assigned)] for value in values]
        reached |= {n: kind for pairs in meet for n, kind in pairs if n not in assigned}
        grown = True
        while grown:
            grown = False
            for pairs in meet:
                kinds = {kind for n, kind in pairs if n in reached}
                new = {n: kind for n, kind in pairs if n not in reached and kind in kinds}
                reached |= new
                grown |= bool(new)
        return all(n in reached for n in assigned)

    def least(self) -> tuple[int, int]:
        """The fewest rescales, and the least cost, each over all assignments."""
        choices, values = self.choices(), list(self.values())
        tries = prod(map(len, choices))
        assert 0 < tries <= 200_000, f"{tries} assignments"
        fewest = cheapest = 1 << 60
        for types in product(*choices):
            assigned = dict(zip(self.variables, types, strict=True))
            count = cost = 0
            for value in values:
                first, second = value.totals(assigned)
                count, cost = count + first, cost + second
                if count >= fewest and cost >= cheapest:
                    break
            else:
                if self._is_called_for(assigned, values):
                    fewest, cheapest = min(fewest, count), min(cheapest, cost)
        return fewest, cheapest


@dataclass
class ValueCost:
    """The rescales of one value under an assignment; those of equal assignments are looked up."""

    search: Search
    size: int
    out: int
    wanting: tuple[int, ...]
    own: int
    known: dict[tuple[Type | None, ...], tuple[int, int]] = field(
        default_factory=dict[tuple[Type | None, ...], tuple[int, int]]
    )

    def _type(self, number: int, assigned: dict[int, Type]) -> Type | None:
        """What a node has under an assignment; None where it may take what fits."""
        if number in assigned:
            return assigned[number]
        if number in self.search.derived:
            given, derive = self.search.derived[number]
            found = self._type(given, assigned)
            return None if found is None else derive(found)
        return self.search.graph.nodes[number].fixed

    def known_types(self, assigned: dict[int, Type]) -> list[tuple[int, Type]]:
        """The nodes at this value whose type is settled."""
        found = [(number, self._type(number, assigned)) for number in (self.out, *self.wanting, self.own)]
        return [(number, kind) for number, kind in found if kind is not None]

    def totals(self, assigned: dict[int, Type]) -> tuple[int, int]:
        """Number and cost, each the least by itself."""
        key = tuple(self._type(number, assigned) for number in (self.out, *self.wanting))
        if key not in self.known:
            made, *wanted = key
            outs = [made] if made is not None else self._fitting(self.out, {kind for kind in wanted if kind})
            assert outs
            found = [self._of(out, wanted) for out in outs]
            self.known[key] = (min(count for count, _ in found), min(cost for _, cost in found))
        return self.known[key]

    def _fitting(self, number: int, there: set[Type]) -> list[Type]:
        """What a port by itself may have: a type that the value has anyway, or one of its own range."""
        node = self.search.graph.nodes[number]
        own = (min(node.minimum or 0.0, 0.0), max(node.maximum or 0.0, 0.0))
        return [c.type for c in self.search.candidates if (c.type in there or c.span == own) and _fits(node, c)]

    def _of(self, out: Type, wanted: Sequence[Type | None]) -> tuple[int, int]:
        there = {out, *(kind for kind in wanted if kind is not None)}
        loose = [set(self._fitting(n, there)) for n, kind in zip(self.wanting, wanted, strict=True) if kind is None]
        left = [fitting for fitting in loose if not fitting & there]
        extras = self._hit(left)
        made = [*(there - {out}), *extras]
        return len(made), sum(self.size * kind.storage.type.width for kind in made)

    def _hit(self, left: list[set[Type]]) -> tuple[Type, ...]:
        """The fewest, cheapest types such that each of some sets has one."""
        for size in range(len(left) + 1):
            hits = [
                some
                for some in combinations(dict.fromkeys(kind for fitting in left for kind in fitting), size)
                if all(fitting & set(some) for fitting in left)
            ]
            if hits:
                return min(hits, key=lambda some: sum(kind.storage.type.width for kind in some))
        raise AssertionError("a port that no type fits")
