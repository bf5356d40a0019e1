"""The public StableHLO programs: every one that is in scope passes, none that is listed as out of scope does."""

from __future__ import annotations

from pathlib import Path

import pytest

import conformance

pytestmark = pytest.mark.skipif(
    not conformance.FOLDER.is_dir(),
    reason=f"no conformance data at {conformance.FOLDER.parent} (set ZEROPOINT_CONFORMANCE)",
)

FILES = [*conformance.programs(), conformance.VERIFIED] if conformance.FOLDER.is_dir() else []


@pytest.mark.parametrize("path", FILES, ids=[path.stem[:60] for path in FILES])
def test_public_programs(path: Path) -> None:
    assert conformance.problems(path) == []


def test_what_is_out_of_scope_names_files_that_there_are() -> None:
    known = {case.name for path in FILES for case in conformance.cases(path)}
    known |= {name.partition("#")[0] for name in known}
    assert set(conformance.OUT_OF_SCOPE) <= known
