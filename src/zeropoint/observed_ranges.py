"""The calibrations of `quantize`: first of the values that need a range, then of the parts that passes compute
separately."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from operator import length_hint
from pathlib import Path
from time import perf_counter

from zeropoint.budget_search import journal_path
from zeropoint.calibrate import JournalError, Kept, Progress, Report, Work, collect, expected_runs
from zeropoint.calibrate.bounded import PARTS, has_bounded, observe_bounded
from zeropoint.calibrate.collect import stats_keys
from zeropoint.calibrate.workers import Recorder
from zeropoint.correct.journal import corrections_path
from zeropoint.demands import demanded_observers
from zeropoint.engines import QuickestEngine
from zeropoint.equalization import EQUALIZED_PROGRAM
from zeropoint.errors import OptionError, check_regular
from zeropoint.interp import Engine, masked
from zeropoint.ir.arguments import Sample
from zeropoint.ir.outputs import remove_leftovers
from zeropoint.ir.program import Program
from zeropoint.options import Options
from zeropoint.solve import MissingStatistics
from zeropoint.workers import processors

_LOG = logging.getLogger(__name__)
NAMES_LISTED = 6
"""The maximum number of names in a message."""


def check_journals(work: Work | None) -> None:
    """Check the journals of a quantization before any work, and remove what killed workers left there.

    Raises JournalError for a journal that is a folder, a pipe or a device, and OptionError if there is nothing to
    resume.
    """
    if work is None or work.journal is None:
        return
    journals = _journals(work)
    for path in journals:
        check_regular(path, JournalError)
        if path.is_dir():
            raise JournalError(f"{path}: found a folder, expected a journal or no file of that name; move it away")
        remove_leftovers(path.parent)
    if work.resume and not any(path.exists() for path in journals):
        raise OptionError(
            f"{work.journal}: found no journal, expected that of an interrupted calibration; run without resume "
            f"(--resume) to start over"
        )


def remove_journals(work: Work | None) -> None:
    """Remove the journals of a quantization whose result is complete."""
    for journal in () if work is None else _journals(work):
        journal.unlink(missing_ok=True)


def _journals(work: Work) -> list[Path]:
    """The journals of one quantization: of the search, of corrections, and of the calibrations of its program, of the
    equalized program, and of parts of both."""
    equalized = work.part(EQUALIZED_PROGRAM)
    found = [one.journal for one in (work, work.part(PARTS), equalized, equalized.part(PARTS))]
    return [path for path in (*found, journal_path(work), corrections_path(work)) if path is not None]


def check_annotated(asked: Program) -> None:
    """Raise MissingStatistics if a program needs data. The message names the values without a range."""
    missing = stats_keys(asked)
    if missing:
        listed = ", ".join(f"'{key}'" for key in missing[:NAMES_LISTED]) + (", ..." if missing[NAMES_LISTED:] else "")
        raise MissingStatistics(
            f"found no data, and no range in the model for values that need one ({listed}), expected "
            f"calibration data (--data), or statistics or fake quantization of these values in the model"
        )


def observe_ranges(
    asked: Program,
    kept: Kept,
    samples: Iterable[Sample],
    options: Options,
    progress: Progress,
    engine: Engine | None,
    work: Work | None,
    recorder: Recorder | None = None,
) -> Report:
    """The ranges observed on samples. `kept` receives each sample as it is run, and `recorder` what it gives."""
    start = perf_counter()
    report = collect(
        asked,
        kept.watch(samples),
        observer=options.observer,
        observers=demanded_observers(asked),
        engine=_engine(options, samples, progress, engine),
        progress=progress,
        work=work,
        recorder=recorder,
    )
    if report.observations:
        _LOG.info("calibrate: %d samples, %.2f s", report.samples, perf_counter() - start)
    elif options.needs_samples:
        for _ in kept.watch(samples):  # nothing was run, so no sample was seen
            pass
    return report


def observe_parts(
    calibrated: Program,
    report: Report,
    samples: Iterable[Sample],
    options: Options,
    progress: Progress,
    engine: Engine | None,
    work: Work | None,
) -> tuple[Program, Report]:
    """The program and the report with the ranges of the parts that a pass computes separately, if there are any."""
    if not has_bounded(calibrated) or not length_hint(samples):
        return calibrated, report
    runs = _engine(options, samples, progress, engine)
    return observe_bounded(calibrated, report, samples, options.observer, runs, progress, work)


def _engine(options: Options, samples: Iterable[Sample], progress: Progress, engine: Engine | None) -> Engine:
    """What runs a calibration: the user's engine, or the fastest one for what observing and judging take.

    With a mask, a prepared program does not judge.
    """
    count = length_hint(samples)
    runs = max(count, 1) if options.mask is not None else expected_runs(options.observer, count)
    return masked(engine or QuickestEngine(runs, progress, processors()), options.mask)
