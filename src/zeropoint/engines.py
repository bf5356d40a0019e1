"""Select the default engine for a program. Both engines give the same bits (docs/native.md, "Floats")."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np
from xdsl.dialects.builtin import FunctionType, f32, f64
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.interp import Adjustable, BinCounter, Engine, LockStepped, ReferenceEngine, RepeatedKernels, Runnable
from zeropoint.interp.plan_steps import Observe
from zeropoint.ir.arguments import in_order
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.kernel_path import KernelPath
from zeropoint.ir.program import Program, name_attributes
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.stablehlo import ConstantOp, WhileOp
from zeropoint.ir.tensors import Array, element_of
from zeropoint.lower.casts import as_stablehlo, state_cast_profiles
from zeropoint.numerics.products import sums_of_products
from zeropoint.progress import Progress, silent
from zeropoint.report.counts import multiplications

COMPILING = 1_500_000
"""The number of float multiplications and additions that the interpreter performs while one op is compiled without
optimization."""
CALLED = 100_000
"""The number of those operations that take as long as calling an interpreted op."""
LOADING_LLVM = 150_000_000
"""The number of those operations that take as long as loading LLVM, once in a process."""
LOADING = 50_000_000
"""The number of float products that NumPy adds up while the function for them that is native code is loaded."""
COUNTED = 1 << 15
"""NumPy counts the bins of fewer words as fast as native code."""
REPEATED = 10
"""How many ops that repeat the form of another compile as fast as one of a new form: the kernels of the steps of an
unrolled recurrence are compiled once."""
OPTIMIZING = 350_000_000
"""Operations per op from which optimized code saves more time than it takes to compile: unoptimized code compiles in a
quarter of the time and runs at half the speed."""
SHARED = 200_000_000
"""Operations per run from which a program runs on several threads: a few milliseconds. Shorter runs take as much
processor time for handing work from thread to thread as they gain."""
POLLS = 2000
"""How often a thread polls for the next run before it parks. What is done between runs takes longer than waking it."""
AHEAD = 2
"""Concurrent calls of a program on several threads: the next run begins while the values of one are observed."""
AHEAD_BYTES = 128 << 20
"""The maximum memory of a run for that, because each call has its own."""
WARM_RUNS, TIMED_RUNS = 3, 15
"""The numbers of warm-up runs and of measured runs for the latency of a program."""


_UNCOMPILED = (ConstantOp, QuantizeRegionOp, StatisticsOp, StatisticsRefOp)
STAYING = (f32, f64)
"""The elements of values that are observed where native code computes them."""


def observed(program: Program) -> tuple[Program, list[str]]:
    """The program with its requested statistics as additional outputs, and their keys. Known statistics are removed.

    Those of values that stay where native code computes them (`STAYING`) come last.

    ```mlir
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "quant.region"(%x) ({ tanh }) ...
      %1 = "quant.stats_ref"(%0) {statsKey = "tanh"} : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
    becomes
    ```mlir
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %0 = stablehlo.tanh %x : tensor<4xf32>
      return %0, %0 : tensor<4xf32>, tensor<4xf32>
    }
    ```
    """
    names = [port.name for port in program.outputs]
    program = program.clone()
    block = program.entry
    for op in list(block.ops):
        if isinstance(op, QuantizeRegionOp):
            inline_region(op)
    if program.profile is None:
        state_cast_profiles(program)
    as_stablehlo(block)  # those casts of a quantized file have a native form
    found: list[tuple[str, SSAValue]] = []
    for op in [op for op in block.ops if isinstance(op, StatisticsOp | StatisticsRefOp)]:
        op.res.replace_all_uses_with(op.arg)
        if isinstance(op, StatisticsRefOp):
            found.append((op.stats_key.data, op.arg))
        Rewriter.erase_op(op)
    found.sort(key=lambda one: element_of(one[1]) in STAYING)
    keys = [key for key, _ in found]
    terminator = block.last_op
    assert isinstance(terminator, ReturnOp)
    results = [*terminator.operands, *(value for _, value in found)]
    Rewriter.erase_op(terminator)
    block.add_op(ReturnOp(*results))
    function = program.main
    function.function_type = FunctionType.from_lists([a.type for a in block.args], [value.type for value in results])
    function.properties["res_attrs"] = name_attributes(
        [*names, *(f"zeropoint.statistics{n}" for n in range(len(keys)))]
    )
    return program, keys


class ObservedProgram:
    """A native program that reports requested statistics, through outputs that are hidden from the caller.

    Floats are observed where they are computed, in the layout that they have there: a copy of each in the program's
    layout takes half as long as the network. Raises CodegenError if an op has no native form.
    """

    def __init__(self, program: Program, *, threads: int = 1, optimized: bool = True, progress: Progress = silent):
        from zeropoint.codegen.runtime.native import NativeProgram  # imports LLVM, which is needed only here

        changed, self._keys = observed(program)
        self._outputs = [port.name for port in program.outputs]
        hidden = changed.outputs[len(self._outputs) :]
        observed_there = sum(port.type.element_type in STAYING for port in hidden)
        self._native = NativeProgram(
            changed,
            threads=threads,
            callers=AHEAD if threads > 1 else 1,
            form="light" if optimized else "debug",
            progress=progress,
            observed=observed_there,
            spins=POLLS,
            adjustable=True,
        )
        self.callers = AHEAD if threads > 1 and self._native.arena.size <= AHEAD_BYTES else 1

    @property
    def operations(self) -> int:
        """The number of multiplications and additions in the contractions of a run."""
        return self._native.operations

    def __call__(self, inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
        """The outputs by name; `observe(key, array)` is called for every requested value.

        The array may not be in the program's layout, and the next call may overwrite it. Raises InputError if names,
        shapes or dtypes do not match the inputs.
        """
        count = len(self._outputs)

        def see(results: list[Array], staying: list[Array]) -> None:
            for key, array in zip(self._keys, [*results[count:], *staying], strict=True):
                if observe is not None:
                    observe(key, array)

        results = self._native.observe_values(in_order(inputs, self._native.inputs), see)
        return dict(zip(self._outputs, results, strict=False))

    def lock_step(self, samples: Sequence[Mapping[str, Array]], memory: int) -> LockStepped | None:
        """The program in lock step over samples; None if it has no such form, or not in so many bytes."""
        from zeropoint.codegen.runtime.lock_step import LockStep

        native = self._native
        fits = native.arena.size * (len(samples) + 1) <= memory
        there = all(one.source.buffer.space.in_arena for one in native.graph.contractions)
        can = fits and there and native.graph.contractions and native.graph.trips is None and not native.guarded
        return LockStep(native, samples) if can else None

    def repeated(self, paths: Collection[KernelPath], count: int, memory: int) -> Sequence[RepeatedKernels]:
        """At most `count` ways to run these kernels again, in so many bytes; none if some cannot run alone."""
        from zeropoint.codegen.runtime.reruns import Reruns, steps_of_paths

        native = self._native
        if native.guarded or native.graph.trips is not None or len(native.graph.observed) != len(self._keys):
            return []
        steps = steps_of_paths(native.graph, self._keys, paths)
        fitting = memory // max(1, Reruns.bytes_of(native))
        if steps is None:
            return []
        lanes = min(count, fitting)
        # In the memory of the program's own runs first, which have ended.
        arenas = [*native.arenas, *[None] * lanes][:lanes]
        return [Reruns(native, self._keys, steps, arena) for arena in arenas]


def _compiled(program: Program, threads: int, progress: Progress, *, optimized: bool) -> Runnable | None:
    """The program as native code; None if an op has no native form."""
    from zeropoint.codegen.llvm.machine import CodegenError

    try:
        return ObservedProgram(program, threads=threads, optimized=optimized, progress=progress)
    except CodegenError:
        return None


class SumsOfProducts:
    """Sums of float products: in NumPy until loading the function that is native code would have been quicker."""

    def __init__(self) -> None:
        self._left, self._lock = LOADING, threading.Lock()
        self._chosen: Callable[[Array, Array], Array] = sums_of_products

    def __call__(self, a: Array, b: Array) -> Array:
        """The matrix product of a[..., m, k] and b[..., k, n], both f32 or both f64."""
        if self._left >= 0:
            self._count(a.size * b.shape[-1])
        return self._chosen(a, b) if a.dtype == np.float32 else sums_of_products(a, b)

    def _count(self, products: int) -> None:
        with self._lock:
            if self._left < 0:
                return
            self._left -= products
            if self._left < 0:
                from zeropoint.codegen.llvm.machine import CodegenError  # imports LLVM, which is needed only here
                from zeropoint.codegen.runtime.products import NativeProducts

                with suppress(CodegenError):  # an old processor
                    self._chosen = NativeProducts()


class _Bins:
    """Counts the upper halves of words: in NumPy while there are few at a time, as fast as native code would."""

    def __init__(self) -> None:
        self._native: Callable[[Array], Array] | None = None

    def __call__(self, words: Array) -> Array:
        if len(words) < COUNTED:
            return np.bincount(words >> np.uint32(16))
        if self._native is None:
            from zeropoint.codegen.runtime.bins import NativeBins  # imports LLVM, which is needed only here

            self._native = NativeBins()
        return self._native(words)


INTERPRETER = ReferenceEngine(SumsOfProducts())
"""Interprets cheap programs."""


class Warming:
    """A program that is compiled once its runs have taken as long as compiling takes, and optimized by the same rule.

    It is interpreted first. It is compiled from the start if the expected number of `runs`, of so many multiplications
    and additions (`operations`), already justifies this. A program with a loop, whose number of trips is unknown, is
    also compiled from the start. Calls are thread-safe. Native code runs on `threads` threads. `progress` counts the
    modules to compile.
    """

    def __init__(self, program: Program, operations: int, runs: int, progress: Progress = silent, *, threads: int = 1):
        self._program, self._progress, self._threads = program, progress, threads
        self._work = RunWork.of(program, operations)
        self._runs = 0
        self._lock = threading.Lock()
        self._levels = [False, True]
        """The forms of native code that are left: unoptimized and optimized."""
        self.runnable: Runnable | None = None
        if self._work.justifies(runs, optimized=False) or _has_loop(program):
            self._compile(optimized=self._work.justifies(runs, optimized=True))
        self.runnable = self.runnable or INTERPRETER.prepare(program)

    def __call__(self, inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
        """The outputs by name. `observe(key, array)` is called at every `quant.stats_ref`."""
        if self._levels:
            self._count()
        assert self.runnable is not None
        return self.runnable(inputs, observe=observe)

    @property
    def callers(self) -> int:
        """The number of calls that run at the same time."""
        return self.runnable.callers if isinstance(self.runnable, ObservedProgram) else 1

    def lock_step(self, samples: Sequence[Mapping[str, Array]], memory: int) -> LockStepped | None:
        """The program in lock step over samples; None if it has no such form, or not in so many bytes."""
        return self.runnable.lock_step(samples, memory) if isinstance(self.runnable, Adjustable) else None

    def repeated(self, paths: Collection[KernelPath], count: int, memory: int) -> Sequence[RepeatedKernels]:
        """At most `count` ways to run these kernels again, in so many bytes; none if some cannot run alone."""
        return self.runnable.repeated(paths, count, memory) if isinstance(self.runnable, ObservedProgram) else []

    def _count(self) -> None:
        with self._lock:
            self._runs += 1
            reached = [one for one in self._levels if self._work.justifies(self._runs, optimized=one)]
            if reached:
                self._compile(optimized=reached[-1])

    def _compile(self, *, optimized: bool) -> None:
        """Compile the program. If that is not possible, it is not tried again."""
        made = _compiled(self._program, self._threads, self._progress, optimized=optimized)
        self._levels = [one for one in self._levels if one and not optimized] if made else []
        self.runnable = made or self.runnable


@dataclass(frozen=True)
class RunWork:
    """What a run of a program takes, and what compiling it takes, both in operations that the interpreter performs."""

    operations: int
    """The multiplications and additions."""
    size: int
    """The number of ops to compile (`size_of`)."""

    @classmethod
    def of(cls, program: Program, operations: int) -> RunWork:
        """The work of a program with so many multiplications and additions."""
        return cls(operations, size_of(program))

    def justifies(self, runs: int, *, optimized: bool) -> bool:
        """Whether so many runs take as long as compiling, or as optimizing."""
        if optimized:
            return runs * self.operations >= OPTIMIZING * self.size
        loading = 0 if "llvmlite" in sys.modules else LOADING_LLVM
        # Ops that repeat the form of another count less here, too: preparing each of them takes as long as calling it.
        return runs * (self.operations + CALLED * self.size) >= COMPILING * self.size + loading


def size_of(program: Program) -> int:
    """The number of ops to compile. `REPEATED` ops of a form that others have count as one."""
    ops = [op for op in program.module.walk() if not isinstance(op, _UNCOMPILED)]
    forms = {(type(op), *op.operand_types, *op.result_types, *op.properties.values()) for op in ops}
    return len(forms) + (len(ops) - len(forms)) // REPEATED


def _has_loop(program: Program) -> bool:
    return any(isinstance(op, WhileOp) for op in program.module.walk())


@dataclass(frozen=True)
class QuickestEngine:
    """Native code for expensive programs, and the interpreter for cheap ones and for ops without a native form.

    Native code is optimized if its runs are expected to take longer than its optimization. `runs` is the expected
    number of runs, if known. `progress` counts the modules to compile. Native code of programs with many operations
    runs on `threads` threads, which do not affect the bits. `progress` and `threads` are not sent to other processes.
    """

    runs: int = 1
    progress: Progress = field(default=silent, compare=False, repr=False)
    threads: int = field(default=1, compare=False)

    def __reduce__(self) -> tuple[type[QuickestEngine], tuple[int]]:
        # Workers have no terminal, a user's display may not be picklable, and workers share the processors.
        return QuickestEngine, (self.runs,)

    def bin_counter(self) -> BinCounter:
        """A counter for histograms, in native code where there are many words."""
        return _Bins()

    def prepare(self, program: Program) -> Runnable:
        """Prepare the program with the engine that is expected to finish first."""
        operations = 2 * multiplications(program)
        if not operations and not _has_loop(program):
            return INTERPRETER.prepare(program)
        threads = self.threads if operations >= SHARED else 1
        return Warming(program, operations, self.runs, self.progress, threads=threads)


def milliseconds(program: Program, sample: Mapping[str, Array]) -> float:
    """The median time of a run as native code on one thread of this machine.

    Raises CodegenError if an op has no native form.
    """
    from zeropoint.codegen.runtime.native import NativeProgram

    run, times = NativeProgram(program), list[float]()
    for _ in range(WARM_RUNS + TIMED_RUNS):
        began = time.perf_counter()
        run(sample)
        times.append(time.perf_counter() - began)
    return 1e3 * median(times[WARM_RUNS:])


def for_runs(engine: Engine, runs: int) -> Engine:
    """The engine with the number of runs, if its choice depends on that number."""
    return replace(engine, runs=max(runs, 1)) if isinstance(engine, QuickestEngine) else engine
