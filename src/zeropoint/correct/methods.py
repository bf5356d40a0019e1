"""The corrections by name, and the presets that combine them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from zeropoint.calibrate import Progress
from zeropoint.correct import analytic_bias, closed_form, empirical_bias
from zeropoint.correct.block_reconstruction import NAME as BLOCKS
from zeropoint.correct.block_reconstruction import Reconstruction
from zeropoint.correct.contractions import ContractionKernel, contraction_kernel, contraction_kernels
from zeropoint.correct.float_inputs import FloatInputs
from zeropoint.correct.float_means import FloatMeans, float_means
from zeropoint.correct.float_record import RecordedNetwork, RecordPart
from zeropoint.correct.journal import CorrectionJournal, MethodRecords
from zeropoint.correct.lock_step import correct_in_lock_step
from zeropoint.correct.sample_parts import Samples
from zeropoint.correct.walk import WalkStep, fitting, walk
from zeropoint.interp import Engine, MaskedEngine, Runnable, masked_run
from zeropoint.ir.annotations import Fact, facts_of, state_facts
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.materialize import express_results, widen_terms
from zeropoint.targets import Target

CorrectionMethod = Callable[[ContractionKernel, WalkStep], str]
"""Changes the constants of a kernel in place and returns a description."""


@dataclass(frozen=True)
class Platform:
    """The engine for whole programs, the engine for single kernels by number of samples, and the target."""

    programs: Engine
    kernels: Callable[[int], Engine]
    target: Target
    means: FloatMeans | None = None
    """The mean results of float kernels, if runs of the float network have found them already."""
    inputs: FloatInputs | None = None
    """The mean inputs of float kernels, if runs of the float network have found them already."""
    network: RecordedNetwork | None = None
    """The record of the float network, if calibration has made one."""
    uncorrected: Callable[[], Runnable] | None = None
    """Gives the integer program without corrections, prepared."""
    float_results: bool = True
    """Whether the final program returns floats. If not, its results keep their storage."""
    journal: CorrectionJournal | None = None
    """Where corrected kernels are recorded, if they are."""

    @property
    def mask(self) -> str | None:
        """The input that is 0 at padding, which `programs` leaves out; None if nothing is left out."""
        return self.programs.mask if isinstance(self.programs, MaskedEngine) else None

    @property
    def whole(self) -> Engine:
        """The engine for whole programs, including padding."""
        return self.programs.engine if isinstance(self.programs, MaskedEngine) else self.programs

    def records(self, method: str, program: Program, samples: int) -> MethodRecords:
        """The records of a method that is fitted to so many samples, for the kernels of a program."""
        return MethodRecords(self.journal, method, samples, program)


@dataclass(frozen=True)
class Method:
    """A correction, which changes a propagated program in place, and its one-line summary.

    `run` may return the integer program of the corrected one, prepared.
    """

    run: Callable[[Program, Samples, Platform, Progress], Runnable | None]
    summary: str
    is_refitted: bool = False
    """Whether the method benefits from more samples. If so and it is kept, it is fitted again to all of them."""
    needs_means: bool = False
    """Whether it needs the mean results of float kernels."""
    needs_inputs: bool = False
    """Whether it needs the mean inputs of float kernels."""
    only_moves_biases: bool = False
    """Whether it changes nothing but biases, and needs no run of the uncorrected program."""


@dataclass(frozen=True)
class Refinement:
    """An in-place correction on top of another one, and its one-line summary.

    `run` takes the program, then the uncorrected one. It returns whether anything has changed; None if the program has
    nothing to try it on.
    """

    run: Callable[[Program, Program, Samples, Platform, Progress], bool | None]
    summary: str
    is_refitted: bool = False
    """Whether it benefits from more samples, as in `Method`."""


def in_lock_step(name: str, correction: Callable[[ContractionKernel], CorrectionMethod]) -> Callable[..., None]:
    """A method that corrects kernels in order, each with the outputs of the corrected kernels before it as input."""

    def run(program: Program, samples: Samples, platform: Platform, progress: Progress) -> None:
        used = fitting(program, samples)
        records = platform.records(name, program, len(used))
        if _restored(records, contraction_kernels(program, platform.target)):
            return

        def visits(region: QuantizeRegionOp) -> bool:
            return contraction_kernel(region, program.weights, platform.target) is not None

        def visit(step: WalkStep) -> None:
            kernel = contraction_kernel(step.region, program.weights, platform.target)
            assert kernel is not None
            _note(step.region, name, records.corrected(kernel, lambda: correction(kernel)(kernel, step)))

        walk(program, used, platform.kernels(len(used)), visit, progress, platform.mask, visits=visits)

    return run


def _empirical(program: Program, samples: Samples, platform: Platform, progress: Progress) -> Runnable | None:
    used, kernels = fitting(program, samples), contraction_kernels(program, platform.target)
    records = platform.records("empirical_bias", program, len(used))
    if _restored(records, kernels):
        return None
    means = None if platform.means is None else platform.means.for_kernels(kernels, used)
    if means is None:
        means = float_means(program, used, platform.whole, platform.target, progress, platform.mask)
    if platform.uncorrected is not None:

        def note(kernel: ContractionKernel, text: str) -> None:
            _note(kernel.region, "empirical_bias", text)
            records.add(kernel, text)

        run = correct_in_lock_step(means, platform.uncorrected(), used, note, progress)
        if run is not None:
            return masked_run(run, platform.mask)
    found = {mean.kernel.region: mean for mean in means}

    def visit(step: WalkStep) -> None:
        mean = found.get(step.region)
        if mean is not None:
            kernel, read = mean.kernel, step.inputs[0]
            text = records.corrected(kernel, lambda: empirical_bias.set_mean(kernel, read, mean.chosen, mean.mean))
            _note(step.region, "empirical_bias", text)

    walk(program, used, platform.kernels(len(used)), visit, progress, platform.mask, paired=False)
    return None


def _restored(records: MethodRecords, kernels: Sequence[ContractionKernel]) -> bool:
    """Give all kernels what is recorded of them. Returns whether it was; if some are not recorded, nothing changes."""
    if not records.know(kernels):
        return False
    for kernel in kernels:
        text = records.restore(kernel)
        if text is not None:
            _note(kernel.region, records.method, text)
    return True


def _note(region: QuantizeRegionOp, method: str, text: str) -> None:
    state_facts(region, [*facts_of(region), Fact("corrected", text, "calibrated", method)])


def _analytic(program: Program, samples: Samples, platform: Platform, progress: Progress) -> None:
    network, target = platform.network, platform.target
    records = platform.records("analytic_bias", program, len(samples))
    if _restored(records, contraction_kernels(program, target)):
        return
    known = None if network is None else network.input_sums(program, target, samples)
    if known is None and platform.inputs is not None:
        known = platform.inputs.for_kernels(contraction_kernels(program, target), samples)
    done = analytic_bias.correct_biases(program, samples, platform.whole, target, progress, platform.mask, known)
    for kernel in contraction_kernels(program, platform.target):
        text = done.get(kernel.name)
        if text is not None:
            _note(kernel.region, "analytic_bias", text)
        records.add(kernel, text)


def _reconstruct_blocks(
    program: Program, reference: Program, samples: Samples, platform: Platform, progress: Progress
) -> bool:
    used = fitting(program, samples)
    made = Reconstruction(program, reference, platform.target, platform.records(BLOCKS, program, len(used)))
    return made.run(used, platform.kernels(len(used)), progress, platform.mask) > 0


def _express_results(
    program: Program, reference: Program, samples: Samples, platform: Platform, progress: Progress
) -> bool | None:
    tried = platform.float_results and platform.target.real_results
    return True if tried and express_results(program) else None


def _widen_terms(
    program: Program, reference: Program, samples: Samples, platform: Platform, progress: Progress
) -> bool | None:
    return True if platform.target.adds_words and widen_terms(program) else None


def _closed_form(kernel: ContractionKernel) -> CorrectionMethod:
    return closed_form.reconstruct if closed_form.is_feasible(kernel) else empirical_bias.correct_bias


EQUALIZE = "equalize"
"""The name of equalization. It changes the float network before ranges are decided (`correct.equalize`). It is kept or
undone before the methods below are tried."""
PRODUCTS = "integer_products"
"""The name of integer operands for contractions that are float otherwise (`integer_products.py`). They are decided
before the methods below are tried."""
DECIDED_FIRST = (EQUALIZE, PRODUCTS)
RESULTS = "unrounded_results"
"""The name of results of the program that are not rounded to 8 bits (`materialize/express_accumulators.py`)."""
TERMS = "unrounded_terms"
"""The name of terms of sums that are not rounded to 8 bits (`materialize/widen_terms.py`)."""
METHODS: Mapping[str, Method] = {
    "analytic_bias": Method(
        _analytic,
        "biases minus the mean error of rounded weights, from channel means",
        needs_inputs=True,
        only_moves_biases=True,
    ),
    "empirical_bias": Method(
        _empirical,
        "biases that give each quantized kernel the mean of the float kernel, kernel by kernel",
        needs_means=True,
    ),
    "closed_form": Method(
        in_lock_step("closed_form", _closed_form),
        "least squares from quantized inputs, rounded to minimize the error of results",
        is_refitted=True,
    ),
}
"""The methods by name. Each starts from the uncorrected program. The best one on the held-back samples is kept."""


REFINEMENTS: Mapping[str, Refinement] = {
    BLOCKS: Refinement(_reconstruct_blocks, "rounding of weights, learned block by block with gradients", True),
    TERMS: Refinement(_widen_terms, "contractions that only a sum reads, kept in 15 bits and rounded with the sum"),
    RESULTS: Refinement(_express_results, "results of contractions, returned as dequantized accumulators"),
}
"""The refinements by name. Each is tried on top of the best program of the methods, and kept if it improves that."""
CORRECTIONS = (*DECIDED_FIRST, *METHODS, *REFINEMENTS)
"""All names of corrections."""


PRESETS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "fast": ("analytic_bias",),
    "balanced": (EQUALIZE, PRODUCTS, "empirical_bias"),
    "best": (EQUALIZE, PRODUCTS, "empirical_bias", "closed_form", BLOCKS, TERMS, RESULTS),
}
"""The methods that an effort tries, in order."""
DEFAULT_EFFORT, MOST_EFFORT = "balanced", "best"


def wanted_of(names: Sequence[str]) -> tuple[RecordPart, ...]:
    """What these corrections need of the float network, besides its outputs."""
    tried = [METHODS[name] for name in names if name in METHODS]
    needs = {
        RecordPart.RESULTS: any(method.needs_means for method in tried),
        RecordPart.INPUTS: any(method.needs_inputs for method in tried),
        RecordPart.CHANNELS: EQUALIZE in names,
    }
    return tuple(part for part, needed in needs.items() if needed)
