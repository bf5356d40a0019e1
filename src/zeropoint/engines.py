"""Which engine runs a program, where the user names none. Both give the same bits (docs/native.md, "Floats")."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from zeropoint.interp import Engine, ReferenceEngine, Runnable
from zeropoint.interp.plan import Observe
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array
from zeropoint.report.counts import multiplications

LEAST_OPERATIONS = 200_000_000
"""Multiplications and additions of all runs from which on compiling a program takes less time than it saves."""
COMPILING = 7_000_000
"""Those that the interpreter does in floats while one op is compiled."""


def _compiled(program: Program) -> Runnable | None:
    """The program as native code; None if an op has no native form."""
    from zeropoint.codegen.llvm.machine import CodegenError  # imports LLVM, and only needed here
    from zeropoint.codegen.runtime.observed import ObservedProgram

    try:
        return ObservedProgram(program)
    except CodegenError:
        return None


class Warming:
    """A program that is interpreted at first, and compiled once its runs have taken as long as that takes.

    Safe to call from several threads at once.
    """

    def __init__(self, program: Program, operations: int):
        self._program = program
        self._operations = operations
        self._left = COMPILING * sum(not isinstance(op, ConstantOp) for op in program.module.walk())
        self._lock = threading.Lock()
        self.runnable = ReferenceEngine().prepare(program)

    def __call__(self, inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
        """The outputs by name; `observe(key, array)` is called at every `quant.stats_ref`."""
        if self._left > 0:
            self._count()
        return self.runnable(inputs, observe=observe)

    def _count(self) -> None:
        with self._lock:
            was, self._left = self._left, self._left - self._operations
            if was > 0 >= self._left:
                self.runnable = _compiled(self._program) or self.runnable


@dataclass(frozen=True)
class QuickestEngine:
    """Native code for programs that do much, the interpreter for others and those with ops of no native form.

    `runs` is how often a program is going to run, if that is known; if it is not, it is compiled in time.
    """

    runs: int = 1

    def prepare(self, program: Program) -> Runnable:
        """The program made ready by the engine that is going to be done first."""
        operations = 2 * multiplications(program)
        if operations * self.runs >= LEAST_OPERATIONS:
            return _compiled(program) or ReferenceEngine().prepare(program)
        return Warming(program, operations) if operations else ReferenceEngine().prepare(program)


def for_runs(engine: Engine, runs: int) -> Engine:
    """The engine for so many runs of a program: the quickest is another one then."""
    return QuickestEngine(max(runs, 1)) if isinstance(engine, QuickestEngine) else engine
