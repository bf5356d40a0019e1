"""What calibration records of the float network is what runs of its own find, or nothing is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from networks import Network
from zeropoint import pipeline
from zeropoint.calibrate import CalibrationError, DataError, Work, collect, instrument, journal, silent, state_ranges
from zeropoint.correct import Corrections, SampleParts, float_record, judge_of, some
from zeropoint.correct.analytic_bias import correct_biases
from zeropoint.correct.contractions import contraction_kernels
from zeropoint.correct.equalize import sites
from zeropoint.correct.float_means import FloatMean, float_means
from zeropoint.correct.float_record import FloatRecord, RecordPart
from zeropoint.correct.methods import Platform, wanted_of
from zeropoint.correct.observe_channels import observe_channels
from zeropoint.correct.sample_parts import FEW
from zeropoint.fuse import fuse
from zeropoint.interp import ReferenceEngine
from zeropoint.ir.program import Program
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import AddOp, ClampOp, ConvolutionLayout, ConvolutionOp
from zeropoint.ir.tensors import Array, with_shape
from zeropoint.ir.text import ResourceArrays, print_program
from zeropoint.pipeline import Options, quantize
from zeropoint.quantization import Quantization
from zeropoint.simplify import simplify
from zeropoint.solve import propagate
from zeropoint.targets import target

Samples = list[dict[str, Array]]
CPU = target("cpu")
PLATFORM = Platform(ReferenceEngine(), lambda runs: ReferenceEngine(), CPU)
COUNT = 8
CHANNELS = 8
Bits = tuple[str, dict[str, bytes], Corrections]


@cache
def network(*, biased: bool = True) -> Program:
    """Three convolutions with relu6, the second depthwise, of channels with uneven ranges, of two images at once.

    The last two results are outputs. Unless `biased`, the convolutions have no biases.
    """
    net = Network([(2, 4, 6, 6)], seed=2)
    scales = 2.0 ** -np.linspace(0, 5, CHANNELS)[:, None, None, None]
    value, outputs = net.values[0], []
    for shape, uneven in (((CHANNELS, 4, 1, 1), scales), ((CHANNELS, 1, 3, 3), 1 / scales), ((CHANNELS, 8, 1, 1), 1.0)):
        net.layer("conv")
        size = value.type.get_shape()[-1] - shape[-1] + 1
        weight = net.random.normal(0.1, 0.4, shape) * uneven
        weight[:, 0, 0, 0] *= 20.0  # a great one in each channel: coarse steps for the others
        op = ConvolutionOp(
            value,
            net.constant(weight),
            with_shape(value, [2, CHANNELS, size, size]),
            ConvolutionLayout.channels_first(2),
            feature_group_count=CHANNELS if shape[1] == 1 else 1,
        )
        total = net.insert(op)
        if biased:
            total = net.insert(AddOp(total, net.along(net.random.normal(0, 1, CHANNELS), total, 1)))
        value = net.insert(ClampOp(net.constant(np.array(0.0)), total, net.constant(np.array(6.0))))
        net.values.append(value)
        outputs.append(value)
    return net.finish(outputs[1:])


def data(count: int = COUNT, seed: int = 3) -> Samples:
    random = np.random.default_rng(seed)
    return [{"x0": random.normal(0, 1, (2, 4, 6, 6)).astype(np.float32)} for _ in range(count)]


def recorded(samples: Samples, count: int = COUNT) -> tuple[FloatRecord, Program]:
    """The record of a calibration on samples, and the propagated program."""
    fused = fuse(simplify(network()), CPU)
    asked = instrument(fused)
    record = FloatRecord(fused, asked, count, validation=False)
    report = collect(asked, samples, engine=ReferenceEngine(), recorder=record)
    return record, propagate(state_ranges(asked, report), CPU, None)


def assert_means(found: list[FloatMean] | None, expected: list[FloatMean]) -> None:
    assert found is not None
    assert len(found) == len(expected) == 3
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.mean, other.mean)


def test_means_outputs_and_channels_are_those_of_runs_of_their_own() -> None:
    samples = data()
    record, program = recorded(samples)
    parts = SampleParts.of(samples)
    network = record.of_network(program, parts.fitted)
    assert network is not None
    assert_means(
        network.means(program, CPU, len(parts.fitted)),
        float_means(program, parts.fitted, ReferenceEngine(), CPU, silent),
    )
    judges = [judge_of(program, parts, PLATFORM, record=each) for each in (None, record)]
    noises = [judge.judged(program).noise() for judge in judges]
    np.testing.assert_array_equal(noises[0].noise, noises[1].noise)
    fused = record.fused
    assert sites(fused)
    for shown in (some(parts.fitted), some(parts.held, FEW)):
        assert record.channels(sites(fused), shown) is not None
        expected, found = (observe_channels(fused, shown, ReferenceEngine(), record=each) for each in (None, record))
        assert print_program(found) == print_program(expected)


def test_mean_inputs_are_those_of_a_run_of_their_own() -> None:
    samples = data()
    record, program = recorded(samples)
    fitted = SampleParts.of(samples).fitted
    network = record.of_network(program, fitted)
    assert network is not None
    assert network.input_sums(program, CPU, list(fitted)[1:]) is None
    biases: list[list[Array]] = []
    for known in (None, network.input_sums(program, CPU, fitted)):
        made = program.clone()
        regions = dict(zip(regions_of(program), regions_of(made), strict=True))
        given = None if known is None else {regions[region]: array for region, array in known.items()}
        done = correct_biases(made, fitted, ReferenceEngine(), CPU, silent, known=given)
        assert len(done) == 3
        biases.append([kernel.float_bias for kernel in contraction_kernels(made, CPU)])
    for one, other in zip(*biases, strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_what_corrections_need_is_recorded() -> None:
    assert wanted_of(()) == ()
    assert wanted_of(("analytic_bias",)) == (RecordPart.INPUTS,)
    assert wanted_of(("equalize", "integer_products", "empirical_bias")) == (RecordPart.RESULTS, RecordPart.CHANNELS)
    fused = fuse(simplify(network()), CPU)
    asked = instrument(fused)
    record = FloatRecord(fused, asked, COUNT, validation=False, wants=())
    samples = data()
    report = collect(asked, samples, engine=ReferenceEngine(), recorder=record)
    fitted = SampleParts.of(samples).fitted
    found = record.of_network(propagate(state_ranges(asked, report), CPU, None), fitted)
    assert found is not None
    assert len(found.outputs) == COUNT
    assert found.means(found.program, CPU, len(fitted)) is None
    assert found.input_sums(found.program, CPU, fitted) is None
    assert record.channels(sites(fused), some(fitted)) is None


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("effort", ["fast", "balanced"])
def test_the_float_network_does_not_run_again_for_its_outputs(
    effort: str, biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no channels are uneven, so that nothing is equalized, and for kernels that get a bias."""
    monkeypatch.setattr("zeropoint.equalization.uneven", lambda program: [])
    runs: list[int] = []

    class Counting(ReferenceEngine):
        def prepare(self, program: Program) -> Any:
            run = super().prepare(program)
            if program.profile is not None:
                return run

            def counted(*given: Any, **named: Any) -> Any:
                runs.append(1)
                return run(*given, **named)

            return counted

    quantize(network(biased=biased), data(), Options(effort=effort), engine=Counting())
    assert len(runs) == COUNT


