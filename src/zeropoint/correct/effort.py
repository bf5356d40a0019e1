"""Try the corrections of an effort, judge each on held-back samples, and keep the best.

A refinement is then tried on top of the best correction, and kept if it improves the result. The held-back samples are
only needed for this choice. The chosen correction is then fitted again to all samples. No samples are left to judge the
second fit, so the figures are those of the first one.

The methods that were tried and their results are stored in an attribute of the module:

```mlir
builtin.module attributes {zeropoint.corrections = [{name = "closed_form", salience = "calibrated",
    source = "16 samples held back", value = "28.30 dB, 16.40 dB without; kept, after ..."}], ...}
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from threadpoolctl import threadpool_limits
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from zeropoint.calibrate import Progress, silent
from zeropoint.correct.contractions import contraction_kernels, with_biases
from zeropoint.correct.corrections import Attempt, Corrections, EffortFigures, Equalized, IntegerProducts
from zeropoint.correct.float_inputs import FloatInputs
from zeropoint.correct.float_means import FloatMeans
from zeropoint.correct.float_record import FloatRecord
from zeropoint.correct.journal import CorrectionJournal
from zeropoint.correct.judge import Judge, Judged, OutputNoise
from zeropoint.correct.lock_step import with_other_biases
from zeropoint.correct.methods import CORRECTIONS as NAMES
from zeropoint.correct.methods import DECIDED_FIRST, EQUALIZE, METHODS, PRESETS, REFINEMENTS, Platform
from zeropoint.correct.sample_parts import SampleParts, Samples
from zeropoint.correct.walk import fitting
from zeropoint.errors import OptionError
from zeropoint.interp import masked_run
from zeropoint.ir.annotations import CORRECTIONS, EQUALIZED, Fact, facts_of, state_facts
from zeropoint.ir.program import Program


class Corrected(NamedTuple):
    """A propagated program with corrections, and the record of what was tried.

    `integer` is its integer program, if that was made to judge it.
    """

    program: Program
    done: Corrections
    integer: Program | None = None


def check_methods(effort: str, methods: Sequence[str] | None) -> tuple[str, ...]:
    """The methods of an effort, or the given `methods`. Raises OptionError for unknown names."""
    if effort not in PRESETS:
        raise OptionError(f"found effort '{effort}', expected one of: {', '.join(PRESETS)}")
    for number, method in enumerate(methods or ()):
        if method not in NAMES:
            raise OptionError(f"found correction '{method}', expected one of: {', '.join(NAMES)}")
        if methods is not None and method in methods[:number]:
            raise OptionError(f"found correction '{method}' twice, where the second changes nothing; leave it out")
    return PRESETS[effort] if methods is None else tuple(methods)


def correct(
    program: Program,
    parts: SampleParts,
    platform: Platform,
    *,
    effort: str,
    methods: Sequence[str] | None = None,
    progress: Progress = silent,
    reference: Program | None = None,
    equalized: Equalized | None = None,
    products: IntegerProducts | None = None,
    refit: bool = True,
    judged: Judged | None = None,
    record: FloatRecord | None = None,
    journal: CorrectionJournal | None = None,
) -> Corrected:
    """The propagated program with the correction that brings it closest to float on the held-back samples.

    Also a record of what was tried. `reference` is the propagated program whose float form gives the expected
    outputs; it defaults to `program`. (Equalization changes the float form slightly where a clamp cuts.) `equalized` is
    the result of equalization, and `products` that of integer operands, for the record. With `refit`, the kept method
    is fitted again to all samples, if it benefits from more samples. `judged` is the program with `judge_of` these
    parts, if its outputs have already been compared, and `record` is of calibration, on the same samples. Corrected
    kernels are recorded in the `journal`, which knows those of an interrupted run. Raises OptionError for an unknown
    effort or method, and passes on the errors of the engines, and OSError.
    """
    names = [name for name in check_methods(effort, methods) if name not in DECIDED_FIRST]
    if not parts.fitted or not (names or equalized or products):
        return Corrected(program, Corrections(effort, parts.judges))
    if not names:
        return _recorded(program, Corrections(effort, parts.judges, equalized=equalized, products=products))
    if judged is None:
        judged = judge_of(reference or program, parts, platform, progress, names, record).judged(program)
    judge = judged.judge
    own = judge.program is program
    platform = replace(
        platform,
        means=judge.means if own else None,
        inputs=judge.inputs if own else None,
        network=judge.network if own else None,
        uncorrected=lambda: judged.run,
        journal=journal,
    )
    trial = _Trial(program, parts, platform, progress, judge, len(parts.judging))
    # The threads of NumPy's matrix library change the last digits of its sums, and poll for longer than they compute.
    with threadpool_limits(1, user_api="blas"):
        best, attempts = trial.best(names, judged)
        made, again = trial.refitted(best) if refit else (best, 0)
    first, last = (trial.figures(noise) for noise in (judged.noise(), best.noise))
    count = len(parts.fitted) if parts.apart else 0
    figures = (first, last, tuple(attempts), best.method, equalized, products, count, judge.counts, again, best.refined)
    # A corrected program was made here, and nothing else holds it.
    return _recorded(made.program, Corrections(effort, parts.judges, *figures), made.integer, shared=not made.kept)


def judge_of(
    reference: Program,
    parts: SampleParts,
    platform: Platform,
    progress: Progress = silent,
    names: Sequence[str] = (),
    record: FloatRecord | None = None,
) -> Judge:
    """Compares programs with a propagated one in float, on some of the samples held back, then on all fitted ones.

    One judge for both parts: lowering and compiling a program takes longer than running it on the samples. All fitted
    samples take part in the figures, so that a hard one is not left out. `names` are the methods that may be tried:
    the judge finds the means that one of them needs. `record` is of calibration, on the same samples.
    """
    samples = [*parts.judging, *(parts.fitted if parts.apart else ())]
    means, inputs, network = None, None, None if record is None else record.of_network(reference, parts.fitted)
    tried = [METHODS[name] for name in names if name in METHODS]
    # A mask leaves positions out of what the judge observes, which the means leave out themselves.
    if platform.mask is None and any(method.needs_means for method in tried):
        # Corrections start from a program in which every kernel has a bias.
        biased, used = with_biases(reference, platform.target), fitting(reference, parts.fitted)
        found = None if network is None else network.means(biased, platform.target, len(used))
        if found is not None:
            means = FloatMeans(biased, used, found)
        elif network is None:
            means = FloatMeans.of(biased, used, platform.target)
    elif platform.mask is None and network is None and any(method.needs_inputs for method in tried):
        inputs = FloatInputs.of(with_biases(reference, platform.target), parts.fitted, platform.target)
    return Judge(reference, samples, platform.programs, progress, means, network, inputs)


@dataclass(frozen=True)
class _Candidate:
    """A program, the method that made it (None for no correction), and the refinements on top of the method.

    `noise` is its noise on the held-back samples, then on the fitted ones.
    """

    program: Program
    method: str | None
    noise: OutputNoise
    refined: tuple[str, ...] = ()
    integer: Program | None = None
    """The integer program, if it was made to be judged."""

    @property
    def kept(self) -> tuple[str, ...]:
        """The method and the refinements."""
        return (*(() if self.method is None else (self.method,)), *self.refined)


@dataclass(frozen=True)
class _Trial:
    """Fits the methods to one part of the samples and judges them on the other."""

    program: Program
    parts: SampleParts
    platform: Platform
    progress: Progress
    judge: Judge
    held: int
    """How many of the judge's samples were held back. These come first."""

    def figures(self, noise: OutputNoise) -> EffortFigures:
        """The figures of both parts."""
        held = noise[: self.held].sqnr
        return EffortFigures(noise[self.held :].sqnr if self.parts.apart else held, held)

    @cached_property
    def biased(self) -> Program:
        """The uncorrected program, with a zero bias for kernels without one, so that corrections can adjust it."""
        return with_biases(self.program, self.platform.target)

    def fit(self, method: str, samples: Samples, before: Judged | None = None) -> _Candidate:
        """The program that a method makes from the uncorrected one. On top of another method, its own effect would be
        hidden.

        `before` is the uncorrected program. If it is not lowered, the corrected one with other biases runs in its
        place where that is possible.
        """
        made = self.biased.clone()
        run = METHODS[method].run(made, samples, self.platform, self.progress)
        judged = Judged(self.judge, made, run)
        noise = judged.noise()
        if METHODS[method].only_moves_biases and before is not None and before.given is None:
            kernels = (contraction_kernels(each, self.platform.target) for each in (made, self.biased))
            run = with_other_biases(judged.run, *kernels)
            before.given = None if run is None else masked_run(run, self.platform.mask)
        return _Candidate(made, method, noise, integer=judged.integer)

    def refine(self, name: str, given: _Candidate, samples: Samples) -> _Candidate | None:
        """A candidate with a refinement on top; the given one if the refinement changes nothing, and None if there is
        nothing to try it on."""
        made = given.program.clone() if given.method or given.refined else self.biased.clone()
        changed = REFINEMENTS[name].run(made, self.biased, samples, self.platform, self.progress)
        if not changed:
            return None if changed is None else given
        judged = self.judge.judged(made)
        return _Candidate(made, given.method, judged.noise(), (*given.refined, name), judged.integer)

    @staticmethod
    def _walks(names: Sequence[str]) -> bool:
        """Whether the next method fits weights, and no later one runs the integer program without corrections."""
        methods = [METHODS[name] for name in names if name in METHODS]
        return bool(methods) and methods[0].is_refitted and not any(method.needs_means for method in methods)

    def best(self, names: Sequence[str], before: Judged) -> tuple[_Candidate, list[Attempt]]:
        """The candidate with the least noise on the held-back samples, with the refinements that improve it, and all
        attempts.

        It is the uncorrected program if no method is better.
        """
        # A stable sort, which puts refinements after methods.
        names, fitted = sorted(names, key=lambda name: name in REFINEMENTS), self.parts.fitted
        # Corrected biases are mostly kept, so that program is lowered, and the uncorrected one only if it has to be.
        moves = names[0] in METHODS and METHODS[names[0]].only_moves_biases
        first = self.fit(names[0], fitted, before) if moves else None
        noise = before.noise()
        least = _Candidate(self.program, None, noise, integer=before.integer)
        attempts: list[Attempt] = []
        for number, name in enumerate(names):
            if self._walks(names[number:]):
                before.release()  # a walk over both networks decides the peak of memory
            if number == 0 and first is not None:
                found = first
            else:
                found = self.refine(name, least, fitted) if name in REFINEMENTS else self.fit(name, fitted)
            if found is None:
                continue
            # Strictly better: on a tie, the earlier and simpler method stays, or no method at all.
            objection = found.noise.objection_of_parts(least.noise, self.held)
            if objection is None:
                least = found
            elif least.kept:
                objection += f", compared with {' and '.join(least.kept)}"
            attempts.append(Attempt(name, found.noise[: self.held].sqnr, objection))
        better = f"{least.method} is better"
        undone = [attempt.objection is None and attempt.method not in least.kept for attempt in attempts]
        return least, [replace(a, objection=better) if gone else a for a, gone in zip(attempts, undone, strict=True)]

    def refitted(self, best: _Candidate) -> tuple[_Candidate, int]:
        """The best program, fitted to all samples, and their number; the first fit and 0 if a second fit cannot
        help."""
        # Channel means hardly change with more samples: 22.43 and 22.45 dB on other data of EfficientNet-Lite0.
        gains = best.method is not None and METHODS[best.method].is_refitted
        gains = gains or any(REFINEMENTS[name].is_refitted for name in best.refined)
        if not gains or not self.parts.every:
            return best, 0
        used = [len(fitting(self.biased, samples)) for samples in (self.parts.every, self.parts.fitted)]
        if used[0] <= used[1]:
            return best, 0
        again = _Candidate(self.program, None, best.noise)
        if best.method is not None:
            again = self.fit(best.method, self.parts.every)
        for name in best.refined:
            again = self.refine(name, again, self.parts.every) or again
        # The held-back samples are fitted now, so more noise on them can only be a loss.
        worse = again.noise[: self.held].mean > best.noise[: self.held].mean
        same = (again.method, again.refined) == (best.method, best.refined)
        return (again, used[0]) if same and not worse else (best, 0)


def _recorded(program: Program, done: Corrections, integer: Program | None = None, *, shared: bool = True) -> Corrected:
    """The program with the record on its module, and a fact on every region that was equalized.

    `integer` is the integer program without the record. Both are copied if they are `shared`.
    """
    record = ArrayAttr([fact.attribute() for fact in done.facts()])
    program = program.clone() if shared else program
    program.module.attributes[CORRECTIONS] = record
    for op in program.entry.ops:
        text = op.attributes.pop(EQUALIZED, None)
        if isinstance(text, StringAttr):
            state_facts(op, [*facts_of(op), Fact("equalized", text.data, "calibrated", EQUALIZE)])
            integer = None  # its ops lack this fact
    if integer is not None:
        integer = integer.clone() if shared else integer
        integer.module.attributes[CORRECTIONS] = record
    return Corrected(program, done, integer)
