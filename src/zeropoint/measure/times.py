"""The time of every node in native code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.progress import Progress, silent
from zeropoint.report.document import ReportGraph, Time

_NAME = re.compile(r"'(.*)'$")
"""The name of an op of the model inside the name of a step: `fxpmath.requantize 'conv1'`."""
ROUNDS = 20
"""The number of runs. The time of a kernel is the minimum of these."""


@dataclass(frozen=True)
class Timed:
    """The times by node, the total time of all kernels, and the bytes of memory for intermediate values.

    `peak` is the measured maximum number of integer operations per second of one core; None if unknown.
    """

    times: dict[str, Time]
    seconds: float
    arena_bytes: int
    processor: str
    peak: float | None


def times(program: Program, graph: ReportGraph, sample: Mapping[str, Array], progress: Progress = silent) -> Timed:
    """Compile the program for this processor and time its kernels on one thread.

    Raises CodegenError if an op has no native form.
    """
    from zeropoint.codegen.llvm.machine import host  # imports LLVM, which is needed only here
    from zeropoint.codegen.runtime.native import NativeProgram
    from zeropoint.codegen.runtime.profiling import profile
    from zeropoint.measure.peak import integer_peak, processor

    native = NativeProgram(program, progress=progress)
    nodes = graph.by_name()
    found: dict[str, Time] = {}
    steps = profile(native, sample, ROUNDS, progress)
    for step in steps:
        named = _NAME.search(step.name)
        node = None if named is None else nodes.get(named[1])
        if node is not None:
            old = found.get(node, Time(0.0, 0, 0, ()))
            moved = step.read + step.written + step.parameters
            kernels = (*old.kernels, step.kernel) if step.kernel not in old.kernels else old.kernels
            found[node] = Time(old.seconds + step.seconds, old.operations + step.operations, old.moved + moved, kernels)
    return Timed(
        found, sum(step.seconds for step in steps), native.arena.size, f"{processor()}, {host().name}", integer_peak()
    )
