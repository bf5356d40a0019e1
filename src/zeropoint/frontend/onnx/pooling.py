"""Pools: windows of maxima and means, over a part or the whole of the spatial dimensions.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.convolution import unless
from zeropoint.frontend.onnx.node import Node, NodeError
from zeropoint.frontend.onnx.reductions import demand_floats, lowest, mean_of
from zeropoint.frontend.onnx.windows import Window, window_of
from zeropoint.ir.stablehlo import AddOp, DivideOp, MaximumOp, ReduceWindowOp
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, element_of, shape_of, with_shape


def _spatial(value: SSAValue) -> tuple[int, ...]:
    if len(shape_of(value)) < 3:
        raise NodeError(f"found shape {list(shape_of(value))}, expected [N, C, ...] with a spatial dimension")
    return shape_of(value)[2:]


def _pool_window(node: Node, value: SSAValue) -> Window:
    sizes = node.integers("kernel_shape") or ()
    return window_of(node, _spatial(value), sizes, ceil_mode=bool(node.integer("ceil_mode", 0)))


def _reduce_window(
    value: SSAValue,
    window: Window,
    initial: float,
    op: Callable[[SSAValue, SSAValue], Operation],
    build: Builder,
) -> SSAValue:
    batch, channels, *inputs = shape_of(value)
    return build.insert(
        ReduceWindowOp(
            [value],
            [build.scalar(initial, value)],
            [with_shape(value, [batch, channels, *window.outputs(inputs)])],
            [1, 1, *window.sizes],
            binary_body(op, element_of(value)),
            window_strides=unless(1, [1, 1, *window.strides]),
            window_dilations=unless(1, [1, 1, *window.dilations]),
            padding=[(0, 0), (0, 0), *window.padding] if any(map(any, window.padding)) else None,
        )
    )


def max_pool(node: Node, build: Builder) -> SSAValue:
    """`MaxPool`: `reduce_window` with `maximum`, starting at -inf, which is what padding holds too.

    %0 = "stablehlo.reduce_window"(%x, %minus_infinity) ({ maximum })
         {window_dimensions = [1, 1, 3, 3], window_strides = [1, 1, 2, 2], padding = [[0, 0], [0, 0], [1, 1], [1, 1]]}
    """
    value = node.operand(0)
    return _reduce_window(value, _pool_window(node, value), lowest(value), MaximumOp, build)


def average_pool(node: Node, build: Builder) -> SSAValue:
    """`AveragePool`: `reduce_window` with `add`, then `divide` by how many elements each window counts.

    The divisor is a scalar broadcast where all windows count the same, otherwise a constant of the result's shape.
    With count_include_pad the padding counts, except what ceil mode adds at the end.
    """
    value = node.operand(0)
    demand_floats(value)
    window = _pool_window(node, value)
    total = _reduce_window(value, window, 0.0, AddOp, build)
    counts = _counts(window, _spatial(value), bool(node.integer("count_include_pad", 0)))
    if bool((counts == counts.flat[0]).all()):
        divisor = build.splat(float(counts.flat[0]), total)
    else:
        divisor = build.constant(np.broadcast_to(counts.astype(np.float32), shape_of(total)))
    return build.insert(DivideOp(total, divisor))


def _counts(window: Window, inputs: Sequence[int], include_padding: bool) -> Array:
    """How many elements each window counts: the product over dimensions of the taps that fall inside."""
    positions: list[Array] = []
    for axis, (size, count) in enumerate(zip(inputs, window.outputs(inputs), strict=True)):
        low, high = window.declared_padding[axis]
        starts = np.arange(count) * window.strides[axis] - low
        taps = starts[:, None] + np.arange(window.sizes[axis]) * window.dilations[axis]
        inside = (taps >= -low) & (taps < size + high) if include_padding else (taps >= 0) & (taps < size)
        positions.append(inside.sum(axis=1))
    # A window wholly in the padding counts nothing; its sum is 0, and so is its mean.
    return np.maximum(reduce(np.multiply.outer, positions), 1)


def global_average_pool(node: Node, build: Builder) -> SSAValue:
    """`GlobalAveragePool`: the mean of all spatial dimensions, which stay with size 1 (see `mean_of`)."""
    value = node.operand(0)
    return mean_of(value, range(2, 2 + len(_spatial(value))), True, build)


def global_max_pool(node: Node, build: Builder) -> SSAValue:
    """`GlobalMaxPool`: `reduce` of all spatial dimensions with `maximum`, then `reshape` that puts them back."""
    value = node.operand(0)
    spatial = _spatial(value)
    greatest = build.reduce(value, range(2, 2 + len(spatial)), lowest(value), MaximumOp)
    return build.reshape(greatest, [*shape_of(value)[:2], *(1 for _ in spatial)])
