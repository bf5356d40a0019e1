"""Engines that run programs. The interpreter and native code give the same results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from zeropoint.interp.interpreter import Interpreter
from zeropoint.interp.plan import Observe
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array


class Runnable(Protocol):
    """A program prepared by an engine."""

    def __call__(self, inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
        """The outputs by name. `observe(key, array)` is called at every `quant.stats_ref`."""
        ...


class Engine(Protocol):
    """A way to run programs."""

    def prepare(self, program: Program) -> Runnable:
        """Prepare the program to be called many times."""
        ...


class ReferenceEngine:
    """The interpreter as an engine."""

    def prepare(self, program: Program) -> Runnable:
        """An `Interpreter` of the program."""
        return Interpreter(program)
