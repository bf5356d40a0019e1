"""ONNX's own backend suite: a sample of it here, all of it by `make onnx-conformance`."""

from __future__ import annotations

import re
from collections import Counter

import onnx
import pytest
from onnx import defs

import onnx_conformance as suite
from zeropoint.frontend.onnx.converters import CONVERTERS

EVERY = 40
"""Beside the first case of each operator, one case in so many is run here."""
TEXT = suite.DOCUMENT.read_text().partition(suite.BEGIN)[2].partition(suite.END)[0]
ROWS = re.findall(r"^\| (\S+) \| (\d+) \| (\d+) \| (.*) \|$", TEXT, re.MULTILINE)
COUNTS = {operator: (int(passed), int(refused)) for operator, passed, refused, _ in ROWS}


@pytest.fixture(scope="module")
def cases() -> dict[str, suite.Case]:
    with suite.made_quickly():  # the large pools are no part of the sample
        return suite.cases()


def test_a_sample_of_the_suite_passes_or_is_refused(cases: dict[str, suite.Case]) -> None:
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    passed: Counter[str] = Counter()
    for index, (name, case) in enumerate(cases.items()):
        seen[case.operator] += 1
        if seen[case.operator] > 1 and index % EVERY:
            continue
        outcome = suite.judge(case)
        passed[case.operator] += outcome.result in ("passed", "folded")
        if outcome.result == "failed":
            wrong.append(f"{name}: {outcome.reason}")
    assert not wrong
    assert passed.total() > 180


def test_the_documentation_has_the_counts_of_the_installed_suite(cases: dict[str, suite.Case]) -> None:
    if f"onnx {onnx.__version__}:" not in TEXT:
        pytest.skip("docs/onnx.md was written with another version of onnx")
    found = Counter(case.operator for case in cases.values())
    assert {operator: sum(counts) for operator, counts in COUNTS.items()} == dict(found)
    passed, refused = (sum(counts[i] for counts in COUNTS.values()) for i in range(2))
    assert f"of {found.total()} cases {passed} pass" in TEXT
    assert f"{refused} are refused, 0 are wrong, 0 crash." in TEXT


def test_every_converter_is_shown_by_the_suite() -> None:
    """The suite has cases of every operator; those of old opsets are among other rows."""
    elsewhere = {"GlobalLpPool", "Loop"}  # test_control
    lacking = [op for op in CONVERTERS if COUNTS.get(op, (0, 0))[0] == 0 and op not in elsewhere]
    assert not lacking
    assert all(defs.has(op) for op in CONVERTERS)
