"""The function that runs every step in this process. Threads do not wait for a thread that the system does not run.

`void run(i64 thread, i64 threads, ptr arena, ptr weights, ptr inputs, ptr outputs, ptr marks, i64 call)`: `call` is
the number of the call, in the upper 32 bits. The steps between two barriers (`needs_barrier`) are a *superstep*. A step
has one share for each thread, or one for each task if there are fewer tasks. A thread computes its own shares of a
superstep and waits a moment for the others. Then it computes the shares that no thread has begun, and waits until all
shares are computed. So a thread waits long only for a thread that was suspended in the middle of a share. The result of
a share does not depend on the thread that computes it, so one thread or several give the same bits.

`marks` are i64, all equal to `call` when a call begins:

| marks | |
|---|---|
| p | the lower half counts the finished shares of superstep p |
| supersteps (in whole cache lines) + t row + s | plus 1 if share t of step s has been begun |

A thread that wakes up in a later call finds other numbers in the upper halves. It begins no share and leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import ClassVar

from zeropoint.codegen.driver import PART, Driver, needs_barrier
from zeropoint.codegen.graph import Graph
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64

LINE = 8
"""The number of marks (i64) in a cache line."""
SOON = 50
"""The number of polls for the end of a superstep, about two microseconds, before a thread looks for shares of others.

After polls without success, it looks immediately in the following supersteps of the function, because another thread is
probably not running."""
PIECE = 8
"""The number of supersteps in one function. LLVM's time grows faster than the length of a function."""

SHARING = """
define internal i1 @begun(ptr %mark, i64 %call) nounwind {
  ; Take a share that no thread has begun. The load before the exchange leaves the cache line with its owner.
  %seen = load atomic i64, ptr %mark monotonic, align 8
  %free = icmp eq i64 %seen, %call
  br i1 %free, label %try, label %taken
try:
  %more = add i64 %call, 1
  %pair = cmpxchg ptr %mark, i64 %call, i64 %more acq_rel monotonic
  %mine = extractvalue { i64, i1 } %pair, 1
  ret i1 %mine
taken:
  ret i1 false
}

define internal i1 @ended(ptr %mark, i64 %target, i32 %turns) nounwind noinline {
  ; Whether the superstep, or the whole call, ends within some turns. Reading the counter takes no cache line from a
  ; thread that computes. Looking at its shares would.
entry:
  %upper = lshr i64 %target, 32
  br label %wait
wait:
  %spins = phi i32 [ 0, %entry ], [ %more, %relax ]
  %seen = load atomic i64, ptr %mark acquire, align 8
  %enough = icmp eq i64 %seen, %target
  br i1 %enough, label %yes, label %same
same:
  %call = lshr i64 %seen, 32
  %late = icmp ne i64 %call, %upper
  br i1 %late, label %yes, label %count
count:
  %more = add i32 %spins, 1
  %long = icmp ugt i32 %more, %turns
  br i1 %long, label %no, label %relax
relax:
  PAUSE
  br label %wait
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @await(ptr %mark, i64 %target) nounwind noinline {
entry:
  br label %wait
wait:
  %turns = phi i32 [ 2000, %entry ], [ 0, %yield ]
  %over = call i1 @ended(ptr %mark, i64 %target, i32 %turns)
  br i1 %over, label %done, label %yield
yield:
  %ignored = call i32 @sched_yield()
  br label %wait
done:
  ret void
}
declare i32 @sched_yield()
"""


def supersteps_of(graph: Graph) -> list[list[int]]:
    """The numbers of the steps of every superstep: the steps between two barriers, but at most `PART`."""
    supersteps: list[list[int]] = []
    for number, barrier in enumerate(needs_barrier(graph)):
        # A superstep ends early if its function would become too long for LLVM's passes.
        if barrier or not supersteps or len(supersteps[-1]) == PART:
            supersteps.append([])
        supersteps[-1].append(number)
    return supersteps


