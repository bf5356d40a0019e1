"""Values whose channels are scaled together: a residual stream, of sums, pools and the contractions that they add.

```mlir
%0 = "quant.region"(%x, %w0, %b0) ({ convolution, add, relu })
%1 = "quant.region"(%0, %w1, %b1) ({ depthwise convolution, add })
%2 = "quant.region"(%1, %w2, %b2) ({ convolution, add })
%3 = "quant.region"(%0, %2) ({ add, relu })
%4 = "quant.region"(%3, %w3, %b3) ({ convolution, add })
```
The stream has %0, %2 and %3. With factors f by channel, `%w0`, `%b0`, `%w2` and `%b2` are divided by f, and `%w1` and
`%w3` are multiplied by f. Sums, max pools and relus commute with positive factors. Padded channels are 0 anyway.

A stream ends at contractions that make or read its values. If an op of another kind reads one, or if one is an input or
output of the network, the stream is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import splat_value
from zeropoint.ir.contractions import output_channel_axis
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConstantOp, MaximumOp, PadOp, ReduceWindowOp, SubtractOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.equalizable import bounds_of, input_axis, own_array, own_contraction, readers_of


@dataclass(frozen=True, eq=False)
class Member:
    """A value of a stream. Its channels, along `axis`, are those of the stream from `first` on."""

    maker: QuantizeRegionOp
    value: SSAValue
    axis: int
    first: int

    @property
    def channels(self) -> slice:
        """The channels of the stream that the value has."""
        return slice(self.first, self.first + shape_of(self.value)[self.axis])


@dataclass(frozen=True, eq=False)
class ResidualStream:
    """Values that are scaled together."""

    members: tuple[Member, ...]

    @property
    def size(self) -> int:
        """The number of channels of all values."""
        return max(member.channels.stop for member in self.members)

    def observed(self) -> Iterator[Member]:
        """The values with ranges of their own, which are not those of an operand."""
        return (member for member in self.members if member.maker.logical_kernel.data not in MOVES)

    def makers(self) -> Iterator[Member]:
        """The values that contractions make."""
        return (member for member in self.members if not _is_link(member.maker))

    def readers(self) -> Iterator[tuple[Member, QuantizeRegionOp]]:
        """The contractions that read the values."""
        for member in self.members:
            for reader in readers_of(member.value):
                if isinstance(reader, QuantizeRegionOp) and not _is_link(reader):
                    yield member, reader


def streams(program: Program) -> list[ResidualStream]:
    """The streams of a fused program, in the order of their first sums."""
    found: list[ResidualStream] = []
    seen: set[SSAValue] = set()
    for region in regions_of(program):
        if region.logical_kernel.data not in ("add", "subtract") or region.results[0] in seen:
            continue
        stream = _Search(program.weights).around(region)
        seen.add(region.results[0])
        if stream is not None:
            seen |= {member.value for member in stream.members}
            found.append(stream)
    return found


def _is_link(region: QuantizeRegionOp) -> bool:
    return region.logical_kernel.data in LINKS


class _Search:
    """The values that have the factors of one sum."""

    def __init__(self, weights: Weights):
        self.weights = weights
        self.axis: int | None = None
        self.first: dict[SSAValue, int] = {}

    def around(self, region: QuantizeRegionOp) -> ResidualStream | None:
        """The stream of a sum; None if an op near it cannot take factors."""
        self.axis = self._axis_near(region)
        if self.axis is None:
            return None
        waiting = [(region.results[0], 0)]
        while waiting:
            value, first = waiting.pop()
            if value in self.first:
                if self.first[value] != first:
                    return None
                continue
            self.first[value] = first
            neighbours = self._neighbours(value, first)
            if neighbours is None:
                return None
            waiting += neighbours
        least = min(self.first.values())
        made = (Member(_maker(value), value, self.axis, first - least) for value, first in self.first.items())
        return ResidualStream(tuple(made))

    def _axis_near(self, region: QuantizeRegionOp) -> int | None:
        """The channel dimension of a contraction among the makers and readers of a sum and its operands."""
        for value in (region.results[0], *map(_observed, region.inputs)):
            for one in (value.owner, *readers_of(value)):
                if isinstance(one, QuantizeRegionOp) and not _is_link(one):
                    made = own_contraction(one, self.weights)
                    return None if made is None else output_channel_axis(made)
        return None

    def _neighbours(self, value: SSAValue, first: int) -> list[tuple[SSAValue, int]] | None:
        """The values that have the factors of `value`, with their first channels; None if one cannot have them."""
        maker = value.owner
        if not isinstance(maker, QuantizeRegionOp) or len(maker.results) != 1 or not self._makes(maker):
            return None
        found = [(other, first + moved) for other, moved in self._linked(maker)]
        for reader in readers_of(value):
            if not isinstance(reader, QuantizeRegionOp):
                return None
            if _is_link(reader):
                moved = dict(self._linked(reader)).get(value)
                if moved is None:
                    return None
                found.append((reader.results[0], first - moved))
            elif input_axis(reader, self.weights) != self.axis:
                return None
        return found

    def _makes(self, maker: QuantizeRegionOp) -> bool:
        """Whether the channels of a region's result can be divided by factors."""
        if _is_link(maker):
            return bool(self._linked(maker))
        made = own_contraction(maker, self.weights)
        return made is not None and output_channel_axis(made) == self.axis and _commutes(bounds_of(maker, self.weights))

    def _linked(self, region: QuantizeRegionOp) -> Sequence[tuple[SSAValue, int]]:
        """The operands of a link that have the factors of its result, each with the result's channel of its first one.

        Empty if the region is no link that commutes with factors.
        """
        free = all(isinstance(spec, AnyFloat) for spec in (*region.input_specs, *region.output_specs))
        if not _is_link(region) or not free or self.axis is None:
            return ()
        found = LINKS[region.logical_kernel.data](region, self.axis, self.weights)
        return [(_observed(value), moved) for value, moved in found]


