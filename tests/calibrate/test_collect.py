"""Collect: programs run over streams of samples, and what is stated afterwards."""

from __future__ import annotations

import gc
import re
import weakref

import numpy as np
import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser

from zeropoint.calibrate import (
    CalibrationError,
    MinMaxObserver,
    Observation,
    Report,
    calibrate,
    collect,
    instrument,
    state_ranges,
    stats_keys,
)
from zeropoint.interp import InputError, run
from zeropoint.ir.annotations import EXTREMES
from zeropoint.ir.quant import StatisticsOp, StatisticsRefOp
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.verification import verify

SAMPLES = [
    {"x": np.float32([[1, 2, 3, -4]]), "y": np.float32([[0, 0, 1, 2]])},
    {"x": np.float32([[0.5, 0, 0, 0]]), "y": np.float32([[-1.5, 0, 0, 0]])},
]


def check(checks: str, text: str, path) -> None:
    path.write_text(checks)
    options = Options(match_filename=str(path))
    assert Matcher(options, FInput("output", text), Parser.from_opts(options)).run() == 0, text


def layer_stats(program):
    return [op.layer_stats.get_values() for op in program.entry.ops if isinstance(op, StatisticsOp)]


def test_what_was_observed_takes_the_place_of_what_was_asked(regions, tmp_path):
    calibrated = calibrate(instrument(regions), SAMPLES)
    verify(calibrated.module)
    check(
        """
// CHECK:      func.func @main(%[[X:.*]]: tensor<1x4xf32> {{.*}}, %[[Y:.*]]: tensor<1x4xf32>
// CHECK-NEXT: %[[SX:.*]] = "quant.stats"(%[[X]]) {layerStats = dense<[-4.000000e+00, 3.000000e+00]>{{.*}}quantiles
// CHECK-NEXT: %[[SY:.*]] = "quant.stats"(%[[Y]]) {layerStats = dense<[-1.500000e+00, 2.000000e+00]>{{.*}}
// CHECK-NEXT: %[[SUM:.*]] = quant.region "{{.*}}"(%{{.*}} = %[[SX]], %{{.*}} = %[[SY]]
// CHECK:      %[[SSUM:.*]] = "quant.stats"(%[[SUM]]) {layerStats = dense<[-2.000000e+00, 4.000000e+00]>{{.*}}loc("sum")
// CHECK-NEXT: %[[EXP:.*]] = quant.region "{{.*}}"(%{{.*}} = %[[SSUM]]
// CHECK:      %[[SEXP:.*]] = "quant.stats"(%[[EXP]])
// CHECK-NEXT: return %[[SEXP]]
// CHECK-NOT:  stats_ref
        """,
        print_program(calibrated, locations=True),
        tmp_path / "checks",
    )


