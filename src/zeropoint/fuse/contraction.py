"""Convolutions and matrix products with their bias and activation."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.fuse.match import FloatGraph, RegionMatch
from zeropoint.ir.contractions import output_channel_axis, weight_channel_axis
from zeropoint.ir.masks import HIDDEN
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import AddOp, ConvolutionOp, DotGeneralOp, ReshapeOp, TransposeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of


def _kernel_name(op: ConvolutionOp | DotGeneralOp) -> str:
    if isinstance(op, DotGeneralOp):
        return "fully_connected"
    if op.lhs_dilation is not None and any(step != 1 for step in array_values(op.lhs_dilation)):
        return "transpose_convolution"
    groups = op.feature_group_count.value.data
    channels = shape_of(op.lhs)[op.dimension_numbers.data.input_feature_dimension]
    # A convolution with one input channel and one group is an ordinary one.
    return "depthwise_convolution" if groups == channels and groups > 1 else "convolution"


def _hides(bias: SSAValue, total: AddOp, graph: FloatGraph) -> bool:
    """Whether a bias hides channels from the softmax, the maximum or the caller that reads the sum.

    Such a bias stays outside of the kernel, where `bound_masks` bounds it or `hidden_results` keeps it float. An
    infinite bias may only be in the kernel if a clamp follows, where `bound_terms` bounds it.
    """
    array = graph.array(bias)
    if array is None or not array.size or array.min() > HIDDEN:
        return False
    if np.isneginf(array).any():
        return graph.with_clamps([total]) == (total,)
    use = total.result.get_unique_use()
    # Reshapes and transposes between the sum and its softmax change no number.
    while use is not None and isinstance(use.operation, ReshapeOp | TransposeOp):
        use = use.operation.result.get_unique_use()
    reader = None if use is None else use.operation
    if isinstance(reader, ReturnOp):
        # The caller may read a bias that is large everywhere. In a mask, the channels that are not hidden have small
        # numbers.
        visible = array[array > HIDDEN]
        return bool(visible.size) and float(visible.max()) < -HIDDEN
    return isinstance(reader, QuantizeRegionOp) and reader.logical_kernel.data in ("softmax", "log_softmax")


def match_contraction(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`convolution | dot_general` with a constant, then `add` of a per-channel constant, then clamps."""
    if not isinstance(op, ConvolutionOp | DotGeneralOp) or not graph.is_float(op.result):
        return None
    # A computed right operand is an activation: `match_batch_matmul` takes it.
    if graph.array(op.rhs) is None or weight_channel_axis(op) is None:
        return None
    ops: list[Operation] = [op]
    inputs = [op.lhs, op.rhs]
    axis = output_channel_axis(op)
    user = graph.only_user(op.result)
    if isinstance(user, AddOp):
        other = user.rhs if user.lhs is op.result else user.lhs
        bias = graph.channel_constant(other, axis)
        if bias is not None and not _hides(bias, user, graph):
            assert isinstance(other.owner, Operation)
            # A broadcast with other readers stays outside and is copied into the region.
            ops += [other.owner, user] if graph.only_user(other) is user else [user]
            inputs.append(bias)
    return RegionMatch(_kernel_name(op), graph.with_clamps(ops), tuple(inputs))


def match_batch_matmul(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """`dot_general` of two activations."""
    if not isinstance(op, DotGeneralOp) or not graph.is_float(op.result):
        return None
    return RegionMatch("batch_matmul", (op,), (op.lhs, op.rhs))


PATTERNS = (match_contraction, match_batch_matmul)
