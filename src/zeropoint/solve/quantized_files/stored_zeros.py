"""Padding of means of a quantized file that OpenVINO fills with stored zeros.

```mlir
%a = quant.dcast(quant.qcast(%0))            in steps of 0.02 from a zero point of 8
%1 = "quant.region"(%a) ({ average_pool })   padded by 1, and the padding counts
```
OpenVINO dequantizes what the mean returns instead of what it reads. So its padding is the integer 0, which stands for
-0.16 here. In the program, a kernel before the mean pads with that number. Exported files are written so, too.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import Block, Region
from xdsl.rewriter import Rewriter

from zeropoint.ir.constants import broadcast_array, constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, UniformQuantizedType
from zeropoint.ir.stablehlo import DivideOp, MultiplyOp, PadOp, ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights

MEAN = "average_pool"


def pads_stored_zeros(region: QuantizeRegionOp, kind: UniformQuantizedType | None, weights: Weights) -> bool:
    """Whether a region is a mean of windows whose padding counts, and the integer 0 of its operand is not 0."""
    op = _windows(region)
    if region.logical_kernel.data != MEAN or op is None:
        return False
    if kind is None or not kind.is_per_layer or not kind.zero_point:
        return False
    padding = padding_values(op.padding, len(shape_of(op.inputs[0])))
    return any(map(any, padding)) and _counts_all(region, op, weights)


def _windows(region: QuantizeRegionOp) -> ReduceWindowOp | None:
    return next((op for op in region.body.block.ops if isinstance(op, ReduceWindowOp)), None)


def _counts_all(region: QuantizeRegionOp, op: ReduceWindowOp, weights: Weights) -> bool:
    """Whether every window is divided by the number of its elements with the padding."""
    division = next((each for each in region.body.block.ops if isinstance(each, DivideOp | MultiplyOp)), None)
    numbers = None if division is None else broadcast_array(division.operands[1], weights)
    if numbers is None:
        return False
    counts = numbers.astype(np.float64) if isinstance(division, DivideOp) else 1 / numbers.astype(np.float64)
    return np.allclose(counts, math.prod(array_values(op.window_dimensions)), rtol=1e-6)


def pad_with_stored_zeros(program: Program, region: QuantizeRegionOp, kind: UniformQuantizedType) -> None:
    """Insert the kernel that pads before a mean, in place."""
    op, value = _windows(region), region.inputs[0]
    assert op is not None
    pairs = padding_values(op.padding, len(shape_of(value)))
    block = Block(arg_types=[value.type])
    zero = constant_op(np.array(-kind.zero_point * kind.scale, np.float32), program.weights, location=op.location)
    pad = PadOp(block.args[0], zero.output, *zip(*pairs, strict=True))
    pad.location = region.location
    block.add_ops([zero, pad, ReturnOp([pad.result])])
    spec = element_of(value)
    made = QuantizeRegionOp([value], [pad.result.type], "pad", [spec], [spec], Region(block))
    made.location = region.location
    program.entry.insert_ops_before([made], region)
    region.operands[0] = made.outputs[0]
    Rewriter.replace_value_with_new_type(region.body.block.args[0], pad.result.type)
    op.padding = None
