"""`quant.stats_ref` asks for statistics at a point, `quant.stats` states them.

Source: "MLIR Quantization", section "Instrumentation and constraint ops".
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, StringAttr, TensorType, f32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, attr_def, irdl_op_definition, operand_def, opt_attr_def, result_def, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class StatisticsRefOp(IRDLOperation):
    """`"quant.stats_ref"(%x) {statsKey = "conv1"} : (tensor<..xf32>) -> tensor<..xf32>`: the identity on values."""

    name = "quant.stats_ref"
    arg = operand_def()
    res = result_def()
    stats_key = attr_def(StringAttr, attr_name="statsKey")
    traits = traits_def(Pure())

    def __init__(self, arg: SSAValue, stats_key: str):
        super().__init__(operands=[arg], result_types=[arg.type], attributes={"statsKey": StringAttr(stats_key)})


@irdl_op_definition
class StatisticsOp(IRDLOperation):
    """`"quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : ...`: the identity on values.

    `layerStats` is [minimum, maximum] of the whole tensor; `axisStats`, of shape [N, 2], the same for each of the N
    slices along `axis`.
    """

    name = "quant.stats"
    arg = operand_def()
    res = result_def()
    layer_stats = attr_def(DenseIntOrFPElementsAttr, attr_name="layerStats")
    axis_stats = opt_attr_def(DenseIntOrFPElementsAttr, attr_name="axisStats")
    axis = opt_attr_def(IntegerAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        arg: SSAValue,
        layer_stats: tuple[float, float],
        axis_stats: DenseIntOrFPElementsAttr | None = None,
        axis: int | None = None,
    ):
        super().__init__(
            operands=[arg],
            result_types=[arg.type],
            attributes={
                "layerStats": DenseIntOrFPElementsAttr.from_list(TensorType(f32, [2]), layer_stats),
                "axisStats": axis_stats,
                "axis": None if axis is None else IntegerAttr(axis, i64),
            },
        )
