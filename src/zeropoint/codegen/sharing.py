"""The function that runs every step in this process, by threads that do not wait for a thread without a processor.

`void run(i64 thread, i64 threads, ptr arena, ptr weights, ptr inputs, ptr outputs, ptr words, i64 call)`: `call` is
the number of the call, in the upper 32 bits. Steps between two barriers (`needs_barrier`) are a *phase*. A step has one
share for each thread, or one for each task if there are fewer. A thread computes its own shares of a phase, then those
that no thread has begun, and waits until every share of the phase is computed. So nobody waits for a thread without a
processor, unless it lost the processor in the middle of a share. Shares do not depend on who computes them: one thread
or several give the same bits.

`words` are i64, all equal to `call` when a call begins:

| words | |
|---|---|
| p | the lower half counts the finished shares of phase p |
| phases (in whole cache lines) + t row + s | plus 1 if share t of step s has been begun |

A thread that wakes up in a later call finds other numbers in the upper halves, begins no share and leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

from zeropoint.codegen.driver import block_bytes, needs_barrier, pointer, spinning
from zeropoint.codegen.graph import Graph, Step
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64

LINE = 8
"""Words of a cache line."""
PART = 8
"""Phases in one function. LLVM's time grows faster than a function's length."""

SHARING = """
define internal i1 @begun(ptr %word, i64 %call) nounwind {
  ; Take a share that nobody has begun. Looking first leaves the cache line with its owner.
  %seen = load atomic i64, ptr %word monotonic, align 8
  %free = icmp eq i64 %seen, %call
  br i1 %free, label %try, label %taken
try:
  %more = add i64 %call, 1
  %pair = cmpxchg ptr %word, i64 %call, i64 %more acq_rel monotonic
  %mine = extractvalue { i64, i1 } %pair, 1
  ret i1 %mine
taken:
  ret i1 false
}

