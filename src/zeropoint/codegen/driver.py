"""The function that runs every step in the threads of a C program, and the barrier between steps that need it.

The corresponding function for this process is in `sharing.py`.

`void run(i64 thread, i64 threads, ptr arena, ptr weights, ptr inputs, ptr outputs, ptr sync)`: `inputs` and `outputs`
point to arrays of pointers, and `sync` to 128 zeroed bytes that the threads of a call share. Work is split statically,
so that the results do not depend on the number of threads.

There is a barrier before a step that reads memory which a step since the last barrier wrote, or that overwrites memory
which one read or wrote. Locations in the arena are compared, because buffers share it. The barrier counts arrivals, and
the last thread starts the next round. A thread that waits long yields its processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from zeropoint.codegen.graph import BLOCKS, INPUTS, Buffer, Graph, Parameters, Step, View, place_of
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64

PART = 256
"""The maximum number of steps in one function. The time of LLVM's passes grows with the square of the calls in it."""


BARRIER = """
define internal void @barrier(ptr %sync, i64 %threads) nounwind noinline {
entry:
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %done, label %arrive
arrive:
  %round = getelementptr i8, ptr %sync, i64 64
  %now = load atomic i32, ptr %round monotonic, align 64
  %before = atomicrmw add ptr %sync, i32 1 acq_rel
  %wide = zext i32 %before to i64
  %next = add i64 %wide, 1
  %last = icmp eq i64 %next, %threads
  br i1 %last, label %open, label %wait
open:
  store atomic i32 0, ptr %sync monotonic, align 64
  %following = add i32 %now, 1
  store atomic i32 %following, ptr %round release, align 64
  br label %done
wait:
  %spins = phi i32 [ 0, %arrive ], [ %more, %again ]
  %seen = load atomic i32, ptr %round acquire, align 64
  %changed = icmp ne i32 %seen, %now
  br i1 %changed, label %done, label %pause
pause:
  ; A thread that waits long yields its processor in every turn.
  %more = add i32 %spins, 1
  %long = icmp ugt i32 %more, 20000
  br i1 %long, label %yield, label %relax
yield:
  %ignored = call i32 @sched_yield()
  br label %again
relax:
  PAUSE
  br label %again
again:
  br label %wait
done:
  ret void
}
declare i32 @sched_yield()
"""
"""The functions that every module needs, with PAUSE in place of the spin-wait hint."""
_PAUSES = {
    "x86_64": ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}


def waiting(text: str, triple: str) -> str:
    """`text` with PAUSE replaced by the processor's spin-wait hint."""
    instruction, declaration = _PAUSES.get(triple.split("-")[0], ("", ""))
    return text.replace("PAUSE", instruction) + declaration + "\n"


def needs_barrier(graph: Graph) -> list[bool]:
    """For each step, whether there is a barrier before it."""
    result: list[bool] = []
    written, read = _Accesses(), _Accesses()
    for step in graph.steps:
        clash = any(
            True for buffer in step.reads for _ in written.meeting(buffer)
        ) or any(
            not (buffer is other and _apart(step, before))
            for buffer in step.writes
            for other, before in written.meeting(buffer)
        ) or any(True for buffer in step.writes for _ in read.meeting(buffer))  # fmt: skip
        if clash:
            written, read = _Accesses(), _Accesses()
        result.append(clash)
        written.add(step.writes, step)
        read.add(step.reads, step)
    return result


