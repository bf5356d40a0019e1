"""Padding and dilation of a convolution's operand as a pad with its zero point, which is the number 0.

```mlir
%1 = stablehlo.convolution(%0, %w) ..., window = {pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]} ...
```
becomes
```mlir
%1 = stablehlo.pad %0, %z, low = [0, 0, 1, 1], high = [0, 0, 1, 1], interior = [0, 0, 1, 1] ...
%2 = stablehlo.convolution(%1, %w) ..., window = {} ...
```
C++ StableHLO takes no dilated operand, and pads operands of i8 only.
"""

from __future__ import annotations

import numpy as np

from zeropoint.ir.constants import constant_array
from zeropoint.ir.stablehlo import ConvolutionOp, PadOp
from zeropoint.ir.stablehlo.arrays import array_values, i64_array, padding_attribute, padding_values
from zeropoint.ir.tensors import element_dtype
from zeropoint.quant_passes.reference_forms.rewriting import (
    Rewrite,
    is_static,
    only_user,
    owner,
    per_tensor,
    remove_unused,
)

BYTE = 8


def write_padding(rewrite: Rewrite, op: ConvolutionOp) -> None:
    """Pad the operand of a convolution by an op of its own where C++ StableHLO does not."""
    kind, spatial = per_tensor(op.lhs), op.dimension_numbers.data.input_spatial_dimensions
    padding = padding_values(op.padding, len(spatial))
    dilation = array_values(op.lhs_dilation, [1] * len(spatial))
    is_dilated, is_padded = set(dilation) - {1}, {edge for pair in padding for edge in pair} - {0}
    if kind is None or not is_static(op.lhs) or not (is_dilated or (is_padded and kind.storage.type.width != BYTE)):
        return
    zero = rewrite.constant(np.array(kind.zero_point, element_dtype(kind)), kind)
    low, high, between = ([0] * (len(spatial) + 2) for _ in range(3))
    for dimension, pair, factor in zip(spatial, padding, dilation, strict=True):
        low[dimension], high[dimension], between[dimension] = *pair, factor - 1
    op.operands[0] = rewrite.add(PadOp(op.lhs, zero, low, high, between))
    for name in ("padding", "lhs_dilation"):
        op.properties.pop(name, None)


def read_padding(rewrite: Rewrite, op: ConvolutionOp) -> None:
    """Let a convolution pad its operand itself."""
    pad, kind = owner(op.lhs), per_tensor(op.lhs)
    spatial = op.dimension_numbers.data.input_spatial_dimensions
    if not isinstance(pad, PadOp) or kind is None or only_user(op.lhs) is None or op.lhs_dilation is not None:
        return
    edges = (
        array_values(pad.edge_padding_low),
        array_values(pad.edge_padding_high),
        array_values(pad.interior_padding),
    )
    others = [dimension for dimension in range(len(edges[0])) if dimension not in spatial]
    value = constant_array(pad.padding_value, rewrite.weights)
    is_written = kind.storage.type.width != BYTE or any(edges[2])
    if value is None or value != kind.zero_point or not is_written or any(part[d] for part in edges for d in others):
        return
    if any(edge for pair in padding_values(op.padding, len(spatial)) for edge in pair):
        return
    op.properties["padding"] = padding_attribute([(edges[0][d], edges[1][d]) for d in spatial])
    if any(edges[2]):
        op.properties["lhs_dilation"] = i64_array([edges[2][d] + 1 for d in spatial])
    op.operands[0] = pad.operand
    remove_unused([pad])
