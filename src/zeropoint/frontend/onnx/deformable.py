"""`DeformConv`: a convolution whose taps are displaced by computed offsets.

Source: the ONNX operator specification; Zhu et al., "Deformable ConvNets v2".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.movement import concatenated, part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.sampling import Interpolation, sampled
from zeropoint.frontend.onnx.windows import OnnxWindow, check_kernel_shape, window_of
from zeropoint.ir.stablehlo import AddOp, DotDimensions, DotGeneralOp, MultiplyOp, TransposeOp
from zeropoint.ir.tensors import shape_of, with_shape


def deform_conv(node: OnnxNode, build: Builder) -> SSAValue:
    """`DeformConv` in two dimensions: bilinear interpolation at the taps, then a `dot_general` with the kernel.

    Elements outside of the image are 0. If there is a mask, the taps are multiplied by it.
    """
    value, kernel, offsets = node.operand(0), node.operand(1), node.operand(2)
    if len(shape_of(value)) != 4 or len(shape_of(kernel)) != 4:
        raise NodeError(f"found shapes {list(shape_of(value))} and {list(shape_of(kernel))}, expected four dimensions")
    batch, channels, *inputs = shape_of(value)
    features, depth, *sizes = shape_of(kernel)
    groups, shifted = node.integer("group", 1), node.integer("offset_group", 1)
    if min(groups, shifted) < 1 or channels != depth * groups or features % groups or channels % shifted:
        raise NodeError(
            f"found {channels} input channels, a kernel of shape {list(shape_of(kernel))}, group {groups} and "
            f"offset_group {shifted}, which do not match"
        )
    check_kernel_shape(node, sizes)
    window = window_of(node, inputs, sizes)
    outputs, taps = window.outputs(inputs), sizes[0] * sizes[1]
    _check(offsets, [batch, shifted * taps * 2, *outputs], "offsets")
    offsets = build.reshape(offsets, [batch, shifted, taps, 2, *outputs])
    mask = None
    if node.has(4):
        _check(node.operand(4), [batch, shifted * taps, *outputs], "a mask")
        mask = build.reshape(node.operand(4), [batch, shifted, taps, *outputs])
    starts = [_starts(window, axis, outputs) for axis in range(2)]
    shares: list[SSAValue] = []
    for group in range(shifted):
        positions = [
            _moved(_one(_one(offsets, 1, group, build), 2, axis, build), starts[axis], build) for axis in range(2)
        ]
        size = channels // shifted
        part = part_of(value, 1, range(group * size, (group + 1) * size), build)
        rows = sampled(part, positions, Interpolation(), build)
        if mask is not None:
            weight = _one(mask, 1, group, build)
            rows = build.apply(MultiplyOp, rows, build.broadcast(weight, rows.type, range(4)))
        shares.append(rows)
    result = _contracted(concatenated(shares, 4, build), kernel, groups, build)
    if node.has(3):
        result = build.apply(AddOp, result, build.broadcast(node.operand(3), result.type, [1]))
    return result


def _check(value: SSAValue, shape: Sequence[int], what: str) -> None:
    if shape_of(value) != tuple(shape):
        raise NodeError(f"found {what} of shape {list(shape_of(value))}, expected {list(shape)}")


def _one(value: SSAValue, axis: int, number: int, build: Builder) -> SSAValue:
    """The part at one index of a dimension. The dimension is removed."""
    part = part_of(value, axis, range(number, number + 1), build)
    return build.reshape(part, [size for at, size in enumerate(shape_of(part)) if at != axis])


def _starts(window: OnnxWindow, axis: int, outputs: Sequence[int]) -> np.ndarray:
    """The f32 positions of the taps along a dimension, without offsets: (taps, rows, columns)."""
    coordinate = np.arange(outputs[axis]) * window.strides[axis] - window.padding[axis][0]
    tap = np.unravel_index(np.arange(window.sizes[0] * window.sizes[1]), window.sizes)[axis] * window.dilations[axis]
    found = tap[:, None, None] + (coordinate[None, :, None] if axis == 0 else coordinate[None, None, :])
    return np.broadcast_to(found, (len(tap), *outputs)).astype(np.float32)


def _moved(offset: SSAValue, start: np.ndarray, build: Builder) -> SSAValue:
    return build.apply(AddOp, offset, build.broadcast(build.constant(start), offset.type, [1, 2, 3]))


def _contracted(rows: SSAValue, kernel: SSAValue, groups: int, build: Builder) -> SSAValue:
    """Rows [N, taps, H, W, C] times a kernel [O, C/group, ...], for each group: [N, O, H, W]."""
    batch, taps, height, width, _ = shape_of(rows)
    features, depth, *_ = shape_of(kernel)
    last = build.insert(TransposeOp(rows, [0, 2, 3, 1, 4]))
    made: list[SSAValue] = []
    for group in range(groups):
        part = part_of(last, 4, range(group * depth, (group + 1) * depth), build)
        part = build.reshape(part, [batch, height, width, taps * depth])
        own = part_of(kernel, 0, range(group * features // groups, (group + 1) * features // groups), build)
        own = build.reshape(own, [features // groups, depth, taps])
        weight = build.reshape(build.insert(TransposeOp(own, [2, 1, 0])), [taps * depth, features // groups])
        result = with_shape(part, [batch, height, width, features // groups])
        made.append(build.insert(DotGeneralOp(part, weight, result, DotDimensions((), (), (3,), (0,)))))
    return build.insert(TransposeOp(concatenated(made, 3, build), [0, 3, 1, 2]))
