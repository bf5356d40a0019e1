"""Quantize a float program to an integer program, with the passes of `zeropoint.passes` and calibration."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from operator import length_hint

from zeropoint import budget
from zeropoint.bit_widths import BitWidthError, Widths
from zeropoint.budget import Budget
from zeropoint.budget_search import BudgetSearch, journal_path
from zeropoint.calibrate import DataError, Kept, Progress, Report, Work, silent, state_ranges
from zeropoint.correct import EQUALIZE, MOST_EFFORT, check_methods, some
from zeropoint.correct.float_record import FloatRecord
from zeropoint.correct.methods import wanted_of
from zeropoint.correct.sensitivity import Sensitivity, sensitivities
from zeropoint.demands import check_demands, check_observers, check_scales
from zeropoint.effects import Decided, check_effects
from zeropoint.finish import Finish, platform_of, settings_of
from zeropoint.frontend import ModelError
from zeropoint.garbage_collection import seldom_collected
from zeropoint.interp import Engine, ReferenceEngine, check_mask, has_padding, masked
from zeropoint.ir.annotations import ORIGIN
from zeropoint.ir.arguments import Sample
from zeropoint.ir.program import Program
from zeropoint.ir.stated_kernels import states_kernels
from zeropoint.observed_ranges import check_annotated, check_journals, observe_parts, observe_ranges, remove_journals
from zeropoint.options import Options, check_options, check_padding, check_validation, check_without_data
from zeropoint.passes import (
    ASKING_PASSES,
    CALIBRATED_PASSES,
    DECIDING_PASSES,
    DERIVE_RANGES,
    FLOAT_PASSES,
    KEEP_UNQUANTIZED,
    QUANTIZING_PASSES,
    SIMPLIFY_PASSES,
    run_all,
)
from zeropoint.quantization import Quantization, check_used
from zeropoint.recipe import apply_recipe
from zeropoint.sensitivities import Sensitivities
from zeropoint.solve.quantized_files.stated_facts import with_stated_facts
from zeropoint.targets import target as named_target
from zeropoint.width_effects import Widening, WidthEffect, width_effects

SEARCHED = 4
"""The number of samples on which `sensitivity` measures the other width of each kernel."""
CORRECTED = 64
"""The maximum number of samples on which corrections are computed and evaluated."""


@seldom_collected()
def quantize(
    program: Program,
    samples: Iterable[Sample] | None,
    options: Options | None = None,
    *,
    validation: Iterable[Sample] = (),
    progress: Progress | None = None,
    engine: Engine | None = None,
    work: Work | None = None,
    keep_journals: bool = False,
) -> Quantization:
    """Run all stages of quantization in order.

    `samples` is consumed once, as a stream. Each sample is a dict of input names to arrays with the inputs' shapes.
    `samples` may be None if the model specifies parameters or a range for every value that needs them, for example
    after training with fake quantization. Then the model is not run, and no corrections are tried. With samples,
    corrections are tried for such a model like for any other. `engine` runs the float program; it defaults to
    `QuickestEngine`. Corrections are evaluated on `validation`, or on samples that were not used to compute them.
    `work` distributes calibration over processes and keeps a journal, which is removed at the end. With `keep_journals`
    the journal stays, for a caller that has yet to write the result, and calls `remove_journals` afterwards.

    Raises the errors of the stages: ModelError for a program that is already quantized, DataError, CalibrationError,
    PropagationError and LoweringError. Raises RecipeError for a rule that does not match the model, and OptionError for
    unknown options and for work to resume without a journal. Raises MissingStatistics, with the names of the values, if
    there are no samples but values need them.
    """
    options = options or Options()
    check_options(options)
    if program.profile is not None:
        raise ModelError(
            f"found a program that is quantized already, with profile '{program.profile}', expected a float model"
        )
    check_mask(program, options.mask)
    check_journals(work)
    finish, calibrated, given = _calibrated(program, samples, options, validation, progress or silent, engine, work)
    if finish.options.budget is not None:
        made = _budgeted(finish, calibrated, finish.options.budget, work, finish.parts.held)
    else:
        made = finish(calibrated) if options.least_sqnr is None else _widened(finish, calibrated, given, work)
    if not keep_journals:
        remove_journals(work)
    return made


def _calibrated(
    program: Program,
    samples: Iterable[Sample] | None,
    options: Options,
    validation: Iterable[Sample],
    shown: Progress,
    engine: Engine | None,
    work: Work | None,
) -> tuple[Finish, Program, Iterable[Sample]]:
    """The program with its ranges, equalized if that helps, and what turns it into an integer program.

    Also the samples, which can be read again if they are needed for a search. The programs before are given up here.
    """
    settings = settings_of(options)
    fused = _fused(program, options, settings, shown, data=samples is not None)
    asked = run_all(ASKING_PASSES, fused, settings, shown)
    check_observers(asked)
    if samples is None:
        asked = DERIVE_RANGES(asked, settings)
        check_annotated(asked)
        check_without_data(options, validation=validation != ())
        samples, options = (), replace(options, effort="none", corrections=None)
    elif validation != ():
        check_validation(options)
    if options.least_sqnr is not None and not isinstance(samples, Sized):
        samples = list(samples)  # needed twice
    kept = Kept(CORRECTED if options.needs_samples or not isinstance(samples, Sized) else 0, options.mask)
    record = _record(fused, asked, samples, options, validation=validation != ())
    report = observe_ranges(asked, kept, samples, options, shown, engine, work, record)
    ranged = state_ranges(asked, report)
    calibrated = run_all(CALIBRATED_PASSES, ranged, settings, shown)
    again = samples if isinstance(samples, Sized) else kept.in_order
    calibrated, report = observe_parts(calibrated, report, again, options, shown, engine, work)
    first = _first_decided(ranged, calibrated, report, options, shown) if options.chooses_ranges else None
    if not options.needs_samples:
        kept.entries.clear()
    held = tuple(validation) if options.needs_samples else ()
    check_padding(options.mask, padded=kept.padded or any(has_padding(one, options.mask) for one in held))
    finish = Finish(fused, report, settings, options, kept, held, engine, shown, first=first, record=record, work=work)
    if EQUALIZE in check_methods(options.effort, options.corrections) and kept.entries:
        finish, calibrated = finish.equalized(calibrated, again, work)
    return finish, calibrated, samples


def _fused(
    program: Program, options: Options, settings: Mapping[str, object], progress: Progress, *, data: bool
) -> Program:
    """The regions of a float program, with the demands of the recipe.

    Without data, what a quantized model computes in floats stays float.
    """
    if not data and options.recipe is None and states_kernels(program):
        # Folded constants would be other ops: those that dequantize stored weights are part of an exported program.
        passes = () if ORIGIN in program.module.attributes else SIMPLIFY_PASSES
        return with_stated_facts(run_all(passes, program, settings, progress))
    fused = run_all(FLOAT_PASSES, program, settings, progress)
    if options.recipe is not None:
        check_scales(options.recipe, named_target(options.target))
        fused = apply_recipe(fused, options.recipe, program)
        check_demands(fused, named_target(options.target))
    return fused if data else KEEP_UNQUANTIZED(fused, settings)


def _first_decided(
    ranged: Program, calibrated: Program, report: Report, options: Options, progress: Progress
) -> tuple[Program, Program]:
    """The calibrated program and its propagated form, of which the choices of ranges are a part.

    Raises RecipeError and OptionError for a choice that changes nothing.
    """
    settings = settings_of(options)
    first = run_all(DECIDING_PASSES, calibrated, settings, progress)
    check_effects(Decided(ranged, report, first, settings), options)
    return calibrated, first


def _record(
    fused: Program, asked: Program, samples: Iterable[Sample], options: Options, *, validation: bool
) -> FloatRecord | None:
    """A record of calibration for corrections; None if none is tried on all of the samples."""
    tried, count = check_methods(options.effort, options.corrections), length_hint(samples)
    if not tried or options.mask is not None or not 0 < count <= CORRECTED:
        return None
    return FloatRecord(fused, asked, count, validation, wanted_of(tried))


def _widened(finish: Finish, calibrated: Program, samples: Iterable[Sample], work: Work | None) -> Quantization:
    """The result with enough wide kernels that every output has the minimum SQNR on all samples.

    Raises BitWidthError, with the best figures found, if that is not possible.
    """
    options = finish.options
    # Samples that calibration has not seen judge better.
    every, validation = (finish.validation, True) if finish.validation else (samples, False)
    held, count = some(finish.validation or finish.kept.in_order), length_hint(every)
    try:
        made = _budgeted(finish, calibrated, Budget(options.least_sqnr, floats=False), work, held, every)
    except budget.Missed as error:
        if (journal := journal_path(work)) is not None:
            journal.unlink(missing_ok=True)  # the search is complete
        best = Widths.of(error.best, len(held), count, validation=validation)
        wider = "" if best.candidates else "name a target with 16-bit kernels, such as litert (--target), "
        advice = f"{wider}{_more_corrections(options)}lower the minimum, or keep parts in float with a recipe"
        raise BitWidthError(
            f"found {best.verified:.1f} dB on {best.judges} and {best.searched:.1f} dB on the {len(held)} samples of "
            f"the search, with {_wide(best, options.target)}, expected {options.least_sqnr:g} dB; {advice}"
        ) from None
    assert made.spent is not None
    widths = Widths.of(made.spent, len(held), count, validation=validation)
    return replace(made, widths=widths, spent=None)


def _wide(found: Widths, target: str) -> str:
    """The number of wide kernels, of those that the target has in two widths."""
    if not found.candidates:
        return f"target {target}, which has none of the kernels in two widths"
    return (
        f"{len(found.wide)} wide kernels{found.listed} of the {found.candidates} that target {target} has in two widths"
    )


def _more_corrections(options: Options) -> str:
    """Advice to try all corrections. Empty if the user chose the corrections or all are tried already."""
    is_most = options.corrections is not None or options.effort == MOST_EFFORT
    return "" if is_most else f"try effort '{MOST_EFFORT}' (--effort {MOST_EFFORT}), "


def _budgeted(
    finish: Finish,
    calibrated: Program,
    limits: Budget,
    work: Work | None,
    held: Sequence[Sample],
    every: Iterable[Sample] | None = None,
) -> Quantization:
    """The result whose kernels have the widths that a search under a budget chose. Raises BudgetError."""
    options = finish.options
    search = BudgetSearch(finish, held, limits, options.integer_io, finish.reference, finish.progress, every)
    made, spent = search.run(calibrated, repr(options), work)
    integer = budget.record(made.integer, spent)
    return replace(made, propagated=budget.record(made.propagated, spent), integer=integer, spent=spent)


def sensitivity(
    program: Program,
    samples: Iterable[Sample],
    options: Options | None = None,
    *,
    exact: bool = False,
    progress: Progress | None = None,
    engine: Engine | None = None,
    work: Work | None = None,
    observer: bool = False,
) -> Sensitivities:
    """The contribution of every kernel to the quantization noise, in program order (`correct.sensitivity`).

    The program is first quantized with `options`. With `exact`, the result also has the gain at the outputs if only
    that kernel is wide, and the loss if only that kernel is narrow. `work` distributes these measurements and
    calibration over processes. `observer` says that the user gave an observer, even if it is the
    default. Raises the errors of `quantize`.
    """
    options = options or Options()
    kept = Kept(CORRECTED, options.mask)
    made = quantize(program, kept.watch(samples), options, progress=progress, engine=engine, work=work)
    check_used(made, options, None if exact else work, observer=observer)
    if not kept.entries:
        deque(kept.watch(samples), maxlen=0)  # the model states all ranges, so no stage has read the samples
    if not kept.entries:
        raise DataError("data: found no samples; expected at least one")
    shown = progress or silent
    platform = platform_of(named_target(options.target), engine, len(kept.entries), shown, options.mask)
    found = sensitivities(made.propagated, made.decided, kept.in_order, platform, shown)
    if not exact:
        return Sensitivities(found)
    decide = partial(_decided, settings_of(options))
    judged = masked(ReferenceEngine(), options.mask)
    widening = Widening(made.calibrated, options.target, kept.in_order[:SEARCHED], decide, judged)
    kernels = {(one.name, one.kernel) for one in found}
    effects = width_effects(widening, kernels, 1 if work is None else work.workers, shown)
    return Sensitivities(_with_effect(one, effects.get((one.name, one.kernel))) for one in found)


def _with_effect(one: Sensitivity, effect: WidthEffect | None) -> Sensitivity:
    if effect is None:
        return one
    return replace(one, exact_gain=effect.gain, exact_form=effect.form, exact_loss=effect.loss)


def _decided(settings: Mapping[str, object], calibrated: Program) -> Program:
    return run_all((*DECIDING_PASSES, *QUANTIZING_PASSES), calibrated, settings)
