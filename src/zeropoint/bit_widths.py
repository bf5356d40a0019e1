"""The SQNR of programs, and the widths that a search for a minimum chose.

`least_sqnr` is a minimum: the search under a budget (`zeropoint.budget`) widens kernels until the program, with its
corrections, reaches it on all samples. A wide kernel's output gets the spec `!quant.any` with the wide storage, which
propagation treats as a demand of the user.

Source: the RFC on quantization transformations, "Intermediate transformations": bit widths explored by a parameter
search become AnyQuantizedType.

A few samples may contribute most of the noise, for example almost empty ones, or those that a network is undecided
about. So the SQNR on the samples of a search says little about other samples, and an estimate has a margin. With the
energies s_i of the exact outputs and n_i of the noise, R = sum n / sum s, and N samples, the standard error of 10 log10
R is

    10 / ln 10 * sqrt(N / (N - 1) * sum (n_i - R s_i)^2) / sum n

to first order, which is that of a ratio estimator (Cochran, Sampling Techniques, section 6.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, isfinite, log, sqrt

from zeropoint.budget import Spent
from zeropoint.errors import Error
from zeropoint.ir.tensors import Array
from zeropoint.numerics.noise import decibels, energies

LISTED = 12
"""The maximum number of names in a message. `explain`, the report and `Widths.wide` have all of them."""


STANDARD_ERRORS = 2
"""The number of standard errors over the samples in a margin."""


class BitWidthError(Error, ValueError):
    """The requested SQNR cannot be reached with the target's widths."""


@dataclass(frozen=True)
class Widths:
    """The result of a search for a minimum SQNR, measured on all samples.

    `wide` has the unique names (`gru`, `gru_1`) of the wide kernels, which are the same as in warnings. `candidates` is
    the number of kernels that the target has in two widths. `searched` is the SQNR of the worst output in dB on the
    `few` samples of the search, and `verified` that on all `samples`. `margin` is how much lower it may be on another
    such set of samples (`SqnrEstimate`). `least` is the requested minimum. `validation` says whether the samples differ
    from those of calibration.
    """

    wide: tuple[str, ...]
    candidates: int
    searched: float
    verified: float
    few: int
    samples: int
    margin: float = 0.0
    least: float = 0.0
    validation: bool = False

    @staticmethod
    def of(spent: Spent, few: int, samples: int, *, validation: bool = False) -> Widths:
        """The widths that a search on `few` samples chose, verified on all `samples`."""
        names = tuple(name for step in spent.steps for name in step.names)
        after, least = spent.after, spent.budget.quality or 0.0
        searched, verified = after.quality, after.reached
        return Widths(names, spent.kernels, searched, verified, few, samples, after.margin, least, validation)

    @property
    def listed(self) -> str:
        """The names of the wide kernels in parentheses, at most `LISTED` of them; empty if there are none."""
        more = len(self.wide) - LISTED
        names = [*map(repr, self.wide[:LISTED]), *([f"and {more} more"] if more > 0 else [])]
        return f" ({', '.join(names)})" if names else ""

    @property
    def judges(self) -> str:
        """A description of the samples that verify the result."""
        return f"all {self.samples} {'validation ' if self.validation else ''}samples"

    def __str__(self) -> str:
        counts = f"{len(self.wide)} of {self.candidates} kernels that have two widths are wide{self.listed}"
        shown = counts if self.candidates else "no kernel has two widths"
        few = f"{self.searched:.1f} dB on the {self.few} samples of the search"
        sure = self.verified - self.margin
        margin = f" ({sure:.1f} after subtracting {STANDARD_ERRORS} standard errors)" if self.margin else ""
        short = f"; other data may give less than the requested {self.least:g} dB" if sure < self.least else ""
        return f"{shown}: worst output {self.verified:.1f} dB on {self.judges}{margin}, {few}{short}"


Energies = dict[str, tuple[float, float]]
"""For each output, the sum of squares of the float output, and that of the difference from it."""


def energies_of(wanted: Mapping[str, Array], given: Mapping[str, Array]) -> Energies:
    """The energies of one sample, from its float outputs and its quantized outputs."""
    found: Energies = {}
    for name, array in wanted.items():
        found[name] = energies(array, given[name])
    return found


@dataclass(frozen=True)
class SqnrEstimate:
    """The SQNR of the worst output in dB over some samples, and its margin.

    The SQNR on other such samples may be up to `margin` dB lower, which is `STANDARD_ERRORS` standard errors. The
    margin of a single sample is 0.
    """

    least: float
    margin: float = 0.0


@dataclass
class _Sums:
    """Sums over the samples for one output: of signal and noise, and of their products."""

    count: int = 0
    signal: float = 0.0
    noise: float = 0.0
    signals: float = 0.0
    noises: float = 0.0
    both: float = 0.0

    def add(self, signal: float, noise: float) -> None:
        self.count += 1
        self.signal += signal
        self.noise += noise
        self.signals += signal * signal
        self.noises += noise * noise
        self.both += signal * noise

    @property
    def sqnr(self) -> float:
        return decibels(self.signal, self.noise)

    @property
    def margin(self) -> float:
        if self.count < 2 or not isfinite(self.sqnr):
            return 0.0
        ratio = self.noise / self.signal
        # If all samples have the same ratio, rounding may leave a tiny negative number.
        squares = max(self.noises - 2 * ratio * self.both + ratio * ratio * self.signals, 0.0)
        error = sqrt(self.count / (self.count - 1) * squares) / self.noise
        return STANDARD_ERRORS * 10 / log(10) * error


def estimated_sqnr(samples: Iterable[Energies]) -> SqnrEstimate:
    """The SQNR of the worst output in dB, over samples, and its margin. Energies are added in order."""
    outputs: dict[str, _Sums] = {}
    for sample in samples:
        for name, pair in sample.items():
            outputs.setdefault(name, _Sums()).add(*pair)
    # Energies are summed over the samples before the ratio is formed, so a sample with little signal has little weight.
    least = min((sums.sqnr for sums in outputs.values()), default=inf)
    sure = min((sums.sqnr - sums.margin for sums in outputs.values()), default=inf)
    return SqnrEstimate(least, least - sure if isfinite(least) else 0.0)


def least_sqnr(samples: Iterable[Energies]) -> float:
    """The SQNR of the worst output in dB, over samples."""
    return estimated_sqnr(samples).least


def least_output_sqnr(pairs: Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]]) -> float:
    """The SQNR of the worst output in dB, over pairs of float outputs and quantized outputs."""
    return least_sqnr(energies_of(wanted, given) for wanted, given in pairs)
