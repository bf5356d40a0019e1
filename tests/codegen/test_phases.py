"""Transposed convolutions and taps that are apart: ordinary kernels of parts of the output, nothing multiplied by 0."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, i32

from codegen import contractions
from codegen.exactness import HERE, assert_native_is_exact
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.depthwise import Depthwise
from zeropoint.codegen.kernels.depthwise_floats import FloatDepthwise
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.patterns.phases import Phase, phases_of
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp, PadOp


def image(
    kernel: int,
    factor: int,
    *,
    dilation: int = 1,
    groups: int = 1,
    channels: int = 20,
    size: int = 9,
    floats: bool = False,
    padded: bool = False,
) -> contractions.Case:
    """A convolution that keeps `factor` times the size, with what a quantized one is followed by."""
    reach = (kernel - 1) * dilation + 1
    low = (reach - 1) // 2
    high = reach - 1 - low + factor - 1
    shape, result = (1, channels, size, size), (1, channels, size * factor, size * factor)
    net = contractions.Builder([shape], 3, *([f32] if floats else []))
    weights = net.random.integers(-128, 128, (channels, channels // groups, kernel, kernel)).astype(np.int8)
    value = net.values[0]
    if padded:
        number = net.constant(np.array(-5, np.int8))
        value = net.insert(PadOp(value, number, [0, 0, low, low], [0, 0, high, high], [0, 0, factor - 1, factor - 1]))
    convolution = ConvolutionOp(
        value,
        net.constant(weights.astype(np.float32) / 64 if floats else weights),
        TensorType(f32 if floats else i32, result),
        ConvolutionLayout.channels_first(2),
        padding=None if padded else [(low, high)] * 2,
        lhs_dilation=None if padded else [factor] * 2,
        rhs_dilation=[dilation] * 2,
        feature_group_count=groups,
    )
    y = net.insert(convolution)
    if not floats:
        output = contractions.Output("fixed16", True, (-12.0, -9.0), 3, (-128, 127), 1000)
        y = net.requantized(y, output, 1)
        return contractions.Case(net.finish(y), contractions.samples_of(net, [shape]))
    return contractions.Case(net.finish(y), [{"x0": net.random.normal(size=shape).astype(np.float32)}])


def kernels(program: Program) -> list[type]:
    return [type(step.kernel) for step in steps_of(program, HERE[0]).steps if step.operations]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("kernel", "factor"), [(4, 2), (3, 2), (2, 2), (2, 3), (5, 3)])
def test_a_transposed_convolution_multiplies_no_zeros(kernel: int, factor: int, padded: bool) -> None:
    case = image(kernel, factor, padded=padded)
    steps = steps_of(case.program, HERE[0]).steps
    assert {type(step.kernel) for step in steps if step.operations} == {Contraction}
    # Every tap meets every element of the input once but at the borders; phases without taps have one of zeros.
    taps = max(kernel, factor) ** 2
    assert sum(step.operations for step in steps) <= 2 * 81 * taps * 20 * 20
    assert_native_is_exact(case.program, case.samples, HERE[0], threads=(1, 2))


@pytest.mark.parametrize(("factor", "dilation", "count"), [(1, 2, 4), (1, 3, 9), (2, 1, 4), (2, 2, 4), (3, 2, 36)])
def test_depthwise_convolutions_stay_depthwise(factor: int, dilation: int, count: int) -> None:
    for floats, kernel in ((False, Depthwise), (True, FloatDepthwise)):
        case = image(3, factor, dilation=dilation, groups=20, floats=floats)
        assert kernels(case.program) == [kernel] * count
        assert_native_is_exact(case.program, case.samples, HERE[0], threads=(1, 3))


@pytest.mark.parametrize("groups", [1, 4])
def test_transposed_convolutions_of_floats(groups: int) -> None:
    case = image(4, 2, groups=groups, floats=True)
    assert kernels(case.program) == [Contraction] * 4
    assert_native_is_exact(case.program, case.samples, HERE[0], threads=(1, 3))


def reads(phase: Phase) -> dict[int, list[tuple[int, int]]]:
    """By output, the elements that it reads and the places of their taps."""
    return {
        phase.start + q * phase.period: [
            (phase.origin + q * phase.step + j * phase.pitch, tap) for j, tap in enumerate(phase.kernel)
        ]
        for q in range(phase.count)
    }


def test_phases_read_what_the_definition_says() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        count, stride, factor, taps, dilation = (int(n) for n in random.integers(1, (14, 5, 5, 7, 5)))
        low = int(random.integers(-3, 6))
        expected = {
            o: [
                ((o * stride + k * dilation - low) // factor, k)
                for k in range(taps)
                if (o * stride + k * dilation - low) % factor == 0
            ]
            for o in range(count)
        }
        phases = phases_of(count, stride, factor, taps, dilation, low)
        even = [part for phase in phases for part in phase.even()]
        assert all(part.step % part.pitch == 0 for part in even)
        for found in (phases, even):
            merged: dict[int, list[tuple[int, int]]] = {}
            for phase in found:
                assert not merged.keys() & reads(phase).keys()
                merged |= reads(phase)
            assert merged == expected
