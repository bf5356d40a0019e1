"""An output range that is tiny beside what the kernel can make leaves every profile room to requantize."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import ReturnOp as FuncReturn
from xdsl.ir import Block, Region, SSAValue

from networks import Network, quantized
from zeropoint.interp import Interpreter
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
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
from zeropoint.solve.classes import holds
from zeropoint.solve.value_ranges.headroom import HeadroomPorts, greatest_result

PROFILES = ("fixed16", "fixed32", "fixed32-double", "tosa-double")
IMAGE = np.random.default_rng(0).uniform(-1, 1, (1, 2, 4, 4)).astype(np.float32)
TINY = 1e-9
I8 = Storage.of("i8")


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
        inner = large * np.float32(0.9)  # the ends are ties, which profiles round differently
        assert not result({"x0": inner, "x1": -inner})["y0"].any()


def test_an_ordinary_range_is_the_observed_one() -> None:
    net = Network([(1, 6)])
    program = net.finish([net.insert(SubtractOp(net.values[0], net.constant(np.full((1, 6), 0.5))))])
    found = quantized(program, [{"x0": np.linspace(0, 1, 6, dtype=np.float32).reshape(1, 6)}], stage="propagated")
    (region,) = [op for op in found.entry.ops if isinstance(op, QuantizeRegionOp)]
    assert region.output_specs.data[0].scale == pytest.approx(1 / 255)


@pytest.mark.parametrize(
    ("op", "number", "factor"),
    [
        (DivideOp, 16.0, 1 / 16),
        (DivideOp, -16.0, 1 / 16),
        (DivideOp, 0.0, 1.0),
        (MultiplyOp, 0.25, 0.25),
        (MultiplyOp, 0.0, 0.0),
        (MultiplyOp, -2.0, 2.0),
    ],
)
def test_a_mean_is_bounded_by_the_magnitude_of_the_number_that_it_is_multiplied_or_divided_by(
    op: type[DivideOp | MultiplyOp], number: float, factor: float
) -> None:
    net = Network([(1, 2, 4, 4)])
    total = net.reduced(net.values[0], [2, 3])
    program = net.finish([net.insert(op(total, net.splat(number, total)))])
    body = Region(Block(arg_types=[net.values[0].type]))
    region = QuantizeRegionOp(net.values[:1], [total.type], "mean", [f32], [f32], body)
    for inner in [o for o in program.entry.ops if not isinstance(o, FuncReturn)]:
        inner.detach()
        body.block.add_op(inner)
    assert greatest_result(HeadroomPorts(region, (3.0,), (None,), program.weights)) == 16 * 3.0 * factor


@given(st.integers(-128, 127), st.floats(0.01, 1), st.floats(-400, 400), st.floats(-400, 400).map(abs))
def test_a_type_holds_a_range_as_its_mirror_image_holds_the_mirrored_one(
    point: int, scale: float, low: float, width: float
) -> None:
    kind, mirrored = (UniformQuantizedType.per_layer(I8, scale, z) for z in (point, -1 - point))
    assert holds(kind, low, low + width) == holds(mirrored, -(low + width), -low)


def test_types_of_functions_hold_what_the_functions_reach() -> None:
    assert holds(UniformQuantizedType.per_layer(I8, 1 / 256, -128), 0.0, 1.0)
    assert holds(UniformQuantizedType.per_layer(I8, 1 / 256, 127), -1.0, 0.0)
    assert not holds(UniformQuantizedType.per_layer(I8, 1 / 256, 127), -1.01, 0.0)
