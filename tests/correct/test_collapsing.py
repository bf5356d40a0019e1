"""Networks that 8 bits everywhere would ruin: the defaults keep 20 dB and say what stays float, or warn."""

from __future__ import annotations

import numpy as np

from networks import Network
from zeropoint.bit_widths import least_output_sqnr
from zeropoint.interp import ReferenceEngine
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    ConcatenateOp,
    ConvolutionLayout,
    ConvolutionOp,
    LogisticOp,
    LogOp,
    MaximumOp,
    MultiplyOp,
)
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.report.counts import float_ops

LAYOUT = ConvolutionLayout.channels_first(2)
ENGINE = ReferenceEngine()
SAMPLES, WINDOW, FREQUENCIES = 512, 64, 16


def log_mel() -> Program:
    """A waveform to the logarithm of 8 bands, which span five decades, and two convolutions behind."""
    net = Network([(1, 1, 1, SAMPLES)], seed=0)
    angles = 2 * np.pi * np.outer(np.arange(1, FREQUENCIES + 1), np.arange(WINDOW)) / WINDOW
    filters = np.concatenate([np.cos(angles), np.sin(angles)]) * np.hanning(WINDOW) / WINDOW**0.5
    frames = (SAMPLES - WINDOW) // 32 + 1
    net.layer("dft")
    shape = with_shape(net.values[0], [1, 2 * FREQUENCIES, 1, frames])
    weight = net.constant(filters.reshape(-1, 1, 1, WINDOW))
    value = net.insert(ConvolutionOp(net.values[0], weight, shape, LAYOUT, window_strides=[1, 32]))
    net.layer("square")
    value = net.insert(MultiplyOp(value, value))
    net.layer("mel")
    bands = np.abs(net.random.normal(0, 1, (8, FREQUENCIES))) * (net.random.random((8, FREQUENCIES)) < 0.3) + 0.02
    weight = net.constant(np.tile(bands, 2).reshape(8, -1, 1, 1))
    value = net.insert(ConvolutionOp(value, weight, with_shape(value, [1, 8, 1, frames]), LAYOUT))
    net.layer("log")
    value = net.insert(LogOp(net.insert(AddOp(value, net.constant(np.full(shape_of(value), 1e-5))))))
    for name, channels in (("conv", 8), ("out", 4)):
        net.layer(name)
        weight = net.constant(net.random.normal(0, 0.3, (channels, 8, 1, 1)))
        value = net.insert(ConvolutionOp(value, weight, with_shape(value, [1, channels, 1, frames]), LAYOUT))
        if name == "conv":
            value = net.insert(MaximumOp(value, net.constant(np.zeros(shape_of(value)))))
    net.values.append(value)
    return net.finish([value])


def tones(count: int, seed: int) -> list[dict[str, Array]]:
    """Three decaying tones a sample, of 0 to -50 dB."""
    random, time = np.random.default_rng(seed), np.arange(SAMPLES)
    made: list[dict[str, Array]] = []
    for _ in range(count):
        parts = [
            10 ** random.uniform(-2.5, 0) * np.sin(2 * np.pi * frequency * time / WINDOW + random.uniform(0, 6))
            for frequency in random.uniform(1, 16, 3)
        ]
        wave = sum(parts) * np.exp(-np.linspace(0, random.uniform(0, 4), SAMPLES))
        made.append({"x0": np.asarray(wave, np.float32).reshape(1, 1, 1, SAMPLES)})
    return made


def detector() -> Program:
    """Boxes of up to some hundreds and scores of 0 to 1, in one output."""
    net = Network([(1, 3, 8, 8)], seed=1)
    net.layer("trunk")
    weight = net.constant(net.random.normal(0, 0.4, (8, 3, 1, 1)))
    value = net.insert(ConvolutionOp(net.values[0], weight, with_shape(net.values[0], [1, 8, 8, 8]), LAYOUT))
    value = net.insert(MaximumOp(value, net.constant(np.zeros((1, 8, 8, 8)))))
    heads = []
    for name, channels, size in (("boxes", 4, 100.0), ("scores", 3, 0.5)):
        net.layer(name)
        weight = net.constant(net.random.normal(0, size, (channels, 8, 1, 1)))
        heads.append(net.insert(ConvolutionOp(value, weight, with_shape(value, [1, channels, 8, 8]), LAYOUT)))
    heads[1] = net.insert(LogisticOp(heads[1]))
    net.layer("join")
    joined = net.insert(ConcatenateOp(heads, 1, with_shape(value, [1, 7, 8, 8])))
    net.values.append(joined)
    return net.finish([joined])


def images(count: int, seed: int) -> list[dict[str, Array]]:
    random = np.random.default_rng(seed)
    return [{"x0": random.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


def test_logarithms_of_values_of_many_decades_stay_float_with_the_reason() -> None:
    program = log_mel()
    made = quantize(program, tones(12, 1), Options(effort="balanced"), engine=ENGINE)
    pairs = [_pair(program, made, sample) for sample in tones(6, 9)]
    assert least_output_sqnr(pairs) > 30
    reasons = [reason for _, reason in float_ops(made.integer)]
    assert reasons
    assert all("i8 is too coarse for the operand of log 'log1'" in reason for reason in reasons)
    assert not made.corrections.warnings()


def test_boxes_and_scores_in_one_output_both_keep_their_precision() -> None:
    program = detector()
    made = quantize(program, images(12, 1), Options(effort="balanced"), engine=ENGINE)
    pairs = [_pair(program, made, sample) for sample in images(6, 9)]
    for part in (slice(0, 4), slice(4, 7)):
        cut = [tuple({name: array[:, part] for name, array in one.items()} for one in pair) for pair in pairs]
        assert least_output_sqnr(cut) > 25


def test_outputs_far_from_float_are_a_warning_that_says_what_to_do() -> None:
    net = Network([(1, 4, 6, 6)], seed=2)
    value = net.values[0]
    for number in range(3):  # channels cancel: what is left is as small as their rounding
        net.layer("conv")
        weight = net.random.normal(0, 1, (4, 4, 1, 1))
        weight[1] = -weight[0] * (1 + 1e-3)
        if number:
            weight[:, 1] = weight[:, 0]
            weight[:, 2:] *= 1e-3
        value = net.insert(ConvolutionOp(value, net.constant(weight), value.type, LAYOUT))
    net.values.append(value)
    data = [{"x0": sample["x0"].repeat(2, axis=1)[:, :4, :6, :6]} for sample in images(8, 4)]
    made = quantize(net.finish([value]), data, Options(effort="fast"), engine=ENGINE)
    assert made.corrections.after is not None
    assert made.corrections.after.held < 20
    (warning,) = [line for line in made.warnings if "at the worst output" in line]
    assert "expected 20 dB or more" in warning
    assert "--budget quality=20" in warning


def _pair(program: Program, made: Quantization, sample: dict[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    return ENGINE.prepare(program)(sample), ENGINE.prepare(made.integer)(sample)
