"""For each kernel that the tables name, the ONNX op that tests it, or several."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from zeropoint.check_target.models import Case

IMAGE = (2, 3, 12, 11)
ROWS_OF_IMAGE = (12, 11)
ROWS = (90, 7)
NO_ROI, TWICE = np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)

CASES: Mapping[str, tuple[Case, ...]] = {
    "convolution": (
        Case("Conv", (IMAGE,), "QLinearConv", weight=(5, 3, 3, 3), bias=True, scale=0.06),
        Case("Conv", (IMAGE,), "QLinearConv", weight=(20, 3, 3, 3), bias=True, scale=0.06, halves=True),
    ),
    "depthwise_convolution": (
        Case("Conv", (IMAGE,), "QLinearConv", weight=(3, 1, 3, 3), bias=True, attributes={"group": 3}, scale=0.04),
    ),
    "transpose_convolution": (
        Case("ConvTranspose", (IMAGE,), "", weight=(3, 2, 3, 3), channels=1, bias=True, attributes={"strides": [2, 2]}),
    ),
    "fully_connected": (
        Case("Gemm", ((70, 9),), "QGemm", weight=(9, 6), channels=1, bias=True, scale=0.04),
        Case("Gemm", ((70, 9),), "QGemm", weight=(6, 9), bias=True, attributes={"transB": 1}, scale=0.04),
        Case("MatMul", ((70, 9),), "QLinearMatMul", weight=(9, 6), channels=1, scale=0.04),
        Case("Gemm", ((700, 9),), "QGemm", weight=(9, 6), channels=1, bias=True, scale=0.04, halves=True),
    ),
    "batch_matmul": (Case("MatMul", ((3, 8, 9), (3, 9, 10)), "QLinearMatMul"),),
    "multiply": (Case("Mul", (IMAGE, IMAGE), "QLinearMul"),),
    "add": (Case("Add", (IMAGE, IMAGE), "QLinearAdd"),),
    "subtract": (Case("Sub", (IMAGE, IMAGE)),),
    # At this scale LiteRT's kernel runs. Of the two scales used with extreme zero points, it accepts only one.
    "divide": (Case("Div", (IMAGE, ROWS_OF_IMAGE), scale=0.01, nonzero=True),),
    "maximum": (Case("Max", (IMAGE, IMAGE)),),
    "minimum": (Case("Min", (IMAGE, IMAGE)),),
    "logistic": (Case("Sigmoid", (IMAGE,), "QLinearSigmoid", scale=1 / 256),),
    "tanh": (Case("Tanh", (IMAGE,), scale=1 / 128),),
    "gelu": (Case("Gelu", (IMAGE,)),),
    "hard_sigmoid": (Case("HardSigmoid", (IMAGE,), "QLinearAdd", exported=True),),
    "hard_swish": (Case("HardSwish", (IMAGE,)),),
    "elu": (Case("Elu", (IMAGE,)),),
    "abs": (Case("Abs", (IMAGE,)),),
    "exp": (Case("Exp", (IMAGE,)),),
    "log": (Case("Log", (IMAGE,), scale=0.04, positive=True),),
    "sqrt": (Case("Sqrt", (IMAGE,), scale=0.015, positive=True),),
    "rsqrt": (Case("Sqrt Reciprocal", (IMAGE,), scale=0.015, positive=True),),
    "relu": (Case("Relu", (IMAGE,)),),
    "prelu": (Case("PRelu", (IMAGE,), constant=(3, 1, 1)),),
    "leaky_relu": (Case("LeakyRelu", (IMAGE,), "QLinearLeakyRelu", attributes={"alpha": 0.137}),),
    "elementwise_unary": (Case("Exp", (IMAGE,)), Case("Elu", (IMAGE,))),
    "softmax": (Case("Softmax", (ROWS,), "QLinearSoftmax", attributes={"axis": -1}, scale=1 / 256),),
    "log_softmax": (Case("LogSoftmax", (ROWS,), attributes={"axis": -1}),),
    "average_pool": (Case("AveragePool", (IMAGE,), "QLinearAveragePool", attributes={"kernel_shape": [2, 3]}),),
    # onnxruntime has an integer mean over spatial dimensions only; others stay float.
    "mean": (Case("GlobalAveragePool", ((9, 8, 5, 5),), "QLinearGlobalAveragePool", scale=0.02),),
    "sum": (Case("ReduceSum", ((9, 8, 4, 4),), attributes={"keepdims": 0}, others=([2, 3],), scale=0.8),),
    "concatenate": (Case("Concat", (IMAGE, IMAGE), "QLinearConcat", attributes={"axis": 1}),),
    "select": (Case("Where", (IMAGE, IMAGE), "QLinearWhere", condition=True),),
    "reshape": (Case("Reshape", (IMAGE,), others=([6, -1],)),),
    "transpose": (Case("Transpose", (IMAGE,), attributes={"perm": [0, 2, 3, 1]}),),
    "slice": (Case("Slice", (IMAGE,), others=([1, 2], [9, 10], [2, 3])),),
    "pad": (Case("Pad", (IMAGE,), others=([0, 0, 1, 1, 0, 0, 1, 1],)),),
    "squeeze": (Case("Squeeze", ((1, 12, 11),), others=([0],)),),
    "expand_dims": (Case("Unsqueeze", (IMAGE,), others=([1],)),),
    "broadcast": (Case("Expand", ((2, 3, 12, 1),), others=([2, 3, 12, 4],)),),
    "tile": (Case("Tile", (IMAGE,), others=([1, 2, 1, 1],), loaded=False),),
    "flatten": (Case("Flatten", (IMAGE,)),),
    "gather": (Case("Gather", (IMAGE,), others=([2, 0, 0, 1],), attributes={"axis": 1}),),
    # Our importer turns a slice with a negative step into a reverse.
    "reverse": (Case("Slice", (IMAGE,), others=([-1], [-100], [2], [-1])),),
    "arg_max": (Case("ArgMax", (IMAGE,), attributes={"axis": 1}), Case("ArgMax", (IMAGE,), attributes={"axis": 3})),
    "arg_min": (Case("ArgMin", (IMAGE,), attributes={"axis": 2, "keepdims": 0}),),
    "max_pool": (Case("MaxPool", (IMAGE,), attributes={"kernel_shape": [2, 2]}),),
    "reduce_min": (Case("ReduceMin", (IMAGE,), others=([2],)),),
    "reduce_max": (Case("ReduceMax", (IMAGE,), others=([2],)),),
    "depth_to_space": (Case("DepthToSpace", ((2, 8, 6, 5),), attributes={"blocksize": 2}),),
    "resize": (Case("Resize", (IMAGE,), others=(NO_ROI, TWICE), attributes={"mode": "nearest"}),),
    "linear_resize": (
        Case("Resize", (IMAGE,), others=(NO_ROI, [1, 1, 1.5, 2]), attributes={"mode": "linear"}),
        Case(
            "Resize",
            (IMAGE,),
            others=(NO_ROI, TWICE),
            attributes={"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        ),
    ),
    "split": (Case("Split", ((2, 3, 12, 10),), attributes={"axis": 3, "num_outputs": 2}, results=2),),
}
"""The cases by logical kernel."""
WITH_FLOATS: Mapping[str, tuple[Case, ...]] = {
    "fully_connected": (
        Case("Gemm", ((70, 9),), "QGemm", weight=(9, 6), channels=1, bias=True, real=True),
        Case("MatMul", ((70, 9),), "MatMulIntegerToFloat", weight=(9, 6), channels=1, real=True),
    ),
}
"""Cases whose results are floats, for targets with `unrounded_results`."""
