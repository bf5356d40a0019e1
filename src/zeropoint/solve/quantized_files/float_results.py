"""Fully connected layers of a quantized file whose results no cast rounds: integer products with float results.

```mlir
%a = quant.dcast(quant.qcast(%x))
%0 = "quant.region"(%a, %w, %b) ({ dot_general, add })       %w of i8, %b of i32; a float op reads %0
```
A runtime whose kernels can return floats (`unrounded_results`) makes an integer kernel of it. Propagation needs a range
of the result, which the weights bound. It is of no consequence: no result is rounded.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import StringAttr

from zeropoint.ir.annotations import REAL_RESULT
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import weight_channel_axis, weights_by_channel
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, UniformQuantizedType
from zeropoint.solve.widths.real_results import gives_accumulators, plain_contraction
from zeropoint.targets import Target

WHY = "the model does not quantize its result"
ProductTypes = tuple[UniformQuantizedType, UniformQuantizedType, UniformQuantizedType | None]
"""The types of data, weights and bias, if there is one."""


def is_integer_product(region: QuantizeRegionOp, target: Target, types: ProductTypes) -> bool:
    """Whether the target's kernel of a fully connected layer with these operands is one of integers."""
    data, weights, bias = types
    if target.real_results or not gives_accumulators(region, target):
        return False
    scales = np.float32(data.scale) * weights.scales.astype(np.float32)
    of_products = bias is None or (
        bias.storage.type.width == 32 and np.array_equal(np.ravel(bias.scales.astype(np.float32)), np.ravel(scales))
    )
    bytes_ = data.storage.type.width == weights.storage.type.width == 8
    return of_products and bytes_ and data.is_per_layer and not weights.zero_points.any() and weights.blocks is None


def return_float(program: Program, region: QuantizeRegionOp, data: UniformQuantizedType) -> None:
    """Mark a region as one that returns its accumulators, in place, and state a range of its result."""
    contraction = plain_contraction(region)
    weights = constant_array(region.inputs[1], program.weights)
    axis = None if contraction is None else weight_channel_axis(contraction)
    assert weights is not None and axis is not None
    low, high = (data.scale * (end - data.zero_point) for end in (data.storage.minimum, data.storage.maximum))
    most = max(abs(low), abs(high)) * float(np.abs(weights_by_channel(weights, axis)).sum(axis=1).max())
    for value in region.inputs[2:]:
        bias = constant_array(value, program.weights)
        most += 0.0 if bias is None else float(np.abs(bias).max())
    result = region.outputs[0]
    stated = StatisticsOp(result, (-most, most))
    stated.location = region.location
    program.entry.insert_ops_after([stated], region)
    result.replace_uses_with_if(stated.results[0], lambda use: use.operation is not stated)
    region.attributes[REAL_RESULT] = StringAttr(WHY)
