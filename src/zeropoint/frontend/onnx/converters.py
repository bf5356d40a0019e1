"""The ONNX ops that can be imported, and what converts each: the one list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from zeropoint.frontend.onnx import (
    activations,
    convolution,
    elementwise,
    indexing,
    movement,
    normalization,
    pooling,
    products,
    quantization,
    reductions,
    resize,
    transposed,
)
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import binary, unary
from zeropoint.frontend.onnx.node import Node
from zeropoint.ir import stablehlo

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
    "Add": binary(stablehlo.AddOp),
    "Cast": elementwise.cast,
    "CastLike": elementwise.cast_like,
    "Ceil": unary(stablehlo.CeilOp),
    "Cos": unary(stablehlo.CosineOp),
    "Div": binary(stablehlo.DivideOp),
    "Dropout": elementwise.dropout,
    "Erf": activations.erf,
    "Exp": unary(stablehlo.ExponentialOp),
    "Floor": unary(stablehlo.FloorOp),
    "Identity": elementwise.identity,
    "Log": unary(stablehlo.LogOp),
    "Max": binary(stablehlo.MaximumOp),
    "Min": binary(stablehlo.MinimumOp),
    "Mul": binary(stablehlo.MultiplyOp),
    "Neg": unary(stablehlo.NegateOp),
    "Pow": elementwise.power,
    "Reciprocal": elementwise.reciprocal,
    "Sign": unary(stablehlo.SignOp),
    "Sin": unary(stablehlo.SineOp),
    "Sqrt": unary(stablehlo.SqrtOp),
    "Sub": binary(stablehlo.SubtractOp),
    "Sum": binary(stablehlo.AddOp),
    # activation functions
    "Clip": activations.clip,
    "Elu": activations.elu,
    "Gelu": activations.gelu,
    "HardSigmoid": activations.hard_sigmoid,
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
    "ReduceSum": reductions.reduce_sum,
    # normalization
    "BatchNormalization": normalization.batch_normalization,
    "LayerNormalization": normalization.layer_normalization,
    "LogSoftmax": normalization.log_softmax,
    "Softmax": normalization.softmax,
    # data movement
    "Concat": movement.concat,
    "DepthToSpace": movement.depth_to_space,
    "Expand": movement.expand,
    "Flatten": movement.flatten,
    "Gather": indexing.gather,
    "Pad": movement.pad,
    "Reshape": movement.reshape,
    "Resize": resize.resize,
    "Slice": movement.slice_,
    "SpaceToDepth": movement.space_to_depth,
    "Split": movement.split,
    "Squeeze": movement.squeeze,
    "Transpose": movement.transpose,
    "Unsqueeze": movement.unsqueeze,
    # conditions
    "And": binary(stablehlo.AndOp),
    "Equal": indexing.comparison(stablehlo.ComparisonDirection.EQ),
    "Greater": indexing.comparison(stablehlo.ComparisonDirection.GT),
    "GreaterOrEqual": indexing.comparison(stablehlo.ComparisonDirection.GE),
    "Less": indexing.comparison(stablehlo.ComparisonDirection.LT),
    "LessOrEqual": indexing.comparison(stablehlo.ComparisonDirection.LE),
    "Not": unary(stablehlo.NotOp),
    "Or": binary(stablehlo.OrOp),
    "Where": indexing.where,
    # quantization
    "DequantizeLinear": quantization.dequantize_linear,
    "QuantizeLinear": quantization.quantize_linear,
}
"""By op type of ONNX's default domain."""
