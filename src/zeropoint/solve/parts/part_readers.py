"""Find the kernels that read a part of a value along one dimension, directly or through reshapes and transposes.

```mlir
%t = "quant.region"(%c) ({ transpose to channels last })
%s = "quant.region"(%t) ({ slice of channels 1 to 7 })
```
`%s` reads channels 1 to 7 of `%c` through a transpose. A part is a `slice`, or a `gather` at constant indices, along
one dimension. A reshape is followed if the dimension comes from one dimension, whole or divided. So queries, keys and
values are parts of a product that is reshaped to 3 x heads x channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import DEMANDS
from zeropoint.ir.constants import constant_array
from zeropoint.ir.element_parts import gathered
from zeropoint.ir.quant import QuantizedType, QuantizeRegionOp, StatisticsOp, Storage
from zeropoint.ir.stablehlo import GatherOp, ReshapeOp, SliceOp, TransposeOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.ranges import RealRange
from zeropoint.solve.constraints import stated_range
from zeropoint.solve.parts.cuts import Cut, reshaped_cut
from zeropoint.solve.precision import step_of


@dataclass(frozen=True, eq=False)
class Move:
    """A reshape or transpose between a value and its part, which has `count` elements along `axis` of its result."""

    region: QuantizeRegionOp
    axis: int
    count: int


@dataclass(frozen=True, eq=False)
class ScaledPart:
    """A region that takes the elements `chosen` of a value along a dimension, in this order, after `moves`."""

    region: QuantizeRegionOp
    axis: int
    chosen: Array
    range: RealRange
    moves: tuple[Move, ...] = ()

    @staticmethod
    def of(region: Operation, weights: Weights) -> ScaledPart | None:
        """The part that a region takes. None for any other op, or if its result has no statistics."""
        if not isinstance(region, QuantizeRegionOp) or len(region.outputs) != 1:
            return None
        op, seen = region.body.block.first_op, range_of(region.outputs[0])
        if seen is None or not isinstance(op, SliceOp | GatherOp) or op.operands[0] is not region.body.block.args[0]:
            return None
        if not is_open(region):  # after the other checks, because a join may have very many ports
            return None
        found = _sliced(op) if isinstance(op, SliceOp) else gathered(op, constant_array(region.inputs[1], weights))
        return None if found is None else ScaledPart(region, *found, seen)

    @property
    def step(self) -> float:
        """The scale that the part needs at 8 bits."""
        return step_for(self.range)


def _sliced(op: SliceOp) -> tuple[int, Array] | None:
    shape, kept = shape_of(op.operand), shape_of(op.result)
    axes = [axis for axis, (before, after) in enumerate(zip(shape, kept, strict=True)) if before != after]
    if len(axes) != 1:
        return None
    (axis,) = axes
    first, last, stride = (array.get_values()[axis] for array in (op.start_indices, op.limit_indices, op.strides))
    return axis, np.arange(first, last, stride)


def is_move(region: QuantizeRegionOp) -> bool:
    """Whether a region only reshapes or transposes its operand."""
    return _move(region) is not None


def is_open(region: QuantizeRegionOp) -> bool:
    """Whether neither the model nor the user places demands on a region or its ports."""
    specs = (*region.input_specs, *region.output_specs)
    return DEMANDS not in region.attributes and not any(isinstance(spec, QuantizedType) for spec in specs)


def range_of(value: SSAValue) -> RealRange | None:
    """The range that the statistics of a value state; None without statistics."""
    found = next((use.operation for use in value.uses if isinstance(use.operation, StatisticsOp)), None)
    return None if found is None else stated_range(found)


def step_for(span: RealRange) -> float:
    """The scale of a range at 8 bits."""
    return step_of(*span, Storage.of("i8"), None)


def parts_of(value: SSAValue, weights: Weights) -> Iterator[ScaledPart | None]:
    """The part that each reader of a value takes; None for readers of all, or of no part along one dimension."""
    # Iterative, because a chain of moves may be as long as the program. Moves are stacked with the last one first.
    pending: list[tuple[Operation, tuple[QuantizeRegionOp, ...]]] = [(reader, ()) for reader in _readers(value)][::-1]
    while pending:
        reader, before = pending.pop()
        part = ScaledPart.of(reader, weights)
        if part is None and isinstance(reader, QuantizeRegionOp) and _move(reader) is not None:
            pending += [(later, (reader, *before)) for later in _readers(reader.outputs[0])][::-1]
            continue
        for region in before:
            move = None if part is None else _move(region)
            part = None if part is None or move is None else _before(move, region, part)
        yield part


def _readers(value: SSAValue) -> Iterator[Operation]:
    for use in value.uses:
        if isinstance(use.operation, StatisticsOp):
            yield from _readers(use.operation.res)
        else:
            yield use.operation


def _move(region: QuantizeRegionOp) -> ReshapeOp | TransposeOp | None:
    """The only op of a region if it is a reshape or a transpose of its operand."""
    first, *others = region.body.block.ops
    alone = len(others) == 1 and len(region.inputs) == 1 and is_open(region)
    return first if alone and isinstance(first, ReshapeOp | TransposeOp) else None


def _before(op: ReshapeOp | TransposeOp, region: QuantizeRegionOp, part: ScaledPart) -> ScaledPart | None:
    """The part of a move's operand that becomes a part of its result; None if it is not along one dimension."""
    if isinstance(op, TransposeOp):
        axis, chosen = op.permutation.get_values()[part.axis], part.chosen
    else:
        found = reshaped_cut(shape_of(op.operand), shape_of(op.result), Cut(part.axis, part.chosen))
        if found is None:
            return None
        axis, chosen = found.axis, found.chosen
    move = Move(region, part.axis, part.chosen.size)
    return replace(part, axis=axis, chosen=chosen, moves=(move, *part.moves))
