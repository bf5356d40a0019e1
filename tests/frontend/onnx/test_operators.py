"""Every op that is imported, run by the interpreter and compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from frontend.onnx.models import assert_same_as_onnxruntime, one_op, random
from frontend.onnx.operators import CASES, POSITIVE, Case
from zeropoint.frontend.onnx.converters import CONVERTERS


@pytest.mark.parametrize(
    ("case", "opset"),
    [pytest.param(c, opset, id=f"{c.op_type}-{c.name}-{opset}") for c in CASES for opset in c.opsets],
)
def test_operator_computes_what_onnxruntime_does(case: Case, opset: int, tmp_path: Path) -> None:
    proto = one_op(case.op_type, case.inputs, case.constants, opset, case.outputs, **case.attributes)
    low = 0.1 if case.op_type in POSITIVE else -2.0
    inputs = {
        name: given if isinstance(given, np.ndarray) else random(*given, seed=i + 7, low=low)
        for i, (name, given) in enumerate(case.inputs.items())
    }
    assert_same_as_onnxruntime(proto, tmp_path, inputs)


def test_the_documentation_lists_the_ops_that_are_imported() -> None:
    text = (Path(__file__).parents[3] / "docs/onnx.md").read_text().partition("## Ops")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in text.splitlines() if line.startswith("| ")][1:]
    assert [op.strip() for row in rows for op in row.split(",")] == list(CONVERTERS)
