"""Windows that stay float as ONNX operators: CumSum, and MaxPool with positions."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i64

from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.export.onnx.positions import pool_with_positions
from zeropoint.export.running_sums import running_sum
from zeropoint.ir.stablehlo import ReduceWindowOp
from zeropoint.ir.tensors import element_of, shape_of


def windowed(op: ReduceWindowOp, source: Tensor, emit: OnnxEmission) -> None:
    """CumSum, or MaxPool with its second output. Raises ExportError for other windows."""
    result, sums = op.results_[0], running_sum(op, emit.array(op.init_values[0]))
    if sums is None:
        pool_with_positions(op, source, emit)
        return
    axis = emit.constant(np.array(sums.axis, np.int64), i64, "axis")
    attributes = {"reverse": int(sums.reverse)}
    kind, shape, name = element_of(result), shape_of(result), emit.name(result)
    emit.put(result, emit.apply("CumSum", [source], kind, shape, name, attributes, [axis.name]))
