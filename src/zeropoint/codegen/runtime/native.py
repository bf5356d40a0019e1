"""Run programs as machine code in this process."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from zeropoint.codegen.cache import cache_folder
from zeropoint.codegen.graph import Graph
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import Loaded, host, triple_of
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.memory import Arena, plan
from zeropoint.codegen.modules import KernelModules, ModuleSource, kernels_of
from zeropoint.codegen.objects import objects_of
from zeropoint.codegen.parameters import ParameterBlock
from zeropoint.codegen.runtime.guarded import GuardedSlot, is_wanted
from zeropoint.codegen.runtime.slots import Slot
from zeropoint.codegen.runtime.workers import serve_text
from zeropoint.codegen.sharing import most_arguments, shared_driver
from zeropoint.codegen.step_table import StepTable
from zeropoint.errors import OptionError
from zeropoint.ir.arguments import checked_arguments, in_order
from zeropoint.ir.program import Port, Program
from zeropoint.ir.tensors import Array
from zeropoint.progress import Progress, silent

RUN = "zeropoint_run"
SPINS = 60000
"""How often a worker polls for the next call before it parks: some hundred microseconds or more."""


def _dense(value: Array) -> Array:
    """The array, or a copy if it is not contiguous and aligned."""
    return value if value.flags.c_contiguous and value.flags.aligned else value.copy(order="C")


def sources_of(graph: Graph, kernels: KernelModules, *, checked: bool = False) -> dict[str, ModuleSource]:
    """LLVM modules by name: the kernels, and the driver with the entry functions of threads."""
    triple = triple_of(graph.isa)
    driver = shared_driver(RUN, most_arguments(graph.steps), triple, serve_text(RUN, triple), checked=checked)
    return {**kernels.sources, "driver": ModuleSource(driver, lambda: driver)}


class NativeProgram:
    """An integer program as machine code, with its memory.

    `callers` is the number of calls that may run concurrently, each with its own arena and threads; further calls wait.
    `arena` has the memory size of a run. The last `observed` outputs stay where they are computed: `observe_values`
    passes them on. A worker polls `spins` times for the next call before it parks. `guarded` selects the debug build
    (`guarded.py`); by default, `$ZEROPOINT_GUARDED` decides. `form` is one of `compiling.FORMS`: "light" compiles in
    half the time, "debug" in a tenth, and all compute the same bits. `progress` counts the passes, and the modules to
    compile. `graph` has the program's steps for `isa`, if they are known. An `adjustable` program keeps what `LockStep`
    needs.

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
        form: str = "object",
        progress: Progress = silent,
        graph: Graph | None = None,
        observed: int = 0,
        spins: int = SPINS,
        adjustable: bool = False,
    ):
        if callers < 1:
            raise OptionError(f"found {callers} callers, expected at least 1")
        self.inputs: list[Port] = program.inputs
        self.outputs: list[Port] = program.outputs[: len(program.outputs) - observed]
        self.threads = threads
        self._process = os.getpid()
        self.isa = host() if isa is None else isa
        if form != "object":
            self.isa = self.isa.unallocated if form == "debug" else self.isa.unoptimized
        self.guarded = is_wanted() if guarded is None else guarded
        self.graph = steps_of(program, self.isa, progress=progress, observed=observed) if graph is None else graph
        self.arena: Arena = plan(self.graph)
        folder = cache_folder() if cache is True else (cache or None)
        kernels = kernels_of(self.graph, checked=self.guarded)
        sources = sources_of(self.graph, kernels, checked=self.guarded)
        # Checks add thousands of branches; LLVM's passes over them take twenty times as long as they save.
        self.form = "debug" if self.guarded else form
        objects = objects_of(sources, self.isa, cache=folder, form=self.form, progress=progress)
        self.code = Loaded(objects.values(), self.isa)
        if not adjustable:
            self.graph.contractions.clear()  # they hold the program
        self.table = StepTable.of(self.graph, kernels.names, self.code, spins)
        if self.form == "object":
            self.graph.weights.in_large_pages()
        self._slots = [self._slot() for _ in range(callers)]
        self._turns = itertools.count()
        self._closed = False

    @property
    def arenas(self) -> list[Array]:
        """The memory of each concurrent call, which others may use between calls."""
        return [slot.arena for slot in self._slots]

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
        return self.observe_values(values)

    def observe_values(
        self, values: Sequence[Array], see: Callable[[list[Array], list[Array]], object] | None = None
    ) -> list[Array]:
        """The same; `see` gets the outputs and the observed values. The next call may overwrite the latter."""
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
            results, observed = slot.run(arrays)
            if see is not None:
                see(results, observed)
            return results

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
            return GuardedSlot(self.code, self.graph, self.table, self.arena.size, self.threads)
        return Slot(self.code, self.graph, self.table, self.arena.size, self.threads)

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
