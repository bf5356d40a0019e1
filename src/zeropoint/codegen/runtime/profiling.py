"""Profile a native program: time every kernel in complete runs, in one thread.

Kernels are timed in complete runs and not in separate loops, so that their inputs are in the cache level where the
previous kernel left them. The overhead of a call is measured with calls without tasks, and subtracted.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from zeropoint.codegen.graph import Buffer, Parameters
from zeropoint.codegen.modules import kernels_of
from zeropoint.codegen.runtime.addresses import Addresses
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.codegen.runtime.slots import aligned
from zeropoint.errors import OptionError
from zeropoint.ir.arguments import checked_arguments, in_order
from zeropoint.ir.tensors import Array
from zeropoint.progress import Progress, silent


@dataclass(frozen=True)
class StepTime:
    """A kernel: its minimum time in seconds over all runs, its operations, and the bytes that it reads and writes."""

    name: str
    kernel: str
    seconds: float
    operations: int
    read: int
    written: int
    parameters: int


def profile(
    program: NativeProgram, inputs: Mapping[str, Array], rounds: int = 20, progress: Progress = silent
) -> list[StepTime]:
    """The steps of a program in order, timed over `rounds` runs.

    Raises InputError if the inputs do not fit the program, OptionError if `rounds` is less than 1 or the program is
    guarded.
    """
    if rounds < 1:
        raise OptionError(f"found {rounds} rounds, expected at least 1")
    if program.guarded:
        raise OptionError("found a guarded program, expected one to be timed; unset ZEROPOINT_GUARDED")
    values = [
        np.asarray(value, order="C") for value in checked_arguments(in_order(inputs, program.inputs), program.inputs)
    ]
    results = program.run_values(values)
    graph = program.graph
    memory, weights = aligned(max(1, program.arena.size)), graph.weights.array
    arrays = [[array.ctypes.data for array in given] for given in (values, results)]
    calls = _calls(program, Addresses(memory.ctypes.data, weights.ctypes.data, *arrays))
    times = np.full((rounds, len(calls), 2), np.inf)
    for measured in progress(times, "time"):
        for index, (call, tasks) in enumerate(calls):
            for kind, end in enumerate((tasks, 0)):
                started = time.perf_counter()
                call(end)
                measured[index, kind] = time.perf_counter() - started
    whole, empty = times.min(axis=0).T
    return [
        StepTime(
            step.name,
            type(step.kernel).__name__,
            float(seconds),
            step.operations,
            _bytes(step.reads),
            _bytes(step.writes),
            sum(argument.size for argument in step.arguments if isinstance(argument, Parameters)),
        )
        for step, seconds in zip(graph.steps, np.maximum(whole - empty, 0), strict=True)
    ]


def _calls(program: NativeProgram, addresses: Addresses) -> list[tuple[Callable[[int], None], int]]:
    """For every step, a function that runs the first n tasks of its kernel on one arena, and the number of tasks."""
    graph = program.graph
    calls: list[tuple[Callable[[int], None], int]] = []
    for step, name in zip(graph.steps, kernels_of(graph).names, strict=True):
        pointers = [ctypes.c_void_p] * len(step.arguments)
        function = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64, ctypes.c_int64)(program.code.address(name))
        calls.append((partial(function, *map(addresses.of, step.arguments), 0), step.kernel.tasks(graph.isa)))
    return calls


def _bytes(buffers: tuple[Buffer, ...]) -> int:
    return sum(buffer.size for buffer in buffers)
