"""The SQNR of programs, and what kernels that a target has in two widths cost in the narrow one.

`least_sqnr` is a minimum: the search under a budget (`zeropoint.budget`) widens kernels until the program, with
its corrections, reaches it on all samples. A wide kernel's output gets the spec `!quant.any` with the wide storage,
which propagation treats as a demand of the user.

Source: the RFC on quantization transformations, "Intermediate transformations": bit widths explored by a parameter
search become AnyQuantizedType.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from zeropoint.budget import Budget, Spent, Step, widened
from zeropoint.budget.steps import region_names, wide_storage
from zeropoint.errors import Error, OptionError
from zeropoint.interp import Engine, ReferenceEngine
from zeropoint.ir.program import Program
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import Array
from zeropoint.numerics.noise import decibels, energies
from zeropoint.progress import Progress, silent
from zeropoint.targets import Target

Sample = Mapping[str, Array]
LISTED = 12
"""The most names in a message; `explain`, the report and `Widths.wide` have all of them."""


class BitWidthError(Error, ValueError):
    """The requested SQNR cannot be reached with the target's widths."""


Decide = Callable[[Program], Program]
"""Quantizes a fused program with statistics, under the options of the user."""


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


def narrow_losses(
    program: Program,
    target: Target,
    samples: Sequence[Sample],
    decide: Decide,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> dict[tuple[str, str], float]:
    """For every kernel that the target has in two widths: the loss at the outputs in dB if only it is narrow.

    The keys are the kernel's unique name and its kind.

    `program` is fused and has its statistics; `decide` quantizes it. All other kernels are wide. Raises OptionError if
    there is no such kernel.
    """
    steps: dict[tuple[str, str], Step] = {}
    for index, (region, name) in enumerate(zip(regions_of(program), region_names(program), strict=True)):
        storage = wide_storage(region, target)
        if storage is not None:
            key = name.partition("#")[0], region.logical_kernel.data
            steps[key] = Step((name,), (index,), f"i{storage.type.width}", 0.0, 0, 0)
    if not steps:
        raise OptionError(
            f"found exact (--exact) with target {target.name}, which has no kernel of the model in two widths, where "
            "it changes nothing; leave it out, or name a target that has 16 bits, such as litert (--target)"
        )
    runs = engine or ReferenceEngine()
    reference = runs.prepare(program)
    expected = [reference(sample) for sample in samples]

    def sqnr(wide: Collection[Step]) -> float:
        run = runs.prepare(decide(widened(program, list(wide), Budget(floats=False), target)))
        return least_output_sqnr(zip(expected, map(run, samples), strict=True))

    best = sqnr(steps.values())
    # All but one wide: the loss of this kernel alone, without what other narrow kernels would hide.
    return {
        key: best - sqnr([other for other in steps.values() if other is not one])
        for key, one in progress(list(steps.items()), "each kernel in 8 bits")
    }
