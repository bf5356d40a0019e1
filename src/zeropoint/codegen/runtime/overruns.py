"""The memory that each step of a checked program may access, and the errors for violations.

A step may read the buffers of its arguments, including their padding. It may write its outputs from the first element
of the view to the last one, plus the rest of that vector. Buffers that share the arena have separate bounds. The table
has one block for each step, all of the same size, in the format of `zeropoint.codegen.llvm.checked.Layout`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeropoint.codegen.graph import Graph, Parameters, Step, View, every_step
from zeropoint.codegen.llvm.checked import LOAD, MISALIGNED, STACK, STORE, TABLE, Layout
from zeropoint.codegen.parameters import ALIGNMENT
from zeropoint.codegen.runtime.addresses import Addresses
from zeropoint.codegen.step_table import block_bytes
from zeropoint.ir.tensors import Array


class OverrunError(RuntimeError):
    """A kernel accessed memory outside of its buffers. The message names the kernel, the step and the address."""


class MemoryBounds:
    """The table of bounds of a program whose arena and weights are at the given addresses."""

    def __init__(self, graph: Graph, arena: int, weights: int):
        self._steps = list(every_step(graph.steps))
        self._arena, self._weights = arena, weights
        self._table: Array = np.zeros((len(self._steps) + 1, block_bytes(graph) // 8), np.int64)
        self._record: Array = np.zeros(Layout.RECORD_SIZE, np.int64)
        self._table[:, Layout.STEP // 8] = np.arange(len(self._table))
        self._table[:, Layout.RECORD // 8] = self._record.ctypes.data
        self._table[:, Layout.STRIDE // 8] = block_bytes(graph)

    @property
    def address(self) -> int:
        """The address of the table."""
        return self._table.ctypes.data

    def set_addresses(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Set the addresses of the caller's arrays before a run."""
        self._record[:] = 0
        addresses = Addresses(self._arena, self._weights, inputs, outputs)
        for number, step in enumerate(self._steps):
            entries = [
                (*self._read(argument, addresses), *self._written(step, index, addresses))
                for index, argument in enumerate(step.arguments)
            ]
            flat = np.array(entries, np.int64).reshape(-1)
            self._table[number, Layout.RANGES // 8 :][: flat.size] = flat

    def check(self) -> None:
        """Raise OverrunError if a check failed in the last run."""
        taken, number, pointer, address, size, kind = (int(found) for found in self._record)
        if not taken:
            return
        step = self._steps[number]
        verb = {LOAD: "loads", STORE: "stores", MISALIGNED: "loads or stores, misaligned,"}[kind]
        raise OverrunError(
            f"{step.name}: step {number} {verb} {size} bytes at {self._where(step, number, pointer, address, kind)}; "
            f"kernel: {step.kernel}"
        )

    def _where(self, step: Step, number: int, pointer: int, address: int, kind: int) -> str:
        """The description of an address in a message."""
        if pointer < 0:
            return {STACK: "an address on the stack", TABLE: "an address of a table"}[pointer] + " that is not its own"
        first = Layout.RANGES // 8 + Layout.ENTRY // 8 * pointer + 2 * (kind == STORE)
        low, high = (int(found) for found in self._table[number, first : first + 2])
        argument = step.arguments[pointer]
        if isinstance(argument, Parameters):
            said = f"parameters of {argument.size} bytes at {argument.offset} of the weights"
        else:
            said = (
                f"{argument.buffer.space.value} buffer of {argument.buffer.size} bytes at {argument.buffer.offset}, "
                f"view of {'x'.join(map(str, argument.shape)) or 'one'} {argument.dtype}, offset {argument.offset}, "
                f"strides {argument.strides}"
            )
        if kind == STORE and low == high:
            return f"argument {pointer}, which is read only: {said}"
        return f"byte {address - low} of argument {pointer}, expected 0 to {high - low}: {said}"

    def _read(self, argument: View | Parameters, addresses: Addresses) -> tuple[int, int]:
        whole = argument if isinstance(argument, Parameters) else argument.buffer
        start = addresses.of(whole)
        return start, start + whole.size

    def _written(self, step: Step, index: int, addresses: Addresses) -> tuple[int, int]:
        argument = step.arguments[index]
        start, end = self._read(argument, addresses)
        if isinstance(argument, Parameters) or index < len(step.arguments) - len(step.writes):
            return start, start
        if step.halo:  # the padding around the view
            return start, end
        reaches = [(n - 1) * stride for n, stride in zip(argument.shape, argument.strides, strict=True)]
        first = start + argument.offset + sum(min(0, reach) for reach in reaches)
        last = start + argument.offset + sum(max(0, reach) for reach in reaches) + argument.itemsize
        return first, min(end, first + -(-(last - first) // ALIGNMENT) * ALIGNMENT)
