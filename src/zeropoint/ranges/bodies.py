"""The ranges of the arguments of bodies: of maps, of comparators, and of the combining regions of reductions.

The body of a map or a sort reads elements of the operands. A combining body also reads its own earlier results, so its
arguments have the range of their types. If the body is one sum, maximum or minimum, the rule of the reduction bounds
all elements more closely.

Source: the StableHLO specification, "map", "sort", "reduce", "reduce_window", "scatter", "select_and_scatter",
"all_reduce", "reduce_scatter".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from xdsl.ir import Block, Operation, Region

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of
from zeropoint.ranges.analysis import Ranges, type_interval
from zeropoint.ranges.control import control_ranges
from zeropoint.ranges.interval import Interval

COMBINING: Mapping[type[Operation], Callable[[Any], Region]] = {
    hlo.AllReduceOp: lambda op: op.computation,
    hlo.ReduceOp: lambda op: op.body,
    hlo.ReduceScatterOp: lambda op: op.computation,
    hlo.ReduceWindowOp: lambda op: op.body,
    hlo.ScatterOp: lambda op: op.update_computation,
    hlo.SelectAndScatterOp: lambda op: op.scatter,
}
"""Maps ops to their combining region."""
RULED = (hlo.AddOp, hlo.MaximumOp, hlo.MinimumOp)


def bodies(ranges: Ranges, op: Operation) -> Iterator[Block]:
    """The bodies of an op whose ops need a proof of their own. The ranges of their arguments are added to `ranges`."""
    if isinstance(op, hlo.MapOp):
        yield _with(ranges, op.computation.block, [ranges.of(value).hull for value in op.inputs])
    elif isinstance(op, hlo.SortOp):
        # A comparator has two arguments for each operand: the elements at two positions.
        each = [ranges.of(value).hull for value in op.inputs for _ in range(2)]
        yield _with(ranges, op.comparator.block, each)
    elif type(op) in COMBINING:
        region = COMBINING[type(op)](op)
        if len(op.results) > 1 or body_op(region) not in RULED:
            yield _with(ranges, region.block, [type_interval(element_of(value)) for value in region.block.args])


def _with(ranges: Ranges, block: Block, arguments: list[Interval]) -> Block:
    ranges.known.update(zip(block.args, arguments, strict=True))
    control_ranges(ranges, block)
    return block
