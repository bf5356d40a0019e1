"""The debug build: code that checks every load and store, in memory between pages that may not be touched.

`ZEROPOINT_GUARDED=1` makes every `NativeProgram` so. Each call runs twice, once with inputs, outputs, arena and weights
against the page behind them, in memory of ones, and once against the page before them, in memory of zeros; both have to
give the same bytes. What the checks find (`zeropoint.codegen.runtime.overruns`) is an OverrunError.

`GuardedProgram` is for what would escape them: ordinary code, step by step, every buffer of the arena with pages of its
own. A kernel that goes astray ends the process; what it stores beside a buffer, on the side that has no guard page, is
found after the step. Tasks run one at a time, the last one first: none may rest on another.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import threading
from collections.abc import Callable, Mapping

import numpy as np

from zeropoint.codegen.cache import cache_folder
from zeropoint.codegen.graph import ALIGNMENT, Buffer, Graph, Parameters, Space, Step, View
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import Loaded, host
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.codegen.objects import objects_of
from zeropoint.codegen.runtime.overruns import Bounds, OverrunError
from zeropoint.codegen.runtime.slots import Slot, results_of
from zeropoint.codegen.runtime.workers import Workers
from zeropoint.ir.arguments import checked_arguments, in_order
from zeropoint.ir.program import Port, Program
from zeropoint.ir.tensors import Array

PAGE = mmap.PAGESIZE


class Guarded:
    """`size` bytes that touch a guard page: with their end if `high`, else with their start."""

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
        """Where the bytes start."""
        return self.bytes.ctypes.data

    def intact(self) -> bool:
        """Whether what lies beside the bytes is what it was."""
        return bool((self._slack == self._fill).all())


class _Memory:
    """Where the buffers of one run are."""

    def __init__(self, inputs: list[Guarded], outputs: list[Guarded], weights: Guarded, make: Callable[[int], Guarded]):
        self._callers = {Space.INPUT: inputs, Space.OUTPUT: outputs}
        self._weights, self._make = weights, make
        self._arena: dict[Buffer, Guarded] = {}

    def of(self, buffer: Buffer) -> Guarded:
        """The memory that holds a buffer."""
        if buffer.space is Space.WEIGHTS:
            return self._weights
        if buffer.space is not Space.ARENA:
            return self._callers[buffer.space][buffer.index]
        if buffer not in self._arena:
            self._arena[buffer] = self._make(buffer.size)
        return self._arena[buffer]

    def place(self, argument: View | Parameters) -> int:
        """The address that a kernel gets."""
        if isinstance(argument, Parameters):
            return self._weights.address + argument.offset
        inside = argument.buffer.offset if argument.buffer.space is Space.WEIGHTS else 0
        return self.of(argument.buffer).address + inside + argument.offset


def is_wanted() -> bool:
    """Whether `$ZEROPOINT_GUARDED` asks for the debug build: any value but 0 and nothing."""
    return os.environ.get("ZEROPOINT_GUARDED", "0") not in ("", "0")


class _Side:
    """The arena and the weights against the pages on one side, and what may be touched there."""

    def __init__(self, graph: Graph, arena: int, *, high: bool, fill: int):
        self._high, self._fill = high, fill
        self.arena = self.of(arena)
        self.weights = self.of(len(graph.weights) + -len(graph.weights) % ALIGNMENT)
        self.weights.bytes[: len(graph.weights)] = np.frombuffer(bytes(graph.weights), np.uint8)
        self.bounds = Bounds(graph, self.arena.address, self.weights.address)

    def of(self, size: int) -> Guarded:
        """Memory on this side."""
        return Guarded(size, high=self._high, fill=self._fill)

    def holding(self, value: Array) -> Guarded:
        """The bytes of an array on this side."""
        held = self.of(value.nbytes)
        held.bytes[:] = np.frombuffer(value.tobytes(), np.uint8)
        return held

    def clear(self) -> None:
        """The arena as it was at first."""
        self.arena.bytes[:] = self._fill


class GuardedSlot(Slot):
    """Runs every call twice, in guarded memory."""

    def __init__(self, code: Loaded, graph: Graph, arena: int, threads: int):
        self.lock = threading.Lock()
        self._outputs = graph.outputs
        self._results = results_of(graph.outputs)
        self._sides = [_Side(graph, arena, high=high, fill=fill) for high, fill in ((True, 0xFF), (False, 0))]
        places = self._sides[0].arena.address, self._sides[0].weights.address
        self._workers = Workers(code, threads, *places, len(graph.inputs) + 1, len(graph.outputs))

    def run(self, values: list[Array]) -> list[Array]:
        """The outputs. Raises OverrunError where a kernel touches what is not its own, or reads what nothing wrote."""
        ones, zeros = (self._run_on(side, values) for side in self._sides)
        for port, one, zero in zip(self._outputs, ones, zeros, strict=True):
            if one.tobytes() != zero.tobytes():
                raise OverrunError(
                    f"output {port.name}: found other values in memory of ones than of zeros, expected the same; a "
                    f"kernel reads what nothing has written"
                )
        return zeros

    def _run_on(self, side: _Side, values: list[Array]) -> list[Array]:
        self._workers.use(side.arena.address, side.weights.address)  # and nobody uses it any more
        given = [side.holding(value) for value in values]
        results = [side.of(math.prod(shape) * dtype.itemsize) for shape, dtype in self._results]
        side.clear()
        addresses = [[held.address for held in part] for part in (given, results)]
        side.bounds.place(*addresses)
        self._workers.run([*addresses[0], side.bounds.address], addresses[1], held=(given, results, side))
        side.bounds.check()
        if not all(held.intact() for held in (*given, *results, side.arena, side.weights)):
            raise OverrunError("found bytes changed beside the buffers of a call, where no check saw it; expected none")
        return [
            np.frombuffer(held.bytes.tobytes(), dtype).reshape(shape)
            for held, (shape, dtype) in zip(results, self._results, strict=True)
        ]


class GuardedProgram:
    """An integer program, run in guarded memory; slow. Raises CodegenError where an op has no kernel."""

    def __init__(
        self,
        program: Program,
        *,
        isa: InstructionSet | None = None,
        high: bool = True,
        fill: int = 0xA5,
        entering: Callable[[Step], None] | None = None,
    ):
        self.inputs: list[Port] = program.inputs
        self.outputs: list[Port] = program.outputs
        self._isa = host() if isa is None else isa
        self._graph = steps_of(program, self._isa)
        kernels = kernels_of(self._graph)
        self._code = Loaded(objects_of(kernels.sources, self._isa, cache=cache_folder()).values(), self._isa)
        self._names = kernels.names
        self._high, self._fill, self._entering = high, fill, entering
        # Kernels rely on the alignment of the block, so its end is as aligned as its start.
        block = bytes(self._graph.weights) + bytes(-len(self._graph.weights) % ALIGNMENT)
        self._weights = self._guarded(len(block))
        self._weights.bytes[:] = np.frombuffer(block, np.uint8)

    def _guarded(self, size: int) -> Guarded:
        return Guarded(size, high=self._high, fill=self._fill)

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name. Raises OverrunError for a store beside a buffer."""
        values = checked_arguments(in_order(inputs, self.inputs), self.inputs)
        given = [self._guarded(value.nbytes) for value in values]
        for held, value in zip(given, values, strict=True):
            held.bytes[:] = np.frombuffer(value.tobytes(), np.uint8)
        types = results_of(self.outputs)
        results = [self._guarded(math.prod(shape) * dtype.itemsize) for shape, dtype in types]
        memory = _Memory(given, results, self._weights, self._guarded)
        for step, name in zip(self._graph.steps, self._names, strict=True):
            self._run(step, name, [memory.place(argument) for argument in step.arguments])
            if not all(memory.of(buffer).intact() for buffer in (*step.reads, *step.writes)):
                raise OverrunError(f"{step.name}: {step.kernel} stored outside of its buffers")
        return {
            port.name: np.frombuffer(held.bytes.tobytes(), dtype).reshape(shape)
            for port, held, (shape, dtype) in zip(self.outputs, results, types, strict=True)
        }

    def _run(self, step: Step, name: str, places: list[int]) -> None:
        if self._entering is not None:
            self._entering(step)
        pointers = [ctypes.c_void_p] * len(places)
        call = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64, ctypes.c_int64)(self._code.address(name))
        tasks = step.kernel.tasks(self._isa)
        for task in reversed(range(tasks)):
            call(*places, task, task + 1)
