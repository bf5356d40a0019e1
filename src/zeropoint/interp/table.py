"""Which function computes which op: the one list of all that the interpreter can run.

`RULES` holds the ops on floats, integers and booleans, and those that are the same on quantized values, moved as
storage; `QUANTIZED` the ops that compute with a quantized operand or result; `EITHER` the ops that have bodies or
effects, or move values as they are, of whatever type. Ops that only hold or name a body are in
`zeropoint.interp.control.INLINED`.
"""

from __future__ import annotations

from xdsl.ir import Operation

from zeropoint.interp import (
    bitwise,
    checks,
    contraction,
    control,
    elementwise,
    fake_quant,
    fxpmath,
    indexing,
    movement,
    quantized,
    quantized_contraction,
    reduction,
    regions,
    scatter,
    sort,
)
from zeropoint.interp.affine import is_quantized
from zeropoint.interp.binding import Rule
from zeropoint.ir import check, chlo, quant
from zeropoint.ir import fxpmath as fxp
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import element_of

EITHER: dict[type[Operation], Rule] = {
    check.ExpectAlmostEqConstOp: checks.expect_almost_eq_const,
    check.ExpectAlmostEqOp: checks.expect_almost_eq,
    check.ExpectCloseOp: checks.expect_close,
    check.ExpectEqConstOp: checks.expect_eq_const,
    check.ExpectEqOp: checks.expect_eq,
    check.ExpectSerializedEqOp: checks.expect_serialized_eq,
    hlo.AfterAllOp: regions.after_all,
    hlo.CaseOp: regions.case,
    hlo.CustomCallOp: checks.custom_call,
    hlo.GetTupleElementOp: regions.get_tuple_element,
    hlo.IfOp: regions.if_,
    hlo.MapOp: regions.map_,
    hlo.OptimizationBarrierOp: regions.optimization_barrier,
    hlo.TupleOp: regions.tuple_,
    hlo.WhileOp: regions.while_,
}

RULES: dict[type[Operation], Rule] = {
    hlo.AbsOp: elementwise.unary,
    hlo.AddOp: elementwise.binary,
    hlo.AndOp: elementwise.binary,
    hlo.Atan2Op: elementwise.binary,
    hlo.BroadcastInDimOp: movement.broadcast_in_dim,
    hlo.CbrtOp: elementwise.unary,
    hlo.CeilOp: elementwise.unary,
    hlo.ClampOp: elementwise.clamp,
    hlo.CompareOp: elementwise.compare,
    hlo.ConcatenateOp: movement.concatenate,
    hlo.ConvertOp: elementwise.convert,
    hlo.ConvolutionOp: contraction.contraction,
    hlo.CosineOp: elementwise.unary,
    hlo.CountLeadingZerosOp: bitwise.count_leading_zeros,
    hlo.DivideOp: elementwise.binary,
    hlo.DotGeneralOp: contraction.contraction,
    hlo.DynamicSliceOp: indexing.dynamic_slice,
    hlo.DynamicUpdateSliceOp: indexing.dynamic_update_slice,
    hlo.ExponentialMinusOneOp: elementwise.unary,
    hlo.ExponentialOp: elementwise.unary,
    hlo.FloorOp: elementwise.unary,
    hlo.GatherOp: indexing.gather,
    hlo.IotaOp: indexing.iota,
    hlo.IsFiniteOp: elementwise.is_finite,
    hlo.LogOp: elementwise.unary,
    hlo.LogPlusOneOp: elementwise.unary,
    hlo.LogisticOp: elementwise.unary,
    hlo.MaximumOp: elementwise.binary,
    hlo.MinimumOp: elementwise.binary,
    hlo.MultiplyOp: elementwise.binary,
    hlo.NegateOp: elementwise.unary,
    hlo.NotOp: elementwise.unary,
    hlo.OrOp: elementwise.binary,
    hlo.PadOp: movement.pad,
    hlo.PopcntOp: bitwise.popcnt,
    hlo.PowerOp: elementwise.binary,
    hlo.ReduceOp: reduction.reduce,
    hlo.ReduceWindowOp: reduction.reduce_window,
    hlo.RemainderOp: elementwise.binary,
    hlo.ReshapeOp: movement.reshape,
    hlo.ReverseOp: movement.reverse,
    hlo.RoundNearestAfzOp: elementwise.unary,
    hlo.RoundNearestEvenOp: elementwise.unary,
    hlo.RsqrtOp: elementwise.unary,
    hlo.ScatterOp: scatter.scatter,
    hlo.SelectOp: elementwise.select,
    hlo.ShiftLeftOp: bitwise.shift_left,
    hlo.ShiftRightArithmeticOp: bitwise.shift_right_arithmetic,
    hlo.ShiftRightLogicalOp: bitwise.shift_right_logical,
    hlo.SignOp: elementwise.unary,
    hlo.SineOp: elementwise.unary,
    hlo.SliceOp: movement.slice_,
    hlo.SortOp: sort.sort,
    hlo.SqrtOp: elementwise.unary,
    hlo.SubtractOp: elementwise.binary,
    hlo.TanOp: elementwise.unary,
    hlo.TanhOp: elementwise.unary,
    hlo.TransposeOp: movement.transpose,
    hlo.XorOp: elementwise.binary,
    chlo.ErfOp: elementwise.unary,
    quant.ConstFakeQuantOp: fake_quant.const_fake_quant,
    quant.ConstFakeQuantPerAxisOp: fake_quant.const_fake_quant_per_axis,
    quant.CoupledRefOp: control.statistics,
    quant.StatisticsOp: control.statistics,
    quant.StatisticsRefOp: control.statistics,
    fxp.RequantizeOp: fxpmath.requantize,
    fxp.TableOp: fxpmath.table,
    fxp.WeightedSumOp: fxpmath.weighted_sum,
}

