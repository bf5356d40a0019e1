"""Run programs as machine code in this process."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from zeropoint.codegen.cache import cache_folder
from zeropoint.codegen.graph import Graph
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import Loaded, host
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.memory import Arena, plan
from zeropoint.codegen.modules import ModuleSource, driver_of, kernels_of
from zeropoint.codegen.objects import objects_of
from zeropoint.codegen.parameters import ParameterBlock
from zeropoint.codegen.runtime.guarded import GuardedSlot, is_wanted
from zeropoint.codegen.runtime.slots import Slot
from zeropoint.codegen.runtime.workers import serve_text
from zeropoint.errors import OptionError
from zeropoint.ir.arguments import checked_arguments, in_order
from zeropoint.ir.program import Port, Program
from zeropoint.ir.tensors import Array
from zeropoint.progress import Progress, silent

RUN = "zeropoint_run"


def _dense(value: Array) -> Array:
    """The array, or a copy if it is not contiguous and aligned."""
    return value if value.flags.c_contiguous and value.flags.aligned else value.copy(order="C")


def sources_of(graph: Graph, run: str = RUN, *, checked: bool = False) -> dict[str, ModuleSource]:
    """The LLVM modules by name: the kernels, and the driver with the entry functions of threads."""
    kernels = kernels_of(graph, checked=checked)
    driver = driver_of(graph, kernels, run, serve_text(run), checked=checked, shared=True)
    return {**kernels.sources, **driver}


class NativeProgram:
    """An integer program as machine code, with its memory.

    `callers` is the number of calls that may run concurrently, each with its own arena and threads. Further calls wait.
    `arena` has the memory size of a run. `guarded` selects the debug build (`guarded.py`); by default,
    `$ZEROPOINT_GUARDED` decides. Code that is not `optimized` compiles in a tenth of the time and gives the same bits.
    `progress` counts the passes and the modules to compile. `graph` has the steps of the program for `isa`, if they are
    known.

    Raises CodegenError for an op without a kernel.
    """

    def __init__(
        self,
        program: Program,
        *,
        threads: int = 1,
        callers: int = 1,
        isa: InstructionSet | None = None,
        cache: Path | bool | None = True,
        guarded: bool | None = None,
        optimized: bool = True,
        progress: Progress = silent,
        graph: Graph | None = None,
    ):
        if callers < 1:
            raise OptionError(f"found {callers} callers, expected at least 1")
        self.inputs: list[Port] = program.inputs
        self.outputs: list[Port] = program.outputs
        self.threads = threads
        self._process = os.getpid()
        self.isa = host() if isa is None else isa
        self.guarded = is_wanted() if guarded is None else guarded
        self.graph = steps_of(program, self.isa, progress=progress) if graph is None else graph
        self.arena: Arena = plan(self.graph)
        folder = cache_folder() if cache is True else (cache or None)
        sources = sources_of(self.graph, checked=self.guarded)
        # The debug build is not optimized: checks add thousands of branches, and LLVM's passes take more time than they
        # save.
        form = "object" if optimized and not self.guarded else "debug"
        objects = objects_of(sources, self.isa, cache=folder, form=form, progress=progress)
        self.code = Loaded(objects.values(), self.isa)
        self._slots = [self._slot() for _ in range(callers)]
        self._turns = itertools.count()
        self._closed = False

    @property
    def operations(self) -> int:
        """The number of multiplications and additions in the contractions of a run."""
        return sum(step.operations for step in self.graph.steps)

    def __call__(
        self, inputs: Mapping[str, Array], *, observe: Callable[[str, Array], None] | None = None
    ) -> dict[str, Array]:
        """Run the program on inputs by name, and return the outputs by name.

        `observe` is not called, because there are no kernels for ops that request statistics. Raises InputError if
        names, shapes or dtypes do not match the program's inputs.
        """
        results = self.run_values(in_order(inputs, self.inputs))
        return {port.name: result for port, result in zip(self.outputs, results, strict=True)}

    def run_values(self, values: Sequence[Array]) -> list[Array]:
        """Run the program on inputs in order, and return the outputs in order.

        Arrays that are not contiguous and aligned are copied. Raises RuntimeError after `close`, and in a forked
        process, which does not have the worker threads.
        """
        if self.threads > 1 and os.getpid() != self._process:
            raise RuntimeError(
                f"found a call in process {os.getpid()}, which was forked from {self._process} and has none of its "
                f"{self.threads} threads; load the program there, or start processes anew ('spawn')"
            )
        arrays = [_dense(value) for value in checked_arguments(values, self.inputs)]
        slot = self._free()
        # `with` acquires the lock and enters atomically, so that a KeyboardInterrupt cannot leave it locked.
        with slot.lock:
            if self._closed:
                raise RuntimeError("found a call of a program that is closed, expected an open one; load it again")
            return slot.run(arrays)

    def _free(self) -> Slot:
        """An idle execution slot, or the next busy one in round-robin order.

        Another call may take an idle slot before this call locks it. Then this call waits for it.
        """
        for slot in self._slots:
            if not slot.lock.locked():
                return slot
        return self._slots[next(self._turns) % len(self._slots)]

    def _slot(self) -> Slot:
        if self.guarded:
            return GuardedSlot(self.code, self.graph, self.arena.size, self.threads)
        return Slot(self.code, self.graph, self.arena.size, self.threads)

    def close(self) -> None:
        """Wait for running calls, and end the worker threads. Later calls raise RuntimeError."""
        self._closed = True
        for slot in self._slots:
            with slot.lock:
                slot.close()


class NativeEngine:
    """Native code as an `Engine`."""

    def __init__(self, *, threads: int = 1, callers: int = 1, isa: InstructionSet | None = None):
        self._threads, self._callers, self._isa = threads, callers, isa

    def prepare_all(self, programs: Sequence[Program]) -> list[NativeProgram]:
        """Several programs as machine code, such as one network for several shapes. Equal parameters are stored once.

        Raises CodegenError like `prepare`.
        """
        isa, weights = host() if self._isa is None else self._isa, ParameterBlock()
        graphs = [steps_of(program, isa, weights) for program in programs]
        return [
            NativeProgram(program, threads=self._threads, callers=self._callers, isa=isa, graph=graph)
            for program, graph in zip(programs, graphs, strict=True)
        ]

    def prepare(self, program: Program) -> NativeProgram:
        """The program as machine code. Raises CodegenError for an op without a kernel."""
        return NativeProgram(program, threads=self._threads, callers=self._callers, isa=self._isa)
