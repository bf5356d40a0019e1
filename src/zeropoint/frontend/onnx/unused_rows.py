"""Tensors that end in unused rows, because their number of rows depends on values: `NonMaxSuppression` and its readers.

An op that computes every row separately may read such a tensor. Its result has unused rows as well. Any other op (a
sum, a sort, a shape) would mix the unused rows with the others, and is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx import NodeProto

from zeropoint.frontend.onnx.bodies import graphs_inside_node, nodes_of
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axes_of, axis_of
from zeropoint.ir.tensors import shape_of

VALUE_SIZED = frozenset({"NonMaxSuppression"})
"""Ops whose number of results depends on values."""
Axes = Mapping[int, int]
"""The dimension of the unused rows, by the index of the input that has them."""
KnownShapes = Mapping[int, tuple[int, ...]]
"""The shapes of a node's inputs, by the index of the input."""
UnusedRule = Callable[[OnnxNode, Axes, KnownShapes], int | None]
"""The dimension of the unused rows of the result; None if the op mixes rows."""


def _elementwise(_: OnnxNode, axes: Axes, shapes: KnownShapes) -> int | None:
    rank = max(map(len, shapes.values()))
    aligned = {index: axis + rank - len(shapes[index]) for index, axis in axes.items()}
    (at, *others) = set(aligned.values())
    for index, shape in shapes.items():
        own = at - rank + len(shape)
        if index not in axes and own >= 0 and shape[own] != 1:
            return None
    return None if others else at


def _gather(node: OnnxNode, axes: Axes, shapes: KnownShapes) -> int | None:
    along = axis_of(node.integer("axis", 0), len(shapes[0]))
    if len(axes) > 1:
        return None
    if 1 in axes:
        return along + axes[1]
    if axes[0] == along:
        return None
    return axes[0] if axes[0] < along else axes[0] + len(shapes[1]) - 1


def _gather_nd(node: OnnxNode, axes: Axes, shapes: KnownShapes) -> int | None:
    alone = set(axes) == {1} and not node.integer("batch_dims", 0)
    return axes[1] if alone and axes[1] < len(shapes[1]) - 1 else None


def _slice(node: OnnxNode, axes: Axes, shapes: KnownShapes) -> int | None:
    if set(axes) != {0} or node.opset < 10:
        return None
    starts, ends = node.integers_at(1, "starts") or (), node.integers_at(2, "ends") or ()
    named = node.integers_at(3, "axes") or tuple(range(len(starts)))
    steps = node.integers_at(4, "steps") or (1,) * len(starts)
    for axis, start, end, step in zip(named, starts, ends, steps, strict=False):
        first = start == 0 and end >= 0 and step == 1
        if axis_of(axis, len(shapes[0])) == axes[0] and not first:
            return None
    return axes[0]


def _squeeze(node: OnnxNode, axes: Axes, shapes: KnownShapes) -> int | None:
    named = node.axes(13)
    dropped = axes_of(named, len(shapes[0])) if named else ()
    if not dropped or axes[0] in dropped:
        return None
    return axes[0] - sum(axis < axes[0] for axis in dropped)


def _unsqueeze(node: OnnxNode, axes: Axes, shapes: KnownShapes) -> int | None:
    named = node.axes(13) or ()
    rank = len(shapes[0]) + len(named)
    return [axis for axis in range(rank) if axis not in axes_of(named, rank)][axes[0]]


def _transpose(node: OnnxNode, axes: Axes, shapes: KnownShapes) -> int | None:
    permutation = node.integers("perm") or tuple(range(len(shapes[0])))[::-1]
    return permutation.index(axes[0]) if axes[0] in permutation else None


def _apart(node: OnnxNode, axes: Axes, shapes: KnownShapes) -> int | None:
    """`Concat` and `Split` along a dimension other than that of the rows."""
    index = next(iter(axes))
    along = axis_of(node.integer("axis", 0), len(shapes[index]))
    whole = node.op_type == "Split" or len(axes) == len(shapes)
    return axes[index] if whole and set(axes.values()) == {axes[index]} and axes[index] != along else None


_RULES: Mapping[str, UnusedRule] = {
    **dict.fromkeys(("Add", "Cast", "Div", "Identity", "Mod", "Mul", "Neg", "Sub"), _elementwise),
    **dict.fromkeys(("Concat", "Split"), _apart),
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


def unused_rows(proto: NodeProto, opset: int, build: Builder) -> int | None:
    """The dimension along which a node's results end in unused rows; None if they have none.

    Raises NodeError if the node reads such rows and mixes them.
    """
    unused = build.unused_rows
    inside = {name for graph in graphs_inside_node(proto) for node in nodes_of(graph) for name in node.input}
    names = [name for name in (*proto.input, *sorted(inside)) if name in unused]
    if not names:
        return 0 if proto.op_type in VALUE_SIZED else None
    rule = _RULES.get(proto.op_type)
    axes = {index: unused[name] for index, name in enumerate(proto.input) if name in unused}
    shapes = {index: shape_of(build.value(name)) for index, name in enumerate(proto.input) if name}
    found = rule(OnnxNode(proto, opset, build), axes, shapes) if rule and axes else None
    if found is None:
        raise NodeError(
            f"found '{names[0]}', whose number of rows depends on values (NonMaxSuppression), expected ops that "
            f"compute every row separately: {', '.join(sorted(_RULES))}; cut the model before it with "
            "onnx.utils.extract_model"
        )
    return found