define internal void @await(ptr %word, i64 %target) nounwind noinline {
entry:
  %upper = lshr i64 %target, 32
  br label %wait
wait:
  %spins = phi i32 [ 0, %entry ], [ %more, %again ]
  %seen = load atomic i64, ptr %word acquire, align 8
  %enough = icmp eq i64 %seen, %target
  br i1 %enough, label %done, label %same
same:
  %call = lshr i64 %seen, 32
  %late = icmp ne i64 %call, %upper
  br i1 %late, label %done, label %pause
""" + spinning(2000)


def phases_of(graph: Graph) -> list[list[int]]:
    """The numbers of the steps of every phase."""
    phases: list[list[int]] = []
    for number, barrier in enumerate(needs_barrier(graph)):
        if barrier or not phases:
            phases.append([])
        phases[-1].append(number)
    return phases


def _whole_lines(words: int) -> int:
    return -(-words // LINE) * LINE


def words_of(graph: Graph, threads: int) -> int:
    """Words that the threads of a call share; none for a single thread."""
    each = _whole_lines(len(graph.steps))
    return _whole_lines(len(phases_of(graph))) + threads * each if threads > 1 else 0


def emit_shared_run(module: Module, graph: Graph, names: Sequence[str], name: str, *, checked: bool = False) -> None:
    """Define the function that runs every step; `names` are the kernels' functions.

    With `checked`, a pointer to the table of bounds follows the inputs' pointers.
    """
    phases = phases_of(graph)

    def emitter(name: str) -> _Emitter:
        pointers = ("arena", "weights", "inputs", "outputs", "words")
        f = module.function(
            name, [("i64", "thread"), ("i64", "threads"), *(("ptr", each) for each in pointers), ("i64", "call")]
        )
        return _Emitter(f, graph, phases, names, checked)

    run, parts = emitter(name), range(0, len(phases), PART)
    run.emit([f"{name}{start}" for start in parts])
    for start in parts:
        emitter(f"{name}{start}").emit_phases(range(start, min(start + PART, len(phases))))


class _Emitter:
    def __init__(self, f: Function, graph: Graph, phases: list[list[int]], names: Sequence[str], checked: bool):
        self.f, self.graph, self.phases, self.names = f, graph, phases, names
        self.thread, self.threads = f.arguments[:2]
        self.words, self.call = f.arguments[6:]
        self.bounds = f.load("ptr", f.arguments[4], i64(8 * len(graph.inputs)), align=8) if checked else None

    def emit(self, parts: Sequence[str]) -> None:
        """All steps for one thread; for several, calls of the functions `parts`."""
        f = self.f
        f.leave(f.compare("eq", self.threads, 1), self._alone)
        for part in parts:
            f.emit(f"call void @{part}({', '.join(map(str, f.arguments))})")
        f.ret()

    def emit_phases(self, numbers: Sequence[int]) -> None:
        """Some phases for several threads."""
        f = self.f
        mine = self._shares(self.thread)
        for number in numbers:
            steps = self.phases[number]
            done = f.at(self.words, 8 * number)
            total = i64(0)
            for step in steps:
                total = f.add(total, f.minimum(i64(self._tasks(step)), self.threads))
                self._share(step, self.thread, mine, done)
            self._finish(steps, done, f.add(self.call, total))
        f.ret()

    def _alone(self) -> None:
        for number in range(len(self.graph.steps)):
            self._perform(number, i64(0), i64(self._tasks(number)))
        self.f.ret()

    def _finish(self, steps: Sequence[int], done: Value, target: Value) -> None:
        """Compute what nobody has begun, and wait for the rest."""
        f = self.f
        seen = f.let("i64", f"load atomic i64, {done} acquire, align 8")

        def others(index: Value, _: list[Value]) -> None:
            behind = f.add(self.thread, index)
            over = f.binary("sub", behind, self.threads)
            other = f.select(f.compare("ult", behind, self.threads), behind, over)
            theirs = self._shares(other)
            for step in steps:
                self._share(step, other, theirs, done)

        def rest() -> None:
            f.loop(1, self.threads, 1, others)
            f.emit(f"call void @await({done}, {target})")

        f.branch(f.compare("ne", seen, target), rest)

    def _shares(self, thread: Value) -> Value:
        """The words of a thread's shares."""
        first = self.f.at(self.words, 8 * _whole_lines(len(self.phases)))
        return self.f.at(first, self.f.mul(thread, 8 * _whole_lines(len(self.graph.steps))))

    def _share(self, number: int, thread: Value, shares: Value, done: Value) -> None:
        """Compute a thread's share of a step if nobody has begun it."""
        f, tasks = self.f, self._tasks(number)

        def taken() -> None:
            # With fewer tasks than threads, share t is task t. The first threads have work then, as one of them calls.
            few = f.compare("ult", i64(tasks), self.threads)
            begin, end = (
                f.select(few, f.minimum(t, i64(tasks)), f.binary("udiv", f.mul(t, tasks), self.threads))
                for t in (thread, f.add(thread, 1))
            )
            self._perform(number, begin, end)
            f.let("i64", f"atomicrmw add {done}, i64 1 release")

        def some() -> None:
            f.branch(f.let("i1", f"call i1 @begun({f.at(shares, 8 * number)}, {self.call})"), taken)

        if tasks:
            f.branch(f.compare("ult", thread, tasks), some)

    def _tasks(self, number: int) -> int:
        return self._step(number).kernel.tasks(self.graph.isa)

    def _step(self, number: int) -> Step:
        return self.graph.steps[number]

    def _perform(self, number: int, begin: Value, end: Value) -> None:
        """Tasks begin to end of a step."""
        f = self.f
        more = () if self.bounds is None else (f.at(self.bounds, number * block_bytes(self.graph)),)
        arguments = (pointer(f, argument) for argument in self._step(number).arguments)
        f.perform(self.names[number], *arguments, begin, end, *more)
