"""The names of logical kernels that rows of a kernel table may have.

A row for an unknown kernel would never be used. So the name must be one that fusion patterns produce or that regions in
a program's own text may have. Otherwise the row must list the composites that it covers.

Source: the RFC on quantization transformations, sections "Target Constraints" (the key) and "Kernel fusion pass".
"""

from __future__ import annotations

CONTRACTIONS = (
    "batch_matmul",
    "convolution",
    "depthwise_convolution",
    "fully_connected",
    "transpose_convolution",
)
FUNCTIONS = (
    "abs",
    "elementwise_unary",
    "elu",
    "exp",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "log",
    "logistic",
    "relu",
    "relu6",
    "relu_0_to_1",
    "relu_n1_to_1",
    "rsqrt",
    "silu",
    "softplus",
    "sqrt",
    "tanh",
)
"""Functions of one value; `elementwise_unary` is any function."""
BINARY = ("add", "compare", "divide", "maximum", "minimum", "multiply", "prelu", "subtract")
REDUCTIONS = ("average_pool", "max_pool", "mean", "reduce_max", "reduce_min", "sum")
POSITIONS = ("arg_max", "arg_min")
NORMALIZATIONS = ("layer_norm", "log_softmax", "rms_norm", "softmax")
RESIZES = ("linear_resize",)
SQUARES = ("squared_difference",)
"""Those whose difference has no type. Only quantized models have such."""
MOVEMENTS = ("broadcast", "concatenate", "gather", "pad", "reshape", "reverse", "select", "slice", "transpose")
PASSES_ELEMENTS = frozenset(
    {
        *MOVEMENTS,
        "depth_to_space",
        "expand_dims",
        "flatten",
        "max_pool",
        "maximum",
        "minimum",
        "mirror_pad",
        "pack",
        "reduce_max",
        "reduce_min",
        "select",
        "space_to_depth",
        "split",
        "squeeze",
        "strided_slice",
        "tile",
        "unpack",
    }
)
"""Kernels whose results are elements of their operands, moved or selected by a monotonic rule."""
FUSED = frozenset(
    {*CONTRACTIONS, *FUNCTIONS, *BINARY, *REDUCTIONS, *POSITIONS, *NORMALIZATIONS, *RESIZES, *SQUARES, *MOVEMENTS}
)
"""Kernels that fusion patterns produce."""
WRITTEN = frozenset(
    {
        "depth_to_space",
        "expand_dims",
        "fill",
        "flatten",
        "l2_normalization",
        "mirror_pad",
        "pack",
        "resize",
        "shape",
        "space_to_depth",
        "split",
        "squeeze",
        "strided_slice",
        "tile",
        "topk",
        "unpack",
    }
)
"""Kernels of runtimes that no pattern produces. Only regions in a program's own text can have them."""

FUNCTION_OF_SUM = "function_of_sum"
"""A sum and a function of it, computed in the convolution before both (`materialize/join_functions.py`)."""
FUNCTION_OF_PRODUCT = "function_of_product"
"""A function of a contraction's floats, computed in the contraction (`materialize/join_product_functions.py`)."""
