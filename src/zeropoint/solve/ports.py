"""The ports of all kernels as a graph. It states which ports must have the same parameters, and where a rescale may go.

Nodes are values, the operands that read them, and the results that define them. `same_scale` ties the ports of a
kernel, and `coupled_ref` ties values. Tied nodes are merged. Edges connect a value to the result that defines it and to
each operand that reads it. Cutting an edge inserts a rescale there, at the cost of the number of elements times their
width. A float value (an input of the program, or the result of a float op) has no edges. Each port that reads it
quantizes it for itself, with the range that its kernel needs.

Source: the RFC on quantization transformations, section "Target Constraints": an indexed input or output of a kernel is
a port.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import Fact
from zeropoint.ir.locations import written_name
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import shape_of
from zeropoint.solve.classes import real_range
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.errors import PropagationError
from zeropoint.solve.kernel import ChosenKernel
from zeropoint.solve.kernels import rebased
from zeropoint.solve.nodes import PortNode
from zeropoint.solve.precision import coarser, needs, own_step, step_of
from zeropoint.solve.termination import PortNumber
from zeropoint.solve.value_constraint import ValueConstraint
from zeropoint.solve.value_ranges.read_ranges import CALIBRATED, taken_by
from zeropoint.targets import SameScale


@dataclass(eq=False)
class Edge:
    """An edge between a value and a port. If it is cut, `reason` has what the value has and what the port requires."""

    value: SSAValue
    port: PortNumber
    value_node: int
    port_node: int
    cost: int
    position: int
    reason: tuple[str, str] | None = None

    @property
    def is_output(self) -> bool:
        """Whether the port is the result that defines the value."""
        return self.port[1] < 0


@dataclass
class PortGraph:
    """The graph. It has nodes by number with tied nodes merged, and edges, none of them cut.

    `read` has the values read by float ops or the caller. `joined` has the float values that must have one type for all
    readers, such as integer inputs. `moved` has what is known of the results that are elements of a value with a stated
    type: they are numbers of that type. `made` has the values that kernels produce. `makers` has the results that
    define a node's values; coupled values have several.
    """

    kernels: list[ChosenKernel]
    constraints: Constraints
    joined: Collection[SSAValue] = ()
    made: set[SSAValue] = field(default_factory=set[SSAValue])
    nodes: dict[int, PortNode] = field(default_factory=dict[int, PortNode])
    edges: list[Edge] = field(default_factory=list[Edge])
    value_nodes: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    port_nodes: dict[PortNumber, int] = field(default_factory=dict[PortNumber, int])
    parents: list[int] = field(default_factory=list[int])
    steps: list[float] = field(default_factory=list[float])
    read: set[int] = field(default_factory=set[int])
    made_ranges: dict[SSAValue, tuple[float, float]] = field(default_factory=dict[SSAValue, tuple[float, float]])
    moved: dict[SSAValue, ValueConstraint] = field(default_factory=dict[SSAValue, ValueConstraint])
    makers: dict[PortNode, list[PortNode]] = field(default_factory=dict[PortNode, list[PortNode]])

    @staticmethod
    def of(kernels: list[ChosenKernel], constraints: Constraints, joined: Collection[SSAValue] = ()) -> PortGraph:
        """The graph of a program's kernels. Raises PropagationError if coupled values are pinned to two types."""
        graph = PortGraph(kernels, constraints, joined)
        graph.kernels = sorted(kernels, key=lambda kernel: kernel.position)
        graph.made = {value for kernel in kernels for _, value in kernel.results()}
        for kernel in graph.kernels:
            graph._add_kernel(kernel)
        graph._tie_coupled()
        graph._fill_nodes()
        graph._fill_needs()
        return graph

    def _new(self) -> int:
        self.parents.append(len(self.parents))
        return len(self.parents) - 1

    def find(self, number: int) -> int:
        """The representative of a node and of all nodes tied to it (union-find)."""
        root = number
        while self.parents[root] != root:
            root = self.parents[root]
        while self.parents[number] != root:
            # Path compression: later searches take one step.
            self.parents[number], number = root, self.parents[number]
        return root

    def _tie(self, first: int, second: int) -> None:
        # The lower number represents both, so the order of ties does not matter.
        low, high = sorted((self.find(first), self.find(second)))
        self.parents[high] = low

    def is_quantized_by_readers(self, value: SSAValue) -> bool:
        """Whether each reader of a value quantizes it for itself. True for a float value without a stated type."""
        if value in self.made or value in self.joined:
            return False
        known = self.constraints.get(value)
        return known is None or (known.pinned is None and known.coupled is None)

    def of_value(self, value: SSAValue) -> int:
        """The node of a value."""
        return self.find(self.value_nodes[value])

    def own_step(self, value: SSAValue) -> float:
        """The scale that a value would have if every edge were rescaled; 0 if unknown."""
        return self.steps[self.value_nodes[value]]

    def of_port(self, port: PortNumber) -> int:
        """The node of a port."""
        return self.find(self.port_nodes[port])

    def _add_kernel(self, kernel: ChosenKernel) -> None:
        ports = list(kernel.ports())
        for index, value in ports:
            if value not in self.value_nodes:
                self.value_nodes[value] = self._new()
            port = (kernel.region, index)
            self.port_nodes[port] = self._new()
            if self.is_quantized_by_readers(value):
                continue
            cost = prod(shape_of(value)) * kernel.storage(index).type.width
            self.edges.append(Edge(value, port, self.value_nodes[value], self.port_nodes[port], cost, kernel.position))
        if isinstance(kernel.row.relation, SameScale):
            group = [self.port_nodes[kernel.region, i] for i, _ in ports if i in kernel.row.relation]
            for number in group[1:]:
                self._tie(group[0], number)

    def _tie_coupled(self) -> None:
        first: dict[str, SSAValue] = {}
        for value in self.value_nodes:
            known = self.constraints.get(value)
            if known is None or known.coupled is None:
                continue
            other = first.setdefault(known.coupled, value)
            pinned = self.constraints.of(other).pinned
            if known.pinned is not None and pinned is not None and known.pinned != pinned:
                raise PropagationError(
                    f"'{written_name(other)}' and '{written_name(value)}' are coupled by key '{known.coupled}': found "
                    f"pinned types {pinned} and {known.pinned}, expected one",
                    value.owner if isinstance(value.owner, Operation) else None,
                )
            self._tie(self.value_nodes[other], self.value_nodes[value])

    def _node(self, number: int, kernel: ChosenKernel, port: int, value: SSAValue) -> PortNode:
        root = self.find(number)
        if root not in self.nodes:
            self.nodes[root] = PortNode(kernel.position, kernel.storage(port), written_name(value), kernel.name)
        return self.nodes[root]

    def _fill_nodes(self) -> None:
        tied = self._tied_uses()
        data = {port for port in self.port_nodes if port[1] >= 0}
        seen = set[SSAValue]()
        for kernel in self.kernels:
            for index, value in kernel.ports():
                if index < 0:
                    self._note_moved(kernel, index, value)
                at_port = self._node(self.port_nodes[kernel.region, index], kernel, index, value)
                self._fill_port(at_port, self._read(value, kernel, index).within(at_port.storage), kernel, index)
                at_value = self._node(self.value_nodes[value], kernel, index, value)
                self._fill_value(
                    at_value, self._known(value, kernel, index).within(at_value.storage), written_name(value)
                )
                if self.is_quantized_by_readers(value):
                    continue
                if index < 0:
                    self._note_made(at_value, at_port, value)
                if value in seen:
                    continue  # its uses are done: there may be as many as the program has kernels
                seen.add(value)
                uses = [(use.operation, use.index) for use in value.uses]
                made = isinstance(value.owner, QuantizeRegionOp)
                at_value.exposed |= any(use not in tied and (made or use in data) for use in uses)
                if made and any(use not in data for use in uses):
                    self.read.add(self.value_nodes[value])
        for node, makers in self.makers.items():
            _fill_zero_point(node, makers)

    def _fill_needs(self) -> None:
        """Propagate the requirements of readers backwards.

        Works on the unmerged nodes, because data passes through one member of a merged node, not through all of them.
        """
        flows = [(e.port_node, e.value_node) if e.is_output else (e.value_node, e.port_node) for e in self.edges]
        read = set(self.read)
        for kernel in self.kernels:
            for index, _ in kernel.data_ports():
                port = self.port_nodes[kernel.region, index]
                results = [result for result, _ in kernel.results() if kernel.row.shares(index, result)]
                flows += [(port, self.port_nodes[kernel.region, result]) for result in results]
                if not results:
                    read.add(port)
        steps = [own_step(self.nodes[self.find(number)]) for number in range(len(self.parents))]
        self.steps, wanted = needs(steps, flows, read)
        for number, need in enumerate(wanted):
            node = self.nodes[self.find(number)]
            node.need = min(node.need, need)

    def _note_made(self, at_value: PortNode, at_port: PortNode, value: SSAValue) -> None:
        """Record the kernel that produces a value, and the range of the kernel's fixed type as the value's range."""
        self.makers.setdefault(at_value, []).append(at_port)
        if at_port.fixed is not None and at_value.fixed is None:
            self.made_ranges[value] = real_range(at_port.fixed)

    def _note_moved(self, kernel: ChosenKernel, result: int, value: SSAValue) -> None:
        """Record the type or the range of a result without statistics whose elements come from one operand."""
        operand = kernel.moved_operand(result)
        moved = None if operand is None else self._known(operand, kernel, 0)
        if moved is not None and moved.pinned is not None:
            self.moved[value] = moved
        elif moved is not None and moved.minimum is not None and moved.maximum is not None:
            self.made_ranges[value] = moved.minimum, moved.maximum

    def _tied_uses(self) -> set[PortNumber]:
        """The operands that cannot take arbitrary parameters: they are tied to other ports, or require a zero point."""
        return {
            (kernel.region, index)
            for kernel in self.kernels
            for index, _ in kernel.data_ports()
            if kernel.row.tied(index) or kernel.row.input_rule(index).zero_point is not None
        }

    def _known(self, value: SSAValue, kernel: ChosenKernel, index: int) -> ValueConstraint:
        """The constraint of a value as this port sees it. A fixed type replaces the observed range."""
        known = self.constraints.get(value) or ValueConstraint()
        if known.pinned is None and known.minimum is None:
            known = self.moved.get(value, known)
        if known.pinned is not None:
            pinned = rebased(known.pinned, kernel.storage(index))
            low, high = real_range(pinned)
            return ValueConstraint(low, high, 2, pinned, facts=known.facts)
        if known.minimum is None and value in self.made_ranges:
            low, high = self.made_ranges[value]
            return ValueConstraint(low, high, 3)
        return known

    def _read(self, value: SSAValue, kernel: ChosenKernel, index: int) -> ValueConstraint:
        """The constraint of a value as this port sees it. A float value has only the range that the kernel needs."""
        known = self._known(value, kernel, index)
        taken = taken_by(kernel.region, self.constraints) if self.is_quantized_by_readers(value) else None
        if taken is None or known.minimum is None or known.maximum is None or known.strength > CALIBRATED:
            return known
        low, high = max(known.minimum, taken[0]), min(known.maximum, taken[1])
        if low > high or (low, high) == (known.minimum, known.maximum):
            return known
        fact = Fact("range", f"[{low:g}, {high:g}]", "calibrated", f"the part that {kernel.name} needs")
        return replace(known, minimum=low, maximum=high, extremes=None, facts=[*known.facts, fact])

    def _fill_port(self, node: PortNode, known: ValueConstraint, kernel: ChosenKernel, index: int) -> None:
        rule, fixed = kernel.row.rule(index), kernel.row.fixed(index, kernel.storage(index))
        if rule.zero_point is not None:
            node.zero_point, node.zero_point_by = rule.zero_point, f"kernel {kernel.name}"
        if fixed is not None:
            node.fix(fixed, f"kernel {kernel.name}", "kernel")
            node.minimum, node.maximum = real_range(fixed)
            return
        if index < 0 and kernel.demands.get("symmetric") == "true" and node.zero_point is None:
            node.zero_point, node.zero_point_by = kernel.storage(index).type.middle, "the recipe"
        operand = kernel.moved_operand(index) if index < 0 and known.pinned is not None else None
        if operand is not None and self._known(operand, kernel, 0).pinned is not None:
            return  # the kernel has the type of its operand, and its result is rescaled to the stated one
        node.widen(known.minimum, known.maximum, known.facts, written_name(kernel.value(index)))

    def _fill_value(self, node: PortNode, known: ValueConstraint, name: str) -> None:
        if known.pinned is None:
            node.widen(known.minimum, known.maximum, known.facts, name)
        elif node.fixed is None:
            stated = next(fact for fact in known.facts if fact.name == "parameters")
            node.storage = known.pinned.storage
            node.fix(known.pinned, stated.source, stated.salience)
            node.minimum, node.maximum = known.minimum, known.maximum


def _fill_zero_point(node: PortNode, makers: Sequence[PortNode]) -> None:
    """Give a value the zero point that the kernel producing it requires.

    For coupled values, one producer may require a zero point that another does not. It is used if it makes the scale of
    all of them at most half a bit coarser. Otherwise the result of the producer that requires it is rescaled.
    """
    wanting = next((maker for maker in makers if maker.zero_point is not None), None)
    if wanting is None:
        return
    ends = node.minimum, node.maximum, node.storage
    is_agreed = all(maker.zero_point == wanting.zero_point for maker in makers)
    if is_agreed or not coarser(step_of(*ends, wanting.zero_point), step_of(*ends, None)):
        node.zero_point, node.zero_point_by = wanting.zero_point, wanting.zero_point_by
