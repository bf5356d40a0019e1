"""The contractions of a small front end before a logarithm keep their operands unrounded, however many they are."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

from networks import Network
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import (
    AddOp,
    ConcatenateOp,
    ConvolutionLayout,
    ConvolutionOp,
    LogOp,
    MultiplyOp,
    SliceOp,
)
from zeropoint.ir.tensors import shape_of, with_shape
from zeropoint.pipeline import Options, quantize
from zeropoint.solve import is_quantized

SAMPLES, TAPS = 1024, 4


def convolved(net: Network, x: SSAValue, weight: np.ndarray, stride: int = 1) -> SSAValue:
    rows = (shape_of(x)[3] - weight.shape[3]) // stride + 1
    made = with_shape(x, [1, len(weight), 1, rows])
    layout = ConvolutionLayout.channels_first(2)
    return net.insert(ConvolutionOp(x, net.constant(weight), made, layout, window_strides=(1, stride)))


def half(net: Network, value: SSAValue, octave: int) -> SSAValue:
    """A low-pass filter, then every second sample."""
    net.layer(f"half{octave}")
    return convolved(net, value, np.full((1, 1, 1, TAPS), 1 / TAPS), 2)


def levels(net: Network, value: SSAValue, features: int) -> Program:
    """The program that returns two convolutions of the logarithm of the squares of a value."""
    value = net.insert(MultiplyOp(value, value))
    net.layer("log")
    value = net.insert(LogOp(net.insert(AddOp(value, net.splat(1e-9, value)))))
    for layer in range(2):
        net.layer(f"network{layer}")
        channels = shape_of(value)[1]
        value = convolved(net, value, net.random.normal(0, 1, (features, channels, 1, 3)) / np.sqrt(3 * channels))
    return net.finish([value])


def octaves(halvings: int, features: int) -> Program:
    """A low-pass filter and every second sample, several times; levels of three bands; two convolutions with them."""
    net = Network([(1, 1, 1, SAMPLES)])
    value = net.values[0]
    for octave in range(halvings):
        value = half(net, value, octave)
    net.layer("bands")
    return levels(net, convolved(net, value, net.random.normal(0, 1, (3, 1, 1, 4))), features)


def joined_octaves(halvings: int, features: int) -> Program:
    """The same with three bands of each octave, joined and multiplied by numbers that grow with the octave."""
    net = Network([(1, 1, 1, SAMPLES)])
    value, bands, frames = net.values[0], list[SSAValue](), SAMPLES // 2**halvings - 8
    for octave in range(halvings):
        value = half(net, value, octave)
        net.layer(f"bands{octave}")
        taps = net.random.normal(0, 1, (3, 1, 1, 4))
        bands.append(convolved(net, value, taps, 2 ** (halvings - 1 - octave)))
        bands[-1] = net.insert(SliceOp(bands[-1], [0, 0, 0, 0], [1, 3, 1, frames], [1] * 4))
    net.layer("joined")
    value = net.insert(ConcatenateOp(bands, 1))
    net.layer("factors")
    factors = np.repeat(8.0 ** np.arange(halvings), 3)
    return levels(net, net.insert(MultiplyOp(value, net.along(factors, value, 1))), features)


def sounds(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """A loud tone that the filters take away, and quiet noise that they keep."""
    random, time = np.random.default_rng(seed), np.arange(SAMPLES)
    tones = [np.sin(time * np.pi / 2 + random.uniform(0, 6)) for _ in range(count)]
    quiet = random.normal(0, 0.02, (count, SAMPLES))
    return [
        {"x0": (tone + rest).astype(np.float32).reshape(1, 1, 1, -1)} for tone, rest in zip(tones, quiet, strict=True)
    ]


def sqnr(program: Program, integers: Program, samples: list[dict[str, np.ndarray]]) -> float:
    expected = np.stack([Interpreter(program)(sample)["y0"].astype(np.float64) for sample in samples])
    found = np.stack([Interpreter(integers)(sample)["y0"] for sample in samples])
    return float(10 * np.log10(expected.var() / np.mean((found - expected) ** 2)))


@pytest.mark.parametrize("halvings", [1, 4])
def test_a_small_front_end_is_not_rounded(halvings: int) -> None:
    program = octaves(halvings, 96)
    made = quantize(program, sounds(8, 1), Options(effort="none"))
    kernels = {op.logical_kernel.data: is_quantized(op) for op in regions_of(made.propagated)}
    convolutions = [is_quantized(op) for op in regions_of(made.propagated) if op.logical_kernel.data == "convolution"]
    assert convolutions == [False] * (halvings + 1) + [True] * 2, kernels
    assert sqnr(program, made.integer, sounds(8, 2)) > 20


def test_filters_that_are_most_of_a_network_are_rounded() -> None:
    made = quantize(octaves(4, 2), sounds(8, 1), Options(effort="none"))
    convolutions = [is_quantized(op) for op in regions_of(made.propagated) if op.logical_kernel.data == "convolution"]
    assert all(convolutions[:4])


def test_the_parts_of_a_join_are_judged_by_their_own_sizes() -> None:
    program = joined_octaves(4, 96)
    made = quantize(program, sounds(8, 1), Options(effort="none"))
    assert sqnr(program, made.integer, sounds(8, 2)) > 30  # 21.8 with the distribution of the whole
