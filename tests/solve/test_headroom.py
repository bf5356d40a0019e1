"""An output range that is tiny beside what the kernel can make leaves every profile room to requantize."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from networks import Network, quantized
from zeropoint.interp import Interpreter
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    ConvolutionLayout,
    ConvolutionOp,
    DivideOp,
    DotDimensions,
    DotGeneralOp,
    MultiplyOp,
    SubtractOp,
)
from zeropoint.ir.tensors import with_shape
from zeropoint.lower import integer_program

PROFILES = ("fixed16", "fixed32", "fixed32-double", "tosa-double")
IMAGE = np.random.default_rng(0).uniform(-1, 1, (1, 2, 4, 4)).astype(np.float32)
TINY = 1e-9


def clipped(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(ClampOp(net.constant(np.array(-TINY)), value, net.constant(np.array(TINY))))


def convolution(net: Network, x: SSAValue) -> SSAValue:
    weight = net.constant(np.ones((3, 2, 3, 3)))
    result = with_shape(x, [1, 3, 2, 2])
    return net.insert(ConvolutionOp(x, weight, result, ConvolutionLayout.channels_first(2)))


def product(net: Network, x: SSAValue) -> SSAValue:
    return net.insert(MultiplyOp(x, x))


def sum_of_two(net: Network, x: SSAValue) -> SSAValue:
    return net.insert(AddOp(x, net.constant(np.full((1, 2, 4, 4), 3e4) * np.arange(32).reshape(1, 2, 4, 4))))


def mean(net: Network, x: SSAValue) -> SSAValue:
    total = net.reduced(x, [2, 3])
    return net.insert(DivideOp(total, net.splat(16.0, total)))


def matmul(net: Network, x: SSAValue) -> SSAValue:
    return net.insert(DotGeneralOp(x, x, with_shape(x, [1, 2, 4, 4]), DotDimensions((0, 1), (0, 1), (3,), (3,))))


@pytest.mark.parametrize("kernel", [convolution, product, sum_of_two, mean, matmul])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_result_clipped_to_almost_nothing_is_computed_under_every_profile(
    kernel: Callable[[Network, SSAValue], SSAValue], profile: str
) -> None:
    net = Network([IMAGE.shape])
    program = net.finish([clipped(net, kernel(net, net.values[0]))])
    reference = quantized(program, [{"x0": IMAGE}], profile)
    integers = integer_program(reference)
    for factor in (1, 1000):
        sample = {"x0": IMAGE * np.float32(factor)}
        np.testing.assert_array_equal(Interpreter(reference)(sample)["y0"], Interpreter(integers)(sample)["y0"])


def test_operands_that_cancel_leave_a_sum_with_a_scale_it_can_compute() -> None:
    large = np.linspace(-1e9, 1e9, 6, dtype=np.float32).reshape(1, 6)
    net = Network([(1, 6), (1, 6)])
    program = net.finish([net.insert(AddOp(*net.values))])
    for profile in PROFILES:
        result = Interpreter(integer_program(quantized(program, [{"x0": large, "x1": -large}], profile)))
        assert not result({"x0": large, "x1": -large})["y0"].any()


def test_an_ordinary_range_is_the_observed_one() -> None:
    net = Network([(1, 6)])
    program = net.finish([net.insert(SubtractOp(net.values[0], net.constant(np.full((1, 6), 0.5))))])
    found = quantized(program, [{"x0": np.linspace(0, 1, 6, dtype=np.float32).reshape(1, 6)}], stage="propagated")
    (region,) = [op for op in found.entry.ops if isinstance(op, QuantizeRegionOp)]
    assert region.output_specs.data[0].scale == pytest.approx(1 / 255)