def _whole_lines(marks: int) -> int:
    return -(-marks // LINE) * LINE


def marks_of(graph: Graph, threads: int) -> int:
    """The number of marks that the threads of a call share; 0 for a single thread."""
    each = _whole_lines(len(graph.steps))
    # The marks of each thread begin a new cache line, so that taking a share does not write the lines of others.
    return _whole_lines(len(supersteps_of(graph))) + threads * each if threads > 1 else 0


@dataclass(frozen=True)
class SharedDriver(Driver):
    """`Driver` for this process. A part has two functions, `alone` for one thread and `shared` for several."""

    support: ClassVar[str] = SHARING
    arguments: ClassVar[Sequence[tuple[str, str]]] = (
        *(("i64", "thread"), ("i64", "threads"), ("ptr", "arena"), ("ptr", "weights")),
        *(("ptr", "inputs"), ("ptr", "outputs"), ("ptr", "marks"), ("i64", "call")),
    )

    @cached_property
    def supersteps(self) -> list[list[int]]:
        """The steps of every superstep."""
        return supersteps_of(self.graph)

    @cached_property
    def parts(self) -> Sequence[range]:
        """The supersteps of each part: a part has at most `PART` steps."""
        parts: list[range] = []
        first, steps = 0, 0
        for number, superstep in enumerate(self.supersteps):
            if steps and steps + len(superstep) > PART:
                parts.append(range(first, number))
                first, steps = number, 0
            steps += len(superstep)
        return [*parts, range(first, len(self.supersteps))]

    def emit_part(self, module: Module, number: int) -> None:
        """Define the two functions of a part."""
        alone = module.function(f"{self.run}_alone{number}", self.arguments)
        bounds = self.bounds(alone)
        for step in chain.from_iterable(self.supersteps[superstep] for superstep in self.parts[number]):
            self.perform(alone, step, i64(0), i64(self.tasks(step)), bounds)
        alone.ret()
        name = f"{self.run}_shared{number}"
        shared, supersteps = module.function(name, self.arguments), self.parts[number]
        for first in supersteps[::PIECE]:
            shared.delegate(f"{name}_{first}", *shared.arguments)
            piece = module.function(f"{name}_{first}", self.arguments)
            emitter = _Shares(self, piece)
            for superstep in range(first, min(first + PIECE, supersteps.stop)):
                emitter.emit(superstep)
            piece.ret()
        shared.ret()

    def emit(self, module: Module) -> None:
        """Define `run`, which calls the parts."""
        f = module.function(self.run, self.arguments)

        def alone() -> None:
            for number in range(len(self.parts)):
                f.perform(f"{self.run}_alone{number}", *f.arguments)
            f.ret()

        f.leave(f.compare("eq", f.arguments[1], 1), alone)
        for number in range(len(self.parts)):
            f.perform(f"{self.run}_shared{number}", *f.arguments)
        f.ret()


class _Shares:
    """Emits supersteps into a function, for one of several threads."""

    def __init__(self, driver: SharedDriver, f: Function):
        self.driver, self.f = driver, f
        self.thread, self.threads = f.arguments[:2]
        self.marks, self.call = f.arguments[6:]
        self.bounds = driver.bounds(f)
        self.turns = Value("i32", str(SOON))

    def emit(self, superstep: int) -> None:
        """Compute the thread's own shares of a superstep, then shares that no thread has begun; wait for the rest."""
        f, steps = self.f, self.driver.supersteps[superstep]
        mine, done = self._shares(self.thread), f.at(self.marks, 8 * superstep)
        total = i64(0)
        for step in steps:
            # Shares, not tasks, are counted: a step with fewer tasks than threads has one for each task.
            total = f.add(total, f.minimum(i64(self.driver.tasks(step)), self.threads))
            self._share(step, self.thread, mine, done)
        self._finish(steps, done, f.add(self.call, total))

    def _finish(self, steps: Sequence[int], done: Value, target: Value) -> None:
        """If the superstep does not end soon, compute the shares that no thread has begun, and wait for the others."""
        f = self.f

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

        ended = f.let("i1", f"call i1 @ended({done}, {target}, {self.turns})")
        # If a superstep did not end soon, some thread is probably not running, and will be late in the next one, too.
        self.turns = f.select(ended, Value("i32", str(SOON)), Value("i32", "0"))
        f.branch(f.compare("eq", ended, 0), rest)

    def _shares(self, thread: Value) -> Value:
        """The address of the marks of a thread's shares."""
        first = self.f.at(self.marks, 8 * _whole_lines(len(self.driver.supersteps)))
        return self.f.at(first, self.f.mul(thread, 8 * _whole_lines(len(self.driver.graph.steps))))

    def _share(self, number: int, thread: Value, shares: Value, done: Value) -> None:
        """Compute a thread's share of a step if no thread has begun it."""
        f, tasks = self.f, self.driver.tasks(number)

        def taken() -> None:
            # With fewer tasks than threads, share t is task t. So the first threads have work; thread 0 is the caller.
            few = f.compare("ult", i64(tasks), self.threads)
            begin, end = (
                f.select(few, f.minimum(t, i64(tasks)), f.binary("udiv", f.mul(t, tasks), self.threads))
                for t in (thread, f.add(thread, 1))
            )
            self.driver.perform(f, number, begin, end, self.bounds)
            # Release order: a thread that sees the count also sees what the share has written.
            f.let("i64", f"atomicrmw add {done}, i64 1 release")

        def some() -> None:
            f.branch(f.let("i1", f"call i1 @begun({f.at(shares, 8 * number)}, {self.call})"), taken)

        if tasks:
            f.branch(f.compare("ult", thread, tasks), some)
