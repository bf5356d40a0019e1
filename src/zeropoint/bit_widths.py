"""Searches for values that need the wider storage of a target's kernels, and marks them with `!quant.any`.

The search measures every kernel that the target has in two widths, on a few samples: all others are wide, so the loss
at the outputs is the noise of this kernel. Kernels become wide, noisiest first, until every output reaches the
requested SQNR. Their output's spec becomes `!quant.any` with the wide storage, which propagation treats as a demand of
the user. The pipeline then measures the program on all samples and widens more kernels if needed.

Source: the RFC on quantization transformations, "Intermediate transformations": bit widths explored by a parameter
search become AnyQuantizedType.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log10

import numpy as np
from xdsl.dialects.builtin import AnyFloat, ArrayAttr
from xdsl.ir import Attribute

from zeropoint.budget.steps import wide_storage
from zeropoint.errors import Error
from zeropoint.interp import Engine, ReferenceEngine
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import AnyQuantizedType, QuantizeRegionOp, Storage
from zeropoint.ir.tensors import Array, element_of
from zeropoint.targets import Target

Sample = Mapping[str, Array]


class BitWidthError(Error, ValueError):
    """The requested SQNR cannot be reached with the target's widths."""


Decide = Callable[[Program], Program]
"""Quantizes a fused program with statistics, under the options of the user."""


@dataclass(frozen=True)
class Widths:
    """The result of a search, and its SQNR measured on all samples.

    `wide` has the names of the wide kernels, out of `candidates` kernels that the target has in two widths. `searched`
    is the least SQNR of an output in dB on the samples of the search, `verified` the one on all `samples`.
    """

    wide: tuple[str, ...]
    candidates: int
    searched: float
    verified: float
    samples: int

    def __str__(self) -> str:
        names = f" ({', '.join(map(repr, self.wide))})" if self.wide else ""
        return (
            f"{len(self.wide)} of {self.candidates} kernels that have two widths are wide{names}: "
            f"{self.searched:.1f} dB in the search, {self.verified:.1f} dB on all {self.samples} samples"
        )


class Search:
    """The kernels of a program that a target has in two widths, and the loss of each while it is narrow.

    `program` is fused and has its statistics; `decide` quantizes it. Raises ValueError without samples.
    """

    def __init__(
        self, program: Program, target: Target, samples: Sequence[Sample], decide: Decide, engine: Engine | None = None
    ):
        if not samples:
            raise ValueError("found no samples, expected at least one to measure bit widths with")
        self.program, self.target, self.samples = program, target, samples
        self._decide, self._engine = decide, engine or ReferenceEngine()
        reference = self._engine.prepare(program)
        self._expected = [reference(sample) for sample in samples]
        regions = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]
        wide = {index: wide_storage(region, target) for index, region in enumerate(regions)}
        self._storage = {index: storage for index, storage in wide.items() if storage is not None}
        self._names = {index: location_text(regions[index].location) or str(index) for index in self._storage}

    @property
    def candidates(self) -> list[int]:
        """The indices of the kernels that have two widths."""
        return list(self._storage)

    def names(self, kernels: Iterable[int]) -> tuple[str, ...]:
        """The names of kernels in the original model."""
        return tuple(self._names[index] for index in kernels)

    def marked(self, wide: Collection[int]) -> Program:
        """The program with a demand for wide storage on the outputs of the given regions, by index."""
        program = self.program.clone()
        regions = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]
        for index in wide:
            region = regions[index]
            storage = Storage.of(f"i{self._storage[index].type.width}")
            specs: list[Attribute] = []
            for expressed in map(element_of, region.outputs):
                assert isinstance(expressed, AnyFloat)
                specs.append(AnyQuantizedType.of(storage, expressed))
            region.output_specs = ArrayAttr(specs)
        return program

    def sqnr(self, wide: Collection[int]) -> float:
        """The least SQNR of an output in dB, with the given kernels wide."""
        run = self._engine.prepare(self._decide(self.marked(wide)))
        return least_output_sqnr(zip(self._expected, map(run, self.samples), strict=True))

    def by_loss(self) -> list[int]:
        """The kernels by the loss at the outputs when only that kernel is narrow, the greatest loss first."""
        every = self.candidates
        alone = {index: self.sqnr([other for other in every if other != index]) for index in every}
        return sorted(every, key=lambda index: (alone[index], index))


def least_output_sqnr(pairs: Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]]) -> float:
    """The least SQNR of an output in dB, over pairs of float outputs and quantized outputs."""
    error: dict[str, float] = {}
    power: dict[str, float] = {}
    for wanted, given in pairs:
        for name, array in wanted.items():
            real = array.astype(np.float64)
            error[name] = error.get(name, 0.0) + float(((given[name].astype(np.float64) - real) ** 2).sum())
            power[name] = power.get(name, 0.0) + float((real**2).sum())
    return min((_decibels(power[name], error[name]) for name in power), default=inf)


def widenings(search: Search, least_sqnr: float) -> Iterator[tuple[int, ...]]:
    """Growing sets of kernels to make wide; the first one reaches `least_sqnr` on the samples of the search.

    The first set is empty if the program already reaches it, even if wide kernels would be worse.
    Raises BitWidthError if neither the narrow program nor the one with all kernels wide reaches it.
    """
    order: list[int] = []
    count, every, start = 0, search.candidates, search.sqnr(())
    if start < least_sqnr:
        best = search.sqnr(every)
        if best < least_sqnr:
            worse = f", {start:.1f} dB as it is" if start > best else ""
            raise BitWidthError(
                f"found {best:.1f} dB with the widest kernels of target {search.target.name} ({len(every)} have two "
                f"widths){worse}, expected {least_sqnr:g} dB; ask for less, or keep parts in float by a recipe"
            )
        order = search.by_loss()
        # Linear search: widths that meet need rescales, so the SQNR is not monotone in the number of wide kernels.
        count = next(n for n in range(1, len(order) + 1) if n == len(order) or search.sqnr(order[:n]) >= least_sqnr)
    yield tuple(order[:count])
    order = order or search.by_loss()
    yield from (tuple(order[:n]) for n in range(count + 1, len(order) + 1))


def narrow_losses(search: Search) -> dict[str, float]:
    """For every kernel that the target has in two widths, by name: the loss at the outputs in dB if only it is narrow.

    All other kernels are wide, as in the search.
    """
    every = search.candidates
    best = search.sqnr(every)
    losses = [best - search.sqnr([other for other in every if other != one]) for one in every]
    return dict(zip(search.names(every), losses, strict=True))


def _decibels(power: float, error: float) -> float:
    if not error:
        return inf
    return 10 * log10(power / error) if power else -inf
