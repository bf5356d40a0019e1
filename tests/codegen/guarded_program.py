"""Ordinary code, not that of the debug build, run step by step, every buffer of the arena with guard pages of its own.

For what would escape the checks of the debug build. A kernel that goes astray ends the process; what it stores beside a
buffer, on the side that has no guard page, is found after the step. Tasks run one at a time, the last one first: none
may rest on another.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping

import numpy as np

from zeropoint.codegen.cache import cache_folder
from zeropoint.codegen.graph import Buffer, Parameters, Space, Step, View
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import Loaded, host
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.codegen.objects import objects_of
from zeropoint.codegen.parameters import ALIGNMENT
from zeropoint.codegen.runtime.guarded import Guarded
from zeropoint.codegen.runtime.overruns import OverrunError
from zeropoint.codegen.runtime.slots import results_of
from zeropoint.ir.arguments import checked_arguments, in_order
from zeropoint.ir.program import Port, Program
from zeropoint.ir.tensors import Array


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

    def address_of(self, argument: View | Parameters) -> int:
        """The address that a kernel gets."""
        if isinstance(argument, Parameters):
            return self._weights.address + argument.offset
        inside = argument.buffer.offset if argument.buffer.space is Space.WEIGHTS else 0
        return self.of(argument.buffer).address + inside + argument.offset


class GuardedProgram:
    """An integer program, run in guarded memory; slow. Raises CodegenError where an op has no kernel.

    Its code is not optimized: so it has every load and store of the kernels' text, and is compiled in a third of the
    time.
    """

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
        self._code = Loaded(
            objects_of(kernels.sources, self._isa, cache=cache_folder(), form="debug").values(), self._isa
        )
        self._names = kernels.names
        self._high, self._fill, self._entering = high, fill, entering
        # Kernels rely on the alignment of the block, so its end is as aligned as its start.
        block = self._graph.weights.array.tobytes() + bytes(-len(self._graph.weights) % ALIGNMENT)
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
            self._run(step, name, [memory.address_of(argument) for argument in step.arguments])
            if not all(memory.of(buffer).intact() for buffer in (*step.reads, *step.writes)):
                raise OverrunError(f"{step.name}: {step.kernel} stored outside of its buffers")
        return {
            port.name: np.frombuffer(held.bytes.tobytes(), dtype).reshape(shape)
            for port, held, (shape, dtype) in zip(self.outputs, results, types, strict=True)
        }

    def _run(self, step: Step, name: str, addresses: list[int]) -> None:
        if self._entering is not None:
            self._entering(step)
        pointers = [ctypes.c_void_p] * len(addresses)
        call = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64, ctypes.c_int64)(self._code.address(name))
        tasks = step.kernel.tasks(self._isa)
        for task in reversed(range(tasks)):
            call(*addresses, task, task + 1)
