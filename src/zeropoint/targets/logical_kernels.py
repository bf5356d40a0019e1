"""The names of logical kernels: what a row of a kernel table can be of.

A row whose kernel nothing makes would never be looked up. So a name is one that fusion's patterns make, or one that
only a program's own regions have, or the row says which composites it covers.

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
"""Functions of one value; `elementwise_unary` is any of them."""
BINARY = ("add", "divide", "maximum", "minimum", "multiply", "subtract")
REDUCTIONS = ("average_pool", "max_pool", "mean", "reduce_max", "reduce_min", "sum")
NORMALIZATIONS = ("layer_norm", "log_softmax", "softmax")
MOVEMENTS = ("broadcast", "concatenate", "gather", "pad", "reshape", "reverse", "slice", "transpose")
FUSED = frozenset({*CONTRACTIONS, *FUNCTIONS, *BINARY, *REDUCTIONS, *NORMALIZATIONS, *MOVEMENTS})
"""What the patterns of fusion make."""
WRITTEN = frozenset(
    {
        "arg_max",
        "arg_min",
        "compare",
        "depth_to_space",
        "expand_dims",
        "fill",
        "flatten",
        "l2_normalization",
        "mirror_pad",
        "pack",
        "prelu",
        "resize",
        "select",
        "shape",
        "space_to_depth",
        "split",
        "squared_difference",
        "squeeze",
        "strided_slice",
        "tile",
        "topk",
        "unpack",
    }
)
"""Kernels of runtimes that no pattern makes: a region in the program's own text may be one."""
