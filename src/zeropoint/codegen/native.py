"""Programs as machine code in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from zeropoint.codegen.graph import ALIGNMENT, Graph
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import Loaded, host
from zeropoint.codegen.memory import Arena, plan
from zeropoint.codegen.modules import Source, driver_of, kernels_of
from zeropoint.codegen.objects import cache_folder, objects_of
from zeropoint.codegen.select import select
from zeropoint.codegen.workers import Workers, serve_text
from zeropoint.ir.arguments import checked_arguments, in_order
from zeropoint.ir.program import Port, Program
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

RUN = "zeropoint_run"


def aligned(size: int) -> Array:
    """Zeroed bytes that start at a multiple of ALIGNMENT."""
    block = np.zeros(size + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size]


def _dense(value: Array) -> Array:
    """The same elements in order, without gaps, where their type wants them."""
    return value if value.flags.c_contiguous and value.flags.aligned else value.copy(order="C")


def sources_of(graph: Graph, run: str = RUN) -> dict[str, Source]:
    """LLVM modules by name: the kernels, and the driver with the functions that threads enter."""
    kernels = kernels_of(graph)
    return {**kernels.sources, "driver": driver_of(graph, kernels, run, serve_text(run))}


class NativeProgram:
    """An integer program as machine code, with its memory.

    `callers` says how many calls may run at once, each in an arena and with threads of its own; further ones wait.
    `arena` says how much memory a run needs. Raises CodegenError where an op has no kernel.
    """

    def __init__(
        self,
        program: Program,
        *,
        threads: int = 1,
        callers: int = 1,
        isa: InstructionSet | None = None,
        cache: Path | bool | None = True,
    ):
        if callers < 1:
            raise ValueError(f"found {callers} callers, expected at least 1")
        self.inputs: list[Port] = program.inputs
        self.outputs: list[Port] = program.outputs
        self.threads = threads
        self._process = os.getpid()
        self.isa = host() if isa is None else isa
        self.graph = select(program, self.isa)
        self.arena: Arena = plan(self.graph)
        folder = cache_folder() if cache is True else (cache or None)
        self.code = Loaded(objects_of(sources_of(self.graph), self.isa, cache=folder).values(), self.isa)
        self._weights = aligned(len(self.graph.weights))
        self._weights[:] = np.frombuffer(bytes(self.graph.weights), np.uint8)
        self._results = [(shape_of(port.type), element_dtype(element_of(port.type))) for port in self.outputs]
        self._memories = [aligned(max(1, self.arena.size)) for _ in range(callers)]
        ports = len(self.inputs), len(self.outputs)
        self._places = [
            Workers(self.code, threads, memory.ctypes.data, self._weights.ctypes.data, *ports)
            for memory in self._memories
        ]
        self._free: SimpleQueue[Workers] = SimpleQueue()
        for place in self._places:
            self._free.put(place)

    @property
    def operations(self) -> int:
        """Multiplications and additions of the contractions of a run."""
        return sum(step.operations for step in self.graph.steps)

    def __call__(
        self, inputs: Mapping[str, Array], *, observe: Callable[[str, Array], None] | None = None
    ) -> dict[str, Array]:
        """The outputs by name.

        `observe` is never called: a program that asks for statistics has no kernels for that. Raises InputError where
        names, shapes or dtypes do not fit.
        """
        results = self.run_values(in_order(inputs, self.inputs))
        return {port.name: result for port, result in zip(self.outputs, results, strict=True)}

    def run_values(self, values: Sequence[Array]) -> list[Array]:
        """The outputs in order, for inputs in order; arrays that are not contiguous or not aligned are copied.

        Raises RuntimeError in a process that was forked from the one with the threads, where nobody would answer.
        """
        if self.threads > 1 and os.getpid() != self._process:
            raise RuntimeError(
                f"found a call in process {os.getpid()}, which was forked from {self._process} and has none of its "
                f"{self.threads} threads; load the program there, or start processes anew ('spawn')"
            )
        arrays = [_dense(value) for value in checked_arguments(values, self.inputs)]
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        place = self._free.get()
        try:
            place.run([a.ctypes.data for a in arrays], [a.ctypes.data for a in results])
        finally:
            self._free.put(place)
        return results

    def close(self) -> None:
        """End the worker threads."""
        for place in self._places:
            place.close()


class NativeEngine:
    """Native code as an engine: what runs programs where the interpreter would."""

    def __init__(self, *, threads: int = 1, callers: int = 1, isa: InstructionSet | None = None):
        self._threads, self._callers, self._isa = threads, callers, isa

    def prepare(self, program: Program) -> NativeProgram:
        """The program as machine code. Raises CodegenError where an op has no kernel."""
        return NativeProgram(program, threads=self._threads, callers=self._callers, isa=self._isa)
