"""Kernels of every kind on AArch64, under qemu: what the interpreter computes, from C, several programs in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from codegen import contractions
from codegen.exactness import assert_same_bits
from codegen.loop_programs import INTEGERS, inputs_for
from codegen.machines import ARM
from codegen.qemu import AARCH64, Sample, under_qemu
from codegen.row_programs import float_programs
from property_cases import some
from zeropoint.codegen.kernels.batched import Batched
from zeropoint.codegen.kernels.loops import Nest
from zeropoint.codegen.kernels.rows import Rows
from zeropoint.codegen.lowering import steps_of
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program

pytestmark = AARCH64.skipped

ROWS = pytest.mark.parametrize("name", ["neon-i8mm", "neon-dotprod"])


@ROWS
def test_integers_of_loop_nests_are_the_interpreters(name: str, tmp_path: Path) -> None:
    # Half of them each: instruction sets differ in the sign of activation bytes only.
    chosen = list(INTEGERS.items())[list(ARM).index(name) :: 2]
    programs = [(program, inputs_for(program)) for _, program in chosen]
    kernels = {type(step.kernel) for program, _ in programs for step in steps_of(program, ARM[name]).steps}
    assert Nest in kernels
    found = under_qemu(programs, ARM[name], tmp_path)
    for (title, _), (program, sample), outputs in zip(chosen, programs, found, strict=True):
        for port, expected in Interpreter(program)(sample).items():
            np.testing.assert_array_equal(outputs[port], expected, err_msg=title)


@ROWS
def test_products_of_two_activations_are_the_interpreters(name: str, tmp_path: Path) -> None:
    programs: list[tuple[Program, Sample]] = []

    @some(4)
    @given(case=contractions.batches())
    def collect(case: contractions.Case) -> None:
        programs.append((case.program, case.samples[len(programs) % 4]))

    collect()
    kernels = {type(step.kernel) for program, _ in programs for step in steps_of(program, ARM[name]).steps}
    assert Batched in kernels
    for (program, sample), outputs in zip(programs, under_qemu(programs, ARM[name], tmp_path), strict=True):
        np.testing.assert_array_equal(outputs["y0"], Interpreter(program)(sample)["y0"])


def test_floats_are_the_interpreters(tmp_path: Path) -> None:
    chosen = float_programs()
    assert [type(step.kernel) for step in steps_of(chosen[2], ARM["neon-i8mm"]).steps] == [Rows]
    programs = [(program, inputs_for(program)) for program in chosen]
    for (program, sample), outputs in zip(programs, under_qemu(programs, ARM["neon-i8mm"], tmp_path), strict=True):
        ((port, expected),) = Interpreter(program)(sample).items()
        assert_same_bits(outputs[port], expected)
