"""Which engine runs a float program on calibration data, where the user names none."""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.interp import ReferenceEngine, Runnable
from zeropoint.ir.program import Program
from zeropoint.report.counts import multiplications

LEAST_OPERATIONS = 200_000_000
"""Multiplications and additions of a run from which on compiling a program takes less time than it saves."""


@dataclass(frozen=True)
class QuickestEngine:
    """Native code for programs of some size; the interpreter for small ones and those with ops of no native form.

    Both compute in f32, in another order of summation: ranges agree to about six digits. Integers are the same. `runs`
    is how often a program is going to run, where that is known.
    """

    runs: int = 1

    def prepare(self, program: Program) -> Runnable:
        """The program made ready by the engine that is going to be done first."""
        if multiplications(program) * self.runs < LEAST_OPERATIONS // 2:
            return ReferenceEngine().prepare(program)
        from zeropoint.codegen.llvm.machine import CodegenError  # imports LLVM, and only needed here
        from zeropoint.codegen.runtime.observed import ObservedProgram

        try:
            return ObservedProgram(program)
        except CodegenError:
            return ReferenceEngine().prepare(program)
