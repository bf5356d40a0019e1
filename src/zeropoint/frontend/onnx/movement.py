"""Ops that move data.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axes_of, axis_of
from zeropoint.ir.stablehlo import ConcatenateOp, ReverseOp, SliceOp, TransposeOp
from zeropoint.ir.tensors import shape_of

DEPTH_ORDERS = {"CRD": (0, 1, 3, 5, 2, 4), "DCR": (0, 3, 5, 1, 2, 4)}
"""SpaceToDepth's permutation of [N, C, rows, block, columns, block], by mode."""
GREATEST = (np.iinfo(np.int32).max, np.iinfo(np.int64).max)
"""Ends of a `Slice` that mean the end of the dimension in both directions."""


def flatten(node: OnnxNode, build: Builder) -> SSAValue:
    """`Flatten`: `reshape` to a matrix, split before dimension `axis`."""
    value = node.operand(0)
    shape = shape_of(value)
    axis = node.integer("axis", 1)
    axis = axis if axis == len(shape) else axis_of(axis, len(shape))
    return build.reshape(value, [prod(shape[:axis]), prod(shape[axis:])])


def reshape(node: OnnxNode, build: Builder) -> SSAValue:
    """`Reshape`: `reshape`. A size of 0 copies the dimension (unless `allowzero` is set), -1 is inferred."""
    value = node.operand(0)
    shape = shape_of(value)
    wanted = list((node.integers("shape") if node.opset < 5 else node.integers_at(1, "shape")) or ())
    if not node.integer("allowzero", 0):
        if any(size == 0 and axis >= len(shape) for axis, size in enumerate(wanted)):
            raise NodeError(f"found shape {wanted}, whose 0 copies no dimension of {list(shape)}")
        wanted = [shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    if wanted.count(-1) == 1 and (known := -prod(wanted)) > 0 and prod(shape) % known == 0:
        wanted[wanted.index(-1)] = prod(shape) // known
    if min(wanted, default=0) < 0 or prod(wanted) != prod(shape):
        raise NodeError(f"found shape {wanted}, which does not fit the {prod(shape)} elements of {list(shape)}")
    return build.reshape(value, wanted)


def squeeze(node: OnnxNode, build: Builder) -> SSAValue:
    """`Squeeze`: `reshape` without the given dimensions, or without all dimensions of size 1."""
    value = node.operand(0)
    return build.reshape(value, squeezed_shape(node, shape_of(value)))


def squeezed_shape(node: OnnxNode, shape: Sequence[int]) -> list[int]:
    """The shape of the result of a `Squeeze`."""
    axes = node.axes(13)
    dropped = axes_of(axes, len(shape)) if axes else [axis for axis, size in enumerate(shape) if size == 1]
    if any(shape[axis] != 1 for axis in dropped):
        raise NodeError(f"found axes {list(dropped)} of shape {list(shape)}, expected dimensions of size 1")
    return [size for axis, size in enumerate(shape) if axis not in dropped]


def unsqueeze(node: OnnxNode, build: Builder) -> SSAValue:
    """`Unsqueeze`: `reshape` with inserted dimensions of size 1."""
    value = node.operand(0)
    return build.reshape(value, unsqueezed_shape(node, shape_of(value)))


def unsqueezed_shape(node: OnnxNode, shape: Sequence[int]) -> list[int]:
    """The shape of the result of an `Unsqueeze`. Dimensions are those of the result, in any order."""
    axes = node.axes(13) or ()
    rank = len(shape) + len(axes)
    inserted = frozenset(axes_of(axes, rank))
    sizes = iter(shape)
    return [1 if axis in inserted else next(sizes) for axis in range(rank)]


def transpose(node: OnnxNode, build: Builder) -> SSAValue:
    """`Transpose`: `transpose`. Without `perm`, the dimensions are reversed."""
    value = node.operand(0)
    rank = len(shape_of(value))
    permutation = node.integers("perm") or tuple(range(rank))[::-1]
    if sorted(permutation) != list(range(rank)):
        raise NodeError(f"found perm {list(permutation)}, expected each of 0 to {rank - 1} once")
    return value if permutation == tuple(range(rank)) else build.insert(TransposeOp(value, permutation))


def concat(node: OnnxNode, build: Builder) -> SSAValue:
    """`Concat`: `concatenate`."""
    values = node.operands()
    return concatenated(values, axis_of(node.integer("axis", 0), len(shape_of(values[0]))), build)


def concatenated(values: Sequence[SSAValue], axis: int, build: Builder) -> SSAValue:
    """`concatenate` along `axis`, or the value itself if there is only one."""
    rests = {shape_of(value)[:axis] + shape_of(value)[axis + 1 :] for value in values}
    if len(rests) > 1 or len({len(shape_of(value)) for value in values}) > 1:
        text = ", ".join(str(list(shape_of(value))) for value in values)
        raise NodeError(f"found shapes {text}, expected the same sizes apart from dimension {axis}")
    return values[0] if len(values) == 1 else build.insert(ConcatenateOp(values, axis))


def slice_(node: OnnxNode, build: Builder) -> SSAValue:
    """`Slice`: `slice`. A negative step becomes a forward `slice` and a `reverse`."""
    value = node.operand(0)
    return taken(value, sliced_positions(node, shape_of(value)), build)


def sliced_positions(node: OnnxNode, shape: Sequence[int]) -> list[range]:
    """The elements that a `Slice` selects, as one range per dimension."""
    if node.opset < 10:
        starts, ends, named = (node.integers(name) or () for name in ("starts", "ends", "axes"))
    else:
        starts, ends, named = (node.integers_at(1 + i, n) or () for i, n in enumerate(("starts", "ends", "axes")))
    axes = named or tuple(range(len(starts)))
    steps = node.integers_at(4, "steps") or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise NodeError(
            f"found starts {list(starts)}, ends {list(ends)}, axes {list(axes)} and steps {list(steps)}, expected "
            f"lists of one length and no step of 0"
        )
    axes_of(axes, len(shape))  # raises for repeated axes
    chosen = [range(size) for size in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = axis_of(axis, len(shape))
        chosen[axis] = _positions(shape[axis], start, end, step)
    return chosen


def _positions(size: int, start: int, end: int, step: int) -> range:
    """A range of a dimension. Negative starts and ends count from the end, and all are clamped to the dimension.

    Backwards, a start before the first element is the first element, unlike in Python, and the greatest integer as the
    end leaves out no element, as in onnxruntime.
    """
    if step > 0:
        return range(*slice(start, end, step).indices(size))
    first = max(start + size if start < 0 else start, 0)
    return range(*slice(first, None if end in GREATEST else end, step).indices(size))


def taken(value: SSAValue, chosen: Sequence[range], build: Builder) -> SSAValue:
    """The elements selected by one range per dimension: a `slice`, then a `reverse` of descending ranges."""
    shape = shape_of(value)
    forward = [positions[:: 1 if positions.step > 0 else -1] if positions else range(0) for positions in chosen]
    if forward != [range(size) for size in shape]:
        start = [min(positions.start, size) for positions, size in zip(forward, shape, strict=True)]
        limit = [positions[-1] + 1 if positions else low for positions, low in zip(forward, start, strict=True)]
        value = build.insert(SliceOp(value, start, limit, [positions.step for positions in forward]))
    for axis, positions in enumerate(chosen):
        if positions.step < 0 and len(positions) > 1:
            value = build.insert(ReverseOp(value, [axis]))
    return value


def part_of(value: SSAValue, axis: int, positions: range, build: Builder) -> SSAValue:
    """The elements selected by a range along one dimension."""
    chosen = [range(size) for size in shape_of(value)]
    chosen[axis] = positions
    return taken(value, chosen, build)


def split(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`Split`: one `slice` per output. Without sizes, the parts are equal, except that the last one may be smaller."""
    value = node.operand(0)
    axis = axis_of(node.integer("axis", 0), len(shape_of(value)))
    size = shape_of(value)[axis]
    sizes = node.integers_at(1, "split") if node.opset >= 13 else node.integers("split")
    if node.integer("num_outputs", node.output_count) != node.output_count:
        raise NodeError(f"found {node.output_count} outputs, expected as many as num_outputs says")
    if sizes is None:
        part = -(-size // node.output_count)
        sizes = tuple(max(min(part, size - part * i), 0) for i in range(node.output_count))
    if sum(sizes) != size or len(sizes) != node.output_count:
        raise NodeError(f"found parts {list(sizes)} for {node.output_count} outputs, expected a sum of {size}")
    ends = np.cumsum(sizes).tolist()
    return tuple(part_of(value, axis, range(end - part, end), build) for part, end in zip(sizes, ends, strict=True))


def expand(node: OnnxNode, build: Builder) -> SSAValue:
    """`Expand`: `broadcast_in_dim` to the common shape of the value and the given shape."""
    value = node.operand(0)
    wanted = node.integers_at(1, "shape") or ()
    try:
        shape = np.broadcast_shapes(shape_of(value), wanted)
    except ValueError:
        shapes = f"{list(shape_of(value))} and {list(wanted)}"
        raise NodeError(f"found shapes {shapes}, which do not broadcast to one") from None
    return broadcast_to(value, shape, build)


def depth_to_space(node: OnnxNode, build: Builder) -> SSAValue:
    """`DepthToSpace`: `reshape`, `transpose`, `reshape`; modes DCR and CRD."""
    value = node.operand(0)
    batch, channels, height, width = _image(value)
    block = node.integer("blocksize", 1)
    if block < 1 or channels % block**2:
        raise NodeError(f"found {channels} channels and blocksize {block}, expected a multiple of its square")
    depth = channels // block**2
    if node.choice("mode", "DCR", DEPTH_ORDERS) == "DCR":
        split_shape, order = [batch, block, block, depth, height, width], [0, 3, 4, 1, 5, 2]
    else:
        split_shape, order = [batch, depth, block, block, height, width], [0, 1, 4, 2, 5, 3]
    moved = build.insert(TransposeOp(build.reshape(value, split_shape), order))
    return build.reshape(moved, [batch, depth, height * block, width * block])


def space_to_depth(node: OnnxNode, build: Builder) -> SSAValue:
    """`SpaceToDepth`: `reshape`, `transpose`, `reshape`; modes DCR and CRD (since opset 28)."""
    value = node.operand(0)
    batch, channels, height, width = _image(value)
    block = node.integer("blocksize", 1)
    if block < 1 or height % block or width % block:
        raise NodeError(f"found {height} x {width} elements, expected multiples of blocksize {block}")
    rows, columns = height // block, width // block
    moved = build.reshape(value, [batch, channels, rows, block, columns, block])
    moved = build.insert(TransposeOp(moved, DEPTH_ORDERS[node.choice("mode", "DCR", DEPTH_ORDERS)]))
    return build.reshape(moved, [batch, channels * block**2, rows, columns])


def _image(value: SSAValue) -> tuple[int, int, int, int]:
    shape = shape_of(value)
    if len(shape) != 4:
        raise NodeError(f"found shape {list(shape)}, expected [N, C, H, W]")
    return shape[0], shape[1], shape[2], shape[3]