class _Accesses:
    """Steps by the buffers that they access. Buffers in the arena may share memory; others overlap only themselves.

    So thousands of steps that copy results to the caller's arrays are not compared with each other. Of the steps that
    access a buffer, one stands for all that `_apart` does not tell from it: a batch has a step for each image.
    """

    def __init__(self) -> None:
        self._steps: dict[Buffer, dict[object, Step]] = {}
        self._arena: list[Buffer] = []
        self._ends = np.empty((2, 16), np.int64)
        """The begin and the end of each buffer in the arena."""

    def add(self, buffers: Sequence[Buffer], step: Step) -> None:
        """Record that a step accesses these buffers."""
        for buffer in buffers:
            if buffer not in self._steps and buffer.space.in_arena:
                self._place(buffer)
            self._steps.setdefault(buffer, {}).setdefault((step.halo, step.family), step)

    def _place(self, buffer: Buffer) -> None:
        count = len(self._arena)
        if count == self._ends.shape[1]:
            self._ends = np.concatenate([self._ends, self._ends], axis=1)
        self._ends[:, count] = buffer.offset, buffer.offset + buffer.size
        self._arena.append(buffer)

    def meeting(self, buffer: Buffer) -> Iterator[tuple[Buffer, Step]]:
        """The accesses that overlap a buffer, as pairs of the accessed buffer and the step."""
        # The caller's buffers and the weights have addresses of their own and share no memory.
        if not buffer.space.in_arena:
            yield from ((buffer, step) for step in self._steps.get(buffer, {}).values())
            return
        begins, ends = self._ends[:, : len(self._arena)]
        found = (begins < buffer.offset + buffer.size) & (buffer.offset < ends)
        for other in (self._arena[number] for number in np.flatnonzero(found)):
            yield from ((other, step) for step in self._steps[other].values())


def _apart(step: Step, other: Step) -> bool:
    """Whether two steps write different elements of one buffer."""
    # Padding and the image inside it are different elements of one buffer, and so are the parts of a family.
    return step.halo != other.halo or (step.family is not None and step.family is other.family)


@dataclass(frozen=True)
class Driver:
    """Emits the function `run`, which runs every step, and the parts that it calls, each into a separate module.

    `names` are the functions of the kernels.
    """

    graph: Graph
    names: Sequence[str]
    run: str

    arguments: ClassVar[Sequence[tuple[str, str]]] = (
        *(("i64", "thread"), ("i64", "threads"), ("ptr", "arena"), ("ptr", "weights")),
        *(("ptr", "inputs"), ("ptr", "outputs"), ("ptr", "sync")),
    )

    @cached_property
    def parts(self) -> Sequence[range]:
        """The steps of each part."""
        count = len(self.graph.steps)
        return [range(first, min(first + PART, count)) for first in range(0, count, PART)]

    @cached_property
    def _barriers(self) -> list[bool]:
        return needs_barrier(self.graph)

    def emit_part(self, module: Module, number: int) -> None:
        """Define the function of a part."""
        f = module.function(f"{self.run}_part{number}", self.arguments)
        for step in self.parts[number]:
            if self._barriers[step]:
                _emit_barrier(f)
            self._share(f, step)
        f.ret()

    def emit(self, module: Module) -> None:
        """Define `run`, which calls the parts."""
        f = module.function(self.run, self.arguments)
        for number in range(len(self.parts)):
            f.perform(f"{self.run}_part{number}", *f.arguments)
        # The last barrier: all results are written before `run` returns, and no thread starts the next call before.
        _emit_barrier(f)
        f.ret()

    def _share(self, f: Function, number: int) -> None:
        """Emit the share of a thread of one step."""
        step, (thread, threads) = self.graph.steps[number], f.arguments[:2]
        tasks = step.kernel.tasks(self.graph.isa)
        # From t * tasks / threads on: shares differ by at most one task, and every task is in exactly one share.
        begin, end = (f.binary("udiv", f.mul(t, tasks), threads) for t in (thread, f.add(thread, 1)))
        f.perform(self.names[number], *(pointer(f, argument) for argument in step.arguments), begin, end)


def _emit_barrier(f: Function) -> None:
    f.emit(f"call void @barrier({f.arguments[6]}, {f.arguments[1]})")


def pointer(f: Function, argument: View | Parameters) -> Value:
    """The address of a step's argument, in a function whose arguments 2 to 5 are those of `Driver`'s `run`."""
    (arena, weights, *tables), (table, number, offset) = f.arguments[2:6], place_of(argument)
    if table == BLOCKS:
        return f.at((arena, weights)[number], offset)
    return f.at(f.load("ptr", tables[table - INPUTS], i64(8 * number), align=8), offset)
