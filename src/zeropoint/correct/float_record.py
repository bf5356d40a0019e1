"""What corrections need of the float network, recorded while calibration runs it on the same samples.

These are its outputs, the mean results and the mean inputs of contractions, and the ranges of channels. Without a
record, the network runs again for each of them. A record is of use to programs that are the same network in float
(`ir/same_network.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np

from zeropoint.correct.channel_statistics import ChannelRanges
from zeropoint.correct.contractions import ContractionKernel, contraction_kernels
from zeropoint.correct.equalize import Site, watched
from zeropoint.correct.float_means import FloatMean
from zeropoint.correct.geometry import geometry_of
from zeropoint.correct.residual_streams import Member
from zeropoint.correct.rows import Chosen, InputRows, ResultRows
from zeropoint.correct.sample_parts import FEW, Samples, parts_of, some
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
MOST_SAMPLES = 128 << 20
"""The maximum number of bytes of the samples of a record, which keeps them. With more, there is no record."""


class RecordPart(Enum):
    """What is recorded of values: mean results and mean inputs of contractions, and ranges of channels."""

    RESULTS = auto()
    INPUTS = auto()
    CHANNELS = auto()


@dataclass(eq=False)
class _Sums:
    """The sum of a contraction's results at sampled positions, (channels,), f64."""

    rows: ResultRows
    chosen: Chosen
    sum: Array | float = 0.0


@dataclass(eq=False)
class _Inputs:
    """The mean input rows of a contraction, added up over the samples, (groups, 1, terms), f64."""

    rows: InputRows
    sum: Array | float = 0.0


@dataclass(frozen=True, eq=False)
class _Channels:
    """The ranges of channels in the samples with these numbers, by the key of the value."""

    numbers: Sequence[int]
    ranges: dict[str, ChannelRanges] = field(default_factory=dict[str, ChannelRanges])


@dataclass
class FloatRecord:
    """A record of `count` runs of a fused program that asks for statistics (`asked`), on samples without padding.

    `fused` is the program before it asked. With `validation`, no samples are held back. `wants` says what is recorded
    besides outputs.
    """

    fused: Program
    asked: Program
    count: int
    validation: bool
    wants: Collection[RecordPart] = tuple(RecordPart)
    _samples: list[Mapping[str, Array]] = field(default_factory=list[Mapping[str, Array]])
    """Kept, because samples are told apart by their identity."""
    _outputs: dict[int, dict[str, Array]] = field(default_factory=dict[int, dict[str, Array]])
    """By the identity of the sample."""
    _number: int = 0
    _bytes: int = 0
    """Of the samples."""
    _output_bytes: int = 0

    def __post_init__(self) -> None:
        self._fitted, held = parts_of(self.count, validation=self.validation)
        fitted = self._fitted
        self._places = {number: place for place, number in enumerate(fitted)}
        self._sums: dict[str, _Sums] = {}
        self._inputs: dict[QuantizeRegionOp, _Inputs] = {}
        self._readers: dict[str, list[_Inputs]] = {}
        """The contractions that read a requested value, by its key."""
        self._channels = [_Channels(some(fitted)), _Channels(some(held, FEW))]
        wanted = dict(zip(regions_of(self.asked), regions_of(self.fused), strict=True))
        found = {site.maker: site for site in watched(self.fused)}
        for region, before in wanted.items():
            key, rows = _key(region), _rows(region, self.asked)
            if rows is not None and RecordPart.INPUTS in self.wants:
                self._add_inputs(region, rows)
            if key is None:
                continue
            if rows is not None and RecordPart.RESULTS in self.wants:
                self._sums[key] = _Sums(rows, Chosen.of(rows, len(fitted), None))
            if before in found and RecordPart.CHANNELS in self.wants:
                for one in self._channels:
                    one.ranges[key] = ChannelRanges(found[before].axis)
        self._keys = {before: _key(region) for region, before in wanted.items()}

    def _add_inputs(self, region: QuantizeRegionOp, rows: ResultRows) -> None:
        """Record the inputs of a contraction, if they are requested."""
        asked = region.inputs[0].owner
        if isinstance(asked, StatisticsRefOp):
            found = self._inputs[region] = _Inputs(InputRows.of(rows.geometry, rows.shape))
            self._readers.setdefault(asked.stats_key.data, []).append(found)

    def observe(self, key: str, array: Array) -> None:
        """A requested value of the sample that runs."""
        place = self._places.get(self._number)
        for inputs in () if place is None else self._readers.get(key, ()):
            inputs.sum = inputs.sum + inputs.rows.mean(array)
        sums = self._sums.get(key)
        if sums is not None and place is not None:
            sums.sum = sums.sum + sums.rows.sampled_sum(array, sums.chosen.positions[place])
        for channels in self._channels:
            if key in channels.ranges and self._number in channels.numbers:
                channels.ranges[key].see(array)

    def ran(self, sample: Mapping[str, Array], outputs: dict[str, Array]) -> None:
        """A sample has run."""
        self._number += 1
        self._bytes += _bytes(sample)
        self._output_bytes += _bytes(outputs)
        if self._bytes > MOST_SAMPLES:
            self._samples.clear()
            self._outputs.clear()
            return
        self._samples.append(sample)
        if self._output_bytes <= MOST_BYTES:
            self._outputs[id(sample)] = outputs

    @property
    def _is_complete(self) -> bool:
        return len(self._samples) == self._number == self.count

    def _are_of(self, numbers: Sequence[int], samples: Samples) -> bool:
        """Whether these are the samples with these numbers."""
        recorded = [self._samples[number] for number in numbers]
        return len(recorded) == len(samples) and all(map(operator.is_, recorded, samples))

    def channels(self, found: Sequence[Site | Member], samples: Samples) -> list[Array] | None:
        """The ranges of channels at sites of the fused program, on these samples; None if some were not observed."""
        of = next((one for one in self._channels if self._is_complete and self._are_of(one.numbers, samples)), None)
        if of is None:
            return None
        keys = [self._keys.get(site.maker) for site in found]
        ranges = [of.ranges[key].ranges if key in of.ranges else None for key in keys]
        observed = [each for each in ranges if each is not None]
        return observed if len(observed) == len(keys) else None

    def of_network(self, program: Program, fitted: Samples) -> RecordedNetwork | None:
        """What is known of a propagated program that is fitted to these samples.

        None if it is another network, if there are other samples, or if not all have run.
        """
        known = self._is_complete and self._are_of(self._fitted, fitted)
        regions = same_regions(self.asked, program) if known else None
        return (
            None
            if regions is None
            else RecordedNetwork(program, fitted, self._outputs, self._sums, self._inputs, regions)
        )


