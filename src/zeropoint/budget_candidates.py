"""The candidates of the search under a budget: a program quantized with some of its kernels widened.

One process makes the candidates in sequence. Several processes work ahead: they make the prefixes that bisection may
measure next, for both outcomes of its comparisons. A candidate depends only on its steps, so the result of the search
is the same for any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from zeropoint import budget
from zeropoint.bit_widths import energies_of, estimated_sqnr
from zeropoint.budget import Budget, Figures, WideningStep
from zeropoint.calibrate import Progress, silent
from zeropoint.calibrate.workers import folder_for_workers
from zeropoint.correct import Platform
from zeropoint.correct.sensitivity import Sensitivity, sensitivities
from zeropoint.engines import QuickestEngine, milliseconds
from zeropoint.interp import Engine, Runnable, masked
from zeropoint.ir.files import load_program, save_program
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.limits import Limits, limited, limits
from zeropoint.passes import INTEGER_PASSES, run_all
from zeropoint.report.counts import constant_bytes
from zeropoint.workers import completed


class Made(Protocol):
    """The stages of a quantization that the search reads: before and after corrections, quantized, and integer."""

    @property
    def decided(self) -> Program: ...
    @property
    def propagated(self) -> Program: ...
    @property
    def quantized(self) -> Program: ...
    @property
    def integer(self) -> Program: ...


M_co = TypeVar("M_co", bound=Made, covariant=True)
M = TypeVar("M", bound=Made)


class Quantizer(Protocol[M_co]):
    """Turns a calibrated program into an integer program, with its corrections, which run on `platform`."""

    @property
    def platform(self) -> Platform: ...

    def __call__(self, calibrated: Program) -> M_co: ...

    def stored(self, folder: Path) -> Callable[[], Quantizer[Made]]:
        """A description that can be sent to another process, which makes the same object from it.

        Programs are written to files in the folder.
        """
        ...


@dataclass(eq=False)
class Candidates(Generic[M]):
    """The quantizations of a calibrated program with some kernels widened.

    `held` are the samples to measure with. `exact` is the program that gives the expected outputs.
    """

    calibrated: Program
    exact: Program
    quantize: Quantizer[M]
    held: Sequence[Mapping[str, Array]]
    limits: Budget
    integer_io: bool
    progress: Progress = silent
    latest: dict[tuple[WideningStep, ...], M] = field(default_factory=lambda: {})

    @cached_property
    def engine(self) -> Engine:
        """The engine for runs of all held samples, without padding."""
        return masked(QuickestEngine(len(self.held), self.progress), self.quantize.platform.mask)

    @cached_property
    def _expected(self) -> list[Mapping[str, Array]]:
        run: Runnable = self.engine.prepare(self.exact)
        return [run(sample) for sample in self.progress(self.held, "float outputs")]

    def made(self, steps: Sequence[WideningStep]) -> M:
        """The quantization with these steps. Only the latest one is kept."""
        key = tuple(steps)
        if key not in self.latest:
            self.latest.clear()  # before the next one is made: both would decide the peak of memory
            widened = budget.widened(self.calibrated, steps, self.limits, self.quantize.platform.target)
            self.latest[key] = self.quantize(widened)
        return self.latest[key]

    def noise(self, steps: Sequence[WideningStep]) -> list[Sensitivity]:
        """The noise that each kernel adds, with these steps."""
        made = self.made(steps)
        return sensitivities(made.propagated, made.decided, self.held, self.quantize.platform, self.progress)

    def figures(self, steps: Sequence[WideningStep]) -> Figures:
        """Quality, size and, if the budget limits it, latency with these steps."""
        program = self.with_floats(self.made(steps))
        run = self.engine.prepare(program)
        found = map(run, self.progress(self.held, "integer outputs"))
        quality = estimated_sqnr(map(energies_of, self._expected, found))
        took = None if self.limits.latency is None else milliseconds(program, self.held[0])
        return Figures(quality.least, constant_bytes(program), took, margin=quality.margin)

    def with_floats(self, made: M) -> Program:
        """The integer program with floats at inputs and outputs."""
        return run_all(INTEGER_PASSES, made.quantized, {}) if self.integer_io else made.integer


@dataclass(frozen=True)
class _Job:
    """What a worker needs besides the steps: the programs' files, the quantizer, samples and limits."""

    calibrated: Path
    exact: Path
    quantize: Callable[[], Quantizer[Made]]
    held: Sequence[Mapping[str, Array]]
    limits: Budget
    integer_io: bool
    resources: Limits

    def candidates(self) -> Candidates[Made]:
        """The candidates, in another process."""
        calibrated, exact = load_program(self.calibrated), load_program(self.exact)
        return Candidates(calibrated, exact, self.quantize(), self.held, self.limits, self.integer_io)


@dataclass(frozen=True)
class Task:
    """Steps to measure. With `ranked`, also the noise of the kernels, unless the figures meet the budget."""

    steps: tuple[WideningStep, ...]
    ranked: bool = False


@dataclass(frozen=True)
class Measured:
    """The figures of a task, and the noise of the kernels if it was requested."""

    figures: Figures
    noise: Sequence[Sensitivity] | None


_PREPARED: dict[Path, Candidates[Made]] = {}
"""The candidates of the last job, in each worker."""


def _work(job: _Job, task: Task) -> Measured | None:
    """Measure in a worker. Returns None on failure; the parent then measures itself and gets the exception."""
    try:
        with limited(memory=job.resources.memory, trips=job.resources.trips):
            if job.calibrated not in _PREPARED:
                _PREPARED.clear()
                _PREPARED[job.calibrated] = job.candidates()
            candidates = _PREPARED[job.calibrated]
            figures = candidates.figures(task.steps)
            ranks = task.ranked and not (job.limits.quality is not None and figures.quality >= job.limits.quality)
            return Measured(figures, candidates.noise(task.steps) if ranks else None)
    except Exception:
        _PREPARED.clear()
        return None


Measure = Callable[[Sequence[Task]], Iterator[tuple[Task, Measured]]]


@contextmanager
def by_workers(candidates: Candidates[M], workers: int, journal: Path | None) -> Generator[Measure]:
    """A function that measures tasks with workers. It yields those that did not fail, in order of completion.

    The function raises WorkerError. The programs are in a folder next to the journal, which all machines must be able
    to read.
    """
    with folder_for_workers(journal) as folder:
        job = _Job(
            folder / "calibrated.mlir",
            folder / "exact.mlir",
            candidates.quantize.stored(folder),
            candidates.held,
            candidates.limits,
            candidates.integer_io,
            limits(),
        )
        save_program(candidates.calibrated, job.calibrated)
        save_program(candidates.exact, job.exact)

        def measure(tasks: Sequence[Task]) -> Iterator[tuple[Task, Measured]]:
            done = completed(partial(_work, job), iter(tasks), workers, "candidates")
            for _ in candidates.progress(range(len(tasks)), "widths"):
                task, result = next(done)
                if result is not None:
                    yield task, result

        yield measure
