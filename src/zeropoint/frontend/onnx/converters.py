"""The ONNX ops that can be imported, and what converts each: the one list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from zeropoint.frontend.onnx import (
    activations,
    bits,
    convolution,
    elementwise,
    generated,
    indexing,
    movement,
    normalization,
    ordering,
    pooling,
    products,
    quantization,
    reductions,
    resize,
    scans,
    scattering,
    transposed,
)
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import binary, unary
from zeropoint.frontend.onnx.node import Node
from zeropoint.ir import chlo, stablehlo

Converter = Callable[[Node, Builder], SSAValue | tuple[SSAValue, ...]]
"""Appends StableHLO for a node and returns its outputs; those that are missing at the end are not supported.

Raises NodeError for what is not supported.
"""

CONVERTERS: Mapping[str, Converter] = {
    # contractions
    "Conv": convolution.convolution,
    "ConvTranspose": transposed.conv_transpose,
    "Gemm": products.gemm,
    "MatMul": products.matmul,
    # arithmetic
    "Abs": unary(stablehlo.AbsOp),
    "Acos": unary(chlo.AcosOp),
    "Acosh": unary(chlo.AcoshOp),
    "Add": binary(stablehlo.AddOp),
    "Asin": unary(chlo.AsinOp),
    "Asinh": unary(chlo.AsinhOp),
    "Atan": unary(chlo.AtanOp),
    "Atanh": unary(chlo.AtanhOp),
    "Cast": elementwise.cast,
    "CastLike": elementwise.cast_like,
    "Ceil": unary(stablehlo.CeilOp),
    "Cos": unary(stablehlo.CosineOp),
    "Cosh": unary(chlo.CoshOp),
    "CumProd": scans.cum_prod,
    "CumSum": scans.cum_sum,
    "Div": binary(stablehlo.DivideOp),
    "Dropout": elementwise.dropout,
    "Erf": activations.erf,
    "Exp": unary(stablehlo.ExponentialOp),
    "Floor": unary(stablehlo.FloorOp),
    "Identity": elementwise.identity,
    "Log": unary(stablehlo.LogOp),
    "Max": binary(stablehlo.MaximumOp),
    "Mean": elementwise.mean,
    "Min": binary(stablehlo.MinimumOp),
    "Mod": bits.mod,
    "Mul": binary(stablehlo.MultiplyOp),
    "Neg": unary(stablehlo.NegateOp),
    "Pow": elementwise.power,
    "Reciprocal": elementwise.reciprocal,
    "Round": unary(stablehlo.RoundNearestEvenOp),
    "Sign": unary(stablehlo.SignOp),
    "Sin": unary(stablehlo.SineOp),
    "Sinh": unary(chlo.SinhOp),
    "Sqrt": unary(stablehlo.SqrtOp),
    "Sub": binary(stablehlo.SubtractOp),
    "Sum": binary(stablehlo.AddOp),
    "Tan": unary(stablehlo.TanOp),
    # activation functions
    "Clip": activations.clip,
    "Elu": activations.elu,
    "Gelu": activations.gelu,
    "HardSigmoid": activations.hard_sigmoid,
    "Hardmax": ordering.hardmax,
    "HardSwish": activations.hard_swish,
    "LeakyRelu": activations.leaky_relu,
    "PRelu": activations.prelu,
    "Relu": activations.relu,
    "Sigmoid": unary(stablehlo.LogisticOp),
    "Softplus": activations.softplus,
    "Softsign": activations.softsign,
    "Tanh": unary(stablehlo.TanhOp),
    # pools and reductions
    "AveragePool": pooling.average_pool,
    "GlobalAveragePool": pooling.global_average_pool,
    "GlobalMaxPool": pooling.global_max_pool,
    "MaxPool": pooling.max_pool,
    "ReduceMax": reductions.reduce_max,
    "ReduceMean": reductions.reduce_mean,
    "ReduceMin": reductions.reduce_min,
    "ReduceProd": reductions.reduce_prod,
    "ReduceSum": reductions.reduce_sum,
    # normalization
    "BatchNormalization": normalization.batch_normalization,
    "LayerNormalization": normalization.layer_normalization,
    "LogSoftmax": normalization.log_softmax,
    "Softmax": normalization.softmax,
    # positions
    "ArgMax": ordering.arg_extreme(greatest=True),
    "ArgMin": ordering.arg_extreme(greatest=False),
    "Compress": scattering.compress,
    "Gather": indexing.gather,
    "GatherElements": scattering.gather_elements,
    "GatherND": scattering.gather_nd,
    "OneHot": generated.one_hot,
    "ReverseSequence": scattering.reverse_sequence,
    "Scatter": scattering.scatter_elements,
    "ScatterElements": scattering.scatter_elements,
    "ScatterND": scattering.scatter_nd,
    "TensorScatter": scattering.tensor_scatter,
    "TopK": ordering.top_k,
    # data movement
    "Concat": movement.concat,
    "ConstantOfShape": generated.constant_of_shape,
    "DepthToSpace": movement.depth_to_space,
    "Expand": movement.expand,
    "EyeLike": generated.eye_like,
    "Flatten": movement.flatten,
    "Pad": movement.pad,
    "Range": generated.range_,
    "Reshape": movement.reshape,
    "Resize": resize.resize,
    "Slice": movement.slice_,
    "SpaceToDepth": movement.space_to_depth,
    "Split": movement.split,
    "Squeeze": movement.squeeze,
    "Tile": generated.tile,
    "Transpose": movement.transpose,
    "Trilu": generated.trilu,
    "Unsqueeze": movement.unsqueeze,
    # conditions and bits
    "And": binary(stablehlo.AndOp),
    "BitCast": bits.bit_cast,
    "BitShift": bits.bit_shift,
    "BitwiseAnd": binary(stablehlo.AndOp),
    "BitwiseNot": unary(stablehlo.NotOp),
    "BitwiseOr": binary(stablehlo.OrOp),
    "BitwiseXor": binary(stablehlo.XorOp),
    "Equal": indexing.comparison(stablehlo.ComparisonDirection.EQ),
    "Greater": indexing.comparison(stablehlo.ComparisonDirection.GT),
    "GreaterOrEqual": indexing.comparison(stablehlo.ComparisonDirection.GE),
    "IsInf": bits.is_inf,
    "IsNaN": bits.is_nan,
    "Less": indexing.comparison(stablehlo.ComparisonDirection.LT),
    "LessOrEqual": indexing.comparison(stablehlo.ComparisonDirection.LE),
    "Not": unary(stablehlo.NotOp),
    "Or": binary(stablehlo.OrOp),
    "Where": indexing.where,
    "Xor": binary(stablehlo.XorOp),
    # quantization
    "DequantizeLinear": quantization.dequantize_linear,
    "QuantizeLinear": quantization.quantize_linear,
}
"""By op type of ONNX's default domain."""
