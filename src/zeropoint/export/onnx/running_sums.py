"""Windows that stay float as ONNX operators: CumSum, Conv with weights of 1, and MaxPool with positions."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, i64

from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.export.onnx.pools import image_order, window_attributes
from zeropoint.export.onnx.positions import pool_with_positions
from zeropoint.export.running_sums import running_sum
from zeropoint.ir.stablehlo import AddOp, ReduceWindowOp
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of, shape_of


def windowed(op: ReduceWindowOp, source: Tensor, emit: OnnxEmission) -> None:
    """CumSum, Conv, or MaxPool with its second output. Raises ExportError for other windows."""
    start = emit.array(op.init_values[0])
    result, sums = op.results_[0], running_sum(op, start)
    is_sum = len(op.inputs) == 1 and body_op(op.body) is AddOp and start is not None and not start.any()
    if sums is None and is_sum and source.kind == f32:
        _summed(op, emit.real_by_channel(op.inputs[0]) or source, emit)
        return
    if sums is None:
        pool_with_positions(op, source, emit)
        return
    axis = emit.constant(np.array(sums.axis, np.int64), i64, "axis")
    attributes = {"reverse": int(sums.reverse)}
    kind, shape, name = element_of(result), shape_of(result), emit.name(result)
    emit.put(result, emit.apply("CumSum", [source], kind, shape, name, attributes, [axis.name]))


def _summed(op: ReduceWindowOp, source: Tensor, emit: OnnxEmission) -> None:
    """Sums over windows as a Conv of each channel with weights of 1."""
    result, name = op.results_[0], emit.name(op.results_[0])
    order = image_order(op)
    attributes = window_attributes(op, op, order)
    image = emit.transposed(source, order, name)
    channels = image.shape[1]
    ones = np.ones((channels, 1, *attributes["kernel_shape"]), np.float32)
    weights = emit.constant(ones, f32, f"{name}/ones")
    shape = [shape_of(result)[axis] for axis in order]
    made = emit.apply("Conv", [image, weights], f32, shape, name, {**attributes, "group": channels})
    emit.put(result, emit.transposed(made, list(np.argsort(order)), f"{name}/back"))
