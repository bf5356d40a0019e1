"""Equalize the channels between contractions, or a layer norm and contractions, so that one scale suits them all.

```mlir
%0 = "quant.region"(%x, %w, %b) ({ depthwise convolution, add, clamp at 0 and 6 })
%1 = "quant.stats"(%0) {layerStats = [0.0, 4.0], axisStats = [[0.0, 4.0], [0.0, 0.25]], axis = 1}
%2 = "quant.region"(%1, %v) ({ convolution })
```
becomes, with f = [1.0, 0.25],
```mlir
%0 = "quant.region"(%x, %w / f, %b / f) ({ depthwise convolution, add, clamp at 0 and 6 })
%1 = "quant.stats"(%0) {layerStats = [0.0, 4.0], axisStats = [[0.0, 4.0], [0.0, 1.0]], axis = 1}
%2 = "quant.region"(%1, %v * f) ({ convolution })
```
The first contraction may end in a relu, which commutes with the factors. A clamp at an upper bound H does not: it now
cuts channel c at f_c * H. So f_c is at least `MARGIN` times the observed maximum divided by H. The samples whose
channels were observed, at most 16, are not cut; others may be.

A layer norm divides its scale and its offset by f. If only contractions read the layer norm, outliers of single
channels before attention and feed-forward blocks thus move into the weights of these contractions.

The values of a residual stream have the same factors (`residual_streams.py`, `stream_factors.py`).

Channel c with the largest magnitude a_c gets f_c = a_c^p / w_c^(1 - p), where w_c is the largest weight that reads it.
The f_c are divided by their maximum, and are at least `LEAST`. Weights of a depthwise convolution have a scale per
channel, so there p = 1. For other readers, p is the exponent in `POWERS` with the least expected error of their results
(`solve/equalizable.py`). Channels stay as they are if f = 1 has a smaller error.

Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.1; Xiao et
al., "SmoothQuant", section 4 (ranges of the activations, the exponent p). The bound for clamps is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from xdsl.dialects.builtin import AnyFloat, StringAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.correct.channel_statistics import state_channels
from zeropoint.correct.residual_streams import Member, ResidualStream, streams
from zeropoint.correct.scaled_channels import divide_results, multiply_weights
from zeropoint.correct.stream_factors import stream_factors
from zeropoint.ir.annotations import EQUALIZED
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.contractions import output_channel_axis
from zeropoint.ir.normalizations import NORMALIZATIONS
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConvolutionOp,
    MultiplyOp,
    ReduceOp,
    ReshapeOp,
)
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.text import resource_handles
from zeropoint.ir.weights import Weights
from zeropoint.solve.equalizable import (
    POWERS,
    bounds_of,
    expected_noise,
    greatest_read,
    input_axis,
    matrix_of,
    own_array,
    own_contraction,
    readers_of,
)

LEAST = 1 / 32
"""The smallest factor: a channel is stretched by at most five bits."""
MARGIN = 2.0
"""A clamp may cut at this many times the observed maximum, but not below.

