"""Elementwise ops: functions of one activation, which may span many ops, and binary ops on two activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from xdsl.ir import Block, Operation, OpResult, SSAValue

from zeropoint.fuse.match import FloatGraph, RegionMatch
from zeropoint.ir.functions import evaluate_chain, is_function
from zeropoint.ir.named_functions import POINTS, function_kernel
from zeropoint.ir.stablehlo import (
    AddOp,
    BinaryOp,
    BroadcastInDimOp,
    CompareOp,
    ComparisonDirection,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    SelectOp,
    SubtractOp,
)
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.targets import Role

GENERIC = "elementwise_unary"
"""The kernel of an arbitrary function of one value: a lookup table."""
BINARY: dict[type[Operation], str] = {
    AddOp: "add",
    DivideOp: "divide",
    MaximumOp: "maximum",
    MinimumOp: "minimum",
    MultiplyOp: "multiply",
    SubtractOp: "subtract",
}
MOST_OPS = 24
"""Maximum number of ops in a named function at the end of a longer one. No function of `ir/named_functions.py` has
more."""
NOT_NEGATIVE = (ComparisonDirection.GE, ComparisonDirection.GT)
"""The comparisons of x with 0 that select x in a PReLU. They are equivalent, because both branches are 0 at x = 0."""


def _one_activation(slice_ops: set[Operation], graph: FloatGraph) -> SSAValue | None:
    """The only non-constant value from outside that the ops read; None if there are several or none."""
    sources = {
        operand
        for op in slice_ops
        for operand in op.operands
        if not (isinstance(operand, OpResult) and operand.op in slice_ops) and graph.splat(operand) is None
    }
    # A lookup table has one index.
    return sources.pop() if len(sources) == 1 else None


def _absorb(latest: set[Operation], slice_ops: set[Operation], graph: FloatGraph) -> set[Operation]:
    """The elementwise producers of the `latest` ops that are only used in the slice.

    Producers of earlier ops need no second look: a new candidate's last use must be among the latest ops.
    """
    found: set[Operation] = set()
    for op in latest:
        for operand in op.operands:
            producer = operand.owner
            if (
                _is_free(producer, graph)
                and producer not in slice_ops
                and all(use.operation in slice_ops for use in operand.uses)
            ):
                found.add(producer)
    return found


def _is_free(producer: Operation | Block, graph: FloatGraph) -> TypeGuard[Operation]:
    """Whether the producer of an operand may join a slice."""
    return is_function(producer) and producer not in graph.covered


class _Sources:
    """The non-constant values from outside that a growing slice reads."""

    def __init__(self, graph: FloatGraph):
        self._graph = graph
        self._found: set[SSAValue] = set()
        self._kept: set[SSAValue] = set()
        """The sources whose producers can never join."""

    def grow(self, latest: set[Operation], slice_ops: set[Operation]) -> bool:
        """Update the sources after the `latest` ops joined. Returns whether there is exactly one source."""
        self._found.difference_update(result for op in latest for result in op.results)
        for op in latest:
            for operand in op.operands:
                inside = isinstance(operand, OpResult) and operand.op in slice_ops
                if not inside and self._graph.splat(operand) is None:
                    self._found.add(operand)
                    if not _is_free(operand.owner, self._graph):
                        self._kept.add(operand)
        return len(self._found) == 1

    @property
    def are_several(self) -> bool:
        """Whether there will be several sources however the slice grows, as in a long sum of inputs."""
        return len(self._kept) > 1


def _bounds_a_sum(slice_ops: set[Operation], source: SSAValue, graph: FloatGraph) -> bool:
    """Whether the ops only clamp the result of a binary op, whose kernel absorbs the clamps (residual add, relu)."""
    made = source.owner
    if not isinstance(made, Operation) or type(made) not in BINARY or made in graph.covered:
        return False
    clamps = graph.with_clamps([made])[1:]
    return slice_ops <= set(clamps)


def match_unary(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """The largest tree or diamond of elementwise ops that ends in `op` and reads one activation."""
    if not is_function(op) or not graph.is_float(op.results[0]):
        return None
    # Grow from the last op backwards, so that the longest chain becomes one table.
    latest: set[Operation] = {op}
    slice_ops: set[Operation] = set()
    joined: list[Operation] = []
    counts: list[int] = []  # lengths of the prefixes of `joined` with one source
    sources = _Sources(graph)
    while latest:
        slice_ops |= latest
        joined += latest
        if sources.grow(latest, slice_ops):
            # A diamond (`x * sigmoid(x)`) has two sources until both of its branches have joined.
            counts.append(len(joined))
        latest = set() if sources.are_several else _absorb(latest, slice_ops, graph)
    if not counts:
        return None
    best = set(joined[: counts[-1]])
    source = _one_activation(best, graph)
    assert source is not None
    # A clamp after a sum costs nothing in the sum's kernel. As a table it would be one more kernel.
    if _bounds_a_sum(best, source, graph):
        return None
    if graph.array(source) is not None or shape_of(source) != shape_of(op.results[0]) or not graph.is_float(source):
        return None
    whole = function_match(graph.in_order(best), source, graph)
    if whole.kernel in graph.kernels:
        return whole
    # The target has no kernel for the whole function, but may have one for the function at its end, or for its last op.
    parts = (_at_end(joined[:count], graph) for count in reversed(counts[:-1]) if count <= MOST_OPS)
    part = next((part for part in parts if part is not None), None)
    if part is not None or BINARY.get(type(op)) in graph.kernels:
        return part or _one_bound(op, graph)
    alone = _one_activation({op}, graph)
    single = None if alone is None else function_match((op,), alone, graph)
    return single if single is not None and single.kernel in graph.kernels else whole


def _at_end(ops: Sequence[Operation], graph: FloatGraph) -> RegionMatch | None:
    """The function that the last ops of a longer one compute, if the target has a kernel for it."""
    source = _one_activation(set(ops), graph) if len(ops) > 1 else None
    if source is None or not graph.is_float(source) or shape_of(source) != shape_of(ops[0].results[0]):
        return None
    if _bounds_a_sum(set(ops), source, graph):
        return None
    match = function_match(graph.in_order(set(ops)), source, graph)
    return match if match.kernel in graph.kernels else None


def _one_bound(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """A maximum or minimum with a number that no preceding kernel absorbs; None for other binary ops."""
    source = _one_activation({op}, graph)
    if not isinstance(op, MaximumOp | MinimumOp) or source is None or op.lhs is op.rhs:
        return None
    return RegionMatch(BINARY[type(op)], (op,), (source,))


def function_match(ops: tuple[Operation, ...], source: SSAValue, graph: FloatGraph) -> RegionMatch:
    """The match of a function of one value: the kernel of its name if the target has it, otherwise the generic kernel.

    If the target has neither, the name is kept, so that messages can say which kernel is missing.
    """
    values = evaluate_chain(ops[-1].results[0], source, POINTS.astype(element_dtype(element_of(source))), graph.weights)
    name = function_kernel(values)
    kernel = GENERIC if name is None or (name not in graph.kernels and GENERIC in graph.kernels) else name
    return RegionMatch(kernel, ops, (source,), name or GENERIC)


def match_binary(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """One binary op on tensors, then clamps; a constant operand has its own port."""
    kernel = BINARY.get(type(op))
    if kernel is None or not isinstance(op, BinaryOp) or not graph.is_float(op.result):
        return None
    if isinstance(op, MaximumOp | MinimumOp) and any(graph.splat(operand) is not None for operand in op.operands):
        return None  # a clamp, which the preceding kernel absorbs
    inputs, broadcasts = _operands(op, graph)
    own = [broadcast for broadcast in broadcasts if graph.only_user(broadcast.results[0]) is op]
    return RegionMatch(kernel, graph.with_clamps([*own, op]), inputs)


def match_prelu(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`select(x >= 0, x, x * slope)` with a constant slope per channel, if the target has the kernel.

    Its ports are x and the slope. With one slope for all elements, it is a function of one value instead
    (`leaky_relu`).
    """
    if not isinstance(op, SelectOp) or "prelu" not in graph.kernels or not graph.is_float(op.result):
        return None
    test, product, value = op.pred.owner, op.on_false.owner, op.on_true
    if not _tests_sign(test, value, graph) or not isinstance(product, MultiplyOp) or value not in product.operands:
        return None
    # The factors may be in either order.
    slope = product.rhs if product.lhs is value else product.lhs
    ops: list[Operation] = [test, product]
    if any(graph.only_user(made.results[0]) is not op for made in ops):
        return None
    if isinstance(producer := slope.owner, BroadcastInDimOp) and graph.only_user(slope) is product:
        ops.append(producer)
        slope = producer.operand
    return None if graph.array(slope) is None else RegionMatch("prelu", graph.in_order([*ops, op]), (value, slope))


