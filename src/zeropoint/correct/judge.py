"""Measure how close the outputs of a propagated program are to float, on samples not used for fitting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from zeropoint.correct.float_inputs import FloatInputs
from zeropoint.correct.float_means import FloatMeans
from zeropoint.correct.float_record import RecordedNetwork
from zeropoint.interp import Engine, Runnable
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.program import Program
from zeropoint.ir.regions import regions_of
from zeropoint.ir.sequence import in_sequence
from zeropoint.ir.tensors import Array
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.numerics.noise import decibels, energies, is_counted
from zeropoint.progress import Progress, silent

MOST_RATIO = 1e3
ENOUGH = 4
"""The number of held-back samples that judge alone."""
SampleEnergies = list[tuple[float, float]]
"""Signal and noise of each output on one sample."""


class Judge:
    """Compares programs with the float outputs on some samples."""

    def __init__(
        self,
        program: Program,
        samples: Sequence[Mapping[str, Array]],
        engine: Engine,
        progress: Progress = silent,
        means: FloatMeans | None = None,
        network: RecordedNetwork | None = None,
        inputs: FloatInputs | None = None,
    ):
        """`network` is the record of the float network, with outputs by the identity of the sample.

        Runs of the float network also find the means of kernels, `means` or, without these, `inputs`, whose samples are
        among `samples`; unless there is a record, which comes with these means.
        """
        self.program: Program | None = program
        self.samples, self._engine, self.progress, self.means = samples, engine, progress, means
        self.inputs = inputs
        self.network, known = network, None if network is None else network.outputs
        found = {id(sample): known[id(sample)] for sample in samples if id(sample) in known} if known else {}
        self._expected = [found.get(id(sample), {}) for sample in samples]
        missing = [number for number, sample in enumerate(samples) if id(sample) not in found]
        if not missing:
            return
        finding = (means or inputs) if known is None else None
        run = engine.prepare(without_specs(program) if finding is None else finding.observed())
        wanted = {} if finding is None else {id(sample): number for number, sample in enumerate(finding.samples)}
        with np.errstate(all="ignore"):  # non-finite samples give non-finite means
            for number in progress(missing, "float outputs"):
                place = wanted.pop(id(samples[number]), None)
                observe = None if finding is None or place is None else finding.observer(place)
                self._expected[number] = run(samples[number], observe=observe)

    def release(self) -> None:
        """Give up the program that gave the expected outputs, and what is known of its kernels."""
        self.program = self.means = self.inputs = self.network = None

    @property
    def counts(self) -> bool:
        """Whether every output has positions or classes. The noise is then the number of elements that differ."""
        return bool(self._expected) and all(is_counted(array) for array in self._expected[0].values())

    def sqnr(self, program: Program) -> float:
        """The SQNR in dB of the integer program made from a propagated one (`OutputNoise.sqnr`)."""
        return self.noise(program).sqnr

    def noise(self, program: Program) -> OutputNoise:
        """Signal and noise of the integer program made from a propagated one, per sample and output."""
        return self.judged(program).noise()

    def judged(self, program: Program) -> Judged:
        """A propagated program whose noise can be measured on some of the samples first."""
        return Judged(self, program)

    def lowered(self, program: Program) -> tuple[Program, Runnable]:
        """The integer program of a propagated one, and what runs it."""
        stages = cast("list[Callable[[Program], Program]]", [materialize, integer_program])
        made = in_sequence(self.progress(stages, "lower"), program)
        return made, self._engine.prepare(made)

    def energies(self, run: Runnable, number: int) -> SampleEnergies:
        """Signal and noise of each output of a prepared program, on the sample with this number."""
        found, expected = run(self.samples[number]), self._expected[number]
        return [energies(expected[name], array) for name, array in found.items()]


class Judged:
    """A propagated program that is lowered and prepared at most once, and run at most once on each sample.

    `integer` is its integer program; None if it is not lowered, or if `given` runs another one with changed constants.
    """

    def __init__(self, judge: Judge, program: Program, given: Runnable | None = None):
        self.judge, self.program, self.given = judge, program, given
        self.integer: Program | None = None
        self._found: dict[int, SampleEnergies] = {}

    @property
    def run(self) -> Runnable:
        """What runs its integer program."""
        if self.given is None:
            self.integer, self.given = self.judge.lowered(self.program)
        return self.given

    def release(self) -> None:
        """Give up what runs the program, and its integer program. They are made again if they are needed."""
        self.integer = self.given = None

    def noise(self, numbers: Iterable[int] | None = None) -> OutputNoise:
        """The noise on the samples with these numbers, by default on all samples of the judge."""
        wanted = list(range(len(self.judge.samples)) if numbers is None else numbers)
        for number in self.judge.progress([one for one in wanted if one not in self._found], "integer outputs"):
            self._found[number] = self.judge.energies(self.run, number)
        pairs = np.array([self._found[number] for number in wanted]).reshape(len(wanted), len(self.program.outputs), 2)
        return OutputNoise(pairs[..., 0], pairs[..., 1])


@dataclass(frozen=True, eq=False)
class OutputNoise:
    """Sums of squared float values and of squared differences, each (samples, outputs)."""

    signal: Array
    noise: Array

    @property
    def sqnr(self) -> float:
        """The SQNR of the worst output in dB over all samples, as in `compare` and `bit_widths.least_sqnr`.

        -inf if there are NaN or infinities.
        """
        shares = self._shares
        most = float(shares.max()) if shares.size else 0.0
        return decibels(1.0, most)

    @property
    def mean(self) -> float:
        """The mean noise/signal of the outputs, with the same weight for each."""
        # Outputs without signal are left out, because an infinite share would hide improvements of the others.
        shares = self._shares
        shares = shares[self._powers != 0]
        return float(shares.mean()) if shares.size else 0.0

    @property
    def _powers(self) -> Array:
        return self.signal.sum(axis=0)

    @property
    def _shares(self) -> Array:
        """Noise/signal of each output over all samples; infinite for NaN, infinities, and noise without signal."""
        signal, noise = self._powers, self.noise.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(noise == 0, 0.0, noise / signal)
        return np.where(np.isfinite(signal) & np.isfinite(noise), shares, np.inf)

    def __getitem__(self, samples: slice) -> OutputNoise:
        """The noise on some of the samples."""
        return OutputNoise(self.signal[samples], self.noise[samples])

    def is_less(self, other: OutputNoise) -> bool:
        """Whether there is significantly less noise than in another run on the same samples.

        The outputs must be better on average, none may become worse than the worst one so far, and the mean gain per
        sample in dB must exceed its standard error.
        """
        return self.objection(other) is None

    def objection_of_parts(self, other: OutputNoise, held: int) -> str | None:
        """Why there is not significantly less noise than in another run on the first `held` samples, which were held
        back; None if there is.

        If these are few, the gain must exceed its standard error on all samples. A correction that gains nothing on the
        samples it was fitted to gains by chance on one of the others.
        """
        found = self[:held].objection(other[:held])
        if found is not None or held >= ENOUGH:
            return found
        chance = self.chance(other)
        return None if chance is None else f"{chance}, the fitted ones included"

    def objection(self, other: OutputNoise) -> str | None:
        """Why there is not significantly less noise than in another run on the same samples; None if there is."""
        return self.worse_than(other) or self.chance(other)

    def worse_than(self, other: OutputNoise) -> str | None:
        """Why it is not better than another run; None if the outputs are better on average, and none becomes the new
        worst one."""
        if not self.sqnr >= other.sqnr:
            return f"the worst output has less than {other.sqnr:.2f} dB"
        if self.mean == other.mean:
            return "the noise of the outputs together stays the same"
        if not self.mean < other.mean:
            ours, theirs = (decibels(1.0, each.mean) for each in (self, other))
            return f"the outputs together have {ours:.2f} dB, not more than {theirs:.2f} dB"
        return None

    def chance(self, other: OutputNoise) -> str | None:
        """That the mean gain per sample does not exceed its standard error; None if it does."""
        mean, error = self._gain_per_sample(other)
        if mean > error:
            return None
        samples = len(self.noise)
        return f"the mean gain of {mean:.2f} dB is not above its standard error of {error:.2f} dB on {samples} samples"

    def _gain_per_sample(self, other: OutputNoise) -> tuple[float, float]:
        """The mean gain per sample in dB, and its standard error; a single sample has no error and always gains."""
        # The totals may improve by chance on few samples, and a single sample may dominate them.
        gains = [_gain(*pair) for pair in zip(self.noise.sum(axis=1), other.noise.sum(axis=1), strict=True)]
        if len(gains) < 2:
            return np.inf, 0.0
        return float(np.mean(gains)), float(np.std(gains, ddof=1)) / len(gains) ** 0.5


def _gain(ours: float, theirs: float) -> float:
    """The gain theirs/ours in dB, limited to `MOST_RATIO` in case one of the two is almost zero."""
    if ours == theirs:
        return 0.0
    ratio = theirs / ours if ours else np.inf
    return float(10 * np.log10(np.clip(ratio, 1 / MOST_RATIO, MOST_RATIO)))


def without_specs(program: Program) -> Program:
    """The float form of a propagated program, with its current constants."""
    program = program.clone()
    for region in regions_of(program):
        inline_region(region)
    program.module.attributes.clear()
    return program
