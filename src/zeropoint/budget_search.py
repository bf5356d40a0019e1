"""Run the search under a budget: quantize with some kernels widened, measure, rank the kernels that are left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from zeropoint import budget
from zeropoint.bit_widths import least_output_sqnr
from zeropoint.budget import Budget, BudgetError, Figures, Journal, Spent, Step
from zeropoint.calibrate import Progress, Work
from zeropoint.correct import Platform
from zeropoint.correct.judge import without_specs
from zeropoint.correct.sensitivity import sensitivities
from zeropoint.engines import QuickestEngine, milliseconds
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.passes import INTEGER_PASSES, run_all
from zeropoint.report.counts import constant_bytes
from zeropoint.verification import sqnr_on


def journal_path(work: Work | None) -> Path | None:
    """The journal of a search: a file next to the journal of the calibration; None without one."""
    return None if work is None or work.journal is None else work.journal.with_name(f"{work.journal.name}.budget")


class Made(Protocol):
    """The stages of a quantization that the search reads: before and after corrections, quantized, integer."""

    @property
    def decided(self) -> Program: ...
    @property
    def propagated(self) -> Program: ...
    @property
    def quantized(self) -> Program: ...
    @property
    def integer(self) -> Program: ...


M = TypeVar("M", bound=Made)


@dataclass(eq=False)
class BudgetSearch(Generic[M]):
    """A search; `quantize` makes a calibrated program into an integer program, with its corrections.

    `held` are the samples to measure with; with `every`, the quality of the result is that on all of these. The float
    form of `reference` gives the expected outputs, that of the calibrated program if None.
    """

    quantize: Callable[[Program], M]
    held: Sequence[Mapping[str, Array]]
    platform: Platform
    limits: Budget
    integer_io: bool
    reference: Program | None
    progress: Progress
    every: Iterable[Mapping[str, Array]] | None = None
    latest: dict[tuple[Step, ...], M] = field(default_factory=lambda: {})

    def run(self, calibrated: Program, options: str, work: Work | None) -> tuple[M, Spent]:
        """The quantization that meets the budget. The journal is next to that of `work`, for the text `options`.

        Raises BudgetError if there is none, or no sample.
        """
        if not self.held:
            raise BudgetError("found a budget without samples, expected at least one to measure the outputs with")
        journal = Journal(journal_path(work), calibrated, options, resume=work is not None and work.resume)
        runs = QuickestEngine(len(self.held))
        original = calibrated if self.reference is None else without_specs(self.reference)
        exact = runs.prepare(original)
        expected = [exact(sample) for sample in self.held]

        def rank(taken: Sequence[Step]) -> list[Step]:
            made = self._made(calibrated, taken)
            found = sensitivities(made.propagated, made.decided, self.held, self.platform, self.progress)
            return budget.steps_of(calibrated, self.platform.target, found, self.limits, taken)

        def measure(chosen: Sequence[Step]) -> Figures:
            figures = journal.get(chosen)
            if figures is None:
                figures = self._figures(self._made(calibrated, chosen), expected, runs)
                journal.add(chosen, figures)
            return figures

        def verify(chosen: Sequence[Step]) -> float:
            judged = self._with_floats(self._made(calibrated, chosen))
            return sqnr_on(original, judged, self.progress(self.every or (), "verify"), runs, work)

        spent = budget.spend(rank, measure, self.limits, None if self.every is None else verify)
        spent = replace(spent, between=budget.between(calibrated, spent.steps))
        made = self._made(calibrated, spent.steps)
        journal.remove()
        return made, spent

    def _made(self, calibrated: Program, chosen: Sequence[Step]) -> M:
        """The quantization with these steps; only the latest one is kept."""
        key = tuple(chosen)
        if key not in self.latest:
            made = self.quantize(budget.widened(calibrated, chosen, self.limits))
            self.latest.clear()
            self.latest[key] = made
        return self.latest[key]

    def _figures(self, made: M, expected: Sequence[Mapping[str, Array]], runs: QuickestEngine) -> Figures:
        program = self._with_floats(made)
        run = runs.prepare(program)
        quality = least_output_sqnr(zip(expected, map(run, self.held), strict=True))
        took = None if self.limits.latency is None else milliseconds(program, self.held[0])
        return Figures(quality, constant_bytes(program), took)

    def _with_floats(self, made: M) -> Program:
        """The integer program, with floats at inputs and outputs."""
        return run_all(INTEGER_PASSES, made.quantized, {}) if self.integer_io else made.integer
