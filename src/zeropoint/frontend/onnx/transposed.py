"""`ConvTranspose`.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.convolution import unless
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.windows import AUTO_PADS, check_kernel_shape, check_positive
from zeropoint.ir.stablehlo import AddOp, ConvolutionLayout, ConvolutionOp, ReverseOp, TransposeOp
from zeropoint.ir.tensors import shape_of, with_shape


def conv_transpose(node: OnnxNode, build: Builder) -> SSAValue:
    """`ConvTranspose`: a `convolution` of the dilated input with the reversed kernel, whose channels are exchanged.

        %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
             window = {pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]} {...}
        %1 = stablehlo.broadcast_in_dim %bias, dims = [1]
        %2 = stablehlo.add %0, %1

    A constant kernel is reversed at import.
    """
    data, kernel = node.operand(0), node.operand(1)
    data_shape, kernel_shape = shape_of(data), shape_of(kernel)
    groups = node.integer("group", 1)
    if len(data_shape) < 3 or len(data_shape) != len(kernel_shape):
        raise NodeError(
            f"found shapes {list(data_shape)} and {list(kernel_shape)}, expected [N, C, ...] and [C, O/group, ...]"
        )
    if groups < 1 or data_shape[1] != kernel_shape[0] or kernel_shape[0] % groups:
        raise NodeError(
            f"found {data_shape[1]} input channels, a kernel of shape {list(kernel_shape)} and group {groups}, "
            f"expected {kernel_shape[0]} input channels, which group divides"
        )
    inputs, sizes = data_shape[2:], kernel_shape[2:]
    check_kernel_shape(node, sizes)
    strides = _positive(node, "strides", len(inputs))
    dilations = _positive(node, "dilations", len(inputs))
    extents = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    padding = _padding(node, inputs, extents, strides)
    rows = zip(inputs, extents, strides, padding, strict=True)
    outputs = [(size - 1) * stride + 1 + low + high - extent + 1 for size, extent, stride, (low, high) in rows]
    if min(outputs) < 1:
        raise NodeError(f"found an output of size {outputs}, expected sizes of 1 or more")
    features = kernel_shape[1] * groups
    op = ConvolutionOp(
        data,
        _turned(node, kernel, groups, build),
        with_shape(data, [data_shape[0], features, *outputs]),
        ConvolutionLayout.channels_first(len(inputs)),
        padding=padding if any(map(any, padding)) else None,
        lhs_dilation=unless(1, strides),
        rhs_dilation=unless(1, dilations),
        feature_group_count=groups,
    )
    result = build.insert(op)
    node.note_float_weights(result)
    if node.has(2):
        bias = node.operand(2)
        if shape_of(bias) != (features,):
            raise NodeError(f"found a bias of shape {list(shape_of(bias))}, expected [{features}]")
        result = build.insert(AddOp(result, build.broadcast(bias, result.type, [1])))
    return result


def _positive(node: OnnxNode, name: str, rank: int) -> Sequence[int]:
    entries = node.integers(name) or (1,) * rank
    check_positive(name, entries, rank)
    return entries


def _turned(node: OnnxNode, kernel: SSAValue, groups: int, build: Builder) -> SSAValue:
    """A kernel [C, O/group, ...] as [O, C/group, ...], with all spatial dimensions reversed."""
    channels, features, *sizes = shape_of(kernel)
    rank = len(sizes)
    apart, order = [groups, channels // groups, features, *sizes], [0, 2, 1, *range(3, 3 + rank)]
    shape = [groups * features, channels // groups, *sizes]
    array = node.constant(1)
    if array is not None:
        turned = np.flip(array.reshape(apart).transpose(order).reshape(shape), tuple(range(2, 2 + rank)))
        return build.constant(np.ascontiguousarray(turned))
    if groups == 1:
        moved = build.insert(TransposeOp(kernel, [1, 0, *range(2, 2 + rank)]))
    else:
        moved = build.reshape(build.insert(TransposeOp(build.reshape(kernel, apart), order)), shape)
    return build.insert(ReverseOp(moved, list(range(2, 2 + rank))))


def _shares(total: int, mode: str) -> tuple[int, int]:
    """Split a total padding into start and end.

    The odd element is removed at the end for SAME_UPPER, and at the start otherwise. The total is negative if the
    output is larger than all positions that the kernel reaches. Then elements are added at the end, as in onnxruntime
    and ONNX's reference; in the SAME modes they are added at both ends. Half of a negative total is rounded down, as in
    the reference; the specification does not define the rounding.
    """
    if total < 0 and not mode.startswith("SAME"):
        return 0, total
    return (total // 2, total - total // 2) if mode == "SAME_UPPER" else (total - total // 2, total // 2)


def _padding(
    node: OnnxNode, inputs: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """The zero padding of the dilated input.

    It is the padding of a full convolution, extent - 1 at both ends, minus `pads`. With `output_shape`, the pads are
    computed from that shape.
    """
    rank = len(inputs)
    more = node.integers("output_padding") or (0,) * rank
    wanted, mode = node.integers("output_shape"), node.choice("auto_pad", "NOTSET", AUTO_PADS)
    if len(more) != rank or (wanted is not None and len(wanted) != rank):
        raise NodeError(f"found output_padding {list(more)} and output_shape {wanted}, expected {rank} entries in each")
    if wanted is None and mode.startswith("SAME"):
        wanted = tuple(size * stride for size, stride in zip(inputs, strides, strict=True))
    given = node.integers("pads")  # ignored with `output_shape`, by the specification
    if wanted is None:
        pads = (given if mode == "NOTSET" else None) or (0,) * (2 * rank)
        if len(pads) != 2 * rank:
            raise NodeError(f"found {len(pads)} pads, expected {2 * rank}")
        declared = list(zip(pads[:rank], pads[rank:], strict=True))
    else:
        rows = zip(inputs, extents, strides, more, wanted, strict=True)
        totals = [(size - 1) * stride + extra + extent - out for size, extent, stride, extra, out in rows]
        declared = [_shares(total, mode) for total in totals]
    return [
        (extent - 1 - low, extent - 1 - high + extra)
        for extent, (low, high), extra in zip(extents, declared, more, strict=True)
    ]
