"""`quant.stats` with a range per channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, f32
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import EQUALIZED
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsOp
from zeropoint.ir.tensors import Array


@dataclass
class ChannelRanges:
    """The least and the greatest value of each channel along `axis`, (channels, 2), of all values seen."""

    axis: int
    ranges: Array | None = None

    def see(self, array: Array) -> None:
        """Observe a value."""
        other = tuple(dim for dim in range(array.ndim) if dim != self.axis)
        seen = np.stack([array.min(axis=other), array.max(axis=other)], axis=1)
        before = seen if self.ranges is None else self.ranges
        self.ranges = np.stack([np.minimum(before[:, 0], seen[:, 0]), np.maximum(before[:, 1], seen[:, 1])], axis=1)


def state_channels(op: StatisticsOp, ranges: Array, axis: int) -> StatisticsOp:
    """Replace a `quant.stats` by one with these ranges (channels, 2). `layerStats` is the range of all channels."""
    kind = TensorType(f32, list(ranges.shape))
    stats = DenseIntOrFPElementsAttr.from_list(kind, ranges.astype(np.float32).reshape(-1).tolist())
    made = StatisticsOp(op.arg, (float(ranges[:, 0].min()), float(ranges[:, 1].max())), stats, axis)
    made.location = op.location
    Rewriter.replace_op(op, made)
    return made


def without_statistics(program: Program) -> Program:
    """A copy without `quant.stats` per channel, so that the equalized values are observed again."""
    program = program.clone()
    for op in [op for op in program.entry.ops if isinstance(op, StatisticsOp) and op.axis_stats is not None]:
        Rewriter.replace_op(op, [], [op.arg])
    return program


def only_equalized(program: Program) -> Program:
    """A copy in which the `quant.stats` of equalized values have one range for all channels.

    Other `quant.stats` per channel are removed.
    """
    program = program.for_change()
    for op in [op for op in program.entry.ops if isinstance(op, StatisticsOp) and op.axis_stats is not None]:
        maker = op.arg.owner
        if isinstance(maker, Operation) and EQUALIZED in maker.attributes:
            low, high = map(float, np.array(op.layer_stats.get_values(), np.float32))
            made = StatisticsOp(op.arg, (low, high))
            made.location = op.location
            Rewriter.replace_op(op, made)
        else:
            Rewriter.replace_op(op, [], [op.arg])
    return program
