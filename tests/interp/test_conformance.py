"""The public StableHLO programs: every one that is in scope passes, none that is listed as out of scope does."""

from __future__ import annotations

from pathlib import Path

import pytest

import conformance

present = pytest.mark.skipif(
    not conformance.FOLDER.is_dir(),
    reason=f"no conformance data at {conformance.FOLDER.parent} (set ZEROPOINT_CONFORMANCE)",
)

FILES = [*conformance.programs(), conformance.VERIFIED] if conformance.FOLDER.is_dir() else []


@present
@pytest.mark.parametrize("path", FILES, ids=[path.stem[:60] for path in FILES])
def test_public_programs(path: Path) -> None:
    assert conformance.problems(path) == []


@present
def test_what_is_out_of_scope_names_files_that_there_are() -> None:
    known = {case.name for path in FILES for case in conformance.cases(path)}
    known |= {name.partition("#")[0] for name in known}
    assert set(conformance.OUT_OF_SCOPE) <= known


PASSES = """func.func @passes() {
  %c = stablehlo.constant dense<1> : tensor<i32>
  check.expect_eq_const %c, dense<1> : tensor<i32>
  return
}
"""


def test_the_runner_reports_what_fails_and_what_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "FOLDER", tmp_path)
    file = tmp_path / "file.mlir"
    fails = PASSES.replace("dense<1> : tensor<i32>\n  return", "dense<2> : tensor<i32>\n  return")
    file.write_text("\n// -----\n".join([PASSES, "// nothing", fails, fails, PASSES]))
    monkeypatch.setattr(conformance, "OUT_OF_SCOPE", {"file.mlir#3": "not ours", "file.mlir#4": "not ours either"})
    tally, found = conformance.examine(file)
    assert (tally.passed, tally.failed, tally.out_of_scope) == (1, 2, 1)
    assert "file.mlir#2: @passes: check.expect_eq_const at file.mlir" in found[0]
    assert found[1].startswith("file.mlir#4: passes; it is listed as out of scope (not ours either)")
    file.write_text("func.func @f(%x: tensor<2xi32>) {\n  // expected-error@+1 {{operand #0 must be}}\n  return\n}")
    assert conformance.misjudged(next(conformance.cases(file))) == "accepted; expected the error: operand #0 must be"
