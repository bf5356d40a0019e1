"""Convolutions with channels last, in two or three spatial dimensions.

```mlir
%1 = stablehlo.convolution(%0, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], ...
%2 = stablehlo.add %1, %bias
%3 = stablehlo.uniform_quantize %2
```
becomes
```mlir
%1 = stablehlo.transpose %0, dims = [0, 2, 3, 1]
%2 = stablehlo.convolution(%1, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], ...
%3 = stablehlo.add %2, %bias
%4 = stablehlo.uniform_quantize %3
%5 = stablehlo.transpose %4, dims = [0, 3, 1, 2]
```
Sums with one scale per channel stay in that layout until they are requantized or dequantized, because C++ StableHLO
does both along the last dimension only. One spatial dimension, or none, becomes two by reshapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, i1
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp
from zeropoint.ir.stablehlo.arrays import array_values, i64_array, padding_attribute, padding_values
from zeropoint.ir.stablehlo.attributes import ConvDimensionNumbersAttr
from zeropoint.ir.tensors import shape_of
from zeropoint.quant_passes.reference_forms.frames import Change, Frame, frame_before
from zeropoint.quant_passes.reference_forms.rewriting import (
    Rewrite,
    is_static,
    owner,
    per_tensor,
    quantized,
    remove_unused,
)
from zeropoint.quant_passes.reference_forms.sums import frame_after, move_sums

LEAST, MOST = 2, 3
"""The spatial dimensions that C++ StableHLO has."""


def channels_last(rank: int) -> ConvolutionLayout:
    """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]` for two spatial dimensions."""
    spatial, kernel = tuple(range(1, 1 + rank)), tuple(range(rank))
    return ConvolutionLayout(0, rank + 1, spatial, rank, rank + 1, kernel, 0, rank + 1, spatial)


def write_convolution(rewrite: Rewrite, op: ConvolutionOp) -> None:
    """Write a quantized convolution, and the sums that follow it, with channels last."""
    layout = op.dimension_numbers.data
    rank = len(layout.input_spatial_dimensions)
    if per_tensor(op.lhs) is None or quantized(op.rhs) is None or quantized(op.result) is None or rank > MOST:
        return
    if not all(map(is_static, (op.lhs, op.rhs, op.result))):
        return
    units = max(LEAST - rank, 0)
    wanted = channels_last(rank + units)
    if layout == wanted:
        return
    kernel = (*layout.kernel_spatial_dimensions, layout.kernel_input_feature_dimension)
    rhs = rewrite.transposed(op.rhs, [*kernel, layout.kernel_output_feature_dimension])
    rhs = rewrite.reshaped(rhs, [*[1] * units, *shape_of(rhs)], rank + units + 1)
    lhs = Frame((layout.input_batch_dimension, *layout.input_spatial_dimensions, layout.input_feature_dimension), units)
    result = Frame(
        (layout.output_batch_dimension, *layout.output_spatial_dimensions, layout.output_feature_dimension), units
    )
    _rebuild(rewrite, op, (lhs.into(rewrite, op.lhs), rhs), wanted, Change(result, is_inward=True))


def read_convolution(rewrite: Rewrite, op: ConvolutionOp) -> None:
    """Fold the transposes and reshapes around a convolution into its layout."""
    layout = op.dimension_numbers.data
    rank = len(layout.input_spatial_dimensions)
    if per_tensor(op.lhs) is None or quantized(op.rhs) is None or layout != channels_last(rank):
        return
    source, lhs = frame_before(op.lhs)
    result = frame_after(op.result)
    if lhs != result or lhs.is_identity or not lhs.is_usual or not _are_unused(op, lhs.units):
        return
    units = lhs.units
    wanted = _layout_outside(lhs, rank - units)
    rhs = rewrite.reshaped(op.rhs, shape_of(op.rhs)[units:], rank - units + 1)
    rhs = rewrite.transposed(rhs, _kernel_order(wanted))
    _rebuild(rewrite, op, (source, rhs), wanted, Change(result, is_inward=False))


def _are_unused(op: ConvolutionOp, units: int) -> bool:
    """Whether the first `units` spatial dimensions have size 1, without padding."""
    rank = len(op.dimension_numbers.data.input_spatial_dimensions)
    edges = {edge for pair in padding_values(op.padding, rank)[:units] for edge in pair}
    return units <= rank and not set(shape_of(op.rhs)[:units]) - {1} and not edges - {0}


def _layout_outside(frame: Frame, rank: int) -> ConvolutionLayout:
    """The layout of a convolution that takes and returns tensors outside of a frame."""
    if frame.order[-1] == 1:  # weights are [o, i, 0, 1] then, as in ONNX
        return ConvolutionLayout.channels_first(rank)
    return channels_last(rank)


def _kernel_order(layout: ConvolutionLayout) -> list[int]:
    """The permutation of [0, 1, i, o] to the layout's kernel."""
    inner = (*layout.kernel_spatial_dimensions, layout.kernel_input_feature_dimension)
    named = (*inner, layout.kernel_output_feature_dimension)
    return [named.index(d) for d in range(len(named))]


def _rebuild(
    rewrite: Rewrite,
    op: ConvolutionOp,
    operands: tuple[SSAValue, SSAValue],
    layout: ConvolutionLayout,
    change: Change,
) -> None:
    """Replace a convolution by one in another layout, and change what reads it."""
    rank = len(op.dimension_numbers.data.input_spatial_dimensions)
    more = len(layout.input_spatial_dimensions) - rank

    def entries(values: Sequence[Any], one: Any) -> list[Any]:
        return [*[one] * more, *values[max(-more, 0) :]]

    properties = dict(op.properties)
    properties["dimension_numbers"] = ConvDimensionNumbersAttr(layout)
    for name in ("window_strides", "lhs_dilation", "rhs_dilation"):
        if name in properties:
            properties[name] = i64_array(entries(array_values(getattr(op, name)), 1))
    if op.padding is not None:
        properties["padding"] = padding_attribute(entries(padding_values(op.padding, rank), (0, 0)))
    if op.window_reversal is not None:
        properties["window_reversal"] = DenseArrayBase.from_list(i1, entries(array_values(op.window_reversal), 0))
    kind = change.type(op.result)
    made = rewrite.add(ConvolutionOp.create(operands=operands, result_types=[kind], properties=properties))
    before = [found for operand in op.operands if (found := owner(operand)) is not None]
    move_sums(op.result, made, change, rewrite.weights)
    Rewriter.erase_op(op)
    remove_unused(before)