QUANTIZED: dict[type[Operation], Rule] = {
    hlo.AbsOp: quantized.unary,
    hlo.AddOp: quantized.add,
    hlo.Atan2Op: quantized.binary,
    hlo.CbrtOp: quantized.unary,
    hlo.CeilOp: quantized.unary,
    hlo.ClampOp: quantized.clamp,
    hlo.CompareOp: quantized.compare,
    hlo.ConvolutionOp: quantized_contraction.contraction,
    hlo.CosineOp: quantized.unary,
    hlo.DivideOp: quantized.binary,
    hlo.DotGeneralOp: quantized_contraction.contraction,
    hlo.ExponentialMinusOneOp: quantized.unary,
    hlo.ExponentialOp: quantized.unary,
    hlo.FloorOp: quantized.unary,
    hlo.LogOp: quantized.unary,
    hlo.LogPlusOneOp: quantized.unary,
    hlo.LogisticOp: quantized.unary,
    hlo.MaximumOp: quantized.maximum_or_minimum,
    hlo.MinimumOp: quantized.maximum_or_minimum,
    hlo.MultiplyOp: quantized.multiply,
    hlo.NegateOp: quantized.unary,
    hlo.PowerOp: quantized.binary,
    hlo.RemainderOp: quantized.binary,
    hlo.RoundNearestAfzOp: quantized.unary,
    hlo.RoundNearestEvenOp: quantized.unary,
    hlo.RsqrtOp: quantized.unary,
    hlo.SelectOp: quantized.select,
    hlo.SignOp: quantized.unary,
    hlo.SineOp: quantized.unary,
    hlo.SqrtOp: quantized.unary,
    hlo.SubtractOp: quantized.subtract,
    hlo.TanOp: quantized.unary,
    hlo.TanhOp: quantized.unary,
    hlo.UniformDequantizeOp: quantized.uniform_dequantize,
    hlo.UniformQuantizeOp: quantized.uniform_quantize,
    quant.DequantizeCastOp: quantized.dequantize_cast,
    quant.QuantizeCastOp: quantized.quantize_cast,
    quant.StorageCastOp: quantized.storage_cast,
    # These move storage, or have bodies that are looked up by themselves.
    hlo.BroadcastInDimOp: movement.broadcast_in_dim,
    hlo.ConcatenateOp: movement.concatenate,
    hlo.DynamicSliceOp: indexing.dynamic_slice,
    hlo.DynamicUpdateSliceOp: indexing.dynamic_update_slice,
    hlo.GatherOp: indexing.gather,
    hlo.IotaOp: indexing.iota,
    hlo.PadOp: movement.pad,
    hlo.ReduceOp: reduction.reduce,
    hlo.ReduceWindowOp: reduction.reduce_window,
    hlo.ReshapeOp: movement.reshape,
    hlo.ReverseOp: movement.reverse,
    hlo.ScatterOp: scatter.scatter,
    hlo.SliceOp: movement.slice_,
    hlo.SortOp: sort.sort,
    hlo.TransposeOp: movement.transpose,
    quant.CoupledRefOp: control.statistics,
    quant.StatisticsOp: control.statistics,
    quant.StatisticsRefOp: control.statistics,
}


def rule_of(op: Operation) -> Rule | None:
    """The rule of an op, by its class and by whether a value of it is quantized; None where there is none."""
    either = EITHER.get(type(op))
    if either is not None:
        return either
    touches_quantized = any(is_quantized(element_of(value)) for value in (*op.operands, *op.results))
    return (QUANTIZED if touches_quantized else RULES).get(type(op))
