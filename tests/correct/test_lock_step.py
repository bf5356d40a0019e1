"""Biases corrected on the whole integer program are those of the walk over single kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from networks import Network, quantized
from zeropoint.calibrate import silent
from zeropoint.correct import METHODS, Platform, SampleParts, correct, judge_of, some
from zeropoint.correct.contractions import contraction_kernels, with_biases
from zeropoint.correct.lock_step import with_other_biases
from zeropoint.engines import ObservedProgram
from zeropoint.interp import Interpreter, ReferenceEngine, Runnable
from zeropoint.interp.lock_step import InterpretedLockStep
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    Atan2Op,
    ClampOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, element_of, with_shape
from zeropoint.ir.text import print_program
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.materialize.express_accumulators import express_accumulators
from zeropoint.solve import propagate
from zeropoint.solve.name_kernels import name_kernels
from zeropoint.targets import target

PLATFORM = Platform(ReferenceEngine(), lambda runs: ReferenceEngine(), target("cpu"))
CHANNELS = 16


@cache
def propagated(batch: int = 1, *, twice: bool = False) -> Program:
    """A convolution with padding, a depthwise one with a stride, and two of 1 x 1, the last added to what it reads.

    The third result is also an output. With `twice`, the last convolution is there twice.
    """
    net = Network([(batch, 3, 9, 7)], seed=7)
    first = convolution(net, net.values[0], 3, 9, 7)
    second = convolution(net, first, 3, 5, 4, depthwise=True, stride=2)
    third = convolution(net, second, 1, 5, 4)
    last = convolution(net, third, 1, 5, 4, seed=1)
    outputs = [net.insert(AddOp(third, last)), third]
    if twice:
        outputs.append(convolution(net, third, 1, 5, 4, seed=1))
    return quantized(net.finish(outputs), samples(8, batch), stage="propagated")


def convolution(net, value, kernel: int, high: int, wide: int, *, depthwise=False, stride=1, seed: int | None = None):
    net.layer("conv")
    net.values.append(value)
    random = net.random if seed is None else np.random.default_rng(seed)
    batch, features = value.type.get_shape()[:2]
    weight = random.normal(0.1, 0.4, (CHANNELS, 1 if depthwise else features, kernel, kernel))
    weight[:, 0, 0, 0] *= 20.0
    pad = kernel // 2
    op = ConvolutionOp(
        value,
        net.constant(weight),
        with_shape(value, [batch, CHANNELS, high, wide]),
        ConvolutionLayout.channels_first(2),
        window_strides=(stride, stride),
        padding=((pad, pad), (pad, pad)),
        feature_group_count=CHANNELS if depthwise else 1,
    )
    total = net.insert(AddOp(net.insert(op), net.along(random.normal(0, 1, CHANNELS), op.result, 1)))
    return net.insert(ClampOp(net.constant(np.array(0.0)), total, net.constant(np.array(6.0))))


def samples(count: int, batch: int = 1) -> list[dict[str, Array]]:
    random = np.random.default_rng(0)
    return [{"x0": random.uniform(0, 1, (batch, 3, 9, 7)).astype(np.float32)} for _ in range(count)]


def corrected(
    program: Program, uncorrected: Runnable | None, fitted: list[dict[str, Array]] | None = None
) -> tuple[Program, Runnable | None]:
    made = program.clone()
    platform = replace(PLATFORM, uncorrected=None if uncorrected is None else lambda: uncorrected)
    return made, METHODS["empirical_bias"].run(made, fitted or samples(6), platform, silent)


def native(program: Program, threads: int = 1) -> ObservedProgram:
    return ObservedProgram(integer_program(materialize(program)), threads=threads, optimized=False)


def interpreted(program: Program, threads: int = 1) -> Interpreter:
    return Interpreter(integer_program(materialize(program)))


@pytest.mark.parametrize("engine", [native, interpreted])
@pytest.mark.parametrize("kind", ["one thread", "three threads", "two images", "a missing value"])
def test_the_biases_are_those_of_the_walk(kind: str, engine: Callable[[Program, int], Runnable]) -> None:
    batch = 2 if kind == "two images" else 1
    program, fitted = propagated(batch), samples(6, batch)
    if kind == "a missing value":
        fitted[2]["x0"][0, 1, 4, 4] = np.nan
    expected, none = corrected(program, None, fitted)
    found, run = corrected(program, engine(program, 3 if kind == "three threads" else 1), fitted)
    assert none is None
    assert run is not None
    assert print_program(expected) == print_program(found) != print_program(program)


@pytest.mark.parametrize("engine", [native, interpreted])
def test_the_run_it_returns_is_that_of_the_corrected_program(engine: Callable[[Program], Runnable]) -> None:
    program = propagated()
    found, run = corrected(program, engine(program))
    assert run is not None
    exact = Interpreter(integer_program(materialize(found)))
    for sample in samples(8):  # six were fitted
        for name, expected in exact(sample).items():
            np.testing.assert_array_equal(run(sample)[name], expected)


@pytest.mark.parametrize("engine", [native, interpreted])
def test_a_corrected_program_also_runs_with_the_biases_that_it_had(engine: Callable[[Program], Runnable]) -> None:
    program = with_biases(propagated(), PLATFORM.target)
    made = program.clone()
    METHODS["analytic_bias"].run(made, samples(6), PLATFORM, silent)
    own, before = (contraction_kernels(each, PLATFORM.target) for each in (made, program))
    run, exact = with_other_biases(engine(made), own, before), engine(program)
    assert run is not None
    corrected_outputs = engine(made)(samples(1)[0])
    for number, sample in enumerate(samples(3)):
        for name, expected in exact(sample).items():
            np.testing.assert_array_equal(run(sample)[name], expected)
            assert number or not np.array_equal(corrected_outputs[name], expected)


def test_the_shapes_of_all_contractions_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[int] = []
    shapes = InterpretedLockStep.shapes.fget
    assert shapes is not None

    def counted(steps: InterpretedLockStep) -> list[tuple[int, ...]]:
        listed.append(len(steps.names))
        return shapes(steps)

    monkeypatch.setattr(InterpretedLockStep, "shapes", property(counted))
    program = with_biases(propagated(), PLATFORM.target)
    made = program.clone()
    METHODS["analytic_bias"].run(made, samples(6), PLATFORM, silent)
    own, before = (contraction_kernels(each, PLATFORM.target) for each in (made, program))
    assert with_other_biases(interpreted(made), own, before) is not None
    assert listed == [len(own)]


class Counting:
    """An engine that counts the quantized programs which it prepares."""

    def __init__(self) -> None:
        self.prepared = 0

    def prepare(self, program: Program) -> Runnable:
        self.prepared += program.profile is not None
        return ReferenceEngine().prepare(program)


@pytest.mark.parametrize("twice", [False, True])
def test_a_program_is_lowered_once_where_only_biases_are_corrected(*, twice: bool) -> None:
    program, engine = propagated(twice=twice), Counting()
    platform = replace(PLATFORM, programs=engine)
    parts = SampleParts.of(samples(8), [])
    made = correct(program, parts, platform, effort="fast")
    # Kernels that cannot be told apart have no other biases.
    assert engine.prepared == (2 if twice else 1)
    before = judge_of(program, parts, PLATFORM).judged(program).noise()
    held = len(some(parts.held))
    assert made.done.before is not None
    assert (made.done.before.held, made.done.before.calibration) == (before[:held].sqnr, before[held:].sqnr)


@pytest.mark.parametrize("engine", [native, interpreted])
def test_the_uncorrected_program_stays_as_it_is(engine: Callable[[Program], Runnable]) -> None:
    program = propagated()
    run = engine(program)
    before = [run(sample) for sample in samples(2)]
    corrected(program, run)
    for sample, outputs in zip(samples(2), before, strict=True):
        np.testing.assert_array_equal(run(sample)["y0"], outputs["y0"])


@pytest.mark.parametrize("engine", [native, interpreted])
def test_kernels_that_cannot_be_told_apart_are_walked(engine: Callable[[Program], Runnable]) -> None:
    program = propagated(twice=True)
    expected, _ = corrected(program, None)
    found, run = corrected(program, engine(program))
    assert run is None
    assert print_program(expected) == print_program(found)


@pytest.mark.parametrize("engine", [native, interpreted])
def test_steps_in_time_share_weights_and_are_told_apart_by_name(engine: Callable[[Program], Runnable]) -> None:
    random = np.random.default_rng(3)
    net = Network([(2, 16)], seed=7)
    weight, bias = net.constant(random.normal(0.02, 0.3, (16, 16))), np.zeros(16)
    value = net.values[0]
    for _ in range(4):
        net.layer("cell")
        product = net.insert(DotGeneralOp(value, weight, value.type, DotDimensions((), (), (1,), (0,))))
        total = net.insert(AddOp(product, net.along(bias, value, 1)))
        value = net.insert(ClampOp(net.constant(np.array(-1.0)), total, net.constant(np.array(1.0))))
    given = [{"x0": random.uniform(-1, 1, (2, 16)).astype(np.float32)} for _ in range(6)]
    program = propagate(name_kernels(quantized(net.finish([value]), given, stage="calibrated")), target("cpu"), None)
    expected, _ = corrected(program, None, given)
    found, run = corrected(program, engine(program), given)
    assert run is not None
    assert print_program(expected) == print_program(found) != print_program(program)
    exact = Interpreter(integer_program(materialize(found)))
    np.testing.assert_array_equal(run(given[0])["y0"], exact(given[0])["y0"])


@pytest.mark.parametrize("engine", [native, interpreted])
def test_lines_are_corrected_as_images_of_one_row(engine: Callable[[Program], Runnable]) -> None:
    """Native code reads them with one more dimension, so they were walked."""
    random = np.random.default_rng(3)
    net = Network([(1, 8, 20)], seed=7)
    layout = ConvolutionLayout.channels_first(1)
    value = net.values[0]
    for _ in range(2):
        net.layer("conv")
        weight = net.constant(random.normal(0.1, 0.4, (8, 8, 3)))
        product = net.insert(ConvolutionOp(value, weight, value.type, layout, padding=[(1, 1)]))
        total = net.insert(AddOp(product, net.along(random.normal(0, 1, 8), value, 1)))
        value = net.insert(ClampOp(net.constant(np.array(0.0)), total, net.constant(np.array(6.0))))
    given = [{"x0": random.uniform(-1, 1, (1, 8, 20)).astype(np.float32)} for _ in range(6)]
    assert_is_that_of_the_walk(quantized(net.finish([value]), given, stage="propagated"), given, engine)


@pytest.mark.parametrize("engine", [native, interpreted])
def test_products_that_are_dequantized_are_corrected(engine: Callable[[Program], Runnable]) -> None:
    """Only a float op reads the second product, so its accumulators are not rounded to 8 bits."""
    random = np.random.default_rng(3)
    net = Network([(4, 16)], seed=7)
    value = net.values[0]
    for _ in range(2):
        net.layer("product")
        weight = net.constant(random.normal(0.02, 0.3, (16, 16)))
        product = net.insert(DotGeneralOp(value, weight, value.type, DotDimensions((), (), (1,), (0,))))
        value = net.insert(AddOp(product, net.along(random.normal(0, 1, 16), value, 1)))
    value = net.insert(Atan2Op(value, net.values[0]))
    given = [{"x0": random.uniform(-1, 1, (4, 16)).astype(np.float32)} for _ in range(6)]
    program = express_accumulators(quantized(net.finish([value]), given, stage="propagated"), target("cpu"))
    kinds = [element_of(one.type) for op in integer_program(materialize(program)).entry.ops for one in op.results]
    assert any(isinstance(kind, UniformQuantizedType) and kind.storage.type.width == 32 for kind in kinds)
    assert_is_that_of_the_walk(program, given, engine)


@pytest.mark.parametrize("engine", [native, interpreted])
def test_products_of_the_pixels_of_several_images_are_corrected(engine: Callable[[Program], Runnable]) -> None:
    """Native code has one dimension for images and rows, so they were walked."""
    net = Network([(2, 3, 4, 5)], seed=7)
    pixels = convolution(net, net.values[0], 1, 4, 5)
    net.layer("product")
    value = net.insert(TransposeOp(pixels, [0, 2, 3, 1]))
    weight = net.constant(net.random.normal(0.02, 0.3, (CHANNELS, CHANNELS)))
    product = net.insert(DotGeneralOp(value, weight, value.type, DotDimensions((), (), (3,), (0,))))
    value = net.insert(AddOp(product, net.along(net.random.normal(0, 1, CHANNELS), value, 3)))
    given = [{"x0": net.random.uniform(-1, 1, (2, 3, 4, 5)).astype(np.float32)} for _ in range(6)]
    assert_is_that_of_the_walk(quantized(net.finish([value]), given, stage="propagated"), given, engine)


def assert_is_that_of_the_walk(
    program: Program, given: list[dict[str, Array]], engine: Callable[[Program], Runnable]
) -> None:
    """Biases change, and are those of the walk."""
    expected, _ = corrected(program, None, given)
    found, run = corrected(program, engine(program), given)
    assert run is not None
    assert print_program(expected) == print_program(found) != print_program(program)
    exact = Interpreter(integer_program(materialize(found)))
    np.testing.assert_array_equal(run(given[0])["y0"], exact(given[0])["y0"])
