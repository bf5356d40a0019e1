"""The graph of a report: a node per kernel, float island, rescale, input and output of an integer program.

Every op of the entry function, except constants and the return, belongs to one node. The op with the facts of a value
is the last op of a kernel. An op that only one node reads belongs to that node. A contraction whose accumulator only
floats read ends in a `uniform_dequantize` and has no facts. Connected float ops of one kernel and reason are one
island. A conversion between floats and integers is a node of its own if several nodes read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from zeropoint.ir.annotations import FACTS, KERNEL, RESCALE, Fact, facts_of, listed_facts
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Port, Program
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    StatisticsOp,
    StatisticsRefOp,
    StorageCastOp,
    UniformQuantizedType,
)
from zeropoint.ir.stablehlo import ConstantOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of
from zeropoint.report.counts import is_edge, is_not_integer, is_same_kernel, why_float
from zeropoint.report.expressed import decided_type, expressed_type

Occurrence = tuple[str, int]
"""The name of an op of the original model, and a number that distinguishes values with this name: 0, 1, ..."""
_NOT_COMPUTING = (ConstantOp, ReturnOp, StatisticsOp, StatisticsRefOp)
NodeKind = Literal["input", "kernel", "float", "rescale", "quantize", "dequantize", "other", "output"]
CONVERSIONS: Mapping[type[Operation], NodeKind] = {
    QuantizeCastOp: "quantize",
    UniformQuantizeOp: "quantize",
    DequantizeCastOp: "dequantize",
    UniformDequantizeOp: "dequantize",
}


@dataclass(frozen=True)
class ShownParameters:
    """The quantization of a value: its storage, scale and zero point.

    `scales` has the smallest and the largest scale of a per-channel type, or the same scale twice. `low` and `high` are
    the real values of the storage's minimum and maximum; None for a per-channel type.
    """

    storage: str
    scales: tuple[float, float]
    zero_point: int
    low: float | None
    high: float | None

    @staticmethod
    def of(kind: UniformQuantizedType) -> ShownParameters:
        """The parameters of a uniform quantized type."""
        scales, zero = kind.scales.reshape(-1), int(kind.zero_points.reshape(-1)[0])
        low = high = None
        if kind.is_per_layer:
            low, high = ((end - zero) * kind.scale for end in (kind.storage.minimum, kind.storage.maximum))
        return ShownParameters(str(kind.storage), (float(scales.min()), float(scales.max())), zero, low, high)


@dataclass(frozen=True)
class ReportNode:
    """A box of the graph. `covers` are the ops of the original model, `reads` the ids of the nodes before it.

    `kernel` is the name of the kernel, or of an op that no kernel covers; empty for inputs and outputs. `element` is
    the element type of the node's result in the program, and `parameters` the quantization of its integers. `reason`
    says why a float island is float.
    """

    id: str
    kind: NodeKind
    name: str
    kernel: str
    covers: tuple[str, ...]
    shape: tuple[int, ...]
    element: str
    parameters: ShownParameters | None
    reason: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class ReportGraph:
    """The nodes in program order, and the ops of each."""

    nodes: tuple[ReportNode, ...]
    ops: dict[str, list[Operation]] = field(default_factory=dict[str, list[Operation]])

    def by_op(self) -> dict[Operation, str]:
        """The node of each op."""
        return {op: node for node, ops in self.ops.items() for op in ops}

    def by_name(self) -> dict[str, str]:
        """Map names of the original model to nodes. A node's own name takes precedence over names that nodes cover.

        If several nodes have one name, the last one is used.
        """
        named = (node for node in self.nodes if node.kind not in ("output", *CONVERSIONS.values()))
        names = {node.name: node.id for node in named}
        for node in self.nodes:
            inner = (location_text(op.location) for op in self.ops.get(node.id, ()))
            for name in (*node.covers, *inner):
                if name is not None:
                    names.setdefault(name, node.id)
        return names

    def by_occurrence(self) -> dict[Occurrence, ReportNode]:
        """The kernels and float islands by name and number, because an op of the original model may become several."""
        computing = [node for node in self.nodes if node.kind in ("kernel", "float")]
        return {
            occurrence: node
            for node, occurrence in zip(computing, numbered([node.name for node in computing]), strict=True)
        }


def numbered(names: Sequence[str]) -> list[Occurrence]:
    """Each name with the number of equal names before it."""
    seen: Counter[str] = Counter()
    found: list[Occurrence] = []
    for name in names:
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def occurrences(program: Program) -> dict[Occurrence, Operation]:
    """The ops of a float or propagated program with one result, by name and number, without constants."""
    ops = [op for op in program.entry.ops if len(op.results) == 1 and not isinstance(op, _NOT_COMPUTING)]
    named = [(op, name) for op in ops if (name := location_text(op.location)) is not None]
    return {occurrence: op for (op, _), occurrence in zip(named, numbered([name for _, name in named]), strict=True)}


def graph_of(program: Program) -> ReportGraph:
    """The graph of an integer program."""
    return _Builder(program).build()


def _ends_accumulator(op: Operation) -> bool:
    """Whether an op dequantizes an accumulator directly."""
    if not isinstance(op, UniformDequantizeOp):
        return False
    made = op.operand.owner
    if isinstance(made, StorageCastOp):
        made = made.input.owner
    return isinstance(made, Operation) and FACTS not in made.attributes and not is_edge(made)


class _Builder:
    def __init__(self, program: Program):
        self.program = program
        self.ops = [op for op in program.entry.ops if not isinstance(op, ConstantOp | ReturnOp)]
        self.key: dict[Operation, object] = {}
        """A key per node: ops with the same key belong to the same node."""

    def build(self) -> ReportGraph:
        self._ends()
        self._islands()
        self._before_ends()
        self._left_over()
        return self._graph()

    def _ends(self) -> None:
        for op in self.ops:
            if _kernel_fact(op) is not None or RESCALE in op.attributes or _ends_accumulator(op):
                self.key[op] = op

    def _islands(self) -> None:
        """Give connected float ops of one kernel and reason one key."""
        kinds = {op: (_kernel_name(op), why_float(op)) for op in self.ops if op not in self.key and is_not_integer(op)}
        for op, kind in kinds.items():
            before = [operand.owner for operand in op.operands]
            alike = [made for made in before if isinstance(made, Operation) and kinds.get(made) == kind]
            same = [made for made in alike if is_same_kernel(op, made)]
            self.key[op] = self.key[same[0]] if same else op
            for other in same[1:]:
                self._join(self.key[other], self.key[op])

    def _join(self, old: object, new: object) -> None:
        for op, key in self.key.items():
            if key is old:
                self.key[op] = new

    def _before_ends(self) -> None:
        """Add an op that only one node reads to that node."""
        for op in reversed(self.ops):
            if op not in self.key:
                users = [use.operation for result in op.results for use in result.uses]
                keys = {self.key.get(user, user) for user in users}
                if len(keys) == 1 and not isinstance(users[0], ReturnOp):
                    self.key[op] = keys.pop()

    def _left_over(self) -> None:
        """Make a node of every other op. A conversion of a conversion's result belongs to the same node."""
        for op in self.ops:
            if op not in self.key:
                made = op.operands[0].owner if op.operands else None
                follows = isinstance(made, Operation) and is_edge(op) and is_edge(made) and self._converts(made)
                self.key[op] = self.key[made] if follows and isinstance(made, Operation) else op

    def _converts(self, op: Operation) -> bool:
        """Whether the node that an op belongs to is a conversion."""
        key = self.key[op]
        return (
            isinstance(key, Operation) and is_edge(key) and RESCALE not in key.attributes and _kernel_fact(key) is None
        )

    def _graph(self) -> ReportGraph:
        arguments = {argument: f"in{argument.index}" for argument in self.program.entry.args}
        ids: dict[object, str] = {}
        for op in self.ops:
            ids.setdefault(self.key[op], f"n{len(ids)}")
        ops: dict[str, list[Operation]] = {}
        for op in self.ops:
            ops.setdefault(ids[self.key[op]], []).append(op)
        found = _Reads({op: node for node, inner in ops.items() for op in inner}, arguments)
        nodes = [self._input(argument) for argument in self.program.entry.args]
        nodes += [_node(node, inner, found.of(inner, node)) for node, inner in ops.items()]
        return ReportGraph((*nodes, *self._outputs(found)), ops)

    def _input(self, argument: BlockArgument) -> ReportNode:
        port = self.program.inputs[argument.index]
        attributes = self.program.main.arg_attrs
        listed = None if attributes is None else attributes.data[argument.index].data.get(FACTS)
        facts = listed_facts(listed)
        shape, element = port.type.get_shape(), str(port.type.get_element_type())
        return ReportNode(f"in{argument.index}", "input", port.name, "", (), shape, element, _decided(facts), "", ())

    def _outputs(self, found: _Reads) -> list[ReportNode]:
        last = self.program.entry.last_op
        assert last is not None
        pairs = zip(self.program.outputs, last.operands, strict=True)
        return [_output(f"out{n}", port, found.values([value], "")) for n, (port, value) in enumerate(pairs)]


