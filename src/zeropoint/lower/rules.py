"""The tables of `lower`: the lowering of each op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.fxpmath import (
    RealAddEwOp,
    RealDivEwOp,
    RealMatMulBiasOp,
    RealMatMulOp,
    RealMulEwOp,
    RealSubEwOp,
    RealUnaryEwOp,
)
from zeropoint.ir.stablehlo import (
    AddOp,
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    Atan2Op,
    BatchNormGradOp,
    BatchNormInferenceOp,
    BatchNormTrainingOp,
    BitcastConvertOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ConcatenateOp,
    ConstantOp,
    ConvolutionOp,
    DivideOp,
    DotGeneralOp,
    DynamicBroadcastInDimOp,
    DynamicGatherOp,
    DynamicPadOp,
    DynamicReshapeOp,
    DynamicSliceOp,
    DynamicUpdateSliceOp,
    GatherOp,
    GetDimensionSizeOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    OptimizationBarrierOp,
    PadOp,
    PowerOp,
    ReduceOp,
    ReduceScatterOp,
    ReduceWindowOp,
    RemainderOp,
    ReshapeOp,
    ReverseOp,
    ScatterOp,
    SelectAndScatterOp,
    SelectOp,
    SliceOp,
    SortOp,
    SubtractOp,
    TransposeOp,
    UniformQuantizeOp,
)
from zeropoint.lower.arithmetic import lower_requantize, lower_sum
from zeropoint.lower.bodies import lower_by_body
from zeropoint.lower.context import Lowering
from zeropoint.lower.contraction import lower_contraction
from zeropoint.lower.float_islands import lower_binary_function
from zeropoint.lower.moved_together import lower_scatter, lower_size, lower_sort, lower_together
from zeropoint.lower.movement import lower_bits, lower_comparison, lower_constant, lower_movement
from zeropoint.lower.normalization import lower_gradient, lower_inference, lower_training
from zeropoint.lower.products import lower_product, lower_quotient
from zeropoint.lower.real_math import (
    lower_real_comparison,
    lower_real_function,
    lower_real_product,
    lower_real_quotient,
    lower_real_sum,
)
from zeropoint.lower.real_matmul import lower_real_matmul
from zeropoint.lower.reductions import lower_reduction

LOWERINGS: dict[type[Operation], Callable[[Lowering, Any], SSAValue | None]] = {
    AddOp: lower_sum,
    AllReduceOp: lower_reduction,
    Atan2Op: lower_binary_function,
    BatchNormInferenceOp: lower_inference,
    BitcastConvertOp: lower_bits,
    BroadcastInDimOp: lower_movement,
    ClampOp: lower_movement,
    ConcatenateOp: lower_movement,
    ConstantOp: lower_constant,
    ConvolutionOp: lower_contraction,
    DivideOp: lower_quotient,
    DotGeneralOp: lower_contraction,
    DynamicBroadcastInDimOp: lower_movement,
    DynamicGatherOp: lower_movement,
    DynamicPadOp: lower_movement,
    DynamicReshapeOp: lower_movement,
    DynamicSliceOp: lower_movement,
    DynamicUpdateSliceOp: lower_movement,
    GatherOp: lower_movement,
    MaximumOp: lower_movement,
    MinimumOp: lower_movement,
    MultiplyOp: lower_product,
    PadOp: lower_movement,
    PowerOp: lower_binary_function,
    RealAddEwOp: lower_real_sum,
    RealDivEwOp: lower_real_quotient,
    RealMatMulBiasOp: lower_real_matmul,
    RealMatMulOp: lower_real_matmul,
    RealMulEwOp: lower_real_product,
    RealSubEwOp: lower_real_sum,
    RealUnaryEwOp: lower_real_function,
    ReduceOp: lower_reduction,
    ReduceScatterOp: lower_reduction,
    ReduceWindowOp: lower_reduction,
    RemainderOp: lower_binary_function,
    ReshapeOp: lower_movement,
    ReverseOp: lower_movement,
    SelectAndScatterOp: lower_reduction,
    SelectOp: lower_movement,
    SliceOp: lower_movement,
    SubtractOp: lower_sum,
    TransposeOp: lower_movement,
    UniformQuantizeOp: lower_requantize,
}
"""Lowerings of ops with a quantized result. Maximum, minimum and clamp count as movement: stored integers have the same
order as the real values."""

SEVERAL: dict[type[Operation], Callable[[Lowering, Any], Sequence[SSAValue] | None]] = {
    AllGatherOp: lower_together,
    AllReduceOp: lower_by_body,
    AllToAllOp: lower_together,
    BatchNormGradOp: lower_gradient,
    BatchNormTrainingOp: lower_training,
    OptimizationBarrierOp: lower_together,
    ReduceOp: lower_by_body,
    ReduceWindowOp: lower_by_body,
    ScatterOp: lower_scatter,
    SortOp: lower_sort,
}
"""Lowerings of ops with any number of results, at least one of which is quantized. For one result, `LOWERINGS`
precedes."""


PREDICATES: dict[type[Operation], Callable[[Lowering, Any], SSAValue | None]] = {
    CompareOp: lower_comparison,
    GetDimensionSizeOp: lower_size,
    RealUnaryEwOp: lower_real_comparison,
}
"""Lowerings of ops on quantized values whose results are not quantized. They return None for an op without integer
form."""
