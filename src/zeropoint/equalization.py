"""Try equalization: observe channels, equalize, calibrate again, and keep the result if outputs are closer to float.

Both programs are compared without corrections. The equalized one is kept if its outputs are better on the held-back
samples, and if the gain over all samples is more than chance. Nothing is fitted to outputs here, so all samples count.
The second calibration takes as long as everything before it, so the equalized program is first compared with
provisional ranges. The equalized values get the extremes that were observed per channel, and the others keep their
ranges. If the equalized program is then clearly worse, it is dropped at once. Before that, the ranges of the channels
in other samples show whether clamps would cut them: then the equalized program is another network in float.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log10, nan
from operator import length_hint

from zeropoint.calibrate import Progress, Report, Work, collect, expected_runs, state_ranges
from zeropoint.calibrate.bounded import has_bounded, observe_bounded
from zeropoint.calibrate.collect import stats_keys
from zeropoint.correct import Equalized, Judged, Platform, SampleParts, judge_of, some
from zeropoint.correct.channel_statistics import only_equalized, without_statistics
from zeropoint.correct.equalize import cut_share, equalize, uneven, uneven_streams
from zeropoint.correct.float_record import FloatRecord
from zeropoint.correct.judge import OutputNoise
from zeropoint.correct.observe_channels import observe_channels
from zeropoint.correct.sample_parts import FEW, Samples
from zeropoint.demands import demanded_observers
from zeropoint.engines import for_runs
from zeropoint.freed_memory import give_back_memory
from zeropoint.ir.program import Program
from zeropoint.ir.sequence import in_sequence
from zeropoint.ir.tensors import Array
from zeropoint.passes import ASKING_PASSES, CALIBRATED_PASSES, DECIDING_PASSES, Pass, run_all

HOPELESS = 10**0.05
"""Equalization is dropped at once if, with provisional ranges, it raises noise/signal of the outputs by this factor
(half a dB), and by more than chance explains."""
MOST_CUT = 1 / 200
"""Equalization is dropped, too, if clamps would cut more than this share of the channels on samples held back."""

LARGE = 64 << 20
"""The bytes of weights from which a second calibration begins with all garbage freed."""
EQUALIZED_PROGRAM = "equalized"
"""The suffix of the journal for the calibration of the equalized program."""


@dataclass(frozen=True)
class Calibrated:
    """A fused program, the report of its calibration, and the program with its ranges.

    `judged` is the propagated program made from it, if its outputs were compared with float.
    """

    fused: Program
    report: Report
    program: Program
    judged: Judged | None = None


@dataclass(frozen=True)
class EqualizationTrial:
    """The inputs of a trial of equalization.

    `samples` calibrate the equalized program, and `settings` are those of the passes. `work` distributes this
    calibration like the first one, with a journal next to that one's.
    """

    samples: Iterable[Mapping[str, Array]]
    parts: SampleParts
    platform: Platform
    observer: str
    settings: Mapping[str, object]
    progress: Progress
    work: Work | None = None
    names: Sequence[str] = ()
    """The corrections that will be tried on the program."""
    record: FloatRecord | None = None
    """The record of the first calibration."""

    def of(self, before: Calibrated) -> tuple[Calibrated, Equalized | None]:
        """The better one of the program and its equalized form. The figures are None if no channels are uneven."""
        stated = self._stated(before.fused, some(self.parts.fitted))
        found = uneven(stated)
        if not found and not uneven_streams(stated):
            return before, None
        narrow = self._passed(DECIDING_PASSES, before.program)
        judge = judge_of(narrow, self.parts, self.platform, self.progress, self.names, self.record)
        judged = judge.judged(narrow)
        before, least = replace(before, judged=judged), self._noise(judged)
        cut = cut_share(found, self._stated(before.fused, some(self.parts.judging, FEW)))
        if cut > MOST_CUT:
            return before, Equalized(least.sqnr, nan, kept=False, cut=cut)
        equalized = equalize(stated)
        provisional = self._provisional(equalized, before.report)
        if provisional is not None:
            noise = self._noise(judged.judge.judged(provisional))
            if noise.mean > HOPELESS * least.mean and least.is_less(noise):
                why = f"the mean noise is more than {10 * log10(HOPELESS):g} dB higher"
                return before, Equalized(least.sqnr, noise.sqnr, kept=False, provisional=True, objection=why)
            del provisional
        fitted = judged.noise()[self._held :].sqnr
        judged.release()  # it is kept if the second calibration loses
        # The second calibration comes on top of what the first one has left.
        give_back_memory(cycles=equalized.weights.held_bytes >= LARGE)
        after = self._calibrated(without_statistics(equalized))
        made = judged.judge.judged(self._passed(DECIDING_PASSES, after.program))
        noise = self._noise(made)
        why = noise.worse_than(least) or made.noise().chance(judged.noise())
        result = Equalized(least.sqnr, noise.sqnr, why is None, fitted=fitted, objection=why)
        return replace(after, judged=made) if result.kept else before, result

    def _stated(self, fused: Program, samples: Samples) -> Program:
        """The fused program with the ranges of channels in some samples."""
        return observe_channels(fused, samples, self.platform.programs, self.progress, self.record)

    def _passed(self, passes: Sequence[Pass], program: Program) -> Program:
        return run_all(passes, program, self.settings, self.progress)

    @property
    def _held(self) -> int:
        """The number of samples that were held back to judge."""
        return len(self.parts.judging)

    def _noise(self, judged: Judged) -> OutputNoise:
        """The noise on the held-back samples, which are the first samples of the judge."""
        return judged.noise(range(self._held))

    def _provisional(self, equalized: Program, report: Report) -> Program | None:
        """The propagated program with the ranges that are known without running it; None if a range is unknown."""
        asked = in_sequence((only_equalized, partial(self._passed, ASKING_PASSES)), equalized)
        if not report.observations.keys() >= {*stats_keys(asked)}:
            return None
        states = partial(state_ranges, report=report)
        program = in_sequence((states, partial(self._passed, CALIBRATED_PASSES)), asked)
        return None if has_bounded(program) else self._passed(DECIDING_PASSES, program)

    def _calibrated(self, fused: Program) -> Calibrated:
        asked = self._passed(ASKING_PASSES, fused)
        work = None if self.work is None else self.work.part(EQUALIZED_PROGRAM)
        engine = for_runs(self.platform.programs, expected_runs(self.observer, length_hint(self.samples)))
        report = collect(
            asked,
            self.samples,
            observer=self.observer,
            observers=demanded_observers(asked),
            engine=engine,
            progress=self.progress,
            work=work,
        )
        program = self._passed(CALIBRATED_PASSES, state_ranges(asked, report))
        program, report = observe_bounded(program, report, self.samples, self.observer, engine, self.progress, work)
        return Calibrated(fused, report, program)
