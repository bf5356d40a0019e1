"""ONNX broadcasting. Shapes are aligned at the right. Dimensions that are missing or of size 1 are repeated.

Source: the ONNX specification, "Broadcasting in ONNX", multidirectional and unidirectional.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axis_of
from zeropoint.ir.constants import constant_array
from zeropoint.ir.tensors import shape_of, with_shape


def broadcast_to(value: SSAValue, shape: Sequence[int], build: Builder) -> SSAValue:
    """The value broadcast to `shape` by `broadcast_in_dim`.

    Dimensions of size 1 are first removed from a constant. So a bias of shape [1, C, 1, 1], or of any equivalent shape,
    becomes a constant of shape [C] that is broadcast along dimension 1:

        %c = stablehlo.constant dense<...> : tensor<8xf32>
        %b = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<8xf32>) -> tensor<1x8x4x4xf32>

    Raises NodeError if the value does not broadcast to `shape`.
    """
    found = shape_of(value)
    if found == tuple(shape):
        return value
    lead = len(shape) - len(found)
    if lead < 0 or any(size not in (1, shape[lead + axis]) for axis, size in enumerate(found)):
        raise NodeError(f"found shape {list(found)}, expected one that broadcasts to {list(shape)}")
    dimensions = [lead + axis for axis in range(len(found))]
    array = constant_array(value, build.weights)
    if array is not None and 1 in found:
        dimensions = [dim for dim, size in zip(dimensions, found, strict=True) if size != 1]
        assert isinstance(value.owner, Operation)
        value = build.constant(array.reshape([size for size in found if size != 1]), value.owner.location)
    return build.broadcast(value, with_shape(value, shape), dimensions)


def common_shape(values: Sequence[SSAValue]) -> tuple[int, ...]:
    """The shape that all values broadcast to.

    Raises NodeError if there is none.
    """
    shapes = [shape_of(value) for value in values]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        text = " and ".join(str(list(shape)) for shape in shapes)
        raise NodeError(f"found shapes {text}, which do not broadcast to one") from None


def broadcast_together(values: Sequence[SSAValue], build: Builder) -> list[SSAValue]:
    """All values, broadcast to their common shape."""
    shape = common_shape(values)
    return [broadcast_to(value, shape, build) for value in values]


def broadcast_operands(node: OnnxNode, values: Sequence[SSAValue], build: Builder) -> list[SSAValue]:
    """The values that an elementwise node reads, broadcast to one shape.

    Before opset 7, the attribute `broadcast` allows it: the dimensions of the second value match those of the first
    from `axis` on, or the last ones without `axis`.
    """
    if node.opset >= 7 or not node.integer("broadcast", 0):
        return broadcast_together(values, build)
    lhs, rhs = values
    rank, size = len(shape_of(lhs)), len(shape_of(rhs))
    axis = axis_of(node.integer("axis", rank - size), rank) if size else 0
    shape = [1] * rank
    shape[axis : axis + size] = shape_of(rhs)
    return [lhs, broadcast_to(build.reshape(rhs, shape), shape_of(lhs), build)]
