"""Compute channels that need a much finer scale than the others in a separate kernel.

```mlir
%c = "quant.region"(%x, %w, %b) ({ convolution, add })
%v = "quant.stats"(%c) {layerStats = [-300.0, 300.0]}
%s = "quant.region"(%v) ({ slice of channels 1 to 7 })
%q = "quant.stats"(%s) {layerStats = [-1.0, 1.0]}
%y = "quant.region"(%v, ...)
```
becomes
```mlir
%c = "quant.region"(%x, %w, %b) ({ convolution, add })
%v = "quant.stats"(%c) {layerStats = [-300.0, 300.0]}
%s = "quant.region"(%x, %w[1:8], %b[1:8]) ({ convolution, add })
%q = "quant.stats"(%s) {layerStats = [-1.0, 1.0]}
%y = "quant.region"(%v, ...)
```
A requantized value has one scale. If `%y` reads all of `%v`, the scale of `%s` is 300 times too coarse. Some channels
of a contraction are exactly a contraction with the corresponding part of the weights. A part of a sum, product or
depthwise convolution is the same kernel applied to parts of its operands. If only parts are read and no two of them
overlap, splitting is free. All parts then get separate kernels if one of them needs a finer scale. Otherwise the part
is computed twice, which must be worth it (`WORTH`).

A part is a `slice`, or a `gather` at constant indices, along one dimension. There may be reshapes and transposes before
it (`part_readers.py`), which are then repeated for each part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.constants import is_constant
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.drop_inner_statistics import drop_inner_statistics
from zeropoint.solve.parts.cuts import part_type
from zeropoint.solve.parts.divided import Divided, is_cuttable
from zeropoint.solve.parts.part_readers import ScaledPart, is_move, is_open, parts_of, range_of, step_for
from zeropoint.solve.precision import coarser
from zeropoint.targets import Target

WORTH = 4.0
"""A part is computed twice if it would otherwise be read at a scale more than this many times too coarse (two bits)."""
CUTS_OPERANDS = ("add", "depthwise_convolution", "multiply", "subtract")
"""Kernels whose parts read the same part of each operand, at the scale of the whole operand."""


def _worth_splitting(value: SSAValue, weights: Weights) -> list[ScaledPart]:
    """The parts of a value that separate kernels should compute."""
    read, whole = list(parts_of(value, weights)), range_of(value)
    parts = [part for part in read if part is not None]
    if whole is None or not parts or len({part.axis for part in parts}) != 1:
        return []
    count = shape_of(value)[parts[0].axis]
    taken = np.concatenate([part.chosen for part in parts])
    if len(parts) == len(read):  # nothing else is read
        shared = step_for((min(part.range[0] for part in parts), max(part.range[1] for part in parts)))
        # Parts that do not overlap compute no channel twice, so any gain is worth it.
        if len(set(taken.tolist())) == taken.size:
            return parts if len(parts) > 1 and any(coarser(shared, part.step) for part in parts) else []
    else:
        shared = step_for(whole)
    return [part for part in parts if shared > WORTH * part.step and part.chosen.size <= count]


@dataclass
class _Copy:
    """A copy of a region that computes a part of its result (`divided`). `part` is the region that it replaces."""

    part: ScaledPart
    divided: Divided
    target: Target

    @staticmethod
    def of(maker: QuantizeRegionOp, part: ScaledPart, weights: Weights, target: Target) -> _Copy | None:
        """None if the part does not follow from available parts of the operands."""
        divided = Divided.of(maker, part.axis, part.chosen, weights)
        found = None if divided is None else _Copy(part, divided, target)
        return found if found is not None and all(map(found._is_divisible, range(len(maker.inputs)))) else None

    def _is_divisible(self, index: int) -> bool:
        """Whether a part of an operand is available: of a constant, or by a copy of the op that takes the part of the
        result."""
        axis, value = self.divided.operand_axis(index), self.divided.region.inputs[index]
        if axis is None:
            return True
        if isinstance(value.owner, ConstantOp):
            return is_cuttable(value)
        name = self.divided.region.logical_kernel.data
        if (
            self.part.moves
            or name not in CUTS_OPERANDS
            or name not in self.target.by_kernel
            or not isinstance(value.owner, StatisticsOp)
        ):
            return False
        return axis == self.part.axis and shape_of(value) == shape_of(self.part.region.inputs[0])

    def insert(self) -> None:
        """Replace the region that takes the part by the copy."""
        part = self.part.region
        made = self.divided.copy([self._operand(index) for index in range(len(self.divided.region.inputs))])
        made.location = part.location
        Rewriter.replace_op(part, [made, *self._moves(made)])

    def _moves(self, made: QuantizeRegionOp) -> Iterator[Operation]:
        """Copies of the moves between the region and the reader of the part, each after statistics of its operand."""
        value = made.outputs[0]
        for move in self.part.moves:
            stated = StatisticsOp(value, self.part.range)
            stated.location = self.part.region.location
            yield stated
            copy = move.region.clone()
            copy.operands[0] = stated.res
            moved = part_type(move.region.outputs[0], move.axis, move.count)
            inner = copy.body.block.first_op
            assert inner is not None
            Rewriter.replace_value_with_new_type(copy.body.block.args[0], value.type)
            Rewriter.replace_value_with_new_type(inner.results[0], moved)
            Rewriter.replace_value_with_new_type(copy.outputs[0], moved)
            yield copy
            value = copy.outputs[0]

    def _operand(self, index: int) -> SSAValue:
        value, part = self.divided.region.inputs[index], self.part.region
        if self.divided.operand_axis(index) is None:
            return value
        if isinstance(value.owner, ConstantOp):
            taken = self.divided.constant(index)
        else:
            taken = part.clone()
            taken.operands[0] = value
        assert part.parent is not None
        part.parent.insert_op_before(taken, part)
        return taken.results[0]


def split_channels(program: Program, target: Target) -> Program:
    """A copy of the calibrated program with separate kernels for channels that need a much finer scale.

    Sums and products of two values are split only if `target` has the kernel, because a float op does not round.
    """
    program = drop_inner_statistics(program)  # a copy
    # Readers first, because a part of a sum becomes parts of the operands of the sum.
    for op in reversed(list(program.entry.ops)):
        if not isinstance(op, QuantizeRegionOp) or not is_open(op) or len(op.outputs) != 1:
            continue
        if is_move(op):  # its operand is read whole; otherwise a chain of moves would be followed from each move
            continue
        parts = _worth_splitting(op.outputs[0], program.weights)
        copies = [_Copy.of(op, part, program.weights, target) for part in parts]
        if all(is_constant(value) for value in op.inputs):
            continue
        for copy in copies:
            if copy is not None:
                copy.insert()
    remove_dead_ops(program.entry)
    return program