@dataclass(frozen=True)
class _Reads:
    """Maps the values that ops read to the nodes that produce them."""

    of_op: dict[Operation, str]
    of_argument: dict[BlockArgument, str]

    def of(self, ops: list[Operation], own: str) -> tuple[str, ...]:
        return self.values([operand for op in ops for operand in op.operands], own)

    def values(self, values: list[SSAValue], own: str) -> tuple[str, ...]:
        found = dict.fromkeys(map(self._maker, values))
        return tuple(node for node in found if node is not None and node != own)

    def _maker(self, value: SSAValue) -> str | None:
        if isinstance(value, BlockArgument):
            return self.of_argument.get(value)
        return self.of_op.get(value.owner) if isinstance(value.owner, Operation) else None


def _output(identity: str, port: Port, reads: tuple[str, ...]) -> ReportNode:
    shape, element = port.type.get_shape(), str(port.type.get_element_type())
    return ReportNode(identity, "output", port.name, "", (), shape, element, None, "", reads)


def _node(identity: str, ops: list[Operation], reads: tuple[str, ...]) -> ReportNode:
    last = ops[-1]
    kind, kernel, covers = _role(ops)
    converting = [op for op in ops if type(op) in CONVERSIONS]
    # Conversions have the name of the value that they convert, which is not an op of a float island.
    naming = converting if kind in CONVERSIONS.values() else [op for op in ops if kind != "float" or not is_edge(op)]
    names = [name for op in reversed(naming) if (name := location_text(op.location)) is not None]
    name = names[0] if names else (covers[0] if covers else last.name)
    result = last.results[0].type
    return ReportNode(
        identity,
        kind,
        name,
        kernel,
        covers or tuple(dict.fromkeys(reversed(names))),
        result.get_shape() if isinstance(result, TensorType) else (),
        str(element_of(last.results[0])) if isinstance(result, TensorType) else str(result),
        _parameters(ops[-1:] if kind == "float" else ops),
        why_float(last) if kind == "float" else "",
        reads,
    )


