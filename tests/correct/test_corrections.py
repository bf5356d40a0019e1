"""What corrections do to kernels whose rounding is known, and when they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from threadpoolctl import threadpool_limits
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute

from networks import Network, quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.calibrate import Progress, silent
from zeropoint.cli.effort import EFFORTS
from zeropoint.cli.quantization import quantize as quantize_command
from zeropoint.correct import (
    DEFAULT_EFFORT,
    EQUALIZE,
    METHODS,
    PRESETS,
    PRODUCTS,
    Platform,
    SampleParts,
    closed_form,
    correct,
)
from zeropoint.correct.contractions import contraction_kernel, give_biases
from zeropoint.correct.effort import check_methods
from zeropoint.correct.empirical_bias import balanced_bias
from zeropoint.correct.judge import Judge, OutputNoise
from zeropoint.correct.methods import REFINEMENTS, Samples
from zeropoint.correct.rounding import error_aware_rounding
from zeropoint.interp import Interpreter, ReferenceEngine
from zeropoint.ir.annotations import CORRECTIONS, facts_of
from zeropoint.ir.constants import constant_array
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    ConstantOp,
    ConvolutionLayout,
    ConvolutionOp,
)
from zeropoint.ir.tensors import Array, with_shape
from zeropoint.ir.text import ResourceArrays, print_program
from zeropoint.ir.verification import verify
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.report.explain import explain
from zeropoint.targets import target

PLATFORM = Platform(ReferenceEngine(), lambda runs: ReferenceEngine(), target("cpu"))
CHANNELS = 8


@cache
def network() -> Program:
    """Three convolutions with relu6 in between; weights of a mean, so that rounding them moves means."""
    net = Network([(1, 3, 9, 9)], seed=4)
    value, features = net.values[0], 3
    for kernel in (3, 1, 3):
        net.layer("conv")
        weight = net.random.normal(0.1, 0.4, (CHANNELS, features, kernel, kernel))
        weight[:, 0, 0, 0] *= 30.0  # a great one in each channel: coarse steps for the others
        size = value.type.get_shape()[-1] - kernel + 1
        op = ConvolutionOp(
            value,
            net.constant(weight),
            with_shape(value, [1, CHANNELS, size, size]),
            ConvolutionLayout.channels_first(2),
        )
        value = net.insert(op)
        value = net.insert(AddOp(value, net.along(net.random.normal(0, 1, CHANNELS), value, 1)))
        value = net.insert(ClampOp(net.constant(np.array(0.0)), value, net.constant(np.array(6.0))))
        features = CHANNELS
        net.values.append(value)
    return net.finish([value])


def samples(count: int, seed: int = 0) -> list[Mapping[str, Array]]:
    random = np.random.default_rng(seed)
    return [{"x0": random.uniform(0, 1, (1, 3, 9, 9)).astype(np.float32)} for _ in range(count)]


def rows(count: int) -> list[dict[str, Array]]:
    random = np.random.default_rng(5)
    return [{"x0": random.normal(0, 1, (4, 6)).astype(np.float32)} for _ in range(count)]


@cache
def propagated() -> Program:
    return quantized(network(), list(samples(8)), stage="propagated")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_a_program_that_is_proved_and_nearer_to_float(method: str) -> None:
    program, done, _ = correct(propagated(), SampleParts.of(samples(16)), PLATFORM, effort="best", methods=[method])
    verify(program.module)
    verify(integer_program(materialize(program)).module)
    assert done.kept == method
    assert done.before is not None
    assert done.after is not None
    assert done.after.held > done.before.held + 1
    judge = Judge(propagated(), samples(8, seed=9), ReferenceEngine())
    assert judge.sqnr(program) > judge.sqnr(propagated()) + 1


@pytest.mark.parametrize("method", METHODS)
def test_a_method_gives_the_same_program_every_time(method: str) -> None:
    programs = [
        correct(propagated(), SampleParts.of(samples(8)), PLATFORM, effort="best", methods=[method])[0] for _ in "12"
    ]
    assert str(programs[0].module) == str(programs[1].module)


@pytest.mark.parametrize(
    ("method", "undone"), [("analytic_bias", False), ("closed_form", False), ("closed_form", True)]
)
def test_the_integer_program_that_was_judged_is_that_of_the_result(
    method: str, undone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if undone:
        monkeypatch.setattr(OutputNoise, "objection", lambda self, other: "the test")
    parts = SampleParts.of(samples(8))
    made = correct(propagated(), parts, PLATFORM, effort="best", methods=[method], refit=False)
    again = integer_program(materialize(made.program))
    assert made.done.kept == (None if undone else method)
    assert made.integer is not None
    assert print_program(made.integer) == print_program(again)
    arrays = ResourceArrays(again)
    for name, array in ResourceArrays(made.integer).items():
        np.testing.assert_array_equal(array, arrays[name])


def test_without_the_corrected_biases_the_program_is_lowered_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The corrected program was lowered, and ran with the biases that it had before."""
    monkeypatch.setattr(OutputNoise, "objection", lambda self, other: "the test")
    made = correct(propagated(), SampleParts.of(samples(8)), PLATFORM, effort="fast")
    assert made.done.kept is None
    assert made.integer is None


