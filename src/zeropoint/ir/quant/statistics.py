"""`quant.stats_ref` requests statistics of a value, `quant.stats` holds them, `quant.coupled_ref` couples values.

Source: "MLIR Quantization", section "Instrumentation and constraint ops".
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, attr_def, irdl_op_definition, operand_def, opt_attr_def, result_def, traits_def
from xdsl.traits import Pure

from zeropoint.ir.floats import FORMATS
from zeropoint.ir.quant.checks import refusal
from zeropoint.ir.quant.containers import is_tensor, ranked_shape


class _IdentityOp(IRDLOperation):
    """An op that annotates a value and returns it unchanged."""

    arg = operand_def()
    res = result_def()

    def verify_(self) -> None:
        if self.arg.type != self.res.type:
            raise refusal(self, "requires the same type for all operands and results")


@irdl_op_definition
class StatisticsRefOp(_IdentityOp):
    """`"quant.stats_ref"(%x) {statsKey = "conv1"} : (tensor<..xf32>) -> tensor<..xf32>`: the identity on values."""

    name = "quant.stats_ref"
    stats_key = attr_def(StringAttr, attr_name="statsKey")
    traits = traits_def(Pure())

    def __init__(self, arg: SSAValue, stats_key: str):
        super().__init__(operands=[arg], result_types=[arg.type], attributes={"statsKey": StringAttr(stats_key)})


@irdl_op_definition
class StatisticsOp(_IdentityOp):
    """`"quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : ...`: the identity on values.

    `layerStats` is [minimum, maximum] of the whole tensor. `axisStats`, of shape [N, 2], has those of each of the N
    slices along `axis`.
    """

    name = "quant.stats"
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

    def verify_(self) -> None:
        super().verify_()
        if not is_tensor(self.arg.type):
            raise refusal(self, "arg needs to be tensor type.")
        layer = self.layer_stats.type
        if type(layer.element_type) not in FORMATS:
            raise refusal(self, "layerStats must have a floating point element type")
        if layer.get_shape() != (2,):
            raise refusal(self, "layerStats must have shape [2]")
        if self.axis_stats is not None:
            self._verify_axis(self.axis_stats)

    def _verify_axis(self, stats: DenseIntOrFPElementsAttr) -> None:
        if self.axis is None:
            raise refusal(self, "axis must be specified for axisStats")
        if type(stats.type.element_type) not in FORMATS:
            raise refusal(self, "axisStats must have a floating point element type")
        axis, found = self.axis.value.data, stats.type.get_shape()
        shape = ranked_shape(self.arg.type)
        if shape is not None and not 0 <= axis < len(shape):
            raise refusal(self, f"axis {axis} must be less than tensor rank {len(shape)}")
        size = DYNAMIC_INDEX if shape is None else shape[axis]
        if len(found) != 2 or found[1] != 2 or size not in (DYNAMIC_INDEX, found[0]):
            raise refusal(self, "axisStats must have shape [N,2] where N = the slice size defined by the axis dim")


@irdl_op_definition
class CoupledRefOp(_IdentityOp):
    """`"quant.coupled_ref"(%x) {coupledKey = "gate"} : ...`: the identity on values.

    All values with one key get the same quantized type.
    """

    name = "quant.coupled_ref"
    coupled_key = attr_def(StringAttr, attr_name="coupledKey")
    traits = traits_def(Pure())

    def __init__(self, arg: SSAValue, coupled_key: str):
        super().__init__(operands=[arg], result_types=[arg.type], attributes={"coupledKey": StringAttr(coupled_key)})
