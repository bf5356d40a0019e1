"""The column `checked`: it names a runtime, its version and a test that asks the runtime about the row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from zeropoint.targets import KernelRow, target

from .confirmation import row_text, rows

ROOT = Path(__file__).parents[2]
FORM = re.compile(r"(?P<runtime>\S+) (?P<version>\S+): (?P<test>tests/\S+\.py)")
MODULES = {
    "onnxruntime": "test_onnxruntime_rows",
    "litert": "test_litert_rows",
    "litert-16x8": "test_litert_rows",
}
"""The test modules that have a case for each kernel, by target."""
UNCHECKED: dict[tuple[str, str], str] = {}
"""Why nobody has confirmed a row: by target and kernel."""


def cases(name: str) -> Mapping[str, object]:
    return import_module(f".{MODULES[name]}", __package__).CASES


@pytest.mark.parametrize(("name", "row"), [(name, *row.values) for name in MODULES for row in rows(name)])
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