def test_the_given_program_is_not_changed() -> None:
    before = str(propagated().module)
    correct(propagated(), SampleParts.of(samples(8)), PLATFORM, effort="best")
    assert str(propagated().module) == before


def test_after_empirical_correction_means_agree_behind_the_bounds() -> None:
    program, _, _ = correct(propagated(), SampleParts.of(samples(16)), PLATFORM, effort="balanced")
    gaps: list[float] = []
    exact = [Interpreter(network())(sample)["y0"] for sample in samples(16)]
    for made in (propagated(), program):
        run = Interpreter(integer_program(materialize(made)))
        found = [run(sample)["y0"] for sample in samples(16)]
        gaps.append(float(np.abs(np.mean(found, axis=(0, 1, 3, 4)) - np.mean(exact, axis=(0, 1, 3, 4))).max()))
    assert gaps[1] < 0.2 * gaps[0]


def test_a_bias_is_found_through_the_bounds() -> None:
    region = next(op for op in propagated().entry.ops if isinstance(op, QuantizeRegionOp))
    kernel = contraction_kernel(region, propagated().weights, target("cpu"))
    assert kernel is not None
    assert (kernel.bounds.low, kernel.bounds.high) == (0.0, 6.0)
    sums = np.random.default_rng(1).normal(1, 3, (CHANNELS, 4000)).astype(np.float32)
    true = np.linspace(-2, 2, CHANNELS)
    exact = np.clip(sums + true[:, None].astype(np.float32), 0, 6)
    found = balanced_bias(kernel, exact.mean(axis=1, dtype=np.float64), sums, np.zeros(CHANNELS))
    np.testing.assert_allclose(found, true, atol=0.02)


def test_a_channel_that_is_always_cut_off_keeps_its_bias() -> None:
    region = next(op for op in propagated().entry.ops if isinstance(op, QuantizeRegionOp))
    kernel = contraction_kernel(region, propagated().weights, target("cpu"))
    assert kernel is not None
    sums = np.full((CHANNELS, 100), -50.0, np.float32)
    np.testing.assert_array_equal(balanced_bias(kernel, np.zeros(CHANNELS), sums, np.ones(CHANNELS)), np.ones(CHANNELS))


NOTHING = np.zeros((2, 1, 1))
"""No damping."""


def test_error_aware_rounding_has_less_error_than_rounding_to_nearest() -> None:
    random = np.random.default_rng(2)
    rows = random.normal(0, 1, (2, 500, 70)) @ random.normal(0, 1, (2, 70, 70))
    moments = rows.swapaxes(1, 2) @ rows / 500
    weight, scales = random.normal(0, 1, (2, 5, 70)), np.full((2, 5, 1), 0.3)
    found = error_aware_rounding(weight, moments, NOTHING, scales, -127, 127)
    assert (found == np.rint(found)).all()
    assert np.abs(found).max() <= 127
    errors = [
        (((weight - q * scales) @ moments) * (weight - q * scales)).sum(axis=(1, 2))
        for q in (found, np.rint(weight / scales))
    ]
    assert (errors[0] < 0.5 * errors[1]).all()


def test_error_aware_rounding_is_gptq() -> None:
    random = np.random.default_rng(4)
    rows = random.normal(0, 1, (400, 150)) @ random.normal(0, 1, (150, 150))
    moments, left, scale = rows.T @ rows / 400, random.normal(0, 1, (6, 150)), 0.25
    found = error_aware_rounding(left[None], moments[None], NOTHING[:1], np.full((1, 6, 1), scale), -8, 7)[0]
    # The algorithm of the paper, by the inverse of the moments and without blocks.
    order = np.argsort(-np.diag(moments))
    left, factor = left[:, order], np.linalg.cholesky(np.linalg.inv(moments[np.ix_(order, order)])).T
    expected = np.empty_like(left)
    for column in range(150):
        expected[:, order[column]] = integers = np.clip(np.rint(left[:, column] / scale), -8, 7)
        error = (left[:, column] - integers * scale) / factor[column, column]
        left[:, column + 1 :] -= np.outer(error, factor[column, column + 1 :])
    np.testing.assert_array_equal(found, expected)