def _observed(value: SSAValue) -> SSAValue:
    """The value behind statistics."""
    while isinstance(value.owner, StatisticsOp | StatisticsRefOp):
        value = value.owner.arg
    return value


def _maker(value: SSAValue) -> QuantizeRegionOp:
    assert isinstance(value.owner, QuantizeRegionOp)
    return value.owner


def _commutes(bounds: Bounds | None) -> bool:
    """Whether clamps commute with positive factors: none, or relu."""
    return bounds is not None and bounds.low in (-inf, 0.0) and bounds.high == inf


def _sum(region: QuantizeRegionOp, axis: int, weights: Weights) -> Sequence[tuple[SSAValue, int]]:
    """Of two computed values of the result's shape."""
    first, *others, _ = region.body.block.ops
    bounds, same = Bounds(), all(shape_of(value) == shape_of(region.results[0]) for value in region.inputs)
    plain = all(isinstance(op, ConstantOp | BroadcastInDimOp) or bounds.then(op, weights) for op in others)
    computed = all(own_array(value, weights) is None for value in region.inputs)
    adds = isinstance(first, AddOp | SubtractOp) and {first.lhs, first.rhs} == {*region.body.block.args}
    return [(value, 0) for value in region.inputs] if adds and same and plain and computed and _commutes(bounds) else ()


def _max_pool(region: QuantizeRegionOp, axis: int, weights: Weights) -> Sequence[tuple[SSAValue, int]]:
    """With windows of one channel."""
    pools = [op for op in region.body.block.ops if isinstance(op, ReduceWindowOp)]
    others = [op for op in region.body.block.ops if not isinstance(op, ReduceWindowOp | ConstantOp)]
    if len(pools) != 1 or len(others) != 1 or body_op(pools[0].body) is not MaximumOp:
        return ()
    return [(region.inputs[0], 0)] if array_values(pools[0].window_dimensions)[axis] == 1 else ()


def _pad(region: QuantizeRegionOp, axis: int, weights: Weights) -> Sequence[tuple[SSAValue, int]]:
    """With zeros, also of channels."""
    ops: list[Operation] = [op for op in region.body.block.ops if not isinstance(op, ConstantOp)]
    if len(ops) != 2 or not isinstance(ops[0], PadOp) or splat_value(ops[0].padding_value, weights) != 0:
        return ()
    low, high, between = (
        array_values(edges)[axis]
        for edges in (ops[0].edge_padding_low, ops[0].edge_padding_high, ops[0].interior_padding)
    )
    return [(region.inputs[0], low)] if low >= 0 and high >= 0 and not between else ()


LINKS: Mapping[str, Callable[[QuantizeRegionOp, int, Weights], Sequence[tuple[SSAValue, int]]]] = {
    "add": _sum,
    "max_pool": _max_pool,
    "pad": _pad,
    "subtract": _sum,
}
"""The operands of a kernel that have the factors of its result, and the channel of the result where each begins."""
MOVES = frozenset({"max_pool", "pad"})
"""The links that only move or select elements."""
