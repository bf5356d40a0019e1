"""The second half of `quantize`: corrections, quantization and lowering of a program that has its ranges."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from xdsl.dialects.builtin import ModuleOp

from zeropoint.calibrate import Kept, Progress, Report, Work, silent
from zeropoint.correct import (
    PRODUCTS,
    Equalized,
    IntegerProducts,
    Judged,
    Platform,
    SampleParts,
    check_methods,
    correct,
    judge_of,
)
from zeropoint.correct.float_record import FloatRecord
from zeropoint.correct.journal import CorrectionJournal, correction_journal
from zeropoint.engines import QuickestEngine
from zeropoint.equalization import Calibrated, EqualizationTrial
from zeropoint.integer_products import INTEGERS, try_integer_products
from zeropoint.interp import Engine, masked
from zeropoint.ir.arguments import Sample
from zeropoint.ir.constants import is_constant
from zeropoint.ir.files import load_program, save_program
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeCastOp
from zeropoint.options import Options
from zeropoint.passes import DECIDING_PASSES, EDGE_PASSES, INTEGER_PASSES, QUANTIZING_PASSES, Pass, run_all
from zeropoint.quantization import Quantization
from zeropoint.solve.widths.unrounded import float_products
from zeropoint.targets import Target
from zeropoint.targets import target as named_target
from zeropoint.workers import processors

_LOG = logging.getLogger(__name__)


def settings_of(options: Options) -> dict[str, object]:
    """The options of passes."""
    passed = {"target": options.target, "profile": options.profile, "ranges": options.ranges}
    return {**passed, "integer_io": options.integer_io}


def platform_of(
    target: Target, engine: Engine | None, samples: int, progress: Progress, mask: str | None = None
) -> Platform:
    """The platform that corrections run on: the user's engine, or the fastest one for this number of samples.

    Whole programs are judged where the input `mask` is not 0.
    """
    threads = processors()
    programs = masked(engine or QuickestEngine(samples, progress, threads), mask)
    return Platform(programs, lambda runs: engine or QuickestEngine(runs, threads=threads), target)


def _have_the_same_ops(first: Program, second: Program) -> bool:
    """Whether two programs differ in constants and statistics only."""
    forms = [[[operand.type for operand in op.operands] for op in one.entry.ops] for one in (first, second)]
    return forms[0] == forms[1]


def _rounds(program: Program) -> bool:
    """Whether a model quantizes activations itself.

    `propagate` takes these casts as types, but they are part of the model's computation. For example, exporters leave
    out a relu before a cast to zero point -128, which clamps at 0.
    """
    return any(isinstance(op, QuantizeCastOp) and not is_constant(op.input) for op in program.entry.ops)


@dataclass(frozen=True)
class Finish:
    """The second half of `quantize`, from the program with its ranges to the integer program."""

    fused: Program
    report: Report
    settings: Mapping[str, object]
    options: Options
    kept: Kept
    validation: Sequence[Sample]
    engine: Engine | None
    progress: Progress
    reference: Program | None = None
    """The propagated program before equalization; None if the program was not equalized."""
    equalization: Equalized | None = None
    known: Calibrated | None = None
    """A calibrated program whose outputs were compared with float before."""
    first: tuple[Program, Program] | None = None
    """A calibrated program and its propagated form, if that was needed before."""
    record: FloatRecord | None = None
    """What calibration recorded of the float network."""
    work: Work | None = None
    """Where corrections are recorded outside of a search."""

    def equalized(self, calibrated: Program, samples: Iterable[Sample], work: Work | None) -> tuple[Finish, Program]:
        """The calibrated program, equalized if that helps, and the `Finish` for it."""
        trial = EqualizationTrial(
            samples,
            self.parts,
            self.platform,
            self.options.observer,
            self.settings,
            self.progress,
            work,
            check_methods(self.options.effort, self.options.corrections),
            self.record,
        )
        best, figures = trial.of(Calibrated(self.fused, self.report, calibrated))
        # The trial compared the equalized program with the outputs of the propagated program before it.
        reference = None if best.program is calibrated or best.judged is None else best.judged.judge.program
        if reference is not None and not _have_the_same_ops(best.program, calibrated):
            reference = None  # channels that have become even are not split
        # A program that rounds by itself is compared with its own computation, which is not its propagated form.
        known = None if _rounds(calibrated) else best
        made = replace(
            self, fused=best.fused, report=best.report, reference=reference, equalization=figures, known=known
        )
        if best.program is not calibrated and known is not None and known.judged is not None and self.refits:
            # Nothing runs the network before equalization again, and its weights take memory.
            known.judged.judge.release()
            made = replace(made, reference=None, first=None, record=None)
        return made, best.program

    @property
    def parts(self) -> SampleParts:
        """The samples that corrections are fitted to, and those that programs are judged on."""
        return SampleParts.of(self.kept.in_order, list(self.validation))

    @property
    def platform(self) -> Platform:
        """The target, and the engines for the kept samples."""
        target, count = named_target(self.options.target), len(self.kept.entries)
        platform = platform_of(target, self.engine, count, self.progress, self.options.mask)
        return replace(platform, float_results=not self.options.integer_io)

    def _passed(self, passes: Sequence[Pass], program: Program) -> Program:
        return run_all(passes, program, self.settings, self.progress)

    @property
    def refits(self) -> bool:
        """Whether the kept correction is fitted again to all samples. Not in a search, which uses the figures on
        held-back samples."""
        return self.options.budget is None and self.options.least_sqnr is None

    def __call__(self, calibrated: Program) -> Quantization:
        known = self.known is not None and self.known.program is calibrated
        judged = self.known.judged if known and self.known is not None else None
        if judged is not None:
            decided = judged.program
        elif self.first is not None and self.first[0] is calibrated:
            decided = self.first[1]
        else:
            decided = self._passed(DECIDING_PASSES, calibrated)
        decided, judged, products, settings = self._with_products(calibrated, decided, judged)
        start = perf_counter()
        propagated, corrections, lowered = correct(
            decided,
            self.parts,
            self.platform,
            effort=self.options.effort,
            methods=self.options.corrections,
            progress=self.progress,
            reference=calibrated if _rounds(calibrated) else self.reference,
            equalized=self.equalization,
            products=products,
            refit=self.refits,
            judged=judged,
            record=self.record,
            journal=self._journal(decided),
        )
        if corrections.attempts:
            _LOG.info("correct: %d tried, %.2f s", len(corrections.attempts), perf_counter() - start)
        # The program carries its profile, and ops with another profile carry theirs.
        passes = (*QUANTIZING_PASSES, *INTEGER_PASSES) if lowered is None else ()
        integer = run_all((*passes, *EDGE_PASSES), lowered or propagated, {"io": self.options.io}, self.progress)
        return Quantization(
            self.fused,
            calibrated,
            propagated,
            integer,
            self.report,
            corrections,
            decided,
            settings=settings,
        )

    def _journal(self, decided: Program) -> CorrectionJournal | None:
        """The journal of the corrections of a propagated program; None in a search, which records its measurements."""
        return correction_journal(self.work if self.refits else None, decided, repr(self.options), self.parts)

    def _with_products(
        self, calibrated: Program, decided: Program, judged: Judged | None
    ) -> tuple[Program, Judged | None, IntegerProducts | None, Mapping[str, object]]:
        """The propagated program, with integer operands for contractions that are float otherwise if little is lost.

        Also the program whose outputs were compared, the figures, and the settings of the passes.
        """
        names, parts = check_methods(self.options.effort, self.options.corrections), self.parts
        tried = self.refits and PRODUCTS in names and parts.fitted and not _rounds(calibrated)
        if not tried or not float_products(decided):
            return decided, judged, None, self.settings
        if judged is None:
            judge = judge_of(self.reference or decided, parts, self.platform, self.progress, names, self.record)
            judged = judge.judged(decided)

        def decide(more: Mapping[str, object]) -> Program:
            return run_all(DECIDING_PASSES, calibrated, {**self.settings, **more}, self.progress)

        found, figures = try_integer_products(judged, len(parts.judging), decide)
        settings = {**self.settings, **INTEGERS} if figures.kept else self.settings
        return found.program, found, figures, settings

    def stored(self, folder: Path) -> StoredFinish:
        """A description from which another process makes the same object. `folder` gets the file of the reference."""
        path = None if self.reference is None else folder / "reference.mlir"
        if self.reference is not None and path is not None:
            save_program(self.reference, path)
        given = self.settings, self.options, self.kept, self.validation, self.engine, self.equalization
        return StoredFinish(*given, path)


@dataclass(frozen=True)
class StoredFinish:
    """A `Finish` for another process. The stages before it are left out, and its reference is a file."""

    settings: Mapping[str, object]
    options: Options
    kept: Kept
    validation: Sequence[Sample]
    engine: Engine | None
    equalization: Equalized | None
    reference: Path | None

    def __call__(self) -> Finish:
        reference = None if self.reference is None else load_program(self.reference)
        nothing, report = Program(ModuleOp([])), Report({}, 0)
        given = self.settings, self.options, self.kept, self.validation, self.engine
        return Finish(nothing, report, *given, silent, reference, self.equalization)