def test_error_aware_rounding_of_inputs_that_are_apart_is_rounding_to_nearest() -> None:
    weight = np.random.default_rng(3).normal(0, 1, (1, 4, 100))
    moments = np.diag(np.linspace(1, 9, 100))[None]
    found = error_aware_rounding(weight, moments, NOTHING[:1], np.full((1, 4, 1), 0.1), -5, 5)
    np.testing.assert_array_equal(found, np.clip(np.rint(weight / 0.1), -5, 5))


def test_a_method_that_does_not_help_is_undone_and_the_program_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(program: Program, parts: object, engines: object, progress: object) -> None:
        biased(program, 1.0)

    monkeypatch.setitem(METHODS, "analytic_bias", type(METHODS["analytic_bias"])(spoil, "spoils"))  # pyright: ignore (of the same class)
    program, done, _ = correct(propagated(), SampleParts.of(samples(8)), PLATFORM, effort="fast")
    assert done.kept is None
    assert done.after == done.before
    assert "analytic_bias undone" in done.summary()
    (fact,) = facts_of(program.module, CORRECTIONS)
    assert done.before is not None
    without = f"{done.before.held:.2f} dB"
    assert fact.value.endswith(f" dB, {without} without; undone: the worst output has less than {without}")
    assert str(materialize(program).module).count("dense") == str(materialize(propagated()).module).count("dense")


def test_a_method_that_a_later_one_replaces_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def best(program: Program, parts: object, engines: object, progress: object) -> None:
        METHODS["closed_form"].run(program, samples(16), PLATFORM, silent)

    def spoil(program: Program, parts: object, engines: object, progress: object) -> None:
        best(program, parts, engines, progress)
        biased(program, 0.03)

    kind = type(METHODS["analytic_bias"])
    monkeypatch.setitem(METHODS, "analytic_bias", kind(spoil, "nearly as good"))  # pyright: ignore (of the same class)
    monkeypatch.setitem(METHODS, "empirical_bias", kind(best, "the best"))  # pyright: ignore (of the same class)
    methods = ["analytic_bias", "empirical_bias", "closed_form"]
    _, done, _ = correct(propagated(), SampleParts.of(samples(16)), PLATFORM, effort="best", methods=methods)
    assert done.kept == "empirical_bias"
    ends = [fact.value.partition("; ")[2] for fact in done.facts()]
    assert ends[:2] == ["undone: empirical_bias is better", "kept"]
    assert ends[2].startswith("undone: the ")
    assert ends[2].endswith(", compared with empirical_bias")


def test_the_kept_least_squares_are_fitted_again_to_all_samples() -> None:
    listed = samples(16)
    program, done, _ = correct(propagated(), SampleParts.of(listed), PLATFORM, effort="best", methods=["closed_form"])
    first, once, _ = correct(
        propagated(), SampleParts.of(listed), PLATFORM, effort="best", methods=["closed_form"], refit=False
    )
    assert (done.refit, once.refit) == (16, 0)
    assert (done.before, done.after, done.attempts) == (once.before, once.after, once.attempts)
    expected = propagated().clone()
    give_biases(expected, PLATFORM.target)
    with threadpool_limits(1, user_api="blas"):  # as in `correct`: the last digits of sums depend on the threads
        METHODS["closed_form"].run(expected, listed, PLATFORM, silent)
    assert constants(program) == constants(expected) != constants(first)
    assert done.summary().endswith("closed_form kept; after these figures, closed_form was fitted again to 16 samples")
    assert "kept, after this figure fitted again to 16 samples, these included" in explain(program).overview()
    assert "again" not in once.summary() + explain(first).overview()


def constants(program: Program) -> list[bytes]:
    found = (constant_array(op.results[0], program.weights) for op in program.entry.ops if isinstance(op, ConstantOp))
    return [array.tobytes() for array in found if array is not None]


def test_means_are_fitted_once_and_so_are_samples_that_judged_themselves() -> None:
    for count, methods, validation in ((16, "empirical_bias", 0), (3, "closed_form", 0), (8, "closed_form", 2)):
        parts = SampleParts.of(samples(count), samples(validation, seed=1))
        assert correct(propagated(), parts, PLATFORM, effort="best", methods=[methods])[1].refit == 0


