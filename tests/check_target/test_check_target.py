"""The installed runtime beside our prediction, row by row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zeropoint.check_target import causes, check, check_rows, finding_page, finding_table
from zeropoint.check_target.cases import CASES
from zeropoint.check_target.check import CheckError, Finding
from zeropoint.check_target.models import built, signatures
from zeropoint.cli import main
from zeropoint.targets import target


@pytest.mark.parametrize(
    ("name", "package", "kernel"),
    [
        ("onnxruntime", "onnxruntime", "add"),
        ("litert", "ai_edge_litert", "max_pool"),
        ("litert", "ai_edge_litert", "fully_connected"),
        ("litert", "ai_edge_litert", "divide"),
        ("litert", "ai_edge_litert", "softmax"),
        ("litert", "ai_edge_litert", "arg_max"),
        ("onnxruntime", "onnxruntime", "arg_min"),
        ("openvino", "openvino", "concatenate"),
        ("openvino", "openvino", "softmax"),
    ],
)
def test_every_model_of_a_row_is_equal(name: str, package: str, kernel: str) -> None:
    pytest.importorskip(package)
    findings = list(check_rows(name, [kernel]))
    assert len(findings) >= 6
    assert {finding.outcome for finding in findings} == {"equal"}
    assert any("least zero points" in finding.variant for finding in findings)
    text = finding_table(findings)
    assert text.splitlines()[1].startswith(kernel)
    assert text.splitlines()[-1] == f"{len(findings)} models: {len(findings)} equal, 0 differ, 0 not compared"


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "openvino-vnni"])
def test_products_with_float_results_are_equal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime" if name == "onnxruntime" else "openvino")
    monkeypatch.setattr(check, "CASES", {})  # only the cases of `WITH_FLOATS`
    findings = [each for each in check_rows(name, ["fully_connected"]) if each.variant.startswith("f32")]
    assert len(findings) >= 24
    assert {finding.outcome for finding in findings} == {"equal"}


def test_each_set_of_kernels_is_named() -> None:
    pytest.importorskip("ai_edge_litert")
    names = {finding.runtime.partition(", ")[2] for finding in check_rows("litert", ["reshape"])}
    assert names == {"reference kernels", "XNNPACK"}


def test_a_wrong_prediction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")

    class Wrong(check.Interpreter):
        def __call__(self, inputs, **more):  # pyright: ignore (a stand-in for a runtime)
            return {name: array + np.float32(1) for name, array in super().__call__(inputs, **more).items()}

    monkeypatch.setattr(check, "Interpreter", Wrong)
    answer = CliRunner().invoke(main, ["check-target", "onnxruntime", "--kernel", "add"])
    assert answer.exit_code == 1
    assert "not explained" in answer.output


def test_what_has_no_kernel_of_its_own_says_so() -> None:
    pytest.importorskip("onnxruntime")
    (finding, *_) = check_rows("onnxruntime", ["tile"])
    assert finding.outcome == "not compared"
    assert finding.problem == "zeropoint has no program of this kernel alone"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["cpu"], "found target 'cpu', expected one whose exported files a runtime runs"),
        (["litert", "--kernel", "nothing"], "found kernel 'nothing', expected one of"),
        (["litert", "--page", "page.txt"], "found suffix '.txt', expected .md"),
        (["nothing"], "found target 'nothing', expected one of"),
    ],
)
def test_a_bad_question_is_refused_in_one_line(arguments: list[str], expected: str) -> None:
    answer = CliRunner().invoke(main, ["check-target", *arguments])
    assert answer.exit_code == 2
    assert expected in answer.output


def test_a_page_is_written(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    page = tmp_path / "page.md"
    answer = CliRunner().invoke(main, ["check-target", "onnxruntime", "--kernel", "reduce_max", "--page", str(page)])
    assert answer.exit_code == 0, answer.output
    assert page.read_text().startswith("# Target `onnxruntime`, compared with its runtime")
    assert page.read_text() == finding_page("onnxruntime", check_rows("onnxruntime", ["reduce_max"]))


def test_zero_points_reach_the_ends() -> None:
    row = next(row for row in target("onnxruntime").rows if row.kernel == "add")
    (case,) = CASES["add"]
    for end, expected in ((-1, 0), (1, 255)):
        made = built(row, case, signatures(row)[0], end=end)
        assert made.results[0].zero_point == expected


def test_a_difference_is_explained_by_a_known_cause_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "CAUSES", {("ai-edge-litert", "leaky_relu", 8): "it rounds otherwise"})
    row = next(row for row in target("litert").rows if row.kernel == "leaky_relu")
    assert Finding(row, None, "", "ai-edge-litert 1", 10, 9, 1).is_explained
    assert Finding(row, None, "", "onnxruntime 1", 10, 10, 0).is_explained
    assert not Finding(row, None, "", "onnxruntime 1", 10, 9, 1).is_explained


def test_a_target_without_a_runtime_is_refused() -> None:
    with pytest.raises(CheckError):
        next(check_rows("cpu"))
