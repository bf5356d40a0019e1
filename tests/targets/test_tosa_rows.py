"""Every row of `tosa.toml`, against TOSA's reference model: models of the row, exported, validated, run.

It must compute every integer that our interpreter computes of the quantized program under the table's profile.
"""

from __future__ import annotations

import pytest

from targets.confirmation import confirming, rows
from zeropoint.check_target import cases, check_rows
from zeropoint.export.tosa.runtime import tools, tosa_version
from zeropoint.targets import KernelRow, target

NAME, PACKAGE = "tosa", "tosa-tools"
CASES = {kernel: found for kernel, found in cases.CASES.items() if kernel in target(NAME).by_kernel}


@pytest.mark.skipif(tools() is None, reason="tosa-tools (in the environment that ZEROPOINT_TOSA names) are missing")
@pytest.mark.parametrize("row", rows(NAME))
def test_the_reference_model_computes_the_row(row: KernelRow) -> None:
    with confirming(NAME, row, PACKAGE, tosa_version()):
        findings = [finding for finding in check_rows(NAME, [row.kernel]) if finding.row == row]
        assert findings
        for finding in findings:
            assert finding.outcome == "equal", (finding.variant, finding.problem, finding.steps)