def test_a_second_fit_that_is_worse_on_the_samples_that_it_was_fitted_to_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = METHODS["closed_form"]

    def spoil(program: Program, fitted: Samples, platform: Platform, progress: Progress) -> None:
        given.run(program, fitted, platform, progress)
        if len(fitted) == 8:
            biased(program, 1.0)

    monkeypatch.setitem(METHODS, "closed_form", replace(given, run=spoil))  # pyright: ignore (a test's own entry)
    _, done, _ = correct(propagated(), SampleParts.of(samples(8)), PLATFORM, effort="best", methods=["closed_form"])
    assert (done.kept, done.refit) == ("closed_form", 0)


def biased(program: Program, shift: float) -> None:
    """Move the bias of every kernel."""
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp):
            kernel = contraction_kernel(op, program.weights, target("cpu"))
            assert kernel is not None
            kernel.set_bias(kernel.float_bias + shift)


def test_explain_says_what_was_tried_and_what_each_kernel_got() -> None:
    program, _, _ = correct(propagated(), SampleParts.of(samples(8)), PLATFORM, effort="balanced")
    integer = integer_program(materialize(program))
    assert "corrections, by SQNR on 2 samples held back:\n  empirical_bias: " in explain(integer).overview()
    (value,) = [
        value for value in explain(integer).values if value.kind == "convolution" and value.made_from == ("x0",)
    ]
    assert any(fact.name == "corrected" and fact.source == "empirical_bias" for fact in value.facts)


