"""Programs as machine code in this process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from zeropoint.codegen.graph import ALIGNMENT, Graph
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import Loaded, host
from zeropoint.codegen.memory import Arena, plan
from zeropoint.codegen.modules import driver_of, kernels_of
from zeropoint.codegen.objects import cache_folder, objects_of
from zeropoint.codegen.select import select
from zeropoint.codegen.workers import Workers, serve_text
from zeropoint.ir.program import Port, Program
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

RUN = "zeropoint_run"


def aligned(size: int) -> Array:
    """Zeroed bytes that start at a multiple of ALIGNMENT."""
    block = np.zeros(size + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size]


def texts_of(graph: Graph, run: str = RUN) -> dict[str, str]:
    """LLVM modules by name: the kernels, and the driver with the functions that threads enter."""
    kernels = kernels_of(graph)
    return {**kernels.texts, "driver": driver_of(graph, kernels, run, serve_text(run))}


class InputError(ValueError):
    """Inputs that do not fit a program: says what was found and what was expected."""


class NativeProgram:
    """An integer program as machine code, with its memory. Calls from several threads wait for each other.

    `arena` says how much memory a run needs. Raises CodegenError where an op has no kernel.
    """

    def __init__(
        self,
        program: Program,
        *,
        threads: int = 1,
        isa: InstructionSet | None = None,
        cache: Path | bool | None = True,
    ):
        self.inputs: list[Port] = program.inputs
        self.outputs: list[Port] = program.outputs
        self.isa = host() if isa is None else isa
        self.graph = select(program, self.isa)
        self.arena: Arena = plan(self.graph)
        folder = cache_folder() if cache is True else (cache or None)
        objects = objects_of(texts_of(self.graph), self.isa, cache=folder)
        self.code = Loaded(objects.values(), self.isa)
        self._weights = aligned(len(self.graph.weights))
        self._weights[:] = np.frombuffer(bytes(self.graph.weights), np.uint8)
        self._memory = aligned(max(1, self.arena.size))
        self._lock = threading.Lock()
        self._signatures = [(shape_of(port.type), element_dtype(element_of(port.type))) for port in self.inputs]
        self._results = [(shape_of(port.type), element_dtype(element_of(port.type))) for port in self.outputs]
        self._workers = Workers(
            self.code,
            threads,
            self._memory.ctypes.data,
            self._weights.ctypes.data,
            len(self.inputs),
            len(self.outputs),
        )

    @property
    def threads(self) -> int:
        """How many threads share the work."""
        return self._workers.threads

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name. Raises InputError where names, shapes or dtypes do not fit."""
        expected = [port.name for port in self.inputs]
        if set(inputs) != set(expected):
            raise InputError(f"found inputs {', '.join(sorted(inputs)) or 'none'}; expected {', '.join(expected)}")
        results = self.run_values([inputs[name] for name in expected])
        return {port.name: result for port, result in zip(self.outputs, results, strict=True)}

    def run_values(self, values: Sequence[Array]) -> list[Array]:
        """The outputs in order, for inputs in order; arrays that are not contiguous are copied."""
        if len(values) != len(self.inputs):
            raise InputError(f"found {len(values)} inputs, expected {len(self.inputs)}")
        arrays = [self._checked(n, np.asarray(value)) for n, value in enumerate(values)]
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        with self._lock:
            self._workers.run([a.ctypes.data for a in arrays], [a.ctypes.data for a in results])
        return results

    def _checked(self, index: int, value: Array) -> Array:
        shape, dtype = self._signatures[index]
        if value.shape != shape or value.dtype != dtype:
            raise InputError(
                f"input {self.inputs[index].name}: found {value.dtype} of shape {value.shape}, expected {dtype} of "
                f"shape {shape}"
            )
        return np.ascontiguousarray(value)

    def close(self) -> None:
        """End the worker threads."""
        self._workers.close()