def _tests_sign(test: Operation | Block, value: SSAValue, graph: FloatGraph) -> TypeGuard[CompareOp]:
    """Whether an op is a comparison of `value` with 0 that is true for positive elements."""
    if not isinstance(test, CompareOp) or test.comparison_direction.data not in NOT_NEGATIVE:
        return False
    return test.lhs is value and graph.splat(test.rhs) == 0.0


def match_compare(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`compare` of two values, of which one may be constant, if the target compares values of two scales."""
    rows = graph.kernels.get("compare", ())
    takes_constants = any(rule.role is Role.CONSTANT for row in rows for rule in row.inputs)
    if not isinstance(op, CompareOp) or not takes_constants or not graph.is_float(op.lhs):
        return None
    inputs, broadcasts = _operands(op, graph)
    if all(graph.array(value) is not None for value in inputs):
        return None
    own = [broadcast for broadcast in broadcasts if graph.only_user(broadcast.results[0]) is op]
    return RegionMatch("compare", (*own, op), inputs)


def _operands(op: Operation, graph: FloatGraph) -> tuple[tuple[SSAValue, ...], list[Operation]]:
    """The operands of an op, each once, with constants instead of broadcasts of them; and these broadcasts."""
    broadcasts: list[Operation] = []
    inputs: list[SSAValue] = []
    for operand in dict.fromkeys(op.operands):
        producer = operand.owner
        if isinstance(producer, BroadcastInDimOp) and graph.array(producer.operand) is not None:
            broadcasts.append(producer)
            operand = producer.operand
        inputs.append(operand)
    return tuple(dict.fromkeys(inputs)), broadcasts


PATTERNS = (match_unary, match_prelu, match_binary, match_compare)
