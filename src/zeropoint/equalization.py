"""Try equalization: observe channels, equalize, calibrate anew, and keep it if the outputs get closer to float.

Both programs are compared without corrections, on the samples held back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zeropoint.calibrate import Progress, Report, collect, state_ranges
from zeropoint.calibrate.bounded import observe_bounded
from zeropoint.correct import Equalized, Platform, SampleParts, some
from zeropoint.correct.channel_statistics import without_statistics
from zeropoint.correct.equalize import equalize
from zeropoint.correct.judge import Judge
from zeropoint.correct.observe_channels import observe_channels
from zeropoint.demands import demanded_observers
from zeropoint.ir.annotations import EQUALIZED
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.passes import ASKING_PASSES, CALIBRATED_PASSES, DECIDING_PASSES, run_all


@dataclass(frozen=True)
class Calibrated:
    """A fused program, the report of its calibration, and the program with its ranges."""

    fused: Program
    report: Report
    program: Program


@dataclass(frozen=True)
class EqualizationTrial:
    """The inputs of a trial of equalization.

    `samples` calibrate the equalized program; `settings` are those of the passes.
    """

    samples: Iterable[Mapping[str, Array]]
    parts: SampleParts
    platform: Platform
    observer: str
    settings: Mapping[str, object]
    progress: Progress

    def of(self, before: Calibrated) -> tuple[Calibrated, Equalized | None]:
        """The better one of the program and its equalized form; None for the figures if no channels are uneven."""
        engine = self.platform.programs
        fused = without_statistics(equalize(observe_channels(before.fused, some(self.parts.fitted), engine)))
        if not any(EQUALIZED in op.attributes for op in fused.entry.ops):
            return before, None
        after = self._calibrated(fused)
        narrow = run_all(DECIDING_PASSES, before.program, self.settings)
        judge = Judge(narrow, some(self.parts.held), engine)
        noise = [judge.noise(one) for one in (narrow, run_all(DECIDING_PASSES, after.program, self.settings))]
        kept = noise[1].is_less(noise[0])
        return after if kept else before, Equalized(noise[0].sqnr, noise[1].sqnr, kept)

    def _calibrated(self, fused: Program) -> Calibrated:
        asked = run_all(ASKING_PASSES, fused, self.settings)
        report = collect(
            asked,
            self.samples,
            observer=self.observer,
            observers=demanded_observers(asked),
            engine=self.platform.programs,
            progress=self.progress,
        )
        program = run_all(CALIBRATED_PASSES, state_ranges(asked, report), self.settings)
        engine = self.platform.programs
        program, report = observe_bounded(program, report, self.samples, self.observer, engine, self.progress)
        return Calibrated(fused, report, program)
