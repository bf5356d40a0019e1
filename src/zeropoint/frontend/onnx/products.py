"""`Gemm` and `MatMul`.

Source: the ONNX operator specification.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.biases import bias_of
from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.ir.annotations import FILE_HAS_FLOATS
from zeropoint.ir.constants import is_constant
from zeropoint.ir.stablehlo import AddOp, DotDimensions, DotGeneralOp, MultiplyOp, TransposeOp
from zeropoint.ir.tensors import Array, shape_of, with_shape


def _dot(lhs: SSAValue, rhs: SSAValue, left: int, right: int, batch: int, build: Builder) -> SSAValue:
    """`dot_general` that contracts dimension `left` with `right`. The first `batch` dimensions are batch dimensions."""
    left_shape, right_shape = shape_of(lhs), shape_of(rhs)
    if left_shape[left] != right_shape[right] or left_shape[:batch] != right_shape[:batch]:
        raise NodeError(f"found shapes {list(left_shape)} and {list(right_shape)}, which do not multiply")
    shape = [size for axis, size in enumerate(left_shape) if axis != left]
    shape += [size for axis, size in enumerate(right_shape) if axis != right and axis >= batch]
    batching = tuple(range(batch))
    dimensions = DotDimensions(batching, batching, (left,), (right,))
    return build.insert(DotGeneralOp(lhs, rhs, with_shape(lhs, shape), dimensions))


def matmul(node: OnnxNode, build: Builder) -> SSAValue:
    """`MatMul` as in NumPy: one `dot_general`, without batch dimensions if the right operand is a matrix.

        %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]

    If the left operand is a constant matrix and the right one a stack, the operands are exchanged, so that the constant
    is a weight with channels:

        %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1]
        %1 = stablehlo.transpose %0, dims = [0, 2, 1]

    In other cases, the batch dimensions of both operands are broadcast to their common shape first.
    """
    result = multiplied(node.operand(0), node.operand(1), build)
    if node.is_biased_product():
        node.note_float_weights(result)
    return result


def multiplied(lhs: SSAValue, rhs: SSAValue, build: Builder) -> SSAValue:
    """The matrix product of vectors, matrices or stacks of matrices."""
    left_rank, right_rank = len(shape_of(lhs)), len(shape_of(rhs))
    if left_rank == 0 or right_rank == 0:
        raise NodeError("found a scalar, expected vectors, matrices or stacks of matrices")
    if left_rank == 1 or right_rank <= 2:
        return _dot(lhs, rhs, left_rank - 1, max(right_rank - 2, 0), 0, build)
    if left_rank == 2 and is_constant(lhs):
        product = _dot(rhs, lhs, right_rank - 2, 1, 0, build)
        return build.insert(TransposeOp(product, [*range(right_rank - 2), right_rank - 1, right_rank - 2]))
    try:
        batch = np.broadcast_shapes(shape_of(lhs)[:-2], shape_of(rhs)[:-2])
    except ValueError:
        shapes = f"{list(shape_of(lhs))} and {list(shape_of(rhs))}"
        raise NodeError(f"found shapes {shapes}, whose batch dimensions do not broadcast to one shape") from None
    lhs = broadcast_to(lhs, (*batch, *shape_of(lhs)[-2:]), build)
    rhs = broadcast_to(rhs, (*batch, *shape_of(rhs)[-2:]), build)
    return _dot(lhs, rhs, len(batch) + 1, len(batch), len(batch), build)


def _scaled(node: OnnxNode, index: int, factor: float, build: Builder) -> SSAValue:
    """An input times a number. A constant is multiplied at import, in f64 and rounded once."""
    value = node.operand(index)
    if factor == 1:
        return value
    array = node.constant(index)
    if array is not None:
        scaled: Array = (array.astype(np.float64) * factor).astype(np.float32)
        return build.constant(scaled)
    return build.insert(MultiplyOp(value, build.splat(factor, value)))


def gemm(node: OnnxNode, build: Builder) -> SSAValue:
    """`Gemm`, alpha * A' * B' + beta * C: `dot_general`, then `add` of the broadcast C.

        %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1]
        %1 = stablehlo.broadcast_in_dim %c, dims = [1]
        %2 = stablehlo.add %0, %1

    transA and transB select the contracted dimensions. B is multiplied by alpha, and C by beta.
    """
    if node.opset < 7:
        node.integer("broadcast", 0)  # C is always broadcast if needed
    lhs, rhs = node.operand(0), _scaled(node, 1, node.number("alpha", 1.0), build)
    if len(shape_of(lhs)) != 2 or len(shape_of(rhs)) != 2:
        raise NodeError(f"found shapes {list(shape_of(lhs))} and {list(shape_of(rhs))}, expected matrices")
    left = 0 if node.integer("transA", 0) else 1
    right = 1 if node.integer("transB", 0) else 0
    result = _dot(lhs, rhs, left, right, 0, build)
    node.note_float_weights(result)
    beta = node.number("beta", 1.0)
    if not node.has(2) or beta == 0:
        return result
    array = node.constant(2)
    if array is not None and array.size == 1:  # one number for all features: a bias like any other
        bias = build.constant(np.full(shape_of(result)[1:], float(array.reshape(())) * beta, np.float32))
    else:
        bias = bias_of(node, 2, build) if beta == 1 else _scaled(node, 2, beta, build)
    made = AddOp(result, broadcast_to(bias, shape_of(result), build))
    if len(shape_of(node.operand(2))) != 1:  # onnxruntime has an integer kernel for a vector only
        made.attributes[FILE_HAS_FLOATS] = UnitAttr()
    return build.insert(made)
