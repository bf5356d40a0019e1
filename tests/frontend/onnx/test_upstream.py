"""What the importer writes, C++ MLIR parses and verifies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frontend.onnx.models import load, one_op
from frontend.onnx.operators import CASES, Case
from zeropoint.ir.text import print_program


@pytest.fixture(scope="module")
def context() -> Any:
    ir = pytest.importorskip("torch_mlir.ir", reason="torch-mlir, the C++ oracle, is not installed")
    from torch_mlir._mlir_libs import _stablehlo

    context = ir.Context()
    _stablehlo.register_dialect(context)
    return context


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c.op_type}-{c.name}") for c in CASES])
def test_program_is_accepted(case: Case, context: Any, tmp_path: Path) -> None:
    from torch_mlir import ir

    opset = case.opsets[-1]
    program = load(one_op(case.op_type, case.inputs, case.constants, opset, case.outputs, **case.attributes), tmp_path)
    if any(op.name.startswith("chlo.") for op in program.entry.ops):
        pytest.skip("the wheel's C++ StableHLO comes without the chlo dialect")
    module = ir.Module.parse(print_program(program, locations=True, inline_weights=True), context)
    assert module.operation.verify()
    names = [op.operation.name for op in module.body.operations[0].regions[0].blocks[0].operations]
    assert names == [op.name for op in program.entry.ops]
