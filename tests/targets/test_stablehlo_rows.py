"""Every row of `stablehlo.toml`, against C++ StableHLO: our stages make a quantized program of one op by the row.

C++ StableHLO must verify the exported file, and its interpreter must compute what our integer program does under the
table's profile. Unsigned storage is signed in the file, with other zero points, which f32 may round otherwise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from interp.programs import upstream
from oracle import mlir
from targets.confirmation import confirming
from targets.one_op import float_program, kernels, regions_of, variants
from zeropoint.check_target.models import Built
from zeropoint.export.stablehlo import stablehlo_text
from zeropoint.interp import run
from zeropoint.lower import lower
from zeropoint.materialize import materialize
from zeropoint.targets import KernelRow

NAME, PACKAGE = "stablehlo", "torch-mlir"
CASES = kernels(NAME)


@pytest.mark.parametrize(("row", "made"), variants(NAME))
def test_the_exported_program_verifies_and_computes_the_same(row: KernelRow, made: Built, tmp_path: Path) -> None:
    mlir.require()
    with confirming(NAME, row, PACKAGE):
        before, inputs = float_program(made, tmp_path)
        program = materialize(regions_of(NAME, row, before, made))
        text = stablehlo_text(program)
        assert not mlir.needs_unregistered(text)
        mlir.canonical(text)
        theirs = upstream(text, *inputs.values())
        for one, other in zip(theirs, run(lower(program), inputs).values(), strict=True):
            steps = [np.rint(array / np.float32(made.results[0].scale)) for array in (one, other)]
            assert len(np.unique(steps[0])) > 7, "the result says nothing"
            assert np.abs(steps[0] - steps[1]).max() <= (0 if made.results[0].storage.type.signed else 1)
