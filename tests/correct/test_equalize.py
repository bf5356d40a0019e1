"""Equalization: the same function in float, less noise in 8 bits, undone where it does not help."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import StringAttr

from networks import Network
from zeropoint import finish
from zeropoint.calibrate import DataError, Report, Work, collect, instrument, journal
from zeropoint.correct import Equalized, SampleParts, judge_of
from zeropoint.correct.channel_statistics import without_statistics
from zeropoint.correct.effort import Corrected
from zeropoint.correct.equalize import cut_share, equalize, sites, uneven
from zeropoint.correct.judge import OutputNoise
from zeropoint.correct.observe_channels import observe_channels
from zeropoint.equalization import Calibrated, EqualizationTrial
from zeropoint.finish import platform_of
from zeropoint.frontend.sources import load_source
from zeropoint.fuse import fuse
from zeropoint.interp import ReferenceEngine
from zeropoint.ir.annotations import EQUALIZED
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsOp, StatisticsRefOp
from zeropoint.ir.stablehlo import ClampOp, ConvolutionLayout, ConvolutionOp, MaximumOp
from zeropoint.ir.tensors import Array, with_shape
from zeropoint.ir.text import print_program, resource_handles
from zeropoint.pipeline import Options, quantize
from zeropoint.progress import silent
from zeropoint.report.explain import explain
from zeropoint.simplify import simplify
from zeropoint.targets import target

CHANNELS = 8


def network(seed: int, *, depthwise: bool, bound: float | None = None, spread: float = 5.0) -> Program:
    """Two convolutions with a relu (or relu6) between them, whose channels' ranges are up to 2^spread apart.

    Without a spread, all channels are the same.
    """
    net = Network([(1, 4, 6, 6)], seed=seed)
    layout = ConvolutionLayout.channels_first(2)
    net.layer("first")
    scales = 2.0 ** -np.linspace(0, spread, CHANNELS)
    weight = net.random.normal(0, 1, (CHANNELS, 4, 1, 1)) * scales[:, None, None, None]
    if not spread:
        weight[:] = weight[0]
    value = net.insert(
        ConvolutionOp(net.values[0], net.constant(weight), with_shape(net.values[0], [1, CHANNELS, 6, 6]), layout)
    )
    if bound is None:
        value = net.insert(MaximumOp(value, net.constant(np.zeros((1, CHANNELS, 6, 6)))))
    else:
        low, high = (net.insert(constant_op(np.float32(number), net.weights)) for number in (0.0, bound))
        value = net.insert(ClampOp(low, value, high))
    net.layer("second")
    shape = (CHANNELS, 1, 1, 1) if depthwise else (CHANNELS, CHANNELS, 1, 1)
    other = net.random.normal(0, 1, shape) / (scales[:, None, None, None] if depthwise else scales[None, :, None, None])
    groups = CHANNELS if depthwise else 1
    value = net.insert(ConvolutionOp(value, net.constant(other), value.type, layout, feature_group_count=groups))
    net.values.append(value)
    return net.finish([value])


def data(count: int = 12) -> list[dict[str, Array]]:
    random = np.random.default_rng(3)
    return [{"x0": random.normal(0, 1, (1, 4, 6, 6)).astype(np.float32)} for _ in range(count)]


@pytest.mark.parametrize("depthwise", [False, True])
def test_the_float_function_stays_the_same(depthwise: bool) -> None:
    fused = fuse(simplify(network(1, depthwise=depthwise)), target("cpu"))
    assert len(sites(fused)) == 1
    made = without_statistics(equalize(observe_channels(fused, data(4), ReferenceEngine())))
    before, after = (ReferenceEngine().prepare(program) for program in (fused, made))
    for sample in data(6):
        for name, wanted in before(sample).items():
            np.testing.assert_allclose(after(sample)[name], wanted, rtol=1e-5, atol=1e-5)
    assert {*made.weights} == {*resource_handles(made.module)}  # not what it had before


def test_the_programs_before_equalization_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, corrected, left = EqualizationTrial.of, finish.correct, list[Program | None]()
    before: list[weakref.ref[Program]] = []

    def of(trial: EqualizationTrial, given: Calibrated) -> tuple[Calibrated, Equalized | None]:
        before.extend(map(weakref.ref, (given.fused, given.program)))
        return tried(trial, given)

    def correct(*values: Any, **named: Any) -> Corrected:
        left.extend(each() for each in before)
        return corrected(*values, **named)

    monkeypatch.setattr(EqualizationTrial, "of", of)
    monkeypatch.setattr(finish, "correct", correct)
    made = quantize(network(2, depthwise=False), data(), Options(effort="balanced"), engine=ReferenceEngine())
    assert made.corrections.equalized is not None
    assert made.corrections.equalized.kept
    assert left == [None, None]


@pytest.mark.parametrize(("depthwise", "bound"), [(False, None), (True, None), (True, 6.0)])
def test_uneven_channels_gain_and_the_program_says_so(depthwise: bool, bound: float | None) -> None:
    program = network(2, depthwise=depthwise, bound=bound)
    made = quantize(program, data(), Options(corrections=["equalize"]), engine=ReferenceEngine())
    found = made.corrections.equalized
    assert found is not None
    assert found.kept
    assert found.after > found.before + 3
    text = str(explain(made.integer))
    assert f"equalize: {found.after:.2f} dB, {found.before:.2f} dB without; kept" in text
    assert "channels multiplied by up to" in str(explain(made.integer, "first1"))


def test_even_channels_are_left_alone() -> None:
    made = quantize(network(2, depthwise=True, spread=0), data(), Options(effort="balanced"), engine=ReferenceEngine())
    assert made.corrections.equalized is None


def test_channels_that_use_half_a_bit_less_on_average_are_tried() -> None:
    """MobileNetV2's are about so even, and it gains from it."""
    made = quantize(network(2, depthwise=True, spread=1), data(), Options(effort="balanced"), engine=ReferenceEngine())
    assert made.corrections.equalized is not None


