"""Loops and branches: kernels that run other kernels, all by one thread.

```c
do {
  condition(...);
  again = *decision && trips++ < limit;
  if (again) body(...);
} while (again);
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from zeropoint.codegen.graph import EmittedKernel, name_of
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64

PART = 256
"""The maximum number of calls in one function. LLVM's time grows faster than the length of a function."""


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel. Each argument is the number of a pointer of the loop or branch, and an offset in bytes.

    `number` is the distance of its step from the step of the loop or branch.
    """

    kernel: EmittedKernel
    arguments: tuple[tuple[int, int], ...]
    number: int


@dataclass(frozen=True)
class Control:
    """A loop or branch with `pointers` arguments, which runs `regions` of calls."""

    pointers: int
    regions: tuple[tuple[KernelCall, ...], ...]

    def kernels(self) -> Iterator[EmittedKernel]:
        """The kernels that it calls, and the kernels that these call."""
        for call in (call for region in self.regions for call in region):
            yield call.kernel
            if isinstance(call.kernel, Control):
                yield from call.kernel.kernels()

    def tasks(self, isa: InstructionSet) -> int:
        """One, because trips depend on each other."""
        return 1

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """Define the function."""
        names = [f"p{n}" for n in range(self.pointers)]
        f = module.kernel(name, *names)
        *pointers, begin, end = f.arguments
        declared = [("ptr", each) for each in names]
        regions = [self._region(module, f"{name}_region{n}", declared, n, isa) for n in range(len(self.regions))]

        def run(number: int) -> None:
            for part in regions[number]:
                f.delegate(part, *pointers)

        f.branch(f.compare("slt", begin, end), lambda: self.control(f, pointers, run))
        f.ret()

    def control(self, f: Function, pointers: Sequence[Value], run: Callable[[int], None]) -> None:
        """Emit the code that decides which regions run."""
        raise NotImplementedError

    def _region(
        self, module: Module, name: str, declared: list[tuple[str, str]], number: int, isa: InstructionSet
    ) -> list[str]:
        """Define functions that make the calls of a region, in parts, and return their names."""
        names: list[str] = []
        calls = self.regions[number]
        for first in range(0, len(calls), PART):
            names.append(f"{name}_{first}")
            f = module.function(names[-1], declared)
            for call in calls[first : first + PART]:
                arguments = [f.at(f.arguments[n], offset) for n, offset in call.arguments]
                f.run_kernel(name_of(call.kernel), arguments, call.kernel.tasks(isa), call.number)
            f.ret()
        return names


@dataclass(frozen=True)
class Loop(Control):
    """Runs region 1 as long as region 0 writes true to pointer `decision`.

    Pointer `trips` has two i64: the trips of all loops in the run, and the number of the first loop (from 1) that would
    exceed `limit`. `number` is the number of this loop. It ends if it would exceed the limit.
    """

    decision: int
    trips: int
    limit: int
    number: int

    def control(self, f: Function, pointers: Sequence[Value], run: Callable[[int], None]) -> None:
        """Emit the loop."""
        decision, trips = pointers[self.decision], pointers[self.trips]

        def turn() -> Value:
            run(0)
            wanted = f.compare("ne", f.load("i8", decision), 0)
            made = f.load("i64", trips, align=8)
            late = f.binary("and", wanted, f.compare("uge", made, self.limit))
            again = f.binary("and", wanted, f.compare("ult", made, self.limit))

            def too_many() -> None:
                first = f.load("i64", trips, 8, align=8)
                f.store(f.select(f.compare("eq", first, 0), i64(self.number), first), trips, 8, align=8)

            def trip() -> None:
                f.store(f.add(made, 1), trips, align=8)
                run(1)

            f.branch(late, too_many)
            f.branch(again, trip)
            return again

        f.repeat(turn)


@dataclass(frozen=True)
class Branches(Control):
    """Runs one region, selected by `selector`, which is the number of a pointer and an offset.

    An i32 is the number of the region; if it is out of range, the last region runs. For a boolean, the first region
    runs if it is true, else the second.
    """

    selector: tuple[int, int]
    boolean: bool

    def control(self, f: Function, pointers: Sequence[Value], run: Callable[[int], None]) -> None:
        """Emit the branches."""
        last, (number, offset) = len(self.regions) - 1, self.selector
        selector = f.at(pointers[number], offset)
        if self.boolean:
            chosen = f.cast("zext", f.compare("eq", f.load("i8", selector), 0), "i32")
        else:
            index = f.load("i32", selector)
            chosen = f.select(f.compare("ult", index, last), index, Value("i32", str(last)))
        for number in range(len(self.regions)):
            f.branch(f.compare("eq", chosen, number), lambda number=number: run(number))
