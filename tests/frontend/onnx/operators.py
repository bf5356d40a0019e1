"""ONNX operators in small models: the cases, and what makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from frontend.onnx.models import NEWEST, random


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


@dataclass(frozen=True)
class Case:
    """One node and the opsets in which its form is allowed; an input is its shape, of floats, or an array."""

    name: str
    op_type: str
    inputs: Mapping[str, tuple[int, ...] | np.ndarray]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    opsets: tuple[int, ...] = (11, 17, NEWEST)
    outputs: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)


def case(
    name: str,
    op_type: str,
    inputs: Mapping[str, tuple[int, ...] | np.ndarray],
    constants: Mapping[str, np.ndarray] | None = None,
    opsets: tuple[int, ...] = (11, 17, NEWEST),
    outputs: int = 1,
    **attributes: Any,
) -> Case:
    return Case(name, op_type, inputs, constants or {}, opsets, outputs, attributes)


X1, X3 = {"x": (1, 4, 11)}, {"x": (1, 2, 5, 6, 7)}
X = {"x": (2, 4, 7, 8)}
W = {"w": random(6, 4, 3, 3)}
ONE = (17,)
BN = {"scale": random(4), "bias": random(4, seed=2), "mean": random(4, seed=3), "var": random(4, low=0.1)}
CONVOLUTIONS = [
    case("plain", "Conv", X, W),
    case("bias", "Conv", X, W | {"b": random(6)}),
    case("pads-strides", "Conv", X, W, pads=[1, 0, 2, 1], strides=[2, 1]),
    case("dilation", "Conv", X, W, dilations=[2, 3], pads=[2, 3, 2, 3]),
    case("groups", "Conv", X, {"w": random(6, 2, 3, 3)}, group=2),
    case("depthwise", "Conv", X, {"w": random(8, 1, 3, 3), "b": random(8)}, group=4, pads=[1, 1, 1, 1]),
    *(
        case(f"{mode.lower()}-{stride}", "Conv", X, W, auto_pad=mode, strides=[stride, stride], opsets=ONE)
        for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")
        for stride in (1, 2, 3)
    ),
    case("1d", "Conv", X1, {"w": random(3, 4, 3), "b": random(3)}, pads=[1, 2], strides=[2], opsets=ONE),
    case("3d", "Conv", X3, {"w": random(3, 2, 2, 3, 3)}, pads=[0, 1, 1, 1, 1, 1], strides=[1, 2, 2], opsets=ONE),
    case("computed-kernel", "Conv", X | {"w": (6, 4, 3, 3)}, opsets=ONE),
]
TRANSPOSED = {"w": random(4, 3, 3, 2)}
TRANSPOSED_CONVOLUTIONS = [
    case("plain", "ConvTranspose", X, TRANSPOSED),
    case("bias-strides", "ConvTranspose", X, TRANSPOSED | {"b": random(3)}, strides=[2, 3]),
    case("pads", "ConvTranspose", X, TRANSPOSED, strides=[2, 2], pads=[1, 0, 2, 1]),
    case("more", "ConvTranspose", X, TRANSPOSED, strides=[3, 2], output_padding=[2, 1]),
    case("dilations", "ConvTranspose", X, TRANSPOSED, strides=[2, 1], dilations=[2, 3]),
    case("groups", "ConvTranspose", X, {"w": random(4, 3, 2, 2)}, strides=[2, 2], group=2),
    case("depthwise", "ConvTranspose", X, {"w": random(4, 1, 3, 3)}, strides=[2, 2], group=4),
    case("shape", "ConvTranspose", X, TRANSPOSED, strides=[2, 2], output_shape=[13, 15], opsets=ONE),
    case("upper", "ConvTranspose", X, TRANSPOSED, strides=[2, 2], auto_pad="SAME_UPPER", opsets=ONE),
    case("lower", "ConvTranspose", X, TRANSPOSED, strides=[2, 2], auto_pad="SAME_LOWER", opsets=ONE),
    case("1d", "ConvTranspose", X1, {"w": random(4, 2, 3)}, strides=[2], opsets=ONE),
    case(  # one element more than the kernel reaches: at the end; for SAME_UPPER onnxruntime and the reference differ
        "one-past-same_lower",
        *("ConvTranspose", {"x": (2, 4, 2)}, {"w": random(4, 3, 2)}),
        **{"strides": [3], "output_shape": [6], "auto_pad": "SAME_LOWER"},
        opsets=ONE,
    ),
    case("computed-kernel", "ConvTranspose", X | {"w": (4, 3, 2, 2)}, strides=[2, 2], opsets=ONE),
]
PRODUCTS = [
    case("plain", "Gemm", {"a": (3, 5)}, {"b": random(5, 4)}),
    case("bias", "Gemm", {"a": (3, 5)}, {"b": random(4, 5), "c": random(4)}, transB=1),
    case("scaled", "Gemm", {"a": (5, 3)}, {"b": random(5, 4), "c": random(1, 4)}, transA=1, alpha=0.3, beta=1.7),
    case("computed", "Gemm", {"a": (3, 5), "b": (5, 4), "c": (3, 1)}, alpha=0.3, beta=1.7, opsets=ONE),
    case("scalar-bias", "Gemm", {"a": (3, 5)}, {"b": random(5, 4), "c": scalar(2.5)}, opsets=ONE),
    case("no-beta", "Gemm", {"a": (3, 5)}, {"b": random(5, 4), "c": random(4)}, beta=0.0, opsets=ONE),
    case("matrix", "MatMul", {"a": (3, 5)}, {"b": random(5, 4)}),
    case("stack-by-matrix", "MatMul", {"a": (2, 3, 5)}, {"b": random(5, 4)}),
    case("batched", "MatMul", {"a": (2, 6, 3, 5), "b": (2, 6, 5, 4)}),
    case("batch-broadcast", "MatMul", {"a": (2, 1, 3, 5), "b": (6, 5, 4)}),
    case("matrix-by-stack", "MatMul", {"a": (3, 5), "b": (2, 5, 4)}),
    case("stack-by-constant-stack", "MatMul", {"a": (2, 3, 5)}, {"b": random(2, 5, 4)}),
    case("vectors", "MatMul", {"a": (5,), "b": (5,)}, opsets=ONE),
    case("vector-by-matrix", "MatMul", {"a": (5,), "b": (5, 3)}, opsets=ONE),
    case("vector-by-stack", "MatMul", {"a": (5,), "b": (2, 5, 3)}, opsets=ONE),
    case("stack-by-vector", "MatMul", {"a": (2, 3, 5), "b": (5,)}, opsets=ONE),
]
POSITIVE = ("Log", "Sqrt", "Reciprocal")
UNARY = [
    case("plain", op_type, X)
    for op_type in (
        *("Abs", "Ceil", "Cos", "Dropout", "Exp", "Floor", "Identity", "Neg", "Relu", "Sigmoid", "Sign", "Sin"),
        *("Tanh", "Elu", "LeakyRelu", "HardSigmoid", "Softplus", "Softsign", *POSITIVE),
    )
]
ELEMENTWISE = [
    *(case("same-shape", op, {"a": (2, 3, 4), "b": (2, 3, 4)}) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    *(case("per-channel", op, X, {"b": random(1, 4, 1, 1)}) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    case("scalar", "Add", X, {"b": scalar(0.5)}),
    case("one-element", "Mul", X, {"b": random(1)}),
    case("row", "Add", X, {"b": random(8)}),
    case("both-broadcast", "Mul", {"a": (4, 1, 3), "b": (2, 1)}, opsets=ONE),
    case("middle", "Add", X, {"b": random(1, 4, 1, 8)}, opsets=ONE),
    case("three", "Max", {"a": (2, 3), "b": (3,), "c": (2, 1)}),
    case("three", "Sum", {"a": (2, 3), "b": (3,), "c": (2, 1)}),
    case("one", "Min", {"a": (2, 3)}, opsets=ONE),
    case("square", "Pow", X, {"e": scalar(2.0)}),
    case("integer-exponent", "Pow", X, {"e": np.array(3, np.int64)}, opsets=(12, 17)),
    case("alpha", "LeakyRelu", X, alpha=0.3),
    case("alpha", "Elu", X, alpha=0.3, opsets=ONE),
    case("alpha-beta", "HardSigmoid", X, alpha=0.4, beta=0.3),
    case("plain", "HardSwish", X, opsets=(14, 17, NEWEST)),
    case("alpha", "ThresholdedRelu", X, alpha=0.3, opsets=(10, 17, NEWEST)),
    case("slope", "PRelu", X, {"slope": random(4, 1, 1)}),
    case("both", "Clip", X, {"low": scalar(-0.5), "high": scalar(1.0)}),
    case("low", "Clip", X, {"low": scalar(-0.5)}),
    case("high", "Clip", X, {"": scalar(0), "high": scalar(0.5)}),
    case("none", "Clip", X),
    case("vacuous", "Clip", X, {"low": np.array(np.finfo(np.float32).min), "high": scalar(1.0)}),
    case("computed-bounds", "Clip", X | {"low": (), "high": ()}, opsets=ONE),
    case("plain", "Erf", {"x": np.linspace(-4, 4, 101, dtype=np.float32)}),
    case("plain", "Gelu", X, opsets=(20, NEWEST)),
    case("tanh", "Gelu", X, approximate="tanh", opsets=(20, NEWEST)),
    case("ratio", "Dropout", X, {"ratio": scalar(0.3)}, opsets=(12, 17)),
    case("same", "Cast", X, to=1),
]
POOLS = [
    *(
        case(name, op, X, opsets=opsets, **attributes)
        for op in ("MaxPool", "AveragePool")
        for name, opsets, attributes in (
            ("plain", (11, 17, NEWEST), {"kernel_shape": [2, 3]}),
            ("strides", (11, NEWEST), {"kernel_shape": [2, 3], "strides": [2, 3]}),
            ("pads", (11, NEWEST), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 0], "strides": [2, 2]}),
            ("ceil", (11, NEWEST), {"kernel_shape": [2, 2], "strides": [2, 3], "ceil_mode": 1}),
            ("ceil-pads", ONE, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
            ("upper", ONE, {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
            ("lower", ONE, {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
            ("valid", ONE, {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "VALID"}),
        )
    ),
    case("dilation", "MaxPool", X, kernel_shape=[2, 3], dilations=[2, 3], opsets=ONE),
    case("dilation", "AveragePool", X, kernel_shape=[2, 3], dilations=[3, 2], pads=[1, 1, 1, 1], opsets=(19, NEWEST)),
    case("count", "AveragePool", X, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    case(
        *("count-ceil", "AveragePool", X),
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 0],
        count_include_pad=1,
        ceil_mode=1,
        opsets=(19, NEWEST),
    ),
    case("1d", "MaxPool", X1, kernel_shape=[3], strides=[2], opsets=ONE),
    case("1d", "AveragePool", X1, kernel_shape=[3], strides=[2], pads=[1, 1], opsets=ONE),
    case("3d", "MaxPool", X3, kernel_shape=[2, 2, 2], strides=[1, 2, 2], opsets=ONE),
    case("3d", "AveragePool", X3, kernel_shape=[2, 2, 2], strides=[1, 2, 2], opsets=ONE),
    case("2d", "GlobalAveragePool", X),
    case("1d", "GlobalAveragePool", X1, opsets=ONE),
    case("2d", "GlobalMaxPool", X),
]
REDUCTIONS = [
    *(
        form
        for op, since in (("ReduceMean", 18), ("ReduceMax", 18), ("ReduceMin", 18), ("ReduceSum", 13))
        for form in (
            case("attribute", op, X, axes=[2, 3], opsets=(11, since - 1)),
            case("attribute-dropped", op, X, axes=[-1, 1], keepdims=0, opsets=(11,)),
            case("input", op, X, {"axes": ints(2, -1)}, opsets=(since, NEWEST)),
            case("input-dropped", op, X, {"axes": ints(0)}, keepdims=0, opsets=(since,)),
            case("all", op, X, opsets=(11, NEWEST)),
            case("none", op, X, {"axes": ints()}, noop_with_empty_axes=1, opsets=(since,)),
            case("named-none", op, X, {"axes": ints(1)}, noop_with_empty_axes=1, opsets=(since,)),
        )
    ),
    *(
        form
        for op in ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare")
        for form in (
            case("attribute", op, X, axes=[2, 3], opsets=(11, 17)),
            case("attribute-dropped", op, X, axes=[-1, 1], keepdims=0, opsets=(11,)),
            case("input", op, X, {"axes": ints(2, -1)}, opsets=(18, NEWEST)),
            case("input-dropped", op, X, {"axes": ints(0)}, keepdims=0, opsets=(18,)),
            case("all", op, X, opsets=(11, NEWEST)),
        )
    ),
]
NORMALIZATION = [
    case("plain", "BatchNormalization", X, BN),
    case("epsilon", "BatchNormalization", X, BN, epsilon=0.1),
    case("matrix", "BatchNormalization", {"x": (3, 4)}, BN, opsets=ONE),
    case("computed", "BatchNormalization", X | BN, epsilon=0.1, opsets=ONE),
    *(
        form
        for op in ("Softmax", "LogSoftmax")
        for form in (
            case("default", op, {"x": (2, 3, 4)}),
            case("axis-1", op, {"x": (2, 3, 4)}, axis=1),
            case("axis-0", op, {"x": (2, 3, 4)}, axis=0, opsets=(11, 13)),
            case("axis-last", op, {"x": (2, 3, 4)}, axis=-1, opsets=(11, 13)),
        )
    ),
]
LAYER = {"scale": random(8), "bias": random(8, seed=2)}
NORMALIZATION += [
    case("default", "MeanVarianceNormalization", X),
    case("channels", "MeanVarianceNormalization", X, axes=[1], opsets=ONE),
    case("default", "LayerNormalization", X, LAYER, opsets=(17, NEWEST)),
    case("no-bias", "LayerNormalization", X, {"scale": random(8)}, epsilon=0.1, opsets=ONE),
    case("axis", "LayerNormalization", X, {"scale": random(7, 8), "bias": random(7, 8)}, axis=2, opsets=ONE),
    case("all", "LayerNormalization", {"x": (3, 4)}, {"scale": random(3, 4)}, axis=0, opsets=ONE),
]
NO_REGION = {"": scalar(0)}
RESIZES = [
    *(
        case(
            f"{mode}-{rounding}", "Resize", X, NO_REGION | {"scales": np.array([1, 1, up, across], np.float32)}, **more
        )
        for mode, up, across in (("asymmetric", 2, 3), ("asymmetric", 1.5, 0.6), ("half_pixel", 2.3, 0.5))
        for rounding in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        for more in (
            {
                "mode": "nearest",
                "coordinate_transformation_mode": mode,
                "nearest_mode": rounding,
                "opsets": ONE,
            },
        )
    ),
    case("default", "Resize", X, NO_REGION | {"scales": np.array([1, 1, 2, 2], np.float32)}, opsets=(13, NEWEST)),
    case("default", "Resize", X, NO_REGION | {" ": scalar(0), "sizes": ints(2, 4, 14, 4)}, opsets=ONE),
    *(
        case(f"linear-{mode}", "Resize", X, NO_REGION | {"scales": np.array([1, 1, *factors], np.float32)}, **more)
        for factors in ((2, 3), (1.7, 0.6))
        for mode in ("half_pixel", "pytorch_half_pixel", "asymmetric")
        for more in ({"mode": "linear", "coordinate_transformation_mode": mode, "opsets": ONE},)
    ),
    case(
        *("axes", "Resize", X, NO_REGION | {"scales": np.array([2, 3], np.float32)}),
        mode="linear",
        axes=[3, 2],
        opsets=(18, NEWEST),
    ),
]
FIRST, SECOND = np.array([[True, False, True]]), np.array([[True], [False]])
CONDITIONS = [
    *(case("bits", op, {"a": FIRST, "b": SECOND}) for op in ("And", "Or")),
    case("bits", "Not", {"a": FIRST}),
    *(
        case("floats", op, {"a": np.float32([[1, 2, 3]]), "b": np.float32([[2], [3]])}, opsets=(12, NEWEST))
        for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    ),
    case("integers", "Equal", {"a": ints(1, 2, 3), "b": ints(2)}, opsets=ONE),
    case("broadcast", "Where", {"c": SECOND, "a": (2, 3), "b": (1,)}),
]
SLICES = {
    "end": (ints(1), ints(-1), ints(2), ints(1)),
    "step": (ints(0, 1), ints(7, 100), ints(2, 3), ints(3, 2)),
    "out-of-range": (ints(-100), ints(np.iinfo(np.int64).max), ints(-1), ints(1)),
    "negative-step": (ints(-1), ints(-100), ints(1), ints(-1)),
    "negative-step-2": (ints(5), ints(0), ints(3), ints(-2)),
    "one": (ints(-2), ints(-3), ints(3), ints(-1)),
    "both-ways": (ints(-1, 1, 1), ints(-9, 6, 4), ints(3, 2, 1), ints(-3, 2, 1)),
    "nothing": (ints(5), ints(2), ints(-1), ints(1)),
    "nothing-backwards": (ints(2), ints(5), ints(2), ints(-1)),
    "backwards-from-before-the-first": (ints(-100), ints(np.iinfo(np.int64).min), ints(3), ints(-1)),
    "backwards-to-the-greatest": (ints(3), ints(np.iinfo(np.int64).max), ints(3), ints(-1)),
}
MOVEMENT = [
    *(case(f"axis-{axis}", "Flatten", X, axis=axis) for axis in (0, 1, 3, 4, -2)),
    case("default", "Flatten", X),
    case("plain", "Reshape", X, {"shape": ints(8, 7, 8)}),
    case("rest", "Reshape", X, {"shape": ints(0, -1, 4)}),
    case("allow-zero", "Reshape", X, {"shape": ints(2, -1)}, allowzero=1, opsets=(14,)),
    case("perm", "Transpose", X, perm=[0, 2, 3, 1]),
    case("default", "Transpose", X),
    case("plain", "Concat", {"a": (2, 3, 4), "b": (2, 1, 4)}, {"c": random(2, 2, 4)}, axis=1),
    case("negative-axis", "Concat", {"a": (2, 3, 4), "b": (2, 3, 1)}, axis=-1),
    case("one", "Concat", X, axis=0, opsets=ONE),
    case("plain", "Pad", X, {"pads": ints(0, 1, 2, 3, 1, 0, 2, 1)}),
    case("value", "Pad", X, {"pads": ints(0, 0, 2, 3, 0, 0, 2, 1), "value": scalar(1.5)}),
    case("negative", "Pad", X, {"pads": ints(0, 0, -1, 3, 0, 0, 2, -2)}),
    case("axes", "Pad", X, {"pads": ints(1, 2, 3, 4), "": ints(), "axes": ints(-1, 2)}, opsets=(18, NEWEST)),
    *(
        case(name, "Slice", X, dict(zip(("starts", "ends", "axes", "steps"), rows, strict=True)))
        for name, rows in SLICES.items()
    ),
    case("no-axes", "Slice", X, {"starts": ints(0, 1), "ends": ints(1, 3)}),
    case("attribute", "Squeeze", {"x": (1, 3, 1, 4)}, axes=[-2], opsets=(11, 12)),
    case("input", "Squeeze", {"x": (1, 3, 1, 4)}, {"axes": ints(0)}, opsets=(13, NEWEST)),
    case("all", "Squeeze", {"x": (1, 3, 1, 4)}, opsets=(11, NEWEST)),
    case("attribute", "Unsqueeze", {"x": (3, 4)}, axes=[0, -1], opsets=(11, 12)),
    case("input", "Unsqueeze", {"x": (3, 4)}, {"axes": ints(3, 1)}, opsets=(13, NEWEST)),
    case("even", "Split", X, axis=1, outputs=2, opsets=(11, 17)),
    case("attribute", "Split", X, axis=3, split=[1, 7], outputs=2, opsets=(11, 12)),
    case("input", "Split", X, {"split": ints(3, 1, 3)}, axis=-2, outputs=3, opsets=(13, NEWEST)),
    case("uneven", "Split", X, axis=2, num_outputs=3, outputs=3, opsets=(18, NEWEST)),
    case("plain", "Expand", {"x": (3, 1)}, {"shape": ints(2, 1, 4)}),
    case("scalar", "Gather", X, {"i": np.array(-1, np.int64)}, axis=2),
    case("range", "Gather", X, {"i": ints(1, 3)}, axis=1),
    case("backwards", "Gather", X, {"i": ints(2, 1, 0)}, axis=1),
    case("repeats", "Gather", X, {"i": ints(0, 0, 1, 1, 2, 2, 3, 3)}, axis=1),
    case("any", "Gather", X, {"i": ints(3, -1, 0, 0)}, axis=2),
    case("matrix", "Gather", X, {"i": ints(3, -1, 0, 0).reshape(2, 2)}, axis=1),
    case("computed", "Gather", {"x": (5, 3), "i": ints(4, -1, 0, -5).reshape(2, 2)}),
    case("computed-last", "Gather", {"x": (2, 5), "i": ints(4, -1, 0)}, axis=-1, opsets=ONE),
    case("dcr", "DepthToSpace", {"x": (2, 8, 3, 2)}, blocksize=2),
    case("crd", "DepthToSpace", {"x": (2, 8, 3, 2)}, blocksize=2, mode="CRD"),
    case("plain", "SpaceToDepth", {"x": (2, 2, 4, 6)}, blocksize=2, opsets=(13, NEWEST)),
]
IMAGE = {"x": (2, 3, 5, 6)}
GRID = random(2, 4, 3, 2, low=-1.6, high=1.6)
VOLUME = {"x": (1, 2, 3, 4, 5), "grid": random(1, 2, 3, 2, 3, low=-1.3, high=1.3)}
BOXES = np.array([[0.3, 0.2, 4.1, 3.9], [-1.5, 1.0, 9.0, 7.5], [2.0, 2.0, 2.0, 2.0]], np.float32)
ROIS = IMAGE | {"rois": BOXES, "batch": ints(0, 1, 1)}
SAMPLED = [
    *(
        case(
            f"{mode}-{padding}-{align}",
            "GridSample",
            IMAGE | {"grid": GRID},
            mode=mode,
            padding_mode=padding,
            align_corners=align,
            opsets=(20,),
        )
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for align in (0, 1)
    ),
    *(
        case(
            f"{'-'.join(map(str, size))}-{align}",
            "AffineGrid",
            {"theta": random(size[0], len(size) - 2, len(size) - 1)},
            {"size": ints(*size)},
            align_corners=align,
            opsets=(20,),
        )
        for size in ((1, 3, 6, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5))
        for align in (0, 1)
    ),
    case("opset16", "GridSample", IMAGE | {"grid": GRID}, mode="bilinear", opsets=(16,)),
    case("volume", "GridSample", VOLUME, padding_mode="border", opsets=(20,)),
    *(
        case(
            f"{mode}-{where}",
            "RoiAlign",
            ROIS,
            mode=mode,
            coordinate_transformation_mode=where,
            sampling_ratio=2,
            output_height=2,
            output_width=3,
            spatial_scale=0.75,
            opsets=(16,),
        )
        for mode in ("avg", "max")
        for where in ("half_pixel", "output_half_pixel")
    ),
    case("old", "RoiAlign", ROIS, sampling_ratio=1, opsets=(10,)),
    case(
        "plain",
        "DeformConv",
        {"x": (1, 4, 5, 6), "w": (6, 4, 3, 3), "offset": (1, 18, 3, 6)},
        pads=[0, 1, 0, 1],
        opsets=(19, 22),
    ),
    case(
        "groups",
        "DeformConv",
        {"x": (2, 4, 7, 13), "w": (6, 2, 3, 3), "offset": (2, 36, 3, 7), "b": (6,), "mask": (2, 18, 3, 7)},
        group=2,
        offset_group=2,
        strides=[2, 2],
        pads=[0, 1, 1, 1],
        opsets=(19,),
    ),
]
SIGNALS = [
    case("plain", "Col2Im", {"x": (2, 12, 20)}, {"i": ints(5, 6), "b": ints(2, 2)}, opsets=(18,)),
    case(
        "apart",
        "Col2Im",
        {"x": (1, 18, 6)},
        {"i": ints(7, 8), "b": ints(3, 3)},
        strides=[3, 2],
        dilations=[1, 2],
        pads=[1, 0, 0, 1],
        opsets=(18,),
    ),
    case("real", "DFT", {"x": (2, 9, 1)}, onesided=1, opsets=(17,)),
    case("complex", "DFT", {"x": (3, 8, 2)}, {"n": np.array(6, np.int64), "a": np.array(0, np.int64)}, opsets=(20,)),
    case("inverse", "DFT", {"x": (2, 5, 2)}, {"n": np.array(7, np.int64)}, inverse=1, opsets=(17, 20)),
    case("plain", "STFT", {"x": (2, 33, 1)}, {"s": np.array(5, np.int64), "w": random(8)}, opsets=(17,)),
    case(
        "length",
        "STFT",
        {"x": (1, 40, 1)},
        {"s": np.array(8, np.int64), "w": random(16), "n": np.array(16, np.int64)},
        onesided=0,
        opsets=(17,),
    ),
    case(
        "plain",
        "MelWeightMatrix",
        {},
        {
            "n": np.array(8, np.int64),
            "l": np.array(64, np.int64),
            "r": np.array(16000, np.int64),
            "a": scalar(100),
            "b": scalar(7000),
        },
        opsets=(17,),
    ),
    case(
        "plain",
        "MaxUnpool",
        {"x": (1, 2, 2, 2), "i": ints(5, 7, 13, 15, 16, 18, 26, 29).reshape(1, 2, 2, 2)},
        kernel_shape=[2, 2],
        strides=[2, 2],
        opsets=(11,),
    ),
]
CELL = {"w": random(1, 16, 3), "r": random(1, 16, 4, seed=2), "b": random(1, 32, seed=3)}
WAYS = {"w": random(2, 12, 3), "r": random(2, 12, 4, seed=2)}
RECURRENT = [
    *(
        case(name, "RNN", {"x": (5, 2, 3)}, {"w": random(1, 4, 3), "r": random(1, 4, 4)}, (14,), 2, **attributes)
        for name, attributes in (
            *((f"default-{each}", {"activations": [each]}) for each in ("Elu", "HardSigmoid", "LeakyRelu")),
            *(
                (each, {"activations": [each], "activation_alpha": [0.3], "activation_beta": [0.7]})
                for each in ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "Softsign", "ThresholdedRelu")
            ),
        )
        for attributes in ({"hidden_size": 4} | attributes,)
    ),
    # As Keras wrote LSTMs for years. A function without parameters takes none of the numbers.
    case(
        "hard-sigmoid",
        "LSTM",
        {"x": (5, 2, 3)},
        CELL,
        opsets=(7, 14, 22),
        outputs=3,
        hidden_size=4,
        activations=["HardSigmoid", "Tanh", "ScaledTanh"],
        activation_alpha=[0.25, 1.5],
        activation_beta=[0.4, 0.8],
    ),
    case(
        "both-ways",
        "GRU",
        {"x": (5, 2, 3)},
        WAYS,
        opsets=(14,),
        outputs=2,
        hidden_size=4,
        direction="bidirectional",
        activations=["Sigmoid", "Affine", "LeakyRelu", "Elu"],
        activation_alpha=[0.5, 0.1, 1.2],
        activation_beta=[0.3],
    ),
]
CASES = [
    *SAMPLED,
    *SIGNALS,
    *(CONVOLUTIONS + TRANSPOSED_CONVOLUTIONS + PRODUCTS + UNARY + ELEMENTWISE),
    *RECURRENT,
    *(POOLS + REDUCTIONS + NORMALIZATION + MOVEMENT + RESIZES + CONDITIONS),
]
