"""What latency.py computes from its measurements, and that its parts fit together; no engine is timed here."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("llvmlite", reason="needs the extra 'bench'")

import choices
import engines
import latency
import other_work
import prepare
import suite
import worker
from agreement import sqnr_db, top1_agreement
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS

ENGINES = ["a", "b", "c", "d"]


class TestSchedule:
    def test_every_engine_takes_one_turn_in_every_round(self):
        assert [sorted(order) for order in latency.schedule(ENGINES, 7)] == [ENGINES] * 7

    def test_the_order_changes_between_rounds_and_is_the_same_in_every_run(self):
        orders = latency.schedule(ENGINES, 20)
        assert len({tuple(order) for order in orders}) > 5
        assert orders == latency.schedule(ENGINES, 20)


class TestTiming:
    def test_the_half_with_the_least_other_work_is_kept_in_its_order(self):
        turns = [latency.Turn((index,), others) for index, others in enumerate([0.3, 0.9, 0.0, 0.1, 0.2])]
        assert [turn.seconds[0] for turn in latency.quietest(turns)] == [2, 3, 4]

    def test_medians_are_milliseconds_of_all_inferences_and_of_each_turn_that_is_kept(self):
        turns = [latency.Turn((0.001, 0.002, 0.009), 0.2), latency.Turn((0.5,), 1.0), latency.Turn((0.003, 0.004), 0.1)]
        timing = latency.timing(turns)
        assert timing.median == pytest.approx(3)
        assert timing.turns == pytest.approx((2, 3.5))
        assert timing.others == pytest.approx(0.15)
        assert timing.inferences == 5

    @pytest.mark.parametrize("turns", [[], [latency.Turn((0.1,), 0), latency.Turn((), 0)]])
    def test_a_turn_without_an_inference_is_refused(self, turns: list[latency.Turn]):
        with pytest.raises(ValueError, match="expected at least one in each"):
            latency.timing(turns)


class TestRatios:
    def test_the_best_peer_of_the_same_width_is_the_unit_and_ours_is_no_peer(self):
        medians = {
            "zeropoint-int8": 1.0,
            "onnxruntime-u8": 4.0,
            "litert-int8": 2.0,
            "zeropoint-f32": 9.0,
            "openvino-f32": 6.0,
        }
        assert latency.ratios(medians) == {
            "zeropoint-int8": 0.5,
            "onnxruntime-u8": 2.0,
            "litert-int8": 1.0,
            "zeropoint-f32": 1.5,
            "openvino-f32": 1.0,
        }

    def test_without_a_peer_there_is_no_ratio(self):
        assert latency.ratios({"zeropoint-int8": 1.0, "openvino-f32": 6.0}) == {"openvino-f32": 1.0}


class TestTable:
    def test_a_row_shows_figures(self):
        figures = latency.Timing(3.0, (2.0, 4.0), 0.25, 9)
        row = latency.Row("net", 2, "litert-int8", figures, ratio=1.25, gops=100.4, share=0.5, sqnr=30.0)
        *_, line = latency.table([row]).splitlines()
        assert line == "| net | 2 | litert-int8 | 3.000 | 2.000 to 4.000 | 1.25 | 100 | 50 % | 30.0 | 0.25 |"

    def test_a_skipped_engine_shows_its_reason_in_a_row_of_the_same_width(self):
        header, _, line = latency.table([latency.Row("net", 1, "zeropoint-int8", None, skipped="why")]).splitlines()
        assert line.startswith("| net | 1 | zeropoint-int8 | why |")
        assert line.count("|") == header.count("|")


class TestOperations:
    def test_convolutions_and_matrix_products_count_two_for_each_product(self):
        def initializer(name: str, *shape: int) -> onnx.TensorProto:
            return helper.make_tensor(name, TensorProto.FLOAT, shape, np.zeros(shape).ravel())

        def port(name: str, *shape: int) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        nodes = [
            helper.make_node("Conv", ["x", "w"], ["y"], group=2),  # (1, 6, 6, 6) of 2 x 3 x 3 products each
            helper.make_node("Flatten", ["y"], ["z"]),
            helper.make_node("Gemm", ["z", "v"], ["g"], transB=1),  # (1, 10) of 216
            helper.make_node("MatMul", ["g", "u"], ["h"]),  # (1, 5) of 10
        ]
        weights = [initializer("w", 6, 2, 3, 3), initializer("v", 10, 216), initializer("u", 10, 5)]
        graph = helper.make_graph(nodes, "g", [port("x", 1, 4, 8, 8)], [port("h", 1, 5)], weights)
        assert suite.operations(helper.make_model(graph)) == 2 * (216 * 18 + 10 * 216 + 5 * 10)

    def test_an_unknown_shape_is_refused_with_the_ops_name(self):
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
        weight = helper.make_tensor("w", TensorProto.FLOAT, (4, 4), np.zeros(16))
        node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
        graph = helper.make_graph([node], "g", ports[:1], ports[1:], [weight])
        with pytest.raises(ValueError, match="MatMul 'product'"):
            suite.operations(helper.make_model(graph))


class TestSamples:
    @pytest.mark.parametrize("name", suite.KERNELS)
    def test_those_of_a_kernel_have_its_shape_and_are_the_same_every_time(self, name: str):
        first, second = suite.samples(name, 2)
        assert first["input"].shape == suite.KERNELS[name].shape
        assert first["input"].dtype == np.float32
        assert not np.array_equal(first["input"], second["input"])
        assert np.array_equal(first["input"], suite.samples(name, 1)[0]["input"])

    def test_every_subject_has_a_script(self):
        folder = latency.WORKER.parent / "models"
        assert all((folder / f"{suite.script(name)}.py").exists() for name in suite.SUBJECTS)


class TestLimits:
    @pytest.mark.parametrize("engine", ["onnxruntime-u8", "litert-int8", "zeropoint-f32", "openvino-f32"])
    def test_an_engine_that_takes_no_limit_is_skipped(self, engine: str, monkeypatch: pytest.MonkeyPatch):
        for name, value in engines.limited_to("avx-vnni").items():
            monkeypatch.setenv(name, value)
        with pytest.raises(engines.SkippedError, match="cannot be limited to avx-vnni"):
            engines.load("gemm_512", engine, 1, {})

    def test_instruction_sets_are_those_of_the_compiler(self):
        assert set(engines.LIMITS) <= set(INSTRUCTION_SETS)


class TestChoices:
    def test_names_keep_their_order_and_come_once(self):
        assert choices.chosen(["a", "b"])("b,a,b") == ["b", "a"]
        assert choices.counts(2)("2,1") == [2, 1]

    def test_an_unknown_name_is_refused_with_the_known_ones(self):
        with pytest.raises(argparse.ArgumentTypeError, match="found 'c', expected one of: a, b"):
            choices.chosen(["a", "b"])("a,c")


class TestAgreement:
    def test_sqnr_is_that_of_the_formula(self):
        assert sqnr_db(np.array([3.0, 4.0]), np.array([3.0, 4.5])) == pytest.approx(20)
        assert sqnr_db(np.ones(2), np.ones(2)) == float("inf")

    def test_top1_agreement_is_the_share_of_equal_places(self):
        assert top1_agreement(np.array([[1, 2], [3, 1]]), np.array([[0, 9], [0, 9]])) == 0.5


class TestEngines:
    def test_each_has_a_loader_and_each_quantized_one_a_maker(self):
        assert {engine.split("-")[0] for engine in suite.ENGINES} == set(engines.LOADERS)
        own = {engine for engine, suffix in suite.ENGINES.items() if suffix and not engine.startswith("litert")}
        assert own == set(prepare.MAKERS)

    def test_a_missing_file_is_a_skip_that_names_the_script(self, monkeypatch: pytest.MonkeyPatch, tmp_path):
        monkeypatch.setattr(suite, "CACHE", tmp_path)
        with pytest.raises(engines.SkippedError, match=r"resnet50\.openvino-int8\.xml, made by bench/prepare\.py"):
            engines.load("resnet50", "openvino-int8", 1, {})

    def test_missing_samples_are_an_error_that_names_the_script(self, monkeypatch: pytest.MonkeyPatch, tmp_path):
        monkeypatch.setattr(suite, "CACHE", tmp_path)
        with pytest.raises(FileNotFoundError, match=r"run bench/sentences\.py first"):
            suite.samples("minilm", 1)


class TestOtherWork:
    def test_busy_time_is_all_but_idle_and_waiting_for_disks_and_guests_are_not_counted_twice(self):
        assert other_work.busy_seconds("cpu  100 20 30 5000 700 4 5 60 90 0\ncpu0 1 2", 100) == pytest.approx(2.19)

    def test_this_process_is_no_other_work_and_an_absent_file_means_none(self, monkeypatch, tmp_path):
        monkeypatch.setattr(other_work, "STAT", tmp_path / "absent")
        meter = other_work.Meter()
        sum(range(100_000))
        assert meter.cores() == 0.0

    def test_waiting_ends_when_it_is_quiet_or_patience_is_over(self, monkeypatch, tmp_path):
        monkeypatch.setattr(other_work, "STAT", tmp_path / "absent")
        assert other_work.wait_until_quiet(60, sample=0.01) < 10
        assert other_work.wait_until_quiet(0.03, limit=-1, sample=0.01) >= 0.03
        assert other_work.wait_until_quiet(-1) < 1


class TestWorker:
    def test_timing_takes_at_least_three_after_two_that_do_not_count(self):
        calls: list[None] = []
        assert len(worker.timed(lambda: calls.append(None), 0.0)) == 3
        assert len(calls) == 5

    def test_timing_goes_on_for_the_given_seconds(self):
        taken = worker.timed(lambda: None, 0.01)
        assert len(taken) > 3
        assert statistics.median(taken) < 0.01


class TestProcesses:
    def test_an_engine_that_cannot_load_is_skipped_with_its_error_and_leaves_its_traceback(self, monkeypatch, tmp_path):
        monkeypatch.setattr(latency, "LOGS", tmp_path)
        engine = latency.Worker(sys.executable, "nothing", "conv1x1_28_192_64", 1)
        engine.close()
        assert engine.skipped == "KeyError: 'nothing'"
        assert "Traceback" in (tmp_path / "conv1x1_28_192_64.1.nothing.log").read_text()

    def test_an_engine_that_ends_early_is_skipped_with_its_status(self, monkeypatch, tmp_path):
        monkeypatch.setattr(latency, "LOGS", tmp_path)
        monkeypatch.setattr(latency, "WORKER", tmp_path / "worker.py")
        latency.WORKER.write_text("print('{\"ready\": true}', flush=True); input(); raise SystemExit(3)")
        engine = latency.Worker(sys.executable, "any", "any", 1)
        assert not engine.skipped
        assert latency.interleaved({"any": engine}, 2, 0.1) == {}
        engine.close()
        assert engine.skipped == "ended with status 3"


@pytest.mark.parametrize("script", ["latency.py", "prepare.py", "peak.py"])
def test_a_script_explains_its_options(script: str):
    command = [sys.executable, str(latency.WORKER.parent / script), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: {script}")