def test_it_is_kept_if_it_is_better_on_held_back_samples_and_the_gain_over_all_samples_is_no_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On few samples held back, a gain of a third of a dB is within the standard error."""
    judged: list[int] = []

    def chance(noise: OutputNoise, other: OutputNoise) -> str | None:
        judged.append(len(noise.noise))
        return None if len(noise.noise) == 12 else "within the standard error"

    monkeypatch.setattr(OutputNoise, "chance", chance)
    made = quantize(network(2, depthwise=True), data(), Options(corrections=["equalize"]), engine=ReferenceEngine())
    assert made.corrections.equalized is not None
    assert made.corrections.equalized.kept
    assert judged == [12]


@pytest.mark.parametrize("effort", ["balanced", "best"])
def test_the_figure_without_corrections_is_without_equalization(effort: str) -> None:
    found = quantize(network(2, depthwise=True), data(), Options(effort=effort), engine=ReferenceEngine()).corrections
    none = quantize(network(2, depthwise=True), data(), Options(effort="none"), engine=ReferenceEngine())
    judge = judge_of(none.decided, SampleParts.of(data()), platform_of(target("cpu"), ReferenceEngine(), 12, silent))
    noise = judge.noise(none.decided)
    assert found.equalized is not None
    assert found.equalized.kept
    assert found.uncorrected is not None
    assert found.uncorrected.held == noise[:3].sqnr
    assert found.uncorrected.calibration == noise[3:].sqnr
    shown = f"({noise[:3].sqnr:.1f} without corrections), "
    assert shown in found.summary()
    assert f" dB on the 9 that were fitted ({noise[3:].sqnr:.1f}); equalize kept, " in found.summary()


def test_a_single_fitted_sample_is_named_as_one() -> None:
    options = Options(effort="balanced")
    made = quantize(network(2, depthwise=True), data(1), options, validation=data(4), engine=ReferenceEngine())
    assert " dB on the one that was fitted (" in made.corrections.summary()


def test_it_is_undone_if_the_clamp_cuts_the_samples_that_it_is_judged_on() -> None:
    large = [{"x0": 8 * sample["x0"]} for sample in data(4)]
    program = network(2, depthwise=True, bound=6.0)
    options = Options(corrections=["equalize"], observer="minmax")
    made = quantize(program, data(), options, validation=large, engine=ReferenceEngine())
    found = made.corrections.equalized
    assert found is not None
    assert not found.kept
    assert found.cut > 0
    assert re.search(r"clamps would cut \d+\.\d % of the channels of other samples; undone", made.corrections.summary())
    plain = quantize(program, data(), Options(observer="minmax"), engine=ReferenceEngine())
    for sample in large:
        for name, wanted in ReferenceEngine().prepare(plain.integer)(sample).items():
            np.testing.assert_array_equal(ReferenceEngine().prepare(made.integer)(sample)[name], wanted)


def test_what_cuts_a_few_channels_of_other_samples_is_judged_by_its_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zeropoint.equalization.MOST_CUT", 1.0)
    large = [{"x0": 8 * sample["x0"]} for sample in data(4)]
    program = network(2, depthwise=True, bound=6.0)
    options = Options(corrections=["equalize"], observer="minmax")
    found = quantize(program, data(), options, validation=large, engine=ReferenceEngine()).corrections.equalized
    assert found is not None
    assert not found.cut
    assert found.after < found.before


def test_the_share_of_cut_channels_counts_maxima_above_the_moved_clamp() -> None:
    fused = fuse(simplify(network(2, depthwise=True, bound=6.0)), target("cpu"))
    shown = observe_channels(fused, data(4), ReferenceEngine())
    (one,) = uneven(shown)
    for factor in (1.0, 3.0, 8.0):
        samples = [{"x0": factor * sample["x0"]} for sample in data(4)]
        stated = observe_channels(fused, samples, ReferenceEngine())
        (stats,) = [op for op in stated.entry.ops if isinstance(op, StatisticsOp)]
        assert stats.axis_stats is not None
        greatest = np.array(stats.axis_stats.get_values()).reshape(-1, 2)[:, 1]
        limits = np.where(one.factors < 1, 6.0 * one.factors, np.inf)
        assert cut_share([one], stated) == (greatest > limits).mean()
    assert cut_share([one], shown) == 0.0


def test_what_clearly_loses_is_not_calibrated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calibrations: list[int] = []

    def calibrating(*arguments: Any, **options: Any) -> Report:
        report = collect(*arguments, **options)
        calibrations.append(report.samples)
        return report

    monkeypatch.setattr("zeropoint.equalization.collect", calibrating)
    monkeypatch.setattr("zeropoint.equalization.HOPELESS", 1.0)
    options = Options(corrections=["equalize"], observer="minmax")
    program = network(2, depthwise=True)
    # Beyond what was observed, only channels that were not stretched have room.
    large = [{"x0": 3 * sample["x0"]} for sample in data(8)]
    made = quantize(program, data(), options, validation=large, engine=ReferenceEngine())
    assert made.corrections.equalized is not None
    assert made.corrections.equalized.provisional
    assert "dB with provisional ranges" in made.corrections.summary()
    assert calibrations == []
    quantize(program, data(), options, engine=ReferenceEngine())
    assert calibrations == [12]


class Samples:
    """Samples that end with an error in a round."""

    def __init__(self, broken: int | None = None):
        self.broken, self.rounds, self.all = broken, 0, data(20)

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        self.rounds += 1
        yield from self.all[:18] if self.rounds == self.broken else self.all
        if self.rounds == self.broken:
            raise DataError("broken off")


def test_the_calibration_of_the_equalized_program_is_recorded_and_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SECONDS", 0.0)
    monkeypatch.setattr(journal, "SHARE", 0)
    program, options = network(2, depthwise=True), Options(corrections=["equalize"])
    expected = quantize(program, Samples(), options)
    assert expected.corrections.equalized is not None
    assert expected.corrections.equalized.kept
    with pytest.raises(DataError, match="broken off"):
        quantize(program, Samples(broken=2), options, work=Work(1, tmp_path / "j"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j", "j.equalized"]
    found = quantize(program, Samples(), options, work=Work(2, tmp_path / "j", resume=True))
    assert print_program(found.integer) == print_program(expected.integer)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("keys", [["x0", "first", "second", "y"], ["0", "1", "2", "7"]])
def test_requests_of_the_model_change_nothing(keys: list[str]) -> None:
    """Keys of the user are not taken for those of equalization, and a request at its site does not stop it."""
    program = network(2, depthwise=True)
    asking = instrument(program, every_result=True)
    requests = [op for op in asking.entry.ops if isinstance(op, StatisticsRefOp)]
    for op, key in zip(requests, keys, strict=True):
        op.attributes["statsKey"] = StringAttr(key)
    options = Options(corrections=["equalize"])
    plain, made = (quantize(one, data(), options, engine=ReferenceEngine()) for one in (program, asking))
    assert plain.corrections.equalized is not None
    assert made.corrections.equalized == plain.corrections.equalized
    runs = [ReferenceEngine().prepare(one.integer) for one in (plain, made)]
    for sample in data():
        first, second = (list(run(sample).values()) for run in runs)
        np.testing.assert_array_equal(first, second)


def normalized(*, residual: bool = False, outlier: float = 40.0) -> Program:
    """A layer norm with two outlier channels, read by two products, and by a sum with `residual`."""
    made = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g (float[1,6,16] x0) => (float[1,6,16] y) {{
          n = LayerNormalization<axis=-1>(x0, scale, offset)  q = MatMul(n, w0)  k = MatMul(n, w1)
          s = Add(q, k)  y = {"Add(s, n)" if residual else "Relu(s)"} }}"""
    )
    random = np.random.default_rng(5)
    scale, offset = random.uniform(0.5, 1.5, 16), random.normal(0, 0.5, 16)
    scale[[3, 11]] *= outlier
    offset[3] *= outlier
    arrays = {"scale": scale, "offset": offset, **{f"w{n}": random.normal(0, 0.3, (16, 16)) for n in range(2)}}
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()
    )
    return load_source(made)


