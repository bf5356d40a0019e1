"""The function that runs every step in this process. Threads do not wait for a thread that the system does not run.

`void run(i64 thread, i64 threads, ptr arena, ptr weights, ptr inputs, ptr outputs, ptr marks, i64 call, ptr table)`:
`call` is the number of the call, in the upper 32 bits. The steps are data (`StepTable`), so this function is the same
for all programs, and compiled once. Steps between two barriers (`needs_barrier`) are a *superstep*. A step has one
share for each thread, or one for each task if there are fewer. A thread computes its own shares of a superstep and
waits a moment for the others. Then it computes those that no thread has begun, and waits until every share is computed.
So no thread waits long for a thread without a processor, unless that lost the processor in the middle of a share.
Shares do not depend on who computes them: one thread or several give the same bits.

`marks` are i64, all equal to `call` when a call begins:

| marks | |
|---|---|
| p | the lower half counts the finished shares of superstep p |
| supersteps (in whole cache lines) + t row + s | plus 1 if share t of step s has been begun |

A thread that wakes up in a later call finds other numbers in the upper halves. It begins no share and leaves.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from zeropoint.codegen.driver import waiting
from zeropoint.codegen.graph import BLOCKS, INPUTS, OUTPUTS, Step
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64
from zeropoint.codegen.step_table import TableArgument, TableHeader, TableStep

ARGUMENTS = 8
"""The function is written for this number of arguments of a step, or a multiple of it."""

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


def most_arguments(steps: Sequence[Step]) -> int:
    """The number of arguments that the function for these steps is written for."""
    return ARGUMENTS * -(-max((len(step.arguments) for step in steps), default=1) // ARGUMENTS)


@functools.cache
def shared_driver(run: str, arguments: int, triple: str, entries: str, *, checked: bool) -> str:
    """The module of `run`, for steps of up to this number of arguments, with the functions `entries`."""
    module = Module()
    _Emitter(module, run, arguments, checked=checked).emit()
    return str(module) + waiting(SHARING + entries, triple)


class _Emitter:
    """Emits `run`; with `checked`, kernels get the address of their block of bounds, whose table follows the inputs."""

    RUN = (
        *(("i64", "thread"), ("i64", "threads"), ("ptr", "arena"), ("ptr", "weights"), ("ptr", "inputs")),
        *(("ptr", "outputs"), ("ptr", "marks"), ("i64", "call"), ("ptr", "table")),
    )
    PERFORM = (
        *(("ptr", "table"), ("ptr", "step"), ("ptr", "spaces"), ("ptr", "bounds")),
        ("i64", "begin"),
        ("i64", "end"),
    )
    SHARE = (
        *(("ptr", "table"), ("ptr", "step"), ("ptr", "spaces"), ("ptr", "bounds"), ("i64", "thread")),
        *(("i64", "threads"), ("ptr", "mark"), ("i64", "call"), ("ptr", "done")),
    )

    def __init__(self, module: Module, run: str, arguments: int, *, checked: bool):
        self.module, self.run, self.most, self.checked = module, run, arguments, checked

    def emit(self) -> None:
        """All functions."""
        self._perform()
        self._share()
        f = self.module.function(self.run, self.RUN)
        thread, threads, arena, weights, inputs, outputs, marks, call, table = f.arguments
        blocks, spaces = f.scratch(16), f.scratch(24)
        for pointer, to, index in (
            (arena, blocks, 0),
            (weights, blocks, 1),
            (blocks, spaces, BLOCKS),
            (inputs, spaces, INPUTS),
            (outputs, spaces, OUTPUTS),
        ):
            f.store(pointer, to, 8 * index, align=8)
        bounds = table
        if self.checked:
            bounds = f.load("ptr", inputs, f.mul(_number(f, table, TableHeader.INPUTS), 8), align=8)
        common = table, spaces, bounds

        def alone() -> None:
            def one(n: Value, _: list[Value]) -> None:
                step = _step(f, table, n)
                f.delegate("perform", table, step, spaces, bounds, i64(0), _number(f, step, TableStep.TASKS))

            f.loop(0, _number(f, table, TableHeader.STEPS), 1, one)
            f.ret()

        f.leave(f.compare("eq", threads, 1), alone)
        superstep = _Superstep(f, common, (thread, threads), marks, call)
        f.loop(0, _number(f, table, TableHeader.SUPERSTEPS), 1, superstep.emit, [superstep.soon])
        f.ret()

    def _perform(self) -> None:
        """Tasks begin to end of a step."""
        f = self.module.function("perform", self.PERFORM)
        table, step, spaces, bounds, begin, end = f.arguments
        pointers, count = f.scratch(8 * self.most), _number(f, step, TableStep.COUNT)
        arguments = f.at(table, _number(f, step, TableStep.ARGUMENTS))

        def find(n: Value, _: list[Value]) -> None:
            argument = f.at(arguments, f.mul(n, 8 * TableArgument.SIZE))
            space = f.load("ptr", spaces, f.mul(_number(f, argument, TableArgument.SPACE), 8), align=8)
            base = f.load("ptr", space, f.mul(_number(f, argument, TableArgument.INDEX), 8), align=8)
            f.store(f.at(base, _number(f, argument, TableArgument.OFFSET)), pointers, f.mul(n, 8), align=8)

        f.loop(0, count, 1, find)
        kernel = f.load("ptr", step, 8 * TableStep.KERNEL, align=8)
        more = (f.at(bounds, _number(f, step, TableStep.BOUNDS)),) if self.checked else ()
        for number in range(self.most + 1):

            def call(number: int = number) -> None:
                given = (f.load("ptr", pointers, 8 * n, align=8) for n in range(number))
                f.emit(f"call void {kernel.name}({', '.join(map(str, (*given, begin, end, *more)))})")
                f.ret()

            f.leave(f.compare("eq", count, number), call)
        f.ret()

    def _share(self) -> None:
        """The share of a thread of one step, if it has one and no thread has begun it."""
        f = self.module.function("share", self.SHARE)
        table, step, spaces, bounds, thread, threads, mark, call, done = f.arguments
        tasks = _number(f, step, TableStep.TASKS)

        def taken() -> None:
            # With fewer tasks than threads, share t is task t. The first threads have work then, as one of them calls.
            few = f.compare("ult", tasks, threads)
            begin, end = (
                f.select(few, f.minimum(t, tasks), f.binary("udiv", f.binary("mul", t, tasks), threads))
                for t in (thread, f.add(thread, 1))
            )
            f.delegate("perform", table, step, spaces, bounds, begin, end)
            # release: whoever sees the count also sees what the share has written.
            f.let("i64", f"atomicrmw add {done}, i64 1 release")

        def some() -> None:
            f.branch(f.let("i1", f"call i1 @begun({mark}, {call})"), taken)

        f.branch(f.compare("ult", thread, tasks), some)
        f.ret()


class _Superstep:
    """Emits the loop over supersteps as one of several threads."""

    def __init__(
        self,
        f: Function,
        common: tuple[Value, Value, Value],
        threads: tuple[Value, Value],
        marks: Value,
        call: Value,
    ):
        self.f, self.common, self.marks, self.call = f, common, marks, call
        self.thread, self.threads = threads
        self.table = common[0]
        self.soon = f.cast("trunc", _number(f, self.table, TableHeader.SOON), "i32")

    def emit(self, number: Value, carried: list[Value]) -> list[Value]:
        """Compute the own shares of a superstep, then those that no thread has begun, and wait for the rest."""
        f, table = self.f, self.table
        place = f.at(table, f.mul(f.add(number, TableHeader.SIZE), 8))
        steps = _number(f, place, 0), _number(f, place, 1)
        done, total = f.at(self.marks, f.mul(number, 8)), i64(0)

        def count(n: Value, sums: list[Value]) -> list[Value]:
            # Shares, not tasks, are counted: a step with fewer tasks than threads has one for each task.
            tasks = _number(f, _step(f, table, n), TableStep.TASKS)
            return [f.add(sums[0], f.minimum(tasks, self.threads))]

        (total,) = f.loop(*steps, 1, count, [total])
        self._shares(steps, self.thread, done)
        target = f.add(self.call, total)
        ended = f.let("i1", f"call i1 @ended({done}, {target}, {carried[0]})")

        def others(index: Value, _: list[Value]) -> None:
            behind = f.add(self.thread, index)
            over = f.binary("sub", behind, self.threads)
            self._shares(steps, f.select(f.compare("ult", behind, self.threads), behind, over), done)

        def rest() -> None:
            f.loop(1, self.threads, 1, others)
            f.emit(f"call void @await({done}, {target})")

        f.branch(f.compare("eq", ended, 0), rest)
        # If a superstep did not end soon, some thread probably has no processor, and will be late in the next one, too.
        return [f.select(ended, self.soon, Value("i32", "0"))]

    def _shares(self, steps: tuple[Value, Value], thread: Value, done: Value) -> None:
        """The shares of a thread of some steps."""
        f, (table, spaces, bounds) = self.f, self.common
        row = f.binary("mul", thread, _number(f, table, TableHeader.ROW))
        marks = f.at(f.at(self.marks, _number(f, table, TableHeader.MARKS)), row)

        def one(n: Value, _: list[Value]) -> None:
            step, mark = _step(f, table, n), f.at(marks, f.mul(n, 8))
            f.delegate("share", table, step, spaces, bounds, thread, self.threads, mark, self.call, done)

        f.loop(*steps, 1, one)


def _number(f: Function, place: Value, index: int) -> Value:
    """A number of a table."""
    return f.load("i64", place, 8 * index, align=8)


def _step(f: Function, table: Value, number: Value) -> Value:
    """The address of a step in the table."""
    return f.at(f.at(table, _number(f, table, TableHeader.FIRST)), f.mul(number, 8 * TableStep.SIZE))
