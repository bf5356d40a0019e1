"""Which values need the wider storage of a target's kernels: a search that writes `!quant.any` where it does.

Every kernel that the target has in two widths is tried: all of them wide but one, on a few samples. What the output
then loses is the noise of that one. Kernels become wide, those of the most noise first, until the output is as near to
float as was asked; they get `!quant.any` of the wide storage as their output's spec, which propagation takes as a
demand of the user.

Source: the RFC on quantization transformations, "Intermediate transformations": the bit widths that a parameter search
explored become AnyQuantizedType.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat, ArrayAttr
from xdsl.ir import Attribute

from zeropoint.errors import Error
from zeropoint.interp import Interpreter
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import AnyQuantizedType, QuantizeRegionOp, Storage
from zeropoint.ir.tensors import Array, element_of
from zeropoint.materialize import materialize
from zeropoint.solve import propagate
from zeropoint.targets import Role, Target

Sample = Mapping[str, Array]


class BitWidthError(Error, ValueError):
    """No widths of the target come as near to float as was asked."""


@dataclass(frozen=True)
class Widths:
    """What a search found: the program that says it, kernels that are wide of those that could be, and the SQNR."""

    program: Program
    wide: int
    candidates: int
    sqnr: float


class _Search:
    def __init__(self, program: Program, target: Target, samples: Sequence[Sample]):
        self.program, self.target, self.samples = program, target, samples
        self.expected = [Interpreter(program)(sample) for sample in samples]
        regions = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]
        wide = {index: self._wide_storage(region) for index, region in enumerate(regions)}
        self.storage = {index: storage for index, storage in wide.items() if storage is not None}

    def _wide_storage(self, region: QuantizeRegionOp) -> Storage | None:
        """The wider of two storages that the target's rows of a kernel give; None where there is one width only."""
        rows = self.target.by_kernel.get(region.logical_kernel.data, ())
        given = [row.output.storage for row in rows if row.output.role is not Role.OTHER]
        free = all(isinstance(spec, AnyFloat) for spec in region.output_specs)
        widest = max(given, key=lambda storage: storage.type.width, default=None)
        least = min((storage.type.width for storage in given), default=0)
        return widest if free and widest is not None and widest.type.width > least else None

    def marked(self, wide: Collection[int]) -> Program:
        """The program with a demand for wide storage on the outputs of some regions, by their number."""
        program = self.program.clone()
        regions = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]
        for index in wide:
            region = regions[index]
            storage = Storage.of(f"i{self.storage[index].type.width}")
            expressed = element_of(region.outputs[0])
            assert isinstance(expressed, AnyFloat)
            region.output_specs = ArrayAttr[Attribute]([AnyQuantizedType.of(storage, expressed)])
        return program

    def noise(self, wide: Collection[int]) -> float:
        """Squared error of the outputs against float, over their squared values."""
        engine = Interpreter(materialize(propagate(self.marked(wide), self.target)))
        error = power = 0.0
        for sample, expected in zip(self.samples, self.expected, strict=True):
            found = engine(sample)
            for name, array in expected.items():
                real = array.astype(np.float64)
                error += float(((found[name].astype(np.float64) - real) ** 2).sum())
                power += float((real**2).sum())
        return error / power if power else error


def search_bit_widths(program: Program, target: Target, samples: Sequence[Sample], least_sqnr: float) -> Widths:
    """Demands for wide storage, as few as make the outputs' SQNR on `samples` at least `least_sqnr` dB.

    `program` is fused and has its statistics. Raises BitWidthError where all kernels wide are not near enough,
    ValueError without samples, and what `propagate` raises.
    """
    if not samples:
        raise ValueError("found no samples, expected at least one to measure bit widths with")
    search = _Search(program, target, samples)
    every = list(search.storage)
    most = 10 ** (-least_sqnr / 10)
    best = search.noise(every)
    if best > most:
        raise BitWidthError(
            f"found {_decibels(best):.1f} dB with the widest kernels of target {target.name} ({len(every)} have two "
            f"widths), expected {least_sqnr:g} dB; ask for less, or keep parts in float by a recipe"
        )
    narrow = search.noise(())
    if narrow <= most:
        return Widths(program, 0, len(every), _decibels(narrow))
    alone = {index: search.noise([other for other in every if other != index]) for index in every}
    order = sorted(every, key=lambda index: (-alone[index], index))
    # One after the other: where widths meet there are rescales, so that one wide kernel more may be worse.
    for count in range(1, len(order) + 1):
        found = search.noise(order[:count])
        if found <= most:
            break
    else:
        count, found = len(order), best
    return Widths(search.marked(order[:count]), count, len(every), _decibels(found))


def narrow_losses(program: Program, target: Target, samples: Sequence[Sample]) -> dict[str, float]:
    """For every kernel that the target has in two widths, by name: the dB that outputs lose when it alone is narrow.

    All others are wide, as in the search. `program` is fused and has its statistics. Raises what `propagate` raises.
    """
    search = _Search(program, target, samples)
    every = list(search.storage)
    regions = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]
    names = {index: location_text(regions[index].location) or str(index) for index in every}
    best = _decibels(search.noise(every))
    return {names[one]: best - _decibels(search.noise([other for other in every if other != one])) for one in every}


def _decibels(noise: float) -> float:
    return float(-10 * np.log10(noise)) if noise > 0 else float("inf")
