"""The SQNR of programs, and the widths that a search for a minimum chose.

`least_sqnr` is a minimum: the search under a budget (`zeropoint.budget`) widens kernels until the program, with
its corrections, reaches it on all samples. A wide kernel's output gets the spec `!quant.any` with the wide storage,
which propagation treats as a demand of the user.

Source: the RFC on quantization transformations, "Intermediate transformations": bit widths explored by a parameter
search become AnyQuantizedType.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from zeropoint.budget import Spent
from zeropoint.errors import Error
from zeropoint.ir.tensors import Array
from zeropoint.numerics.noise import decibels, energies

LISTED = 12
"""The most names in a message; `explain`, the report and `Widths.wide` have all of them."""


class BitWidthError(Error, ValueError):
    """The requested SQNR cannot be reached with the target's widths."""


@dataclass(frozen=True)
class Widths:
    """The result of a search for a minimum SQNR, measured on all samples.

    `wide` has the names of the wide kernels, each unique (`gru`, `gru_1`) and the same as in warnings, out of
    `candidates` kernels that the target has in two widths. `searched` is the least SQNR of an output in dB on the `few`
    samples of the search, `verified` the one on all `samples`.
    """

    wide: tuple[str, ...]
    candidates: int
    searched: float
    verified: float
    few: int
    samples: int

    @staticmethod
    def of(spent: Spent, few: int, samples: int) -> Widths:
        """The widths that a search on `few` samples chose, verified on all `samples`."""
        names = tuple(name for step in spent.steps for name in step.names)
        return Widths(names, spent.kernels, spent.after.quality, spent.after.reached, few, samples)

    @property
    def listed(self) -> str:
        """The names of the wide kernels in parentheses, at most a line of them; empty without any."""
        more = len(self.wide) - LISTED
        names = [*map(repr, self.wide[:LISTED]), *([f"and {more} more"] if more > 0 else [])]
        return f" ({', '.join(names)})" if names else ""

    def __str__(self) -> str:
        counts = f"{len(self.wide)} of {self.candidates} kernels that have two widths are wide{self.listed}"
        shown = counts if self.candidates else "no kernel has two widths"
        few = f"{self.searched:.1f} dB on the {self.few} of the search"
        return f"{shown}: least output {self.verified:.1f} dB on all {self.samples} samples, {few}"


Energies = dict[str, tuple[float, float]]
"""By output: the sum of squares of the float outputs, and that of the differences from them."""


def energies_of(wanted: Mapping[str, Array], given: Mapping[str, Array]) -> Energies:
    """The energies of one sample, from its float outputs and its quantized outputs."""
    found: Energies = {}
    for name, array in wanted.items():
        found[name] = energies(array, given[name])
    return found


def least_sqnr(samples: Iterable[Energies]) -> float:
    """The least SQNR of an output in dB, over samples; their energies are added in order."""
    power: dict[str, float] = {}
    error: dict[str, float] = {}
    for sample in samples:
        for name, (signal, noise) in sample.items():
            power[name] = power.get(name, 0.0) + signal
            error[name] = error.get(name, 0.0) + noise
    # Energies are summed over samples before the ratio: a sample of little signal counts little.
    return min((decibels(power[name], error[name]) for name in power), default=inf)


def least_output_sqnr(pairs: Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]]) -> float:
    """The least SQNR of an output in dB, over pairs of float outputs and quantized outputs."""
    return least_sqnr(energies_of(wanted, given) for wanted, given in pairs)
