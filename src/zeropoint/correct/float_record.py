"""What corrections need of the float network, recorded while calibration runs it on the same samples.

These are its outputs, the mean results of contractions, and the ranges of channels. Without a record, the network runs
again for each of them. A record is of use to programs that are the same network in float (`ir/same_network.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from zeropoint.correct.channel_statistics import ChannelRanges
from zeropoint.correct.contractions import contraction_kernels
from zeropoint.correct.equalize import Site, sites
from zeropoint.correct.float_means import FloatMean
from zeropoint.correct.geometry import geometry_of
from zeropoint.correct.rows import Chosen, ResultRows
from zeropoint.correct.sample_parts import parts_of, some
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsRefOp
from zeropoint.ir.regions import regions_of
from zeropoint.ir.same_network import same_regions
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.solve.equalizable import own_array
from zeropoint.targets import Target

MOST_BYTES = 64 << 20
"""The maximum number of bytes of recorded outputs."""


@dataclass(eq=False)
class _Sums:
    """The sum of a contraction's results at sampled positions, (channels,), f64."""

    rows: ResultRows
    chosen: Chosen
    sum: Array | float = 0.0


@dataclass
class FloatRecord:
    """A record of `count` runs of a fused program that asks for statistics (`asked`), on samples without padding.

    `fused` is the program before it asked. With `validation`, no samples are held back.
    """

    fused: Program
    asked: Program
    count: int
    validation: bool
    _outputs: dict[int, dict[str, Array]] = field(default_factory=dict[int, dict[str, Array]])
    """By the identity of the sample."""
    _bytes: int = 0
    _number: int = 0

    def __post_init__(self) -> None:
        fitted, _ = parts_of(self.count, validation=self.validation)
        self._places = {number: place for place, number in enumerate(fitted)}
        self._shown = set(some(fitted))
        self._sums: dict[str, _Sums] = {}
        self._channels: dict[str, ChannelRanges] = {}
        wanted = dict(zip(regions_of(self.asked), regions_of(self.fused), strict=True))
        found = {site.maker: site for site in sites(self.fused)}
        for region, before in wanted.items():
            key = _key(region)
            if key is None:
                continue
            rows = _rows(region, self.asked)
            if rows is not None:
                self._sums[key] = _Sums(rows, Chosen.of(rows, len(fitted), None))
            if before in found:
                self._channels[key] = ChannelRanges(found[before].axis)
        self._keys = {before: _key(region) for region, before in wanted.items()}

    def observe(self, key: str, array: Array) -> None:
        """A requested value of the sample that runs."""
        place = self._places.get(self._number)
        sums, channels = self._sums.get(key), self._channels.get(key)
        if sums is not None and place is not None:
            sums.sum = sums.sum + sums.rows.sampled_sum(array, sums.chosen.positions[place])
        if channels is not None and self._number in self._shown:
            channels.see(array)

    def ran(self, sample: Mapping[str, Array], outputs: dict[str, Array]) -> None:
        """A sample has run."""
        self._number += 1
        self._bytes += sum(array.nbytes for array in outputs.values())
        if self._bytes <= MOST_BYTES:
            self._outputs[id(sample)] = outputs

    @property
    def _is_complete(self) -> bool:
        return self._number == self.count

    def channels(self, found: Sequence[Site]) -> list[Array] | None:
        """The ranges of channels at sites of the fused program; None if some were not observed."""
        keys = [self._keys.get(site.maker) for site in found] if self._is_complete else [None]
        ranges = [self._channels[key].ranges if key in self._channels else None for key in keys if key is not None]
        known = [each for each in ranges if each is not None]
        return known if len(known) == len(keys) else None

    def of_network(self, program: Program) -> RecordedNetwork | None:
        """What is known of a propagated program; None if it is another network, or if not all samples have run."""
        regions = same_regions(self.asked, program) if self._is_complete else None
        return None if regions is None else RecordedNetwork(program, self._outputs, self._sums, regions)


@dataclass(frozen=True)
class RecordedNetwork:
    """The record of a network that a propagated program is in float."""

    program: Program
    outputs: Mapping[int, dict[str, Array]]
    """By the identity of the sample."""
    _sums: Mapping[str, _Sums]
    _regions: Mapping[QuantizeRegionOp, QuantizeRegionOp]

    def means(self, target: Target, count: int) -> list[FloatMean] | None:
        """The mean results of the program's kernels over `count` fitted samples; None if there is none of a kernel."""
        found: list[FloatMean] = []
        for kernel in contraction_kernels(self.program, target):
            sums = self._sums.get(_key(self._regions[kernel.region]) or "")
            if sums is None or len(sums.chosen.positions) != count:
                return None
            found.append(FloatMean(kernel, sums.chosen, np.asarray(sums.sum)))
        return found


def _key(region: QuantizeRegionOp) -> str | None:
    """The key of the statistics that are asked of a region's result."""
    uses = (use.operation for use in region.results[0].uses)
    return next((op.stats_key.data for op in uses if isinstance(op, StatisticsRefOp)), None)


def _rows(region: QuantizeRegionOp, program: Program) -> ResultRows | None:
    """The rows of the results of a region with a contraction; None for other regions."""
    first = region.body.block.first_op
    if not isinstance(first, ConvolutionOp | DotGeneralOp) or len(region.inputs) < 2:
        return None
    weight, geometry = own_array(region.inputs[1], program.weights), geometry_of(first)
    if weight is None or geometry is None:
        return None
    groups, _, terms = geometry.matrix(weight).shape
    return ResultRows(geometry, groups * terms, tuple(shape_of(region.results[0])))