With 1.1 and 24 calibration images, other images were cut so much that EfficientNet-Lite0 had only 12 dB in float.
"""
BALANCED = 0.5
"""The exponent for readers whose error is not estimated: grouped convolutions."""
UNEVEN = 0.25
"""Channels are equalized if they use, on average, at least this many bits less than the channel with the largest
magnitude. MobileNetV2 gains 0.35 dB with 0.25 or 0, and nothing with 0.5 or 1."""


@dataclass(frozen=True, eq=False)
class Site:
    """A value that a contraction or layer norm produces and that only contractions read, and the dimension of its
    channels."""

    maker: QuantizeRegionOp
    value: SSAValue
    readers: tuple[QuantizeRegionOp, ...]
    axis: int
    high: float
    """The upper bound of the producing kernel's clamp; inf without one."""
    place: int = 0
    """Of the producing kernel among the regions of the program."""

    @staticmethod
    def of(maker: QuantizeRegionOp, weights: Weights) -> Site | None:
        """The site after a region; None if its channels cannot be scaled or not all readers can take the factors."""
        made, bounds = own_contraction(maker, weights), Bounds()
        if made is None:
            axis = _normalized_axis(maker, weights)
        else:
            axis, found = output_channel_axis(made), bounds_of(maker, weights)
            # Only clamps that commute with positive factors (none or relu), and a relu with an upper bound, which
            # `factors` respects.
            if found is None or found.low not in (-inf, 0.0) or not found.high > 0 or (found.low and found.high < inf):
                return None
            bounds = found
        value = maker.results[0]
        readers = list(readers_of(value))
        regions = [reader for reader in readers if isinstance(reader, QuantizeRegionOp)]
        # A reader without the inverse factors would compute other numbers.
        if not readers or len(regions) < len(readers) or any(input_axis(one, weights) != axis for one in regions):
            return None
        return None if axis is None else Site(maker, value, tuple(regions), axis, bounds.high)

    def factors(self, ranges: Array, weights: Weights) -> Array | None:
        """The factors by channel, from the observed ranges (channels, 2); None if the channels are even."""
        magnitude = np.abs(ranges).max(axis=1)
        # The range of a channel that was always 0 is unknown.
        seen = magnitude > 0
        if not seen.any() or np.log2(magnitude.max() / magnitude[seen]).mean() < UNEVEN:
            return None
        read = np.max([greatest_read(reader, weights) for reader in self.readers], axis=0)

        def by(power: float) -> Array:
            found = np.where(seen, magnitude, 1.0) ** power / np.where(read > 0, read, 1.0) ** (1 - power)
            # Relative to the largest channel, which keeps its scale. Only smaller channels are stretched to it.
            found = np.clip(found / found[seen].max(), LEAST, 1.0)
            if self.high < inf:
                # Stretching by 1 / f moves the clamp of the channel to f H.
                found = np.maximum(found, np.minimum(MARGIN * ranges[:, 1] / self.high, 1.0))
            # Channels that were always 0 keep their scale, because their range is unknown.
            return np.where(seen, found, 1.0)

        # Depthwise weights have a scale per channel, so they take any factor without loss.
        if all(_is_depthwise(reader) for reader in self.readers):
            return by(1.0)
        matrices = [matrix_of(reader, weights) for reader in self.readers]
        known = [matrix for matrix in matrices if matrix is not None]
        if len(known) < len(matrices):
            return by(BALANCED)
        # All ones come first, so a tie leaves the program as it is.
        tried = [np.ones(magnitude.size), *map(by, POWERS)]
        best = int(np.argmin([sum(expected_noise(m, ranges, factors) for m in known) for factors in tried]))
        return tried[best] if best else None


def _normalized_axis(region: QuantizeRegionOp, weights: Weights) -> int | None:
    """The dimension along which a layer norm has a scale, and maybe an offset, that may change; None otherwise."""
    block = region.body.block
    axes = {op.dimensions.get_values() for op in block.ops if isinstance(op, ReduceOp)}
    free = all(isinstance(spec, AnyFloat) for spec in (*region.input_specs, *region.output_specs))
    if region.logical_kernel.data not in NORMALIZATIONS or len(axes) != 1 or not free:
        return None
    (dimensions,) = axes
    users = [_user(argument) for argument in block.args[1:]]
    arrays = [own_array(value, weights) for value in region.inputs[1:]]
    channels = [shape_of(region.results[0])[axis] for axis in dimensions]
    steps = all(isinstance(user, AddOp | MultiplyOp) for user in users)
    fit = all(array is not None and [array.size] == channels for array in arrays)
    scaled = sum(isinstance(user, MultiplyOp) for user in users) == 1
    return dimensions[0] if len(channels) == 1 and steps and fit and scaled else None


def _user(value: SSAValue) -> Operation | None:
    """The only op that computes with a value, also through broadcasts and reshapes; None if there are several."""
    while value.has_one_use():
        user = next(iter(value.uses)).operation
        if not isinstance(user, BroadcastInDimOp | ReshapeOp):
            return user
        value = user.results[0]
    return None


def _is_depthwise(region: QuantizeRegionOp) -> bool:
    op = region.body.block.first_op
    if not isinstance(op, ConvolutionOp):
        return False
    return shape_of(op.rhs)[op.dimension_numbers.data.kernel_input_feature_dimension] == 1


def sites(program: Program) -> list[Site]:
    """The sites of a fused program, in order."""
    found = (Site.of(region, program.weights) for region in regions_of(program))
    return [replace(site, place=place) for place, site in enumerate(found) if site is not None]


