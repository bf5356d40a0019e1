"""Portable kernels on 64-bit RISC-V, under qemu: what the interpreter computes, from C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given

from codegen import contractions
from codegen.exactness import assert_same_bits
from codegen.loop_programs import INTEGERS, inputs_for
from codegen.qemu import RISCV64, Sample, under_qemu
from codegen.row_programs import float_programs
from property_cases import some
from zeropoint.codegen.llvm.processors import instruction_set
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program

pytestmark = RISCV64.skipped
PORTABLE = instruction_set(triple="riscv64-unknown-linux-gnu")


def test_integers_of_loop_nests_are_the_interpreters(tmp_path: Path) -> None:
    chosen = dict(list(INTEGERS.items())[::2])
    programs = [(program, inputs_for(program)) for program in chosen.values()]
    for title, (program, sample), outputs in zip(
        chosen, programs, under_qemu(programs, PORTABLE, tmp_path, RISCV64), strict=True
    ):
        for port, expected in Interpreter(program)(sample).items():
            np.testing.assert_array_equal(outputs[port], expected, err_msg=title)


def test_convolutions_and_products_are_the_interpreters(tmp_path: Path) -> None:
    programs: list[tuple[Program, Sample]] = []

    @some(2)
    @given(batch=contractions.batches(), case=contractions.convolutions("dense"))
    def collect(batch: contractions.Case, case: contractions.Case) -> None:
        programs.extend((one.program, one.samples[0]) for one in (batch, case))

    collect()
    found = under_qemu(programs, PORTABLE, tmp_path, RISCV64)
    for (program, sample), outputs in zip(programs, found, strict=True):
        for port, expected in Interpreter(program)(sample).items():
            np.testing.assert_array_equal(outputs[port], expected)


def test_floats_are_the_interpreters(tmp_path: Path) -> None:
    programs = [(program, inputs_for(program)) for program in float_programs()]
    for (program, sample), outputs in zip(programs, under_qemu(programs, PORTABLE, tmp_path, RISCV64), strict=True):
        ((port, expected),) = Interpreter(program)(sample).items()
        assert_same_bits(outputs[port], expected)