def test_outputs_that_are_too_large_to_record_leave_the_means_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge runs the float network again for its outputs, and must not add its means a second time."""
    samples = data()
    parts = SampleParts.of(samples)
    for most in (0, sum(array.nbytes for array in ReferenceEngine().prepare(network())(samples[0]).values())):
        monkeypatch.setattr(float_record, "MOST_BYTES", most)
        record, program = recorded(samples)
        judge = judge_of(program, parts, PLATFORM, names=["empirical_bias"], record=record)
        assert judge.means is not None
        assert_means(judge.means.means, float_means(program, parts.fitted, ReferenceEngine(), CPU, silent))


def test_a_record_is_of_the_samples_that_ran_and_of_nothing_else() -> None:
    samples = data()
    fitted = SampleParts.of(samples).fitted
    record, program = recorded(samples)
    assert record.of_network(program, fitted) is not None
    assert record.of_network(program, [dict(one) for one in fitted]) is None  # others, even if they are equal
    assert record.of_network(program, list(fitted)[1:]) is None
    assert record.channels(sites(record.fused), list(fitted)[:3]) is None
    for count in (COUNT - 1, COUNT + 1):  # more or fewer samples than were announced
        record, program = recorded(samples, count)
        assert record.of_network(program, fitted) is None
        assert record.channels(sites(record.fused), some(fitted)) is None


def test_samples_that_are_too_large_to_keep_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float_record, "MOST_SAMPLES", 5 * data(1)[0]["x0"].nbytes)
    samples = data()
    record, program = recorded(samples)
    assert record.of_network(program, SampleParts.of(samples).fitted) is None


class Loaded:
    """Samples that are loaded anew in every round. One round may break off."""

    def __init__(self, broken: int | None = None):
        self.broken, self.rounds = broken, 0

    def __len__(self) -> int:
        return COUNT

    def __iter__(self) -> Iterator[dict[str, Array]]:
        self.rounds += 1
        yield from data()[: 6 if self.rounds == self.broken else COUNT]
        if self.rounds == self.broken:
            raise DataError("broken off")


def bits(made: Quantization) -> Bits:
    arrays = ResourceArrays(made.integer)
    return (
        print_program(made.integer),
        {key: np.ascontiguousarray(arrays[key]).tobytes() for key in arrays},
        made.corrections,
    )


@cache
def without_record() -> Bits:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "_record", lambda *given, **named: None)
        made = quantize(network(), data(), Options(effort="balanced"), engine=ReferenceEngine())
    assert made.corrections.equalized is not None
    assert any(attempt.method == "empirical_bias" for attempt in made.corrections.attempts)
    return bits(made)


def test_a_record_changes_no_bit_of_the_program() -> None:
    engine, options = ReferenceEngine(), Options(effort="balanced")
    assert bits(quantize(network(), data(), options, engine=engine)) == without_record()
    assert bits(quantize(network(), Loaded(), options, engine=engine)) == without_record()


def test_neither_workers_nor_a_resumed_journal_change_a_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SECONDS", 0.0)
    monkeypatch.setattr(journal, "SHARE", 0)
    options, engine = Options(effort="balanced"), ReferenceEngine()
    with pytest.raises(DataError, match="broken off"):
        quantize(network(), Loaded(broken=1), options, engine=engine, work=Work(1, tmp_path / "j", chunk=2))
    resumed = Work(2, tmp_path / "j", resume=True, chunk=2)
    assert bits(quantize(network(), Loaded(), options, engine=engine, work=resumed)) == without_record()


def test_nan_in_every_sample_is_still_named() -> None:
    samples = [{"x0": np.full_like(sample["x0"], np.nan)} for sample in data()]
    with pytest.raises(CalibrationError, match="x0"):
        quantize(network(), samples, Options(effort="balanced"), engine=ReferenceEngine())


def test_a_sample_with_nan_gives_the_program_that_it_gives_without_a_record() -> None:
    samples = data()
    samples[0]["x0"][0, 0, 0, 0] = np.nan
    made: list[Bits] = []
    for record in (pipeline._record, lambda *given, **named: None):  # pyright: ignore[reportPrivateUsage] (replaced here)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "_record", record)
            made.append(bits(quantize(network(), samples, Options(effort="balanced"), engine=ReferenceEngine())))
    assert made[0] == made[1]
