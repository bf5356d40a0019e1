"""Means of windows that `ceil_mode` adds to a quantized file, as onnxruntime's integer kernel computes them.

With `count_include_pad`, that kernel divides by the size of the whole window, also where `ceil_mode` lets it reach
beyond the padding. ONNX, and onnxruntime's float kernel, do not count what is beyond. The importer marks such means.

Source: onnxruntime's contributed operator QLinearAveragePool.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerAttr

from zeropoint.ir.annotations import WHOLE_WINDOWS
from zeropoint.ir.constants import constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import shape_of


def has_whole_windows(region: QuantizeRegionOp) -> bool:
    """Whether a region is a mean whose divisor is that of whole windows in onnxruntime's integer kernel."""
    return any(WHOLE_WINDOWS in op.attributes for op in region.body.block.ops)


def count_whole_windows(program: Program, region: QuantizeRegionOp) -> None:
    """Divide the sums of a region by the size of the whole window, in place."""
    for op in region.body.block.ops:
        if isinstance(size := op.attributes.get(WHOLE_WINDOWS), IntegerAttr):
            numbers = np.full(shape_of(op.results[0]), size.value.data, np.float32)
            divisor = constant_op(numbers, program.weights, location=op.location)
            region.body.block.insert_ops_before([divisor], op)
            op.operands[1] = divisor.output