def watched(program: Program) -> list[Site | Member]:
    """The values of a fused program whose channels are observed: those of sites, and of residual streams."""
    return [*sites(program), *(member for stream in streams(program) for member in stream.observed())]


@dataclass(frozen=True, eq=False)
class Uneven:
    """A site to equalize: its statistics, with the ranges of channels (channels, 2), and the factors by channel."""

    site: Site
    stats: StatisticsOp
    ranges: Array
    factors: Array


@dataclass(frozen=True, eq=False)
class UnevenStream:
    """A residual stream to equalize: the statistics of its values, with the ranges of channels, and the factors."""

    stream: ResidualStream
    stats: Sequence[tuple[Member, StatisticsOp, Array]]
    factors: Array


def _observed(site: Site | Member) -> tuple[StatisticsOp, Array] | None:
    """The `quant.stats` per channel of a site's value, and its ranges, (channels, 2)."""
    stats = [use.operation for use in site.value.uses if isinstance(use.operation, StatisticsOp)]
    found = next((op for op in stats if op.axis_stats is not None and op.axis is not None), None)
    if found is None or found.axis is None or found.axis_stats is None or found.axis.value.data != site.axis:
        return None
    return found, np.array(found.axis_stats.get_values(), np.float64).reshape(-1, 2)


def uneven(program: Program) -> list[Uneven]:
    """The sites of a fused program whose value has `quant.stats` per channel, and whose channels are uneven."""
    made: list[Uneven] = []
    for site in sites(program):
        observed = _observed(site)
        factors = None if observed is None else site.factors(observed[1], program.weights)
        if observed is not None and factors is not None:
            made.append(Uneven(site, *observed, factors))
    return made


def uneven_streams(program: Program) -> list[UnevenStream]:
    """The residual streams of a fused program whose values have `quant.stats` per channel, and are uneven."""
    made: list[UnevenStream] = []
    for stream in streams(program):
        observed = [(member, _observed(member)) for member in stream.observed()]
        stats = [(member, *found) for member, found in observed if found is not None]
        ranges = {member: found for member, _, found in stats}
        factors = None if len(stats) < len(observed) else stream_factors(stream, ranges, program.weights, LEAST)
        if factors is not None:
            made.append(UnevenStream(stream, stats, factors))
    return made


def cut_share(found: Sequence[Uneven], program: Program) -> float:
    """The share of the channels to equalize that clamps would cut in the ranges that `program` states.

    It is the same program as that of `found`, with the ranges of other samples.
    """
    clamped = {one.site.place: one for one in found if one.site.high < inf}
    cut = 0
    for site in sites(program):
        one, observed = clamped.get(site.place), _observed(site)
        if one is not None and observed is not None:
            cut += int(((one.factors < 1) & (observed[1][:, 1] > one.factors * site.high)).sum())
    return cut / max(1, sum(one.factors.size for one in found))


def equalize(program: Program) -> Program:
    """A copy of a fused program in which sites and streams with uneven `quant.stats` per channel are equalized.

    The statistics are scaled like the values. A region whose channels were divided has the attribute
    `zeropoint.equalized`, which describes the factors.
    """
    program = program.for_change()
    alone, together = uneven(program), uneven_streams(program)
    for one in alone:
        divide_results(one.site.maker, one.factors, program.weights)
        for reader in one.site.readers:
            multiply_weights(reader, one.factors, program.weights)
        _state(one.site, one.stats, one.ranges, one.factors)
    for one in together:
        for member in one.stream.makers():
            divide_results(member.maker, one.factors[member.channels], program.weights)
        for member, reader in one.stream.readers():
            multiply_weights(reader, one.factors[member.channels], program.weights)
        for member, stats, ranges in one.stats:
            _state(member, stats, ranges, one.factors[member.channels])
    program.weights.keep_only(resource_handles(program.module))  # not those of before, or that were scaled twice
    return program


def _state(site: Site | Member, stats: StatisticsOp, ranges: Array, factors: Array) -> None:
    """Scale the statistics of a value, and describe the factors on the region that makes it."""
    state_channels(stats, ranges / factors[:, None], site.axis)
    stretched = int((factors < 1).sum())
    text = f"{stretched} of {factors.size} channels multiplied by up to {1 / factors.min():.3g}"
    site.maker.attributes[EQUALIZED] = StringAttr(text)
