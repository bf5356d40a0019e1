"""The padding of convolutions and windows, as the attributes of a `pad` before them.

```mlir
%y = stablehlo.convolution(%x, %w) ..., window = {pad = [[1, 0]], lhs_dilate = [2]}       // spatial dimension 2
```
has the padding `low = [0, 0, 1]`, `high = [0, 0, 0]`, `interior = [0, 0, 1]`.
"""

from __future__ import annotations

from xdsl.ir import Operation

from zeropoint.ir.stablehlo.arrays import I64Array, array_values, padding_values
from zeropoint.ir.stablehlo.contraction import ConvolutionOp
from zeropoint.ir.stablehlo.reduction import ReduceWindowOp
from zeropoint.ir.tensors import shape_of


def padding_of(op: ConvolutionOp | ReduceWindowOp) -> tuple[list[int], list[int], list[int]]:
    """(low, high, interior) for every dimension of the input; zeros for a convolution's batch and features."""
    rank = len(shape_of(op.operands[0]))
    spatial = op.dimension_numbers.data.input_spatial_dimensions if isinstance(op, ConvolutionOp) else range(rank)
    low, high, interior = [0] * rank, [0] * rank, [0] * rank
    pairs, steps = padding_values(op.padding, len(spatial)), array_values(_dilation(op), (1,) * len(spatial))
    for dimension, (before, after), step in zip(spatial, pairs, steps, strict=True):
        low[dimension], high[dimension], interior[dimension] = before, after, step - 1
    return low, high, interior


def pads(op: Operation) -> bool:
    """Whether an op is a convolution or a windowed reduction that pads or dilates its input."""
    if type(op) is not ConvolutionOp and type(op) is not ReduceWindowOp:  # faster than isinstance
        return False
    return any(map(any, padding_values(op.padding, 0))) or any(step != 1 for step in array_values(_dilation(op)))


def _dilation(op: ConvolutionOp | ReduceWindowOp) -> I64Array | None:
    return op.lhs_dilation if isinstance(op, ConvolutionOp) else op.base_dilations