@dataclass(frozen=True)
class RecordedNetwork:
    """The record of a network that a propagated program is in float."""

    program: Program
    fitted: Samples
    outputs: Mapping[int, dict[str, Array]]
    """By the identity of the sample."""
    _sums: Mapping[str, _Sums]
    _inputs: Mapping[QuantizeRegionOp, _Inputs]
    _regions: Mapping[QuantizeRegionOp, QuantizeRegionOp]

    def means(self, biased: Program, target: Target, count: int) -> list[FloatMean] | None:
        """The mean results, over the fitted samples, of the kernels of `biased`: the program, maybe with more biases.

        None if there are not `count` of these, or if the results of a kernel were not recorded.
        """
        found: list[FloatMean] = []
        for kernel, region in self._recorded(biased, target):
            sums = self._sums.get(_key(region) or "")
            if sums is None or len(sums.chosen.positions) != count:
                return None
            found.append(FloatMean(kernel, sums.chosen, np.asarray(sums.sum)))
        return found

    def input_sums(self, biased: Program, target: Target, samples: Samples) -> dict[QuantizeRegionOp, Array] | None:
        """The mean input rows of the kernels of `biased`, added up over the fitted samples.

        None if `samples` are others, or if the inputs of a kernel were not recorded.
        """
        if len(samples) != len(self.fitted) or not all(map(operator.is_, samples, self.fitted)):
            return None
        found = {kernel.region: self._inputs.get(region) for kernel, region in self._recorded(biased, target)}
        known = {region: np.asarray(inputs.sum) for region, inputs in found.items() if inputs is not None}
        return known if len(known) == len(found) else None

    def _recorded(self, biased: Program, target: Target) -> Iterator[tuple[ContractionKernel, QuantizeRegionOp]]:
        """The kernels of a program with the same regions as the network's, and the regions that were recorded."""
        own = dict(zip(regions_of(biased), regions_of(self.program), strict=True))
        for kernel in contraction_kernels(biased, target):
            yield kernel, self._regions[own[kernel.region]]


def _bytes(arrays: Mapping[str, Array]) -> int:
    return sum(array.nbytes for array in arrays.values())


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
