"""A small network with one of each kind of kernel that image networks have, as an integer program."""

from __future__ import annotations

import functools

import numpy as np
from xdsl.ir import SSAValue

from networks import WEIGHTS, Network
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    ConvolutionLayout,
    ConvolutionOp,
    DivideOp,
    DotDimensions,
    DotGeneralOp,
)
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.pipeline import Options, quantize

SHAPE = (1, 3, 13, 11)
CLASSES = 7


def _convolution(
    net: Network, value: SSAValue, features: int, kernel: int, stride: int = 1, groups: int = 1
) -> SSAValue:
    net.layer("conv")
    _, channels, *sizes = shape_of(value)
    weight = WEIGHTS["normal"](net.random, (features, channels // groups, kernel, kernel))
    pad = kernel // 2
    outputs = [(size + 2 * pad - kernel) // stride + 1 for size in sizes]
    result = net.insert(
        ConvolutionOp(
            value,
            net.constant(weight),
            with_shape(value, [1, features, *outputs]),
            ConvolutionLayout.channels_first(2),
            window_strides=[stride, stride],
            padding=[(pad, pad)] * 2,
            feature_group_count=groups,
        )
    )
    return net.insert(AddOp(result, net.along(net.random.normal(0, 0.3, features), result, 1)))


def _relu6(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(ClampOp(net.constant(np.array(0.0)), value, net.constant(np.array(6.0))))


def float_classifier() -> Program:
    """Stem, inverted bottleneck with a residual sum, mean, fully connected: names `image` and `scores`."""
    net = Network([SHAPE], seed=5)
    x = _relu6(net, _convolution(net, net.values[0], 16, 3, stride=2))
    y = _relu6(net, _convolution(net, x, 40, 1))
    y = _relu6(net, _convolution(net, y, 40, 3, groups=40))
    x = net.insert(AddOp(x, _convolution(net, y, 16, 1)))
    net.layer("mean")
    sum_ = net.reduced(x, [2, 3])
    x = net.insert(DivideOp(sum_, net.splat(42.0, sum_)))
    net.layer("dense")
    weight = net.constant(WEIGHTS["normal"](net.random, (CLASSES, 16)))
    x = net.insert(DotGeneralOp(x, weight, with_shape(x, [1, CLASSES]), DotDimensions((), (), (1,), (1,))))
    return net.finish([x])


def image(seed: int, factor: float = 1.0) -> dict[str, Array]:
    """An input of the network."""
    return {"x0": (factor * np.random.default_rng(seed).uniform(-1, 1, SHAPE)).astype(np.float32)}


@functools.cache
def classifier(profile: str | None = None, integer_io: bool = False) -> Program:
    """The integer program."""
    options = Options(profile=profile, integer_io=integer_io)
    return quantize(float_classifier(), [image(n) for n in range(4)], options).integer
