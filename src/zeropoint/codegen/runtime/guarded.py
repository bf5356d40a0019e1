"""The debug build: code that checks every load and store, in memory between guard pages.

`ZEROPOINT_GUARDED=1` selects it for every `NativeProgram`. Each call runs twice. In the first run, inputs, outputs,
arena and weights end at a guard page, and memory is filled with ones. In the second run, they start after a guard page,
and memory is filled with zeros. Both runs must give the same bytes. A failed check (`runtime/overruns.py`) raises
OverrunError.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import threading

import numpy as np

from zeropoint.codegen.graph import Graph
from zeropoint.codegen.llvm.machine import Loaded
from zeropoint.codegen.parameters import ALIGNMENT
from zeropoint.codegen.runtime.overruns import MemoryBounds, OverrunError
from zeropoint.codegen.runtime.slots import Slot, check_trips, observed_values, results_of
from zeropoint.codegen.runtime.workers import Workers
from zeropoint.codegen.step_table import StepTable
from zeropoint.ir.tensors import Array

PAGE = mmap.PAGESIZE


class Guarded:
    """`size` bytes next to a guard page, which follows them if `high`, and else precedes them."""

    def __init__(self, size: int, *, high: bool, fill: int):
        inner = -(-max(1, size) // PAGE) * PAGE
        self._map = mmap.mmap(-1, inner + 2 * PAGE)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._fill = fill
        base = self._bytes.ctypes.data
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (base, base + PAGE + inner):
            if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect failed")
        start = PAGE + (inner - size if high else 0)
        self.bytes: Array = self._bytes[start : start + size]
        self.bytes[:] = fill
        self._slack: Array = self._bytes[PAGE:start] if high else self._bytes[start + size : PAGE + inner]
        self._slack[:] = fill

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return self.bytes.ctypes.data

    def intact(self) -> bool:
        """Whether the memory on the other side of the bytes is unchanged."""
        return bool((self._slack == self._fill).all())


def is_wanted() -> bool:
    """Whether `$ZEROPOINT_GUARDED` selects the debug build: any value except empty and 0."""
    return os.environ.get("ZEROPOINT_GUARDED", "0") not in ("", "0")


class _Side:
    """The arena and the weights next to guard pages on one side, with their table of bounds."""

    def __init__(self, graph: Graph, arena: int, *, high: bool, fill: int):
        self._high, self._fill = high, fill
        self.arena = self.of(arena)
        self.weights = self.of(len(graph.weights) + -len(graph.weights) % ALIGNMENT)
        self.weights.bytes[: len(graph.weights)] = graph.weights.array
        self.bounds = MemoryBounds(graph, self.arena.address, self.weights.address)

    def of(self, size: int) -> Guarded:
        """`size` bytes of guarded memory on this side."""
        return Guarded(size, high=self._high, fill=self._fill)

    def holding(self, value: Array) -> Guarded:
        """A guarded copy of an array on this side."""
        held = self.of(value.nbytes)
        held.bytes[:] = np.frombuffer(value.tobytes(), np.uint8)
        return held

    def clear(self) -> None:
        """Reset the arena to its initial fill."""
        self.arena.bytes[:] = self._fill


class GuardedSlot(Slot):
    """Runs every call twice, in guarded memory."""

    def __init__(self, code: Loaded, graph: Graph, table: StepTable, arena: int, threads: int):
        self.lock = threading.Lock()
        self._outputs = graph.outputs
        self._results = results_of(graph.outputs)
        self._graph = graph
        self._sides = [_Side(graph, arena, high=high, fill=fill) for high, fill in ((True, 0xFF), (False, 0))]
        blocks = self._sides[0].arena.address, self._sides[0].weights.address
        ports = len(graph.inputs) + 1, len(graph.outputs)
        self._workers = Workers(code, threads, *blocks, *ports, table)

    def run(self, values: list[Array]) -> tuple[list[Array], list[Array]]:
        """The outputs and the observed values.

        Raises OverrunError if a kernel leaves its buffers or reads uninitialized memory.
        """
        ones, zeros = (self._run_on(side, values) for side in self._sides)
        for port, one, zero in zip(self._outputs, ones, zeros, strict=True):
            if one.tobytes() != zero.tobytes():
                raise OverrunError(
                    f"output {port.name}: found other values in memory of ones than of zeros, expected the same; a "
                    f"kernel reads uninitialized memory"
                )
        side = self._sides[-1]
        return zeros, observed_values(self._graph, side.arena.bytes, side.weights.bytes, values, zeros)

    def _run_on(self, side: _Side, values: list[Array]) -> list[Array]:
        self._workers.use(side.arena.address, side.weights.address)  # the workers now use this side
        given = [side.holding(value) for value in values]
        results = [side.of(math.prod(shape) * dtype.itemsize) for shape, dtype in self._results]
        side.clear()
        addresses = [[held.address for held in part] for part in (given, results)]
        side.bounds.set_addresses(*addresses)
        self._workers.run([*addresses[0], side.bounds.address], addresses[1], held=(given, results, side))
        side.bounds.check()
        check_trips(self._graph, side.arena.bytes)
        if not all(held.intact() for held in (*given, *results, side.arena, side.weights)):
            raise OverrunError("found bytes changed beside the buffers of a call, which no check reported")
        return [
            np.frombuffer(held.bytes.tobytes(), dtype).reshape(shape)
            for held, (shape, dtype) in zip(results, self._results, strict=True)
        ]
