"""Maps ops to their range rules."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.fxpmath import (
    InterpolateOp,
    QuotientOp,
    RequantizeOp,
    RoundingDivideByPotOp,
    SaturatingAddOp,
    SaturatingRoundingDoublingHighMulOp,
    TableOp,
    WeightedSumOp,
)
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.weights import Weights
from zeropoint.ranges import bitwise, contraction, elementwise, fixed_point, movement, scattered
from zeropoint.ranges.analysis import IntervalRule, Ranges
from zeropoint.ranges.control import control_ranges
from zeropoint.ranges.normalized_rows import row_bounds

RULES: Mapping[type[Operation], IntervalRule] = {
    hlo.AbsOp: elementwise.absolute,
    hlo.AddOp: elementwise.add,
    hlo.AllReduceOp: scattered.over_processes,
    hlo.AndOp: bitwise.bitwise_and,
    hlo.BroadcastInDimOp: movement.broadcast_in_dim,
    hlo.ClampOp: elementwise.clamp,
    hlo.ConcatenateOp: movement.concatenate,
    hlo.ConstantOp: movement.constant,
    hlo.ConvertOp: elementwise.convert,
    hlo.ConvolutionOp: contraction.contraction,
    hlo.DivideOp: elementwise.divide,
    hlo.DotGeneralOp: contraction.contraction,
    hlo.DynamicSliceOp: movement.first_operand,
    hlo.DynamicBroadcastInDimOp: movement.broadcast_in_dim,
    hlo.DynamicConvOp: contraction.dynamic_convolution,
    hlo.DynamicUpdateSliceOp: movement.either,
    hlo.GatherOp: movement.first_operand,
    hlo.IotaOp: movement.iota,
    hlo.MaximumOp: elementwise.maximum,
    hlo.MinimumOp: elementwise.minimum,
    hlo.MultiplyOp: elementwise.multiply,
    hlo.NegateOp: elementwise.negate,
    hlo.NotOp: bitwise.bitwise_not,
    hlo.OptimizationBarrierOp: movement.same,
    hlo.OrOp: bitwise.bitwise_or,
    hlo.PadOp: movement.pad,
    hlo.PowerOp: elementwise.power,
    hlo.ReduceOp: contraction.reduction,
    hlo.ReduceScatterOp: scattered.over_processes,
    hlo.ReduceWindowOp: contraction.reduction,
    hlo.RemainderOp: elementwise.remainder,
    hlo.ReshapeOp: movement.reshape,
    hlo.ReverseOp: movement.reverse,
    hlo.ScatterOp: scattered.scatter,
    hlo.SelectAndScatterOp: scattered.select_and_scatter,
    hlo.SelectOp: elementwise.select,
    hlo.ShiftLeftOp: bitwise.shift_left,
    hlo.ShiftRightArithmeticOp: bitwise.shift_right,
    hlo.ShiftRightLogicalOp: bitwise.shift_right_logical,
    hlo.SignOp: elementwise.sign,
    hlo.SliceOp: movement.slice_,
    hlo.SortOp: movement.first_operand,
    hlo.SubtractOp: elementwise.subtract,
    hlo.TransposeOp: movement.transpose,
    hlo.XorOp: bitwise.bitwise_xor,
    QuotientOp: fixed_point.quotient,
    RequantizeOp: fixed_point.requantized,
    RoundingDivideByPotOp: fixed_point.rounding_divide,
    SaturatingAddOp: fixed_point.saturating_add,
    SaturatingRoundingDoublingHighMulOp: fixed_point.high_product,
    StorageCastOp: movement.storage_cast,
    InterpolateOp: fixed_point.interpolate,
    TableOp: fixed_point.table,
    WeightedSumOp: fixed_point.weighted_sum,
}


def ranges_of(program: Program | Weights) -> Ranges:
    """The ranges of a program's values. Given only weights, those of a program that is being built with them."""
    if isinstance(program, Weights):
        return Ranges(program, RULES)
    found = Ranges(program.weights, RULES)
    row_bounds(found, program.entry)
    control_ranges(found, program.entry)
    return found
