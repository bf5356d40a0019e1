"""Every row of `cpu-wide.toml`: native code of a program of one op, made by the row, has the interpreter's bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.exactness import HERE, assert_native_is_exact
from targets.confirmation import confirming
from targets.one_op import float_program, kernels, regions_of, variants
from zeropoint.check_target.models import Built
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.targets import KernelRow, target

NAME, PACKAGE = "cpu-wide", "zeropoint"
CASES = kernels(NAME)


@pytest.mark.parametrize(("row", "made"), [case for case in variants(NAME) if case.values[0] not in target("cpu").rows])
def test_native_code_computes_the_row(row: KernelRow, made: Built, tmp_path: Path) -> None:
    with confirming(NAME, row, PACKAGE):
        before, inputs = float_program(made, tmp_path)
        program = integer_program(materialize(regions_of(NAME, row, before, made)))
        assert_native_is_exact(program, [inputs], HERE[0])
