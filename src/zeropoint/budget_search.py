"""Run the search under a budget: quantize with some kernels widened, measure, and rank the remaining kernels."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from zeropoint import budget
from zeropoint.bit_widths import SqnrEstimate
from zeropoint.budget import Budget, BudgetError, Figures, SearchJournal, Spent, Verified, WideningStep
from zeropoint.budget_candidates import Candidates, Made, Measure, Quantizer, Task, by_workers
from zeropoint.calibrate import Progress, Work
from zeropoint.correct.judge import without_specs
from zeropoint.ir.program import Program
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import Array
from zeropoint.verification import sqnr_on
from zeropoint.workers import worker_count


def journal_path(work: Work | None) -> Path | None:
    """The journal of a search: a file next to the journal of the calibration; None without one."""
    return None if work is None else work.part("budget").journal


M = TypeVar("M", bound=Made)
IN_BYTES = WideningStep(("no 4-bit weights",), (), "i8", 0.0, 0, 0)
"""The step under which the journal records the figures of the program with all weights in 8 bits."""


@dataclass(eq=False)
class BudgetSearch(Generic[M]):
    """A search. `quantize` turns a calibrated program into an integer program, with its corrections.

    `held` are the samples to measure with. With `every`, the quality of the result is that on all of these. The
    expected outputs are those of `reference` in float, or those of the calibrated program in float if it is None.
    """

    quantize: Quantizer[M]
    held: Sequence[Mapping[str, Array]]
    limits: Budget
    integer_io: bool
    reference: Program | None
    progress: Progress
    every: Iterable[Mapping[str, Array]] | None = None

    def run(self, calibrated: Program, options: str, work: Work | None) -> tuple[M, Spent]:
        """The quantization that meets the budget. The journal is next to that of `work`.

        `options` is a text that identifies the options of the search. Workers measure the candidates that may be needed
        next. If the budget has a latency, there are none, because latency is measured in this process while nothing
        else runs. Raises BudgetError if there is no result or no sample, and WorkerError.
        """
        if not self.held:
            raise BudgetError("found a budget without samples, expected at least one to measure the outputs with")
        journal = SearchJournal(journal_path(work), calibrated, options, resume=work is not None and work.resume)
        exact = calibrated if self.reference is None else without_specs(self.reference)
        candidates = Candidates(
            calibrated, exact, self.quantize, self.held, self.limits, self.integer_io, self.progress
        )
        candidates = self._narrow_enough(candidates, journal)

        def verify(chosen: Sequence[WideningStep]) -> SqnrEstimate:
            if (known := journal.verified(chosen)) is not None:
                return SqnrEstimate(known.least, known.margin)
            judged = candidates.with_floats(candidates.made(chosen))
            samples = self.progress(self.every or (), "verify")
            found = sqnr_on(exact, judged, samples, candidates.engine, work)
            journal.add_verified(chosen, Verified(found.least, found.margin))
            return found

        with _ahead(candidates, work) as (measure, count):
            search = _Search(candidates, journal, measure, count)
            search.ahead([()], ranked=True)
            verifying = None if self.every is None else verify
            spent = budget.spend(search.rank, search.figures, candidates.limits, verifying, search.ahead)
        target = self.quantize.platform.target
        narrow = budget.narrow(calibrated, spent.steps, candidates.limits, target)
        spent = replace(spent, between=budget.between(calibrated, spent.steps), narrow=narrow)
        return candidates.made(spent.steps), spent

    def _narrow_enough(self, candidates: Candidates[M], journal: SearchJournal) -> Candidates[M]:
        """The candidates, with 4-bit weights where the target has them if 8-bit weights alone exceed the size."""
        regions, target = regions_of(candidates.calibrated), self.quantize.platform.target
        able = any(budget.takes_nibbles(region, target) for region in regions)
        if self.limits.size is None or not able:
            return candidates
        bytes_alone = _Search(candidates, journal, None, 0).figures((IN_BYTES,))
        if bytes_alone.size <= self.limits.size:
            return candidates
        return replace(candidates, limits=replace(self.limits, nibbles=True), latest={})


@contextmanager
def _ahead(candidates: Candidates[M], work: Work | None) -> Generator[tuple[Measure | None, int]]:
    """The function that measures several candidates at a time, and how many; None and 0 without workers."""
    if work is None or work.workers == 1 or candidates.limits.latency is not None:
        yield None, 0
    else:
        with by_workers(candidates, work.workers, work.journal) as measure:
            yield measure, worker_count(work.workers)


class _Search(Generic[M]):
    """The figures of candidates, from the journal, from workers, or measured here, and the ranking of steps."""

    def __init__(self, candidates: Candidates[M], journal: SearchJournal, measure: Measure | None, count: int):
        self._candidates, self._journal = candidates, journal
        self._measure, self._count = measure, count

    def rank(self, taken: Sequence[WideningStep]) -> list[WideningStep]:
        """The remaining steps, the most important first."""
        of = self._candidates
        noise = self._journal.noise(taken)
        if noise is None:
            noise = of.noise(taken)
            self._journal.add_noise(taken, noise)
        return budget.steps_of(of.calibrated, of.quantize.platform.target, noise, of.limits, taken)

    def figures(self, chosen: Sequence[WideningStep]) -> Figures:
        """The figures with these steps."""
        figures = self._journal.get(chosen)
        if figures is None:
            figures = self._candidates.figures(chosen)
            self._journal.add(chosen, figures)
        return figures

    def ahead(self, lists: Iterable[Sequence[WideningStep]], *, ranked: bool = False) -> None:
        """Let the workers measure the first of these lists, unless it was measured, and as many others as there are
        workers.

        With `ranked`, also measure the noise of its kernels, from which the remaining steps are then ranked.
        """
        wanted = iter(lists)
        first = tuple(next(wanted))
        if self._measure is None or self._journal.get(first) is not None:
            return
        others = (tuple(steps) for steps in wanted if self._journal.get(steps) is None)
        tasks = [Task(first, ranked), *(Task(steps) for steps in islice(others, self._count - 1))]
        for task, result in self._measure(tasks):
            self._journal.add(task.steps, result.figures)
            if result.noise is not None:
                self._journal.add_noise(task.steps, result.noise)