def tokens(count: int = 12) -> list[dict[str, Array]]:
    random = np.random.default_rng(6)
    return [{"x0": random.normal(0, 1, (1, 6, 16)).astype(np.float32)} for _ in range(count)]


def test_outliers_of_a_layer_norm_move_into_the_weights_behind_it() -> None:
    program = normalized()
    fused = fuse(simplify(program), target("cpu"))
    (site,) = sites(fused)
    assert site.maker.logical_kernel.data == "layer_norm"
    made = without_statistics(equalize(observe_channels(fused, tokens(4), ReferenceEngine())))
    assert [EQUALIZED in op.attributes for op in made.entry.ops].count(True) == 1
    before, after = (ReferenceEngine().prepare(one) for one in (fused, made))
    for sample in tokens(3):
        (expected,), (found,) = before(sample).values(), after(sample).values()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    results = [quantize(program, tokens(), Options(effort=effort)) for effort in ("none", "balanced")]
    equalized = results[1].corrections.equalized
    assert equalized is not None
    assert equalized.kept
    assert equalized.after > equalized.before + 3


def test_a_layer_norm_that_a_sum_reads_is_left_alone() -> None:
    assert sites(fuse(simplify(normalized(residual=True)), target("cpu"))) == []


def test_the_exponent_is_the_one_with_the_least_expected_error() -> None:
    """Weights that differ much more than the values: nothing is moved into them. Values that differ more: most is."""
    ranges = np.array([[-1.0, 1.0]] * 15 + [[-64.0, 64.0]])
    wide = normalized()
    for strength, moved in ((1.0, True), (2.0**9, False)):
        fused = fuse(simplify(wide), target("cpu"))
        (site,) = sites(fused)
        weights = fused.weights
        for reader in site.readers:
            array = constant_array(reader.inputs[1], weights)
            assert array is not None
            array = array.copy()
            array[15] *= strength
            made = constant_op(array, weights)
            fused.entry.insert_op_before(made, reader)
            reader.operands[1] = made.output
        factors = site.factors(ranges, weights)
        assert (factors is not None and factors[0] < 0.5) == moved
