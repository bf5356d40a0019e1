"""Pooling: maxima, means and norms over windows or over all spatial dimensions.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.convolution import unless
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.reductions import demand_floats, lowest, mean_of
from zeropoint.frontend.onnx.windows import OnnxWindow, window_of
from zeropoint.ir.annotations import WHOLE_WINDOWS
from zeropoint.ir.quant import DequantizeCastOp
from zeropoint.ir.stablehlo import (
    AbsOp,
    AddOp,
    AndOp,
    CompareOp,
    ComparisonDirection,
    ConstantOp,
    DivideOp,
    MaximumOp,
    OrOp,
    PowerOp,
    ReduceWindowOp,
    ReturnOp,
    SelectOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, element_of, shape_of, with_shape
from zeropoint.limits import afford


def _spatial(value: SSAValue) -> tuple[int, ...]:
    if len(shape_of(value)) < 3:
        raise NodeError(f"found shape {list(shape_of(value))}, expected [N, C, ...] with a spatial dimension")
    return shape_of(value)[2:]


def _pool_window(node: OnnxNode, value: SSAValue) -> OnnxWindow:
    sizes = node.integers("kernel_shape") or ()
    return window_of(node, _spatial(value), sizes, ceil_mode=bool(node.integer("ceil_mode", 0)))


def _reduce_window(
    value: SSAValue,
    window: OnnxWindow,
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


def max_pool(node: OnnxNode, build: Builder) -> SSAValue | tuple[SSAValue, ...]:
    """`MaxPool`: `reduce_window` with `maximum`. The initial value and the padding are -inf.

    %0 = "stablehlo.reduce_window"(%x, %minus_infinity) ({ maximum })
         {window_dimensions = [1, 1, 3, 3], window_strides = [1, 1, 2, 2], padding = [[0, 0], [0, 0], [1, 1], [1, 1]]}
    """
    value = node.operand(0)
    window = _pool_window(node, value)
    if node.output_count > 1:
        return _max_with_positions(node, value, window, build)
    return _reduce_window(value, window, lowest(value), MaximumOp, build)


def _max_with_positions(node: OnnxNode, value: SSAValue, window: OnnxWindow, build: Builder) -> tuple[SSAValue, ...]:
    """Maxima and their positions in the flat input, by a `reduce_window` of both. Of equal values, the first counts.

    With storage_order 1, the first spatial dimension varies fastest in the positions.
    """
    shape = shape_of(value)
    afford(shape, 16, "positions")
    counted = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    if node.integer("storage_order", 0):
        spatial = int(np.prod(shape[2:]))
        inner = np.arange(spatial).reshape(shape[:1:-1]).transpose()
        counted = np.arange(shape[0] * shape[1]).reshape([*shape[:2], *(1 for _ in shape[2:])]) * spatial + inner
    positions = build.constant(counted.astype(np.int64))
    outputs = [*shape[:2], *window.outputs(shape[2:])]
    pair = [value, positions]
    op = ReduceWindowOp(
        pair,
        [build.scalar(lowest(value), value), build.scalar(-1, positions)],
        [with_shape(each, outputs) for each in pair],
        [1, 1, *window.sizes],
        _first_greatest([element_of(each) for each in pair]),
        window_strides=unless(1, [1, 1, *window.strides]),
        window_dilations=unless(1, [1, 1, *window.dilations]),
        padding=[(0, 0), (0, 0), *window.padding] if any(map(any, window.padding)) else None,
    )
    build.insert(op)
    return tuple(op.results_)


def _first_greatest(elements: Sequence[Attribute]) -> Region:
    """The body that keeps the larger value and its position; of equal values, the left one."""
    block = Block(arg_types=[TensorType(element, []) for element in (*elements, *elements)])
    left, left_position, right, right_position = block.args
    new = CompareOp(right, left, ComparisonDirection.GT)
    same = CompareOp(right, left, ComparisonDirection.EQ)
    zero = ConstantOp(DenseIntOrFPElementsAttr.from_list(TensorType(i64, []), [0]))
    padding = CompareOp(left_position, zero.output, ComparisonDirection.LT)
    block.add_ops([new, same, zero, padding])
    both = AndOp(same.result, padding.result)
    take = OrOp(new.result, both.result)
    best, position = SelectOp(take.result, right, left), SelectOp(take.result, right_position, left_position)
    block.add_ops([both, take, best, position, ReturnOp([best.result, position.result])])
    return Region(block)


def lp_pool(node: OnnxNode, build: Builder) -> SSAValue:
    """`LpPool`: (sum over the window of |x|^p)^(1/p)."""
    value = node.operand(0)
    demand_floats(value)
    total = _reduce_window(_power(value, node, build), _pool_window(node, value), 0.0, AddOp, build)
    return _root(total, node, build)


def global_lp_pool(node: OnnxNode, build: Builder) -> SSAValue:
    """`GlobalLpPool`: `LpPool` over all spatial dimensions."""
    value = node.operand(0)
    spatial = _spatial(value)
    total = build.reduce(_power(value, node, build), range(2, 2 + len(spatial)), 0.0)
    return _root(build.reshape(total, [*shape_of(value)[:2], *(1 for _ in spatial)]), node, build)


def _power(value: SSAValue, node: OnnxNode, build: Builder) -> SSAValue:
    size = build.apply(AbsOp, value)
    return build.apply(PowerOp, size, build.splat(float(_exponent(node)), size))


def _root(value: SSAValue, node: OnnxNode, build: Builder) -> SSAValue:
    return build.apply(PowerOp, value, build.splat(1 / _exponent(node), value))


def _exponent(node: OnnxNode) -> int:
    if (p := node.integer("p", 2)) < 1:
        raise NodeError(f"found p {p}, expected 1 or more")
    return p


def average_pool(node: OnnxNode, build: Builder) -> SSAValue:
    """`AveragePool`: `reduce_window` with `add`, then `divide` by the number of elements of each window.

    The divisor is a broadcast scalar if it is the same for all windows, else a constant with the shape of the result.
    With count_include_pad, padding counts, except for the padding that ceil mode adds at the end.
    """
    value = node.operand(0)
    demand_floats(value)
    window = _pool_window(node, value)
    total = _reduce_window(value, window, 0.0, AddOp, build)
    counts_padding = bool(node.integer("count_include_pad", 0))
    counts = _counts(window, _spatial(value), counts_padding)
    if bool((counts == counts.flat[0]).all()):
        divisor = build.splat(float(counts.flat[0]), total)
    else:
        divisor = build.constant(np.broadcast_to(counts.astype(np.float32), shape_of(total)))
    mean = DivideOp(total, divisor)
    if counts_padding and node.integer("ceil_mode", 0) and isinstance(value.owner, DequantizeCastOp):
        mean.attributes[WHOLE_WINDOWS] = IntegerAttr(prod(window.sizes), i64)
    return build.insert(mean)


def _counts(window: OnnxWindow, inputs: Sequence[int], include_padding: bool) -> Array:
    """The divisor of each window: the product, over dimensions, of the number of taps that are in bounds."""
    positions: list[Array] = []
    for axis, (size, count) in enumerate(zip(inputs, window.outputs(inputs), strict=True)):
        afford([count, window.sizes[axis]], 16, "the taps of a window")
        low, high = window.declared_padding[axis]
        starts = np.arange(count) * window.strides[axis] - low
        taps = starts[:, None] + np.arange(window.sizes[axis]) * window.dilations[axis]
        inside = (taps >= -low) & (taps < size + high) if include_padding else (taps >= 0) & (taps < size)
        positions.append(inside.sum(axis=1))
    # A window entirely in the padding has a count of 0. With the divisor 1, its mean is 0, like its sum.
    return np.maximum(reduce(np.multiply.outer, positions), 1)


def global_average_pool(node: OnnxNode, build: Builder) -> SSAValue:
    """`GlobalAveragePool`: the mean over all spatial dimensions, which are kept with size 1 (see `mean_of`)."""
    value = node.operand(0)
    return mean_of(value, range(2, 2 + len(_spatial(value))), True, build)


def global_max_pool(node: OnnxNode, build: Builder) -> SSAValue:
    """`GlobalMaxPool`: `reduce` of all spatial dimensions with `maximum`, then `reshape` to keep them with size 1."""
    value = node.operand(0)
    spatial = _spatial(value)
    greatest = build.reduce(value, range(2, 2 + len(spatial)), lowest(value), MaximumOp)
    return build.reshape(greatest, [*shape_of(value)[:2], *(1 for _ in spatial)])