def test_statistics_change_no_value(regions):
    asked = instrument(regions)
    for sample in SAMPLES:
        expected = run(regions, sample)["out"]
        assert run(asked, sample)["out"].tobytes() == expected.tobytes()
        assert run(calibrate(asked, SAMPLES), sample)["out"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("observer", ["minmax", "percentile:99"])
def test_the_order_of_samples_changes_no_byte(regions, observer):
    rng = np.random.default_rng(0)
    samples = [{name: rng.standard_normal((1, 4), np.float32) for name in "xy"} for _ in range(20)]
    asked = instrument(regions)
    texts = {print_program(calibrate(asked, order, observer=observer)) for order in (samples, samples[::-1])}
    assert len(texts) == 1


def test_the_report_has_an_observation_a_key_in_program_order(regions):
    report = collect(instrument(regions), SAMPLES)
    assert report.samples == 2
    assert list(report.observations) == ["x", "y", "sum", "exp"]
    assert report.observations["sum"] == Observation(-2.0, 4.0, count=8)
    assert report.warnings == []


def test_samples_are_a_stream_and_let_go(regions):
    alive: list[weakref.ref] = []
    most = 0

    def stream():
        nonlocal most
        for _ in range(4):
            gc.collect()
            most = max(most, sum(reference() is not None for reference in alive))
            array = np.ones((1, 4), np.float32)
            alive.append(weakref.ref(array))
            yield {"x": array, "y": np.zeros((1, 4), np.float32)}

    assert collect(instrument(regions), stream()).samples == 4
    assert most <= 1


def test_no_samples_are_an_error(regions):
    with pytest.raises(CalibrationError, match="found no samples; expected at least one"):
        calibrate(instrument(regions), iter([]))


def test_samples_that_do_not_fit_are_an_error(regions):
    with pytest.raises(InputError, match="found shape"):
        calibrate(instrument(regions), [{"x": np.zeros((1, 5), np.float32), "y": np.zeros((1, 4), np.float32)}])


def test_infinities_inside_the_network_are_left_out_and_reported(regions):
    sample = {"x": np.float32([[100, 1, 0, 0]]), "y": np.float32([[1, 0, 0, 0]])}
    report = collect(instrument(regions), [sample])
    assert report.observations["exp"] == Observation(1.0, float(np.float32(np.e)), 3, 0, 1)
    assert report.warnings == [
        "'exp': found 0 NaN and 1 infinities among 4 values; they are left out of the range",
    ]


def test_a_point_with_no_finite_value_is_an_error(regions):
    sample = {"x": np.full((1, 4), 1000, np.float32), "y": np.zeros((1, 4), np.float32)}
    with pytest.raises(CalibrationError, match="'exp': found 4 values in 1 samples, all infinite"):
        calibrate(instrument(regions), [sample])


@pytest.mark.parametrize("value", [0.0, -0.0, 2.5, -1e-45])
def test_a_degenerate_range_is_stated_as_it_is_and_reported(regions, value):
    sample = {"x": np.full((1, 4), value, np.float32), "y": np.ones((1, 4), np.float32)}
    asked = instrument(regions)
    report = collect(asked, [sample])
    calibrated = state_ranges(asked, report)
    verify(calibrated.module)
    expected = float(np.float32(value))
    assert layer_stats(calibrated)[0] == (expected, expected)
    if value == 0:  # the number of values is said only if one has zeros only
        assert re.match(r"(found only zeros in )?'x'", report.warnings[0])
    else:
        assert report.warnings[0].startswith("'x': found only the number")


def test_values_that_are_only_zeros_are_one_warning_and_constants_none():
    zeros, constant = Observation(0.0, 0.0, 4), Observation(0.0, 0.0, 4, constant=True)
    infinite = Observation(0.0, 0.0, 3, infinite_count=1)
    assert Report({"a": constant, "b": zeros}, 1).warnings == [
        "'b': found only zeros in 4 values; its scale is arbitrary"
    ]
    found = Report({**{f"v{i}": zeros for i in range(8)}, "i": infinite, "c": constant}, 1).warnings
    names = ", ".join(f"'v{i}'" for i in range(6))
    assert found[0] == f"found only zeros in {names}, and 3 more; their scales are arbitrary"
    assert found[1:] == ["'i': found 0 NaN and 1 infinities among 4 values; they are left out of the range"]
    assert Report({"c": constant}, 1).warnings == []


def test_a_value_that_no_input_has_an_effect_on_may_be_zeros():
    program = parse_program("""
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<2xf32>
  %0 = "quant.stats_ref"(%b) {statsKey = "state"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "quant.stats_ref"(%x) {statsKey = "x"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}""")
    report = collect(program, [{"arg0": np.float32([0, 0])}])
    assert report.warnings == ["'x': found only zeros in 2 values; its scale is arbitrary"]


def test_a_program_that_asks_nothing_is_not_run_and_the_report_says_so(regions):
    def never():
        raise AssertionError("the samples were taken")
        yield

    report = collect(regions, never())
    assert report.warnings == ["found no quant.stats_ref, so nothing was observed; instrument the program first"]


def test_points_that_share_a_key_share_an_observer():
    program = parse_program("""
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "quant.stats_ref"(%x) {statsKey = "k"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "quant.stats_ref"(%y) {statsKey = "k"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}""")
    assert stats_keys(program) == ["k"]
    calibrated = calibrate(program, [{"arg0": np.float32([1, 2]), "arg1": np.float32([-3, 0])}])
    assert layer_stats(calibrated) == [(-3.0, 2.0), (-3.0, 2.0)]


def test_empty_tensors_have_the_range_0_to_0_and_are_reported():
    program = parse_program("""
func.func @main(%x: tensor<0x2xf32>) -> tensor<0x2xf32> {
  %0 = "quant.stats_ref"(%x) {statsKey = "k"} : (tensor<0x2xf32>) -> tensor<0x2xf32>
  return %0 : tensor<0x2xf32>
}""")
    report = collect(program, [{"arg0": np.zeros((0, 2), np.float32)}])
    assert report.observations["k"] == Observation(0.0, 0.0, 0)
    assert "found no values" in report.warnings[0]


def test_an_observer_may_be_given_as_its_maker(regions):
    made: list[MinMaxObserver] = []

    def factory():
        made.append(MinMaxObserver())
        return made[-1]

    collect(instrument(regions), SAMPLES, observer=factory)
    assert [observer.count for observer in made] == [8, 8, 8, 8]


def test_any_engine_can_run_the_program(regions):
    class Counting:
        """Runs nothing, and shows one value at every point."""

        def prepare(self, program):
            keys = stats_keys(program)

            def run(inputs, *, observe=None):
                assert observe is not None
                for key in keys:
                    observe(key, np.float32([7]))
                return {}

            return run

    calibrated = calibrate(instrument(regions), SAMPLES, engine=Counting())
    assert layer_stats(calibrated) == [(7.0, 7.0)] * 4


def test_progress_sees_every_sample(regions):
    seen: list[object] = []

    def progress(items, description):
        for item in items:
            if description == "calibrate":
                seen.append(item)
            yield item

    collect(instrument(regions), SAMPLES, progress=progress)
    assert len(seen) == 2


def test_the_calibrated_program_asks_nothing_more(regions):
    calibrated = calibrate(instrument(regions), SAMPLES)
    assert not [op for op in calibrated.module.walk() if isinstance(op, StatisticsRefOp)]
    assert print_program(instrument(calibrated)) == print_program(calibrated)


def test_values_that_the_range_leaves_out_are_stated(regions):
    samples = [*SAMPLES] * 40 + [{name: 9 * array for name, array in SAMPLES[0].items()}]
    asked = instrument(regions)
    report = collect(asked, samples, observer="percentile:99")
    (cut, *_) = [op for op in state_ranges(asked, report).module.walk() if EXTREMES in op.attributes]
    assert isinstance(cut, StatisticsOp)
    low, high = cut.layer_stats.get_values()
    least, greatest = cut.attributes[EXTREMES].get_values()
    assert least <= low <= high <= greatest
    assert (least, greatest) != (low, high)
    assert not any(EXTREMES in op.attributes for op in calibrate(instrument(regions), samples).module.walk())
