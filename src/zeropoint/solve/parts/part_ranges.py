"""Bound the results that a kernel computes from parts of its operands, from the ranges of these parts.

```mlir
%p = "quant.region"(%b) ({ average pool })          %b in [-1, 1]: means are in [-1, 1]
%r = "quant.region"(%b, %w) ({ dot_general })       interpolation by rows of weights whose sum is 1: in [-1, 1]
%m = "quant.region"(%b, %gate) ({ multiply })       %gate in [0, 1]: in [-1, 1]
```
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from xdsl.ir import Operation

from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import weight_channel_axis, weights_by_channel
from zeropoint.ir.element_parts import MOVES
from zeropoint.ir.stablehlo import ClampOp, ConvolutionOp, DotGeneralOp, SelectOp
from zeropoint.ir.tensors import Array
from zeropoint.solve.parts.amplification import amplified
from zeropoint.solve.parts.divided import Divided
from zeropoint.solve.parts.leaves import known_range, observed, span
from zeropoint.solve.parts.part_readers import RealRange
from zeropoint.targets import Target
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

MEANS = ("average_pool", "mean")


def region_range(divided: Divided, parts: Sequence[RealRange | None], target: Target) -> RealRange | None:
    """The range of a region's part, from the ranges of the parts of its operands. `parts` has None for whole operands.

    If no range follows, it is the observed range of the whole result, or None without one.
    """
    region, kernel = divided.region, divided.region.logical_kernel.data
    known = [
        part or known_range(value, divided.weights, target) for part, value in zip(parts, region.inputs, strict=True)
    ]
    computed = [index for index, part in enumerate(parts) if part and not _is_constant(divided, index)]
    ranges = [one for one in known if one is not None]
    found: RealRange | None = None
    if len(ranges) == len(known):
        if kernel in PASSES_ELEMENTS or kernel in MEANS:
            found = span([*ranges, (0.0, 0.0)])  # padding adds zeros
        elif isinstance(region.body.block.first_op, ConvolutionOp | DotGeneralOp):
            found = _weighted(divided, ranges)
        elif len(computed) == 1 and (seen := amplified(divided, computed[0], ranges[computed[0]])) is not None:
            found = seen.range
        elif len(ranges) == 2:
            found = _combined(kernel, *ranges)
    return found or observed(region.outputs[0])


def op_range(op: Operation, ranges: Sequence[RealRange | None]) -> RealRange | None:
    """The range of an op outside of kernels: that of its operands if it only moves elements, else the observed one."""
    known = [one for one in ranges if one is not None]
    if isinstance(op, MOVES | SelectOp | ClampOp) and known:
        return span(known)
    return observed(op.results[0])


def _combined(kernel: str, first: RealRange, second: RealRange) -> RealRange | None:
    if kernel == "add":
        return first[0] + second[0], first[1] + second[1]
    if kernel == "subtract":
        return first[0] - second[1], first[1] - second[0]
    if kernel == "multiply":
        corners = [one * other for one, other in product(first, second)]
        return min(corners), max(corners)
    return None


def _is_constant(divided: Divided, index: int) -> bool:
    return constant_array(divided.region.inputs[index], divided.weights) is not None


def _weighted(divided: Divided, ranges: Sequence[RealRange]) -> RealRange | None:
    """The range of a contraction with weights and a bias, for values in a range. Padding counts as 0."""
    op, region = divided.region.body.block.first_op, divided.region
    assert isinstance(op, ConvolutionOp | DotGeneralOp)
    axis, array = weight_channel_axis(op), constant_array(region.inputs[1], divided.weights)
    if axis is None or array is None or len(ranges) > 3:
        return None
    cut = divided.operand_cut(1)
    array = array if cut is None else np.take(array, cut.chosen, cut.axis)
    low, high = weighted_range(array, axis, ranges[0])
    bias = ranges[2] if len(ranges) == 3 else (0.0, 0.0)
    return low + bias[0], high + bias[1]


def weighted_range(array: Array, axis: int, span: RealRange) -> RealRange:
    """The range of sums of weights, with output channels along `axis`, times values in `span` or 0."""
    filters = weights_by_channel(array, axis).astype(np.float64)
    up, down = np.maximum(filters, 0).sum(1), np.minimum(filters, 0).sum(1)
    low, high = min(span[0], 0.0), max(span[1], 0.0)
    return float((up * low + down * high).min()), float((up * high + down * low).max())
