"""Every row of `openvino.toml` and `openvino-vnni.toml`, against OpenVINO: a QDQ model of one op is made from the row.

OpenVINO must compute what our interpreter computes of the quantized program, which our own stages make of the same
model, under the table's profile: every integer.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest

from targets.confirmation import confirming
from targets.qdq_case import loaded, propagated, variants
from zeropoint.check_target.cases import CASES as SHARED
from zeropoint.check_target.models import Built
from zeropoint.check_target.runtimes import has_vnni
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.interp import run
from zeropoint.materialize import materialize
from zeropoint.targets import KernelRow, target

NAME, WITH_VNNI, PACKAGE = "openvino", "openvino-vnni", "openvino"
pytestmark = pytest.mark.skipif(find_spec(PACKAGE) is None, reason="needs OpenVINO, an extra")

CASES = {kernel: cases for kernel, cases in SHARED.items() if kernel in target(NAME).by_kernel}
OWN = [case for case in variants(WITH_VNNI) if case.values[0] not in target(NAME).rows]
"""The rows of processors with VNNI that others lack."""


@pytest.mark.parametrize(("row", "made"), variants(NAME))
def test_the_kernel_computes_what_our_quantized_program_says(row: KernelRow, made: Built, tmp_path: Path) -> None:
    _check(NAME, row, made, tmp_path)


@pytest.mark.skipif(not has_vnni(), reason="needs VNNI")
@pytest.mark.parametrize(("row", "made"), OWN)
def test_the_kernel_with_vnni_computes_what_our_quantized_program_says(
    row: KernelRow, made: Built, tmp_path: Path
) -> None:
    _check(WITH_VNNI, row, made, tmp_path)


def _check(name: str, row: KernelRow, made: Built, tmp_path: Path) -> None:
    with confirming(name, row, PACKAGE):
        expected = run(materialize(propagated(name, loaded(made.proto, tmp_path))), made.inputs)
        onnx.save(made.proto, tmp_path / "row.onnx")
        found = OpenVinoFile(tmp_path / "row.onnx")(made.inputs)
        if not made.results:
            for name, mine in expected.items():
                np.testing.assert_array_equal(found[name], mine)
        for port, (name, mine) in zip(made.results, expected.items(), strict=bool(made.results)):
            steps = [np.rint(real / np.float32(port.scale)) for real in (found[name], mine)]
            assert len(np.unique(steps[0])) > 10, "the result says nothing"
            np.testing.assert_array_equal(steps[0], steps[1])