def test_a_quarter_is_held_back() -> None:
    listed = samples(9)
    parts = SampleParts.of(listed)
    held = [number for number, sample in enumerate(listed) if any(sample is one for one in parts.held)]
    assert [number // 4 for number in held] == [0, 1]
    assert len(parts.fitted) == 7
    assert parts.judges == "2 samples held back"


def test_kinds_of_samples_that_take_turns_are_all_held_back() -> None:
    listed = samples(64)
    held = [number for number, sample in enumerate(listed) if any(sample is one for one in SampleParts.of(listed).held)]
    assert {number % 2 for number in held} == {0, 1}
    assert {number % 4 for number in held} == {0, 1, 2, 3}


def test_validation_data_is_used_instead() -> None:
    parts = SampleParts.of(samples(9), samples(2, seed=1))
    assert len(parts.fitted) == 9
    assert parts.judges == "2 samples of the validation data"


@pytest.mark.parametrize("kinds", [2, 3, 4, 8])
def test_kinds_of_validation_samples_that_take_turns_all_judge(kinds: int) -> None:
    listed = samples(64, seed=1)
    judging = SampleParts.of(samples(9), listed).judging
    chosen = [number for number, sample in enumerate(listed) if any(sample is one for one in judging)]
    assert {number % kinds for number in chosen} == set(range(kinds))
    assert [number // 4 for number in chosen] == list(range(16))
    again = SampleParts.of(samples(9), listed).judging
    assert all(one is other for one, other in zip(judging, again, strict=True))


def test_sixteen_validation_samples_or_fewer_all_judge() -> None:
    for count in (1, 15, 16):
        listed = samples(count, seed=1)
        assert SampleParts.of(samples(9), listed).judging == listed


def test_few_samples_are_fitted_and_judged_at_once() -> None:
    parts = SampleParts.of(samples(3))
    assert parts.fitted == parts.held
    assert parts.judges == "3 samples of the calibration data"


def test_the_command_line_offers_the_efforts_there_are() -> None:
    assert list(PRESETS) == list(EFFORTS)
    assert next(option.default for option in quantize_command.params if option.name == "effort") == DEFAULT_EFFORT


def test_efforts_and_corrections_are_checked() -> None:
    assert check_methods("fast", None) == ("analytic_bias",)
    assert check_methods("fast", ["closed_form"]) == ("closed_form",)
    assert all(name in (EQUALIZE, PRODUCTS, *METHODS, *REFINEMENTS) for preset in PRESETS.values() for name in preset)
    with pytest.raises(ValueError, match="found effort 'most', expected one of: none, fast, balanced, best"):
        check_methods("most", None)
    with pytest.raises(
        ValueError, match="found correction 'luck', expected one of: equalize, integer_products, analytic_bias, "
    ):
        check_methods("none", ["luck"])
    assert check_methods("none", ["block_reconstruction"]) == ("block_reconstruction",)


@some(10)
@given(case=cases())
def test_corrections_of_any_network_give_programs_that_are_proved(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    for name in ("analytic_bias", "empirical_bias", "closed_form"):
        made = program.clone()
        METHODS[name].run(made, case.calibration, PLATFORM, silent)
        verify(made.module)
        Interpreter(integer_program(materialize(made)))(case.samples[0])


def noise(*samples: float) -> OutputNoise:
    return OutputNoise(np.ones((len(samples), 1)), np.array(samples)[:, None])


def test_a_gain_that_chance_explains_is_none() -> None:
    # One sample had nearly all of the noise and is better; the others are worse.
    assert not noise(0.5, 0.02, 0.02, 0.02).is_less(noise(1.0, 0.01, 0.01, 0.01))
    assert noise(0.5, 0.005, 0.006, 0.004).is_less(noise(1.0, 0.01, 0.01, 0.01))
    assert not noise(1.0, 0.01).is_less(noise(1.0, 0.01))
    assert noise(0.0, 0.0).is_less(noise(1.0, 0.01))
    assert noise(0.5).is_less(noise(1.0))
    assert not noise(float("nan"), 0.1).is_less(noise(1.0, 0.2))


def test_few_samples_held_back_do_not_judge_alone() -> None:
    """The samples that a correction was fitted to come after the first one."""
    once = noise(1.0, 1.0, 1.0, 1.0)
    assert noise(0.5, 0.6, 0.7, 0.8).objection_of_parts(once, held=1) is None
    found = noise(0.5, 1.1, 1.0, 1.1).objection_of_parts(once, held=1)
    assert found == (
        "the mean gain of 0.55 dB is not above its standard error of 0.83 dB on 4 samples, the fitted ones included"
    )
    assert noise(1.1, 0.6, 0.7, 0.8).objection_of_parts(once, held=1) == "the worst output has less than 0.00 dB"
    fitted = [1.1] * 12
    assert noise(0.5, 0.6, 0.5, 0.6, *fitted).objection_of_parts(noise(*[1.0] * 16), held=4) is None


def test_a_method_that_loses_says_by_which_rule() -> None:
    def of(*outputs: float) -> OutputNoise:
        return OutputNoise(np.ones((1, len(outputs))), np.array([outputs]))

    assert of(0.02, 0.001).objection(of(0.01, 0.005)) == "the worst output has less than 20.00 dB"
    assert of(0.01, 0.009).objection(of(0.01, 0.005)) == "the outputs together have 20.22 dB, not more than 21.25 dB"
    found = noise(0.5, 0.02, 0.02, 0.02).objection(noise(1.0, 0.01, 0.01, 0.01))
    assert found == "the mean gain of -1.51 dB is not above its standard error of 1.51 dB on 4 samples"


def test_the_outputs_gain_on_average_and_the_least_one_does_not_lose() -> None:
    def of(*outputs: float, signal: float = 1.0) -> OutputNoise:
        return OutputNoise(np.full((1, len(outputs)), [signal, *[1.0] * (len(outputs) - 1)]), np.array([outputs]))

    assert of(1.0, 0.1).sqnr == 0.0
    assert of(1.0, 0.05).is_less(of(1.0, 0.1))
    assert not of(1.1, 0.001).is_less(of(1.0, 0.9))  # the worst output is worse
    assert of(0.5, 0.05, signal=0.0).sqnr == float("-inf")
    assert of(0.5, 0.05, signal=0.0).is_less(of(0.5, 0.1, signal=0.0))


def test_an_output_with_nan_has_no_sqnr() -> None:
    assert OutputNoise(np.array([[float("nan")]]), np.array([[float("nan")]])).sqnr == float("-inf")


def test_weights_with_a_zero_point_in_the_middle_are_rounded_to_what_they_are() -> None:
    program = propagated().clone()
    region = next(op for op in program.entry.ops if isinstance(op, QuantizeRegionOp))
    storage = Storage.of("u8<1:255>")
    middle = UniformQuantizedType.per_channel(storage, 0, region.input_specs.data[1].scales, [128] * CHANNELS)  # pyright: ignore (a uniform type)
    region.input_specs = ArrayAttr[Attribute]([region.input_specs.data[0], middle, region.input_specs.data[2]])
    kernel = contraction_kernel(region, program.weights, target("cpu"))
    assert kernel is not None
    before = kernel.float_weight
    terms = before.shape[2]
    closed_form._set_rounded(kernel, before, np.broadcast_to(np.eye(terms), (len(before), terms, terms)).copy())  # pyright: ignore (the step in question)
    assert (np.abs(kernel.quantized_weight() - before) <= kernel.weight_scales).all()