def _role(ops: list[Operation]) -> tuple[NodeKind, str, tuple[str, ...]]:
    """The kind of a node, its kernel, and the names that it covers."""
    last = ops[-1]
    if RESCALE in last.attributes:
        return "rescale", "rescale", ()
    kernel = _kernel_fact(last)
    if kernel is not None:
        return "kernel", kernel.value, tuple(kernel.source.split(", ")) if kernel.source else ()
    if is_not_integer(last):
        return "float", _kernel_name(last), ()
    if _ends_accumulator(last):
        return "kernel", _contraction(ops), ()
    edges = ops if all(map(is_edge, ops)) else ()
    converting: list[NodeKind] = [CONVERSIONS[type(op)] for op in edges if type(op) in CONVERSIONS]
    return (converting[-1], converting[-1], ()) if converting else ("other", last.name, ())


def _kernel_fact(op: Operation) -> Fact | None:
    """The fact that names the kernel of an op's result; None if the op is not the last one of a kernel."""
    return next((fact for fact in facts_of(op) if fact.name == "kernel"), None)


def _contraction(ops: list[Operation]) -> str:
    """The name of a kernel without facts: its convolution, dot_general or reduce, else its first op."""
    found = [op.name.partition(".")[2] for op in ops]
    return next((name for name in found if name in ("convolution", "dot_general", "reduce")), found[0])


def _kernel_name(op: Operation) -> str:
    found = op.attributes.get(KERNEL)
    return found.data if isinstance(found, StringAttr) else op.name


def _decided(facts: list[Fact]) -> ShownParameters | None:
    """The parameters that facts state; None if they state none."""
    kind = decided_type(facts)
    return None if kind is None else ShownParameters.of(kind)


def _parameters(ops: list[Operation]) -> ShownParameters | None:
    """The parameters of the last value with a quantized type."""
    for op in reversed(ops):
        kind = expressed_type(op)
        if kind is None and isinstance(op, UniformQuantizeOp | StorageCastOp):
            element = element_of(op.results[0])
            kind = element if isinstance(element, UniformQuantizedType) else None
        if kind is not None:
            return ShownParameters.of(kind)
    return None
