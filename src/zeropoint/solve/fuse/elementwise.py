"""Elementwise ops: functions of one activation, however many ops they take, and sums and products of two."""

from __future__ import annotations

from typing_extensions import TypeIs
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.ir.stablehlo import (
    AddOp,
    BinaryOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    LogisticOp,
    MultiplyOp,
    SelectOp,
    SubtractOp,
    TanhOp,
    UnaryOp,
)
from zeropoint.ir.tensors import shape_of
from zeropoint.numerics.functions import is_known
from zeropoint.solve.fuse.match import Graph, Match

ELEMENTWISE = (UnaryOp, BinaryOp, ClampOp, CompareOp, SelectOp)
NAMED_UNARY: dict[type[Operation], str] = {LogisticOp: "logistic", TanhOp: "tanh"}
BINARY: dict[type[Operation], str] = {AddOp: "add", MultiplyOp: "multiply", SubtractOp: "subtract"}


def _is_function(op: object) -> TypeIs[Operation]:
    """Whether the op is elementwise and a table of its values can be made: not a conversion, nothing on bits."""
    return isinstance(op, ELEMENTWISE) and is_known(op.name.removeprefix("stablehlo."))


def _one_activation(slice_ops: set[Operation], graph: Graph) -> SSAValue | None:
    """The only value from outside that the ops read, numbers apart."""
    sources = {
        operand
        for op in slice_ops
        for operand in op.operands
        if not (isinstance(operand, OpResult) and operand.op in slice_ops) and graph.splat(operand) is None
    }
    return sources.pop() if len(sources) == 1 else None


def _absorb(slice_ops: set[Operation], graph: Graph) -> set[Operation]:
    """The elementwise producers all of whose uses are in the slice already."""
    found: set[Operation] = set()
    for op in slice_ops:
        for operand in op.operands:
            producer = operand.owner
            if (
                _is_function(producer)
                and producer not in slice_ops
                and producer not in graph.covered
                and all(use.operation in slice_ops for use in operand.uses)
            ):
                found.add(producer)
    return found


def _bounds_a_sum(slice_ops: set[Operation], source: SSAValue, graph: Graph) -> bool:
    """Whether the ops only bound a sum or product of two tensors: then its kernel takes them (residual add, relu)."""
    if type(source.owner) not in BINARY or source.owner in graph.covered:
        return False
    clamps = graph.with_clamps([source.owner])[1:]  # pyright: ignore[reportArgumentType]
    return slice_ops <= set(clamps)


def match_unary(op: Operation, graph: Graph) -> Match | None:
    """The largest tree or diamond of elementwise ops that ends in `op` and reads one activation."""
    if not _is_function(op) or not graph.is_float(op.results[0]):
        return None
    slice_ops: set[Operation] = {op}
    best: set[Operation] | None = None
    if _one_activation(slice_ops, graph) is not None:
        best = set(slice_ops)
    while found := _absorb(slice_ops, graph):
        slice_ops |= found
        if _one_activation(slice_ops, graph) is not None:
            best = set(slice_ops)
    if best is None:
        return None
    source = _one_activation(best, graph)
    assert source is not None
    if _bounds_a_sum(best, source, graph):
        return None
    if graph.array(source) is not None or shape_of(source) != shape_of(op.results[0]) or not graph.is_float(source):
        return None
    kernel = NAMED_UNARY.get(type(op), "elementwise_unary") if len(best) == 1 else "elementwise_unary"
    return Match(kernel, graph.in_order(best), (source,))


def match_binary(op: Operation, graph: Graph) -> Match | None:
    """`add`, `subtract`, `multiply` of two tensors, then bounds; a constant operand is a port of its own."""
    kernel = BINARY.get(type(op))
    if kernel is None or not isinstance(op, BinaryOp) or not graph.is_float(op.result):
        return None
    broadcasts: list[Operation] = []
    inputs: list[SSAValue] = []
    for operand in dict.fromkeys(op.operands):
        producer = operand.owner
        if isinstance(producer, BroadcastInDimOp) and graph.array(producer.operand) is not None:
            broadcasts.append(producer)
            operand = producer.operand
        inputs.append(operand)
    own = [broadcast for broadcast in broadcasts if graph.only_user(broadcast.results[0]) is op]
    return Match(kernel, graph.with_clamps([*own, op]), tuple(dict.fromkeys(inputs)))


PATTERNS = (match_unary, match_binary)
