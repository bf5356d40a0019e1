"""The table of all LiteRT operators that can be imported, with their converters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from zeropoint.frontend.litert import computed_parts, contractions, elementwise, loops, movement, spectra, windows
from zeropoint.frontend.litert.elementwise import CallConverter, clipped, paired, reduction, same
from zeropoint.ir.stablehlo import Atan2Op, ShiftRightArithmeticOp, XorOp

CONVERTERS: Mapping[str, CallConverter] = {
    # contractions
    "BATCH_MATMUL": contractions.batch_matmul,
    "CONV_2D": contractions.conv_2d,
    "Convolution2DTransposeBias": contractions.transpose_conv_bias,
    "DEPTHWISE_CONV_2D": contractions.depthwise_conv_2d,
    "FULLY_CONNECTED": contractions.fully_connected,
    "TRANSPOSE_CONV": contractions.transpose_conv,
    # arithmetic
    "ABS": same("Abs"),
    "ADD": same("Add"),
    "ADD_N": same("Sum"),
    "ATAN2": paired(Atan2Op),
    "BITWISE_XOR": paired(XorOp),
    "CEIL": same("Ceil"),
    "COS": same("Cos"),
    "CUMSUM": elementwise.cumsum,
    "DIV": same("Div"),
    "EXP": same("Exp"),
    "FLOOR": same("Floor"),
    "FLOOR_DIV": elementwise.floor_div,
    "FLOOR_MOD": elementwise.floor_mod,
    "LOG": same("Log"),
    "MAXIMUM": same("Max"),
    "MINIMUM": same("Min"),
    "MUL": same("Mul"),
    "NEG": same("Neg"),
    "POW": same("Pow"),
    "RIGHT_SHIFT": paired(ShiftRightArithmeticOp),
    "ROUND": same("Round"),
    "RSQRT": elementwise.RSQRT,
    "SIGN": same("Sign"),
    "SIN": same("Sin"),
    "SQRT": same("Sqrt"),
    "SQUARE": elementwise.squared,
    "SQUARED_DIFFERENCE": elementwise.squared_difference,
    "SUB": same("Sub"),
    # functions
    "ELU": same("Elu"),
    "GELU": elementwise.gelu,
    "HARD_SWISH": same("HardSwish"),
    "IF": elementwise.chosen,
    "L2_NORMALIZATION": elementwise.l2_normalization,
    "LEAKY_RELU": elementwise.leaky_relu,
    "LOGISTIC": same("Sigmoid"),
    "LOG_SOFTMAX": same("LogSoftmax", axis=-1),
    "PRELU": elementwise.prelu,
    "RELU": clipped(0.0, np.inf),
    "RELU6": clipped(0.0, 6.0),
    "RELU_0_TO_1": clipped(0.0, 1.0),
    "RELU_N1_TO_1": clipped(-1.0, 1.0),
    "SOFTMAX": elementwise.softmax,
    "TANH": same("Tanh"),
    # complex numbers
    "COMPLEX_ABS": spectra.magnitude,
    "IMAG": spectra.imaginary,
    "REAL": spectra.real,
    "RFFT2D": spectra.rfft2d,
    # pools and reductions
    "AVERAGE_POOL_2D": windows.average_pool,
    "MAX_POOL_2D": windows.max_pool,
    "MEAN": reduction("ReduceMean"),
    "REDUCE_MAX": reduction("ReduceMax"),
    "REDUCE_MIN": reduction("ReduceMin"),
    "REDUCE_PROD": reduction("ReduceProd"),
    "SUM": reduction("ReduceSum"),
    # positions
    "ARG_MAX": elementwise.arg_extreme("ArgMax"),
    "ARG_MIN": elementwise.arg_extreme("ArgMin"),
    "EMBEDDING_LOOKUP": elementwise.embedding_lookup,
    "GATHER": elementwise.gather,
    "GATHER_ND": elementwise.gather_nd,
    "TOPK_V2": elementwise.top_k,
    # data movement
    "BROADCAST_TO": movement.broadcast_to,
    "CONCATENATION": movement.concatenation,
    "DEPTH_TO_SPACE": movement.depth_to_space,
    "DYNAMIC_UPDATE_SLICE": computed_parts.updated,
    "EXPAND_DIMS": movement.expand_dims,
    "FILL": movement.fill,
    "MIRROR_PAD": movement.mirror_pad,
    "PACK": movement.pack,
    "PAD": movement.pad,
    "PADV2": movement.pad,
    "RANGE": movement.counted,
    "RANK": movement.rank,
    "RESHAPE": movement.reshape,
    "RESIZE_BILINEAR": movement.resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": movement.resize("nearest"),
    "REVERSE_V2": movement.reverse,
    "SHAPE": movement.shape,
    "SLICE": movement.slice_,
    "SPACE_TO_DEPTH": movement.space_to_depth,
    "SPLIT": movement.split,
    "SPLIT_V": movement.split_v,
    "SQUEEZE": movement.squeeze,
    "STRIDED_SLICE": movement.strided_slice,
    "TILE": movement.tile,
    "TRANSPOSE": movement.transpose,
    "UNPACK": movement.unpack,
    "ZEROS_LIKE": movement.zeros_like,
    # conditions and loops
    "EQUAL": same("Equal"),
    "GREATER": same("Greater"),
    "GREATER_EQUAL": same("GreaterOrEqual"),
    "LESS": same("Less"),
    "LESS_EQUAL": same("LessOrEqual"),
    "LOGICAL_AND": same("And"),
    "LOGICAL_NOT": same("Not"),
    "LOGICAL_OR": same("Or"),
    "NOT_EQUAL": elementwise.not_equal,
    "SELECT": elementwise.select,
    "SELECT_V2": elementwise.select,
    "WHILE": loops.while_,
    # types
    "CAST": elementwise.cast,
    "DENSIFY": elementwise.identity,
    "DEQUANTIZE": elementwise.identity,
    "QUANTIZE": elementwise.identity,
}
"""The converters by the operator's name in the schema."""

MOST = 1 << 20
"""More operands than an operator has."""
OPERANDS: Mapping[str, tuple[str, range]] = {
    name: (text, counts)
    for text, counts, names in (
        ("1", range(1, 2), "ABS CEIL COS EXP FLOOR HARD_SWISH LOG LOGICAL_NOT LOGISTIC LOG_SOFTMAX NEG ROUND SIGN SIN"),
        ("1", range(1, 2), "SQRT TANH"),
        ("1 or more", range(1, MOST), "ADD_N CONCATENATION PACK WHILE"),
        ("2", range(2, 3), "ADD ATAN2 BITWISE_XOR DIV EQUAL FLOOR_DIV FLOOR_MOD GREATER GREATER_EQUAL LESS LESS_EQUAL"),
        ("2", range(2, 3), "LOGICAL_AND LOGICAL_OR MAXIMUM MINIMUM MUL NOT_EQUAL POW RIGHT_SHIFT"),
        ("2", range(2, 3), "SQUARED_DIFFERENCE SUB"),
        ("3", range(3, 4), "IF SELECT SELECT_V2"),
    )
    for name in names.split()
}
"""How many operands an operator has, if its converter takes all of them: as text, and the numbers."""
