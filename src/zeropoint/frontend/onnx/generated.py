"""Ops that generate tensors and masks: ranges, constants of a shape, triangles, one-hot vectors, tiles.

Source: the ONNX operator specification.
"""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axis_of
from zeropoint.frontend.onnx.tensors import element_of_dtype, program_element
from zeropoint.ir.stablehlo import AddOp, ComparisonDirection, SelectOp, SubtractOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_shape
from zeropoint.limits import afford


def range_(node: OnnxNode, build: Builder) -> SSAValue:
    """`Range`: a constant. Start, limit and delta must be constant, because they determine the shape."""
    numbers: list[Array] = []
    for index, name in enumerate(("start", "limit", "delta")):
        array = node.parameter(index, name)
        if array is None or array.size != 1:
            raise NodeError(f"found no '{name}' of one number, expected one")
        numbers.append(array.reshape(()))
    start, limit, delta = (number.astype(np.float64) if number.dtype.kind == "f" else number for number in numbers)
    if not delta or not all(np.isfinite(number) for number in (start, limit, delta)):
        raise NodeError(f"found a range from {start} to {limit} by {delta}, expected numbers and a step that is not 0")
    count = max(int(np.ceil((limit - start) / delta)), 0)
    afford([count], 8, "a range")
    counted = np.arange(count) * delta + start
    return build.constant(counted.astype(element_dtype(element_of_dtype(numbers[0].dtype))))


def constant_of_shape(node: OnnxNode, build: Builder) -> SSAValue:
    """`ConstantOfShape`: a broadcast number, 0 by default."""
    shape = node.integers_at(0, "shape") or ()
    tensor = node.tensor("value")
    number = np.zeros((), np.float32) if tensor is None else numpy_helper.to_array(tensor)
    if number.size != 1:
        raise NodeError(f"found a value of shape {list(number.shape)}, expected one number")
    scalar = build.constant(number.reshape(()))
    return build.broadcast(scalar, with_shape(scalar, shape), ())


def eye_like(node: OnnxNode, build: Builder) -> SSAValue:
    """`EyeLike`: a constant with 1 on diagonal `k`."""
    value = node.operand(0)
    if len(shape_of(value)) != 2:
        raise NodeError(f"found shape {list(shape_of(value))}, expected [rows, columns]")
    rows, columns = shape_of(value)
    to = node.integer("dtype", 0)
    element = program_element(to) if to else element_of(value)
    afford([rows, columns], 8, "a matrix")
    return build.constant(np.eye(rows, columns, node.integer("k", 0), dtype=element_dtype(element)))


def trilu(node: OnnxNode, build: Builder) -> SSAValue:
    """`Trilu`: `select` by a constant mask or, if k is computed, by `compare` of column - row with k."""
    value = node.operand(0)
    shape, upper = shape_of(value), bool(node.integer("upper", 1))
    if len(shape) < 2:
        raise NodeError(f"found shape {list(shape)}, expected [..., rows, columns]")
    rows, columns = shape[-2:]
    array = node.constant(1)
    dimensions = [len(shape) - 2, len(shape) - 1]
    if array is not None or not node.has(1):
        k = 0 if array is None else int(array.reshape(-1)[0]) if array.size == 1 else None
        if k is None:
            raise NodeError("found a k of several numbers, expected one")
        afford([rows, columns], 8, "a mask")
        difference = np.arange(columns)[None, :] - np.arange(rows)[:, None]
        mask = build.constant(difference >= k if upper else difference <= k)
    else:
        positions = [build.iota((rows, columns), dimension, i64) for dimension in (1, 0)]
        difference = build.apply(SubtractOp, *positions)
        k_value = build.broadcast(converted(node.scalar(1), i64, build), difference.type, ())
        direction = ComparisonDirection.GE if upper else ComparisonDirection.LE
        mask = build.compare(direction, difference, k_value)
    mask = build.broadcast(mask, with_shape(mask, shape), dimensions)
    return build.apply(SelectOp, mask, value, build.splat(0, value))


def one_hot(node: OnnxNode, build: Builder) -> SSAValue:
    """`OneHot`: `compare` of indices with `iota`, then `select` of two numbers. Negative indices count from the end."""
    indices, depth, numbers = node.operand(0), node.integers_at(1, "depth") or (), node.operand(2)
    if len(depth) != 1 or shape_of(numbers) != (2,):
        raise NodeError(f"found depth {list(depth)} and values of shape {list(shape_of(numbers))}, expected 1 and [2]")
    rank, size = len(shape_of(indices)), depth[0]
    axis = axis_of(node.integer("axis", -1), rank + 1)
    if not isinstance(element_of(indices), IntegerType):
        indices = converted(indices, i64, build)
    negative = build.compare(ComparisonDirection.LT, indices, 0)
    indices = build.apply(SelectOp, negative, build.apply(AddOp, indices, build.splat(size, indices)), indices)
    shape = [*shape_of(indices)[:axis], size, *shape_of(indices)[axis:]]
    spread = build.broadcast(indices, with_shape(indices, shape), [d for d in range(rank + 1) if d != axis])
    same = build.compare(ComparisonDirection.EQ, spread, build.iota(shape, axis, element_of(indices)))
    off, on = (_element(numbers, index, shape, build) for index in range(2))
    return build.apply(SelectOp, same, on, off)


def _element(numbers: SSAValue, index: int, shape: list[int], build: Builder) -> SSAValue:
    from zeropoint.frontend.onnx.movement import part_of

    scalar = build.reshape(part_of(numbers, 0, range(index, index + 1), build), ())
    return build.broadcast(scalar, with_shape(scalar, shape), ())


def tile(node: OnnxNode, build: Builder) -> SSAValue:
    """`Tile`: `reshape` that inserts a 1 before each repeated dimension, `broadcast_in_dim`, `reshape`.

    Before opset 6, it repeats a single dimension.
    """
    value = node.operand(0)
    shape = shape_of(value)
    if node.opset < 6:
        times, axes = node.integers_at(1, "tiles") or (1,), node.integers_at(2, "axis") or (0,)
        repeats = [times[0] if axis == axes[0] else 1 for axis in range(len(shape))]
    else:
        repeats = list(node.integers_at(1, "repeats") or ())
    if len(repeats) != len(shape):
        raise NodeError(f"found {len(repeats)} repeats, expected {len(shape)}")
    pairs = [
        ((1, size), (times, size)) if times != 1 else ((size,), (size,))
        for times, size in zip(repeats, shape, strict=True)
    ]
    apart = build.reshape(value, [size for before, _ in pairs for size in before])
    target = [size for _, after in pairs for size in after]
    spread = build.broadcast(apart, with_shape(apart, target), list(range(len(target))))
    return build.reshape(spread, [times * size for times, size in zip(repeats, shape, strict=True)])
