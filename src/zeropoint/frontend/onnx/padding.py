"""`Pad`, in every mode.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.indexing import taken_along
from zeropoint.frontend.onnx.movement import concatenated, part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axis_of
from zeropoint.ir.stablehlo import PadOp, ReverseOp
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.limits import afford

MODES: dict[str, Literal["constant", "reflect", "edge", "wrap"]] = {
    mode: mode for mode in ("constant", "reflect", "edge", "wrap")
}
"""NumPy's modes by those of ONNX, which have the same names."""
MOST_RUNS = 16
"""Maximum number of pieces that are concatenated. More pieces become one `gather`."""


def pad(node: OnnxNode, build: Builder) -> SSAValue:
    """`Pad`: a `pad` with a scalar. For the modes reflect, edge and wrap, a concatenation of pieces of the value.

    Negative pads remove elements.
    """
    value = node.operand(0)
    mode = MODES[node.choice("mode", "constant", MODES)]
    low, high = _pads(node, len(shape_of(value)))
    if not any(low) and not any(high):
        return value
    if mode == "constant":
        given = node.opset >= 11 and node.has(2)
        filler = node.scalar(2) if given else build.scalar(node.number("value", 0.0), value)
        return build.insert(PadOp(value, filler, low, high))
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        size = shape_of(value)[axis]
        if (before or after) and size:
            afford([size + abs(before) + abs(after)], 64, "a padded dimension")
            positions = np.pad(
                np.arange(size)[max(-before, 0) : size + min(after, 0)], (max(before, 0), max(after, 0)), mode
            )
            value = along(value, axis, positions, build)
    return value


def _pads(node: OnnxNode, rank: int) -> tuple[list[int], list[int]]:
    """The padding before and after each dimension. Before opset 11, it is an attribute."""
    if node.opset < 11:
        pads = node.integers("pads" if node.opset >= 2 else "paddings") or ()
        axes = None
    else:
        pads, axes = node.integers_at(1, "pads") or (), node.integers_at(3, "axes")
    named = range(rank) if axes is None else [axis_of(axis, rank) for axis in axes]
    if len(pads) != 2 * len(named):
        raise NodeError(f"found {len(pads)} pads, expected {2 * len(named)}")
    low, high = [0] * rank, [0] * rank
    for axis, before, after in zip(named, pads[: len(named)], pads[len(named) :], strict=True):
        low[axis], high[axis] = before, after
    return low, high


def along(value: SSAValue, axis: int, positions: Array, build: Builder) -> SSAValue:
    """The elements at constant positions along a dimension, as slices that are reversed or repeated where needed."""
    pieces = _runs(positions)
    if len(pieces) > MOST_RUNS:
        return taken_along(value, axis, positions, build)
    return concatenated([_run(value, axis, *piece, build) for piece in pieces], axis, build)


def _runs(positions: Array) -> list[tuple[int, int, int]]:
    """The positions as runs: first position, step (1, -1 or 0), count."""
    found: list[tuple[int, int, int]] = []
    steps: list[Any] = np.diff(positions).tolist()
    at = 0
    while at < len(positions):
        step = steps[at] if at < len(steps) and abs(steps[at]) <= 1 else 1
        end = at + 1
        while end < len(positions) and steps[end - 1] == step:
            end += 1
        found.append((int(positions[at]), step, end - at))
        at = end
    return found


def _run(value: SSAValue, axis: int, first: int, step: int, count: int, build: Builder) -> SSAValue:
    if step == 0:
        one = part_of(value, axis, range(first, first + 1), build)
        shape = [count if dimension == axis else size for dimension, size in enumerate(shape_of(value))]
        return build.broadcast(one, with_shape(one, shape), list(range(len(shape))))
    if step > 0:
        return part_of(value, axis, range(first, first + count), build)
    return build.insert(ReverseOp(part_of(value, axis, range(first - count + 1, first + 1), build), [axis]))
