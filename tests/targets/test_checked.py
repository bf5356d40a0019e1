"""The column `checked`: it names a runtime, its version and a test that asks the runtime about the row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from targets.confirmation import row_text
from zeropoint.ir.quant import Storage
from zeropoint.report.tables import target_list, target_table
from zeropoint.targets import Free, KernelRow, PortRule, Role, Target, target

ROOT = Path(__file__).parents[2]
FORM = re.compile(r"(?P<runtime>\S+) (?P<version>\S+): (?P<test>tests/\S+\.py)")
MODULES = {
    "cpu": "test_cpu_rows",
    "cpu-integer": "test_cpu_integer_rows",
    "cpu-wide": "test_cpu_wide_rows",
    "litert": "test_litert_rows",
    "litert-16x8": "test_litert_rows",
    "onnxruntime": "test_onnxruntime_rows",
    "onnxruntime-vnni": "test_onnxruntime_rows",
    "openvino": "test_openvino_rows",
    "openvino-vnni": "test_openvino_rows",
    "stablehlo": "test_stablehlo_rows",
    "tosa": "test_tosa_rows",
}
"""The test modules that have a case for each kernel, by target."""
UNCHECKED: dict[tuple[str, str], str] = {
    ("cpu", "compare"): "a model of one op would quantize its result, an i1: tests/solve/test_comparisons.py",
}
"""Why nobody has confirmed a row: by target and kernel."""


def cases(name: str) -> Mapping[str, object]:
    return import_module(f".{MODULES[name]}", __package__).CASES


def own(name: str) -> list[KernelRow]:
    """The rows of a target that are not rows of cpu, which it extends."""
    return [row for row in target(name).rows if name == "cpu" or row not in target("cpu").rows]


@pytest.mark.parametrize(("name", "row"), [(name, row) for name in MODULES for row in own(name)])
def test_every_row_was_checked_or_has_a_reason(name: str, row: KernelRow) -> None:
    reason = UNCHECKED.get((name, row.kernel))
    assert bool(row.checked) != bool(reason), row_text(row)
    if row.checked:
        found = FORM.fullmatch(row.checked)
        assert found is not None, f"found checked = {row.checked!r}, expected 'RUNTIME VERSION: tests/FILE.py'"
        assert found["test"] == f"tests/targets/{MODULES[name]}.py"
        assert (ROOT / found["test"]).is_file()
        assert row.kernel in cases(name), "the test has no case for this kernel"


@pytest.mark.parametrize("name", MODULES)
def test_every_case_and_every_reason_is_of_a_row(name: str) -> None:
    kernels = set(target(name).by_kernel)
    assert set(cases(name)) <= kernels
    assert {kernel for found, kernel in UNCHECKED if found == name} <= kernels


def test_the_printed_table_says_which_rows_were_checked() -> None:
    rule = PortRule(Role.ACTIVATION, Storage.of("i8"))
    row = KernelRow("add", (rule,), rule, Free(), checked="runtime 1.2: tests/x.py")
    text = target_table(Target("mine", "fixed32", (row, replace(row, kernel="multiply", checked=""))))
    lines = text.splitlines()
    assert next(line for line in lines if " add " in line).split()[-2:] == ["runtime", "1.2"]
    assert next(line for line in lines if " multiply " in line).split()[-1] == "-"
    assert lines[-1] == "1 of 2 rows checked; 1 by runtime 1.2 in tests/x.py"


def test_the_list_of_targets_counts_the_rows_that_were_checked() -> None:
    count, left = len(target("cpu").rows), sum(name == "cpu" for name, _ in UNCHECKED)
    line = next(line for line in target_list().splitlines() if "cpu" in line)
    assert f"{count - left} of {count} rows checked" in line
