"""Execution slots: an arena and worker threads, for one call at a time."""

from __future__ import annotations

import threading

import numpy as np

from zeropoint.codegen.graph import Graph, place_of
from zeropoint.codegen.llvm.machine import Loaded
from zeropoint.codegen.parameters import ALIGNMENT
from zeropoint.codegen.runtime.workers import Workers
from zeropoint.codegen.step_table import StepTable
from zeropoint.ir.program import Port
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.limits import LimitExceeded


def aligned(size: int) -> Array:
    """A zeroed byte array whose address is a multiple of ALIGNMENT."""
    block = np.zeros(size + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size]


class Slot:
    """Memory and threads for one call at a time. The running call holds `lock`. Nothing in `arena` is
    needed between calls.
    """

    def __init__(self, code: Loaded, graph: Graph, table: StepTable, arena: int, threads: int):
        self.lock = threading.Lock()
        self._results = results_of(graph.outputs)
        self._graph = graph
        self.arena = memory = aligned(max(1, arena))
        weights = graph.weights.array
        self._memory = memory, weights
        ports = len(graph.inputs), len(graph.outputs)
        self._workers = Workers(code, threads, memory.ctypes.data, weights.ctypes.data, *ports, table)

    def run(self, values: list[Array]) -> tuple[list[Array], list[Array]]:
        """The outputs for valid inputs, which must be dense and aligned, and the observed values.

        The latter are in the slot's memory: the next run overwrites them. Raises LimitExceeded after too many trips.
        """
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        addresses = [[array.ctypes.data for array in arrays] for arrays in (values, results)]
        self._workers.run(*addresses, held=(values, results, self._memory))
        check_trips(self._graph, self._memory[0])
        return results, observed_values(self._graph, *self._memory, values, results)

    def close(self) -> None:
        """End the threads."""
        self._workers.close()


def results_of(ports: list[Port]) -> list[tuple[tuple[int, ...], np.dtype[np.generic]]]:
    """The shapes and dtypes of outputs."""
    return [(shape_of(port.type), element_dtype(element_of(port.type))) for port in ports]


def observed_values(
    graph: Graph, arena: Array, weights: Array, values: list[Array], results: list[Array]
) -> list[Array]:
    """The observed values after a run, read-only, where they were computed."""
    found: list[Array] = []
    for view in graph.observed:
        table, number, offset = place_of(view)
        base = ((arena, weights), values, results)[table][number].reshape(-1).view(np.uint8)
        array: Array = np.ndarray(view.shape, view.dtype, base.data, offset, view.strides)
        array.flags.writeable = False
        found.append(array)
    return found


def check_trips(graph: Graph, arena: Array) -> None:
    """Raise LimitExceeded, with the name of the loop, if a run has exceeded the limit of trips."""
    if graph.trips is None:
        return
    start = graph.trips.count.buffer.offset
    _, loop = arena[start : start + 16].view(np.int64)
    if loop:
        raise LimitExceeded(
            f"{graph.trips.loops[loop - 1]}: found a loop that goes on after {graph.trips.limit} trips of all loops in "
            f"this run; max_trips (--max-trips) allows more"
        )
