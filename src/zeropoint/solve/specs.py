"""The type of every port of the pieces of the port graph, and the worklist of kernel functions.

Functions (`functions.py`) run in canonical order, first on fixed types, then on types that follow from ranges. A
function is called again when an adjacent port gets parameters. Each port is set at most once and rescaled at most once,
so this terminates.

Source: the RFC on quantization transformations, section "Propagation pass": QuantFn returns the ports that it updated,
so that a worklist can infer the parameters of adjacent kernels.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from zeropoint.ir.annotations import Fact
from zeropoint.ir.quant import QuantizedType, Storage, UniformQuantizedType
from zeropoint.ir.weights import Weights
from zeropoint.solve.classes import ScaleClass, holds
from zeropoint.solve.functions import Types, ask, constant_port, is_settable, open_type
from zeropoint.solve.kernel import ChosenKernel
from zeropoint.solve.nodes import PortNode
from zeropoint.solve.ports import PortGraph
from zeropoint.solve.precision import coarser
from zeropoint.solve.termination import PortNumber
from zeropoint.targets import Custom


@dataclass
class Specs:
    """The class of each node.

    `apart` has the ports whose function set a type other than that of their class. `constants` has the types that
    functions set for constants.
    """

    graph: PortGraph
    class_of: dict[int, ScaleClass]
    apart: dict[PortNumber, tuple[UniformQuantizedType, str]] = field(
        default_factory=dict[PortNumber, tuple[UniformQuantizedType, str]]
    )
    constants: dict[PortNumber, tuple[UniformQuantizedType, str]] = field(
        default_factory=dict[PortNumber, tuple[UniformQuantizedType, str]]
    )

    @staticmethod
    def of(graph: PortGraph, pieces: list[list[int]], rule: str, scale_type: str) -> Specs:
        """One class for each piece."""
        class_of: dict[int, ScaleClass] = {}
        for piece in pieces:
            made = _class_of([graph.nodes[number] for number in piece], rule, scale_type)
            class_of.update(dict.fromkeys(piece, made))
        return Specs(graph, class_of)

    def value_class(self, value: SSAValue) -> ScaleClass:
        """The class of a value."""
        return self.class_of[self.graph.of_value(value)]

    def port_class(self, port: PortNumber) -> ScaleClass:
        """The class of a port."""
        return self.class_of[self.graph.of_port(port)]

    def port_type(self, port: PortNumber) -> UniformQuantizedType:
        """The type that a kernel sees at a port. Raises MissingStatistics if the type cannot be decided."""
        return self.apart[port][0] if port in self.apart else self.port_class(port).parameters()

    def run_functions(self, kernels: list[ChosenKernel], weights: Weights) -> None:
        """Call the functions of kernels until none of them sets a type any more.

        Raises PropagationError if a function fails or sets a type that its port cannot have.
        """
        custom = [kernel for kernel in kernels if isinstance(kernel.row.relation, Custom)]
        if custom:
            done: set[PortNumber] = set()
            # First the functions whose inputs have fixed types. Those types hold for any ranges, so no later call
            # contradicts them.
            self._work(custom, custom, done, weights, from_ranges=False)
            for kernel in custom:
                self._work([kernel], custom, done, weights, from_ranges=True)
                self._confirm(kernel, weights)

    def _work(
        self,
        first: list[ChosenKernel],
        custom: list[ChosenKernel],
        done: set[PortNumber],
        weights: Weights,
        *,
        from_ranges: bool,
    ) -> None:
        by_position = {kernel.position: kernel for kernel in custom}
        readers = self._readers(custom)
        pending = [kernel.position for kernel in first]
        waiting = set(pending)
        while pending:
            # A heap by position, so that the result does not depend on the order in which kernels are found.
            kernel = by_position[heapq.heappop(pending)]
            waiting.discard(kernel.position)
            for scale_class in self._call(kernel, done, weights, from_ranges):
                for position in readers.get(id(scale_class), ()):
                    if position != kernel.position and position not in waiting:
                        heapq.heappush(pending, position)
                        waiting.add(position)

    def _readers(self, custom: list[ChosenKernel]) -> dict[int, list[int]]:
        """The positions of the kernels whose functions see a port of a class, by the id of the class."""
        readers: dict[int, list[int]] = {}
        for kernel in custom:
            for index, _ in kernel.ports():
                readers.setdefault(id(self.port_class((kernel.region, index))), []).append(kernel.position)
        return readers

    def _known(self, port: PortNumber, done: set[PortNumber], from_ranges: bool) -> UniformQuantizedType | None:
        """The type of a port if it is decided, else None. With `from_ranges`, inputs with a known range count as
        decided."""
        if port in self.apart:
            return self.apart[port][0]
        found = self.port_class(port)
        is_input = port[1] >= 0
        # The range of a result does not count, because the function is asked for its type.
        if found.fixed is None and not (from_ranges and is_input and found.is_known) and port not in done:
            return None
        return found.settle()

    def _seen(self, kernel: ChosenKernel, known: Mapping[int, UniformQuantizedType | None], weights: Weights) -> Types:
        """The types that the function of a kernel sees, given the known ones."""
        seen: Types = {}
        data = dict(kernel.ports())
        for index, value in enumerate(kernel.region.inputs):
            if index in data:
                seen[index] = known.get(index) or self._open(kernel, index, value)
            elif is_settable(kernel.row, kernel.region, index):
                stated = self.graph.constraints.get(value)
                before = [seen.get(i) for i in range(index)]
                pinned = None if stated is None else stated.pinned
                seen[index] = constant_port(kernel, index, before, weights, pinned)
        for port, value in kernel.results():
            seen[port] = known.get(port) or self._open(kernel, port, value)
        return seen

    def _open(self, kernel: ChosenKernel, index: int, value: SSAValue) -> QuantizedType:
        found = self.port_class((kernel.region, index))
        return open_type(value, found.storage, found.minimum, found.maximum)

    def _call(
        self, kernel: ChosenKernel, done: set[PortNumber], weights: Weights, from_ranges: bool
    ) -> list[ScaleClass]:
        """Call the function of a kernel. Returns the classes that it decided."""
        ports: dict[int, PortNumber] = {index: (kernel.region, index) for index, _ in kernel.ports()}
        known = {index: self._known(port, done, from_ranges) for index, port in ports.items()}
        decided: list[ScaleClass] = []
        for index, made in ask(
            kernel.row, kernel.region, source_of(kernel), self._seen(kernel, known, weights), kernel.scale_type
        ):
            if index in ports and ports[index] not in done:
                done.add(ports[index])
                decided += self._set(ports[index], made, source_of(kernel))
        return decided

    def _confirm(self, kernel: ChosenKernel, weights: Weights) -> None:
        """Set apart the ports for which the function derives another type than their class has. Record the types of
        constants.

        A function need not set a port whose type is known, even if it disagrees with the type. So it is called without
        the types of the results. If it then derives no type, it is called with only these.
        """
        ports: dict[int, PortNumber] = {index: (kernel.region, index) for index, _ in kernel.ports()}
        known = {i: self.port_type(port) if self._has_type(port) else None for i, port in ports.items()}

        def asked(types: Mapping[int, UniformQuantizedType | None]) -> list[tuple[int, UniformQuantizedType]]:
            return ask(
                kernel.row, kernel.region, source_of(kernel), self._seen(kernel, types, weights), kernel.scale_type
            )

        derived = asked({i: made for i, made in known.items() if i >= 0})
        self.constants |= {(kernel.region, i): (made, source_of(kernel)) for i, made in derived if i not in ports}
        derived = [(i, made) for i, made in derived if i in ports] or [
            (i, made) for i, made in asked({i: made for i, made in known.items() if i < 0}) if i in ports
        ]
        for index in ports if derived else ():
            self.port_class(ports[index]).is_open = False  # the function has seen these types, so they must not change
        for index, made in derived:
            if known[index] is not None and made != known[index]:
                self.apart[ports[index]] = (made, source_of(kernel))

    def _has_type(self, port: PortNumber) -> bool:
        return port in self.apart or self.port_class(port).is_known

    def _set(self, port: PortNumber, made: UniformQuantizedType, source: str) -> list[ScaleClass]:
        """Set the type of a port: for its whole class if the other members can have it, else for the port alone."""
        found = self.port_class(port)
        if found.fixed == made or (not found.is_open and found.parameters() == made):
            return []
        # For the whole class if possible, so that its members need no rescale. Not if a member already has another
        # type.
        free = found.is_open and found.zero_point in (None, made.zero_point)
        if free and found.storage.type == made.storage.type and self._suits(port, made):
            found.fix(made, source)
            return [found]
        self.apart[port] = (made, source)
        return []

    def _suits(self, port: PortNumber, made: UniformQuantizedType) -> bool:
        """Whether the class of a port can have a type that a function derived for the port.

        The type of a result is a given: the value has it, and so have the ports that only pass it on. The other members
        must be able to represent their range in it, at a scale fine enough for their readers.
        """
        found, own = self.port_class(port), self.graph.of_port(port)
        if found.members == 1:
            return True
        handed = self._handed_on(own) if port[1] < 0 else set[int]()
        others = [self.graph.nodes[n] for n, other in self.class_of.items() if other is found and n not in handed]
        return all(holds(made, node.minimum, node.maximum) and not coarser(made.scale, node.need) for node in others)

    def _handed_on(self, start: int) -> set[int]:
        """The nodes reachable from a result along the dataflow over uncut edges, including itself."""
        ahead: dict[int, list[int]] = {}
        for edge in self.graph.edges:
            if edge.reason is None:
                value, port = self.graph.find(edge.value_node), self.graph.find(edge.port_node)
                first, second = (port, value) if edge.is_output else (value, port)
                ahead.setdefault(first, []).append(second)
        seen, pending = {start}, [start]
        while pending:
            for number in ahead.get(pending.pop(), ()):
                if number not in seen:
                    seen.add(number)
                    pending.append(number)
        return seen


def source_of(kernel: ChosenKernel) -> str:
    """The name of a kernel and its function, for messages."""
    assert isinstance(kernel.row.relation, Custom)
    return f"kernel {kernel.name}: {kernel.row.relation.name}"


def _class_of(nodes: list[PortNode], rule: str, scale_type: str) -> ScaleClass:
    """The class of nodes that share one type, with their constraints and facts. Deciding facts come first."""
    first = nodes[0]
    fixed = next((node for node in nodes if node.fixed is not None), None)
    wanting = next((node for node in nodes if node.zero_point is not None), None)
    lows = [node for node in nodes if node.minimum is not None]
    made = ScaleClass(_storage(nodes), first.name, first.reader, rule, scale_type)
    if lows:
        least = min(lows, key=lambda node: node.minimum or 0.0)
        greatest = max(lows, key=lambda node: node.maximum or 0.0)
        made.minimum, made.maximum = least.minimum, greatest.maximum
        made.facts = list(dict.fromkeys([*least.facts, *greatest.facts]))
    if fixed is not None:
        made.fixed = fixed.fixed
        made.facts = list(dict.fromkeys(fixed.facts))
    elif wanting is not None:
        made.zero_point = wanting.zero_point
        made.facts.append(Fact("zero point", str(wanting.zero_point), "kernel", wanting.zero_point_by))
    names = list(dict.fromkeys(node.name for node in nodes))
    made.members = len(names)
    made.need = min(node.need for node in nodes)
    if len(names) > 1:
        shown = ", ".join(f"'{name}'" for name in names[:NAMES_SHOWN])
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        made.facts.append(Fact("same scale", shown + more, "kernel", first.reader))
    return made


NAMES_SHOWN = 4


def _storage(nodes: list[PortNode]) -> Storage:
    """The storage of a class: the intersection of the storage ranges of its members."""
    first = nodes[0].storage
    low = max(node.storage.minimum for node in nodes)
    high = min(node.storage.maximum for node in nodes)
    return Storage(first.type, low, high, first.spelling)
