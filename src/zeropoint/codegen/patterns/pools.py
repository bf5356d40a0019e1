"""Sums over windows of an image, which the depthwise kernel computes with weights of 1: `Pool`.

%c = subtract (convert %image), zero
%s = reduce_window %c by add            or a reduce over all pixels, reshaped to an image or rows of channels
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from zeropoint.codegen.values import Values, nchw
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import shape_of


@dataclass(frozen=True)
class Pool:
    """Sums of (value - zero) over windows of an image."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    zero: int


def pooled_image(values: Values, value: SSAValue) -> tuple[SSAValue, Pool] | None:
    """The image and the windows of a sum of convert(x) - zero over image dimensions, optionally reshaped; or None."""
    op = defining_op(value)
    if isinstance(op, hlo.ReshapeOp):
        if not _is_stored_alike(values, op):
            return None
        op = defining_op(op.operand)
    if not isinstance(op, hlo.ReduceOp | hlo.ReduceWindowOp) or len(op.operands) != 2:
        return None
    adds = isinstance(op.body.block.first_op, hlo.AddOp)
    centred = defining_op(op.operands[0])
    if not adds or values.splat(op.operands[1]) != 0 or not isinstance(centred, hlo.SubtractOp):
        return None
    converted, zero = defining_op(centred.lhs), values.splat(centred.rhs)
    if not isinstance(converted, hlo.ConvertOp) or zero is None or not values.is_image(converted.operand):
        return None
    image = converted.operand
    shape, (y, x) = shape_of(image), values.spatial
    if isinstance(op, hlo.ReduceOp):
        plain = array_values(op.dimensions) == (y, x)
        return (image, Pool((shape[y], shape[x]), (1, 1), int(zero))) if plain else None
    sizes, ones = array_values(op.window_dimensions), (1,) * 4
    strides = array_values(op.window_strides, ones)
    plain = (
        all(sizes[d] == strides[d] == 1 for d in range(4) if d not in (y, x))
        and array_values(op.window_dilations, ones) == array_values(op.base_dilations, ones) == ones
        and not any(side for pair in padding_values(op.padding, 4) for side in pair)
    )
    return (image, Pool((sizes[y], sizes[x]), (strides[y], strides[x]), int(zero))) if plain else None


def _is_stored_alike(values: Values, op: hlo.ReshapeOp) -> bool:
    """Whether sums are an image, or a row of channels per sample, before and after a reshape.

    The kernel writes the channels of a sample side by side.
    """
    before, after = _samples(values, op.operand), _samples(values, op.result)
    return before is not None and before == after


def _samples(values: Values, value: SSAValue) -> tuple[int, ...] | None:
    """(N, C, H, W) of an image, or of N rows of C channels; None for other shapes."""
    shape = shape_of(value)
    if values.is_image(value):
        return nchw(shape, values.channel)
    if len(shape) < 2 or max(shape[1:-1], default=1) > 1:
        return None
    rows, *_, channels = shape
    return rows, channels, 1, 1
