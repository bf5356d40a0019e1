"""The order of dimensions in which C++ StableHLO takes a convolution: batch, space, channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from zeropoint.ir.stablehlo import ReshapeOp, TransposeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, only_user, owner, quantized, with_axis


@dataclass(frozen=True)
class Frame:
    """How a tensor becomes one with channels last.

    Dimension i of the framed tensor is dimension `order[i]` of the other. Then `units` dimensions of size 1 are
    inserted after the batch.
    """

    order: tuple[int, ...]
    units: int = 0

    @property
    def is_identity(self) -> bool:
        """Whether the framed tensor is the tensor itself."""
        return not self.units and self.order == tuple(range(len(self.order)))

    @property
    def is_usual(self) -> bool:
        """Whether the tensor has its channels last, or right after the batch."""
        return self.order in (tuple(range(len(self.order))), (0, *range(2, len(self.order)), 1))

    @property
    def inverse(self) -> list[int]:
        """The order of the dimensions back."""
        return [self.order.index(d) for d in range(len(self.order))]

    def into(self, rewrite: Rewrite, value: SSAValue) -> SSAValue:
        """The framed tensor of a value."""
        ordered = rewrite.transposed(value, self.order)
        shape = shape_of(ordered)
        return rewrite.reshaped(ordered, [shape[0], *[1] * self.units, *shape[1:]])

    def out_of(self, rewrite: Rewrite, value: SSAValue) -> SSAValue:
        """The tensor of a framed value."""
        shape = shape_of(value)
        return rewrite.transposed(rewrite.reshaped(value, [shape[0], *shape[1 + self.units :]]), self.inverse)


@dataclass(frozen=True)
class Change:
    """A change of tensors: into a frame, or out of it."""

    frame: Frame
    is_inward: bool

    def dimension(self, old: int) -> int:
        """The new number of a dimension."""
        if self.is_inward:
            found = self.frame.order.index(old)
            return found if found == 0 else found + self.frame.units
        return self.frame.order[old if old == 0 else old - self.frame.units]

    def type(self, value: SSAValue) -> TensorType[Attribute]:
        """The type of a value after the change."""
        kind, old = quantized(value), shape_of(value)
        sizes = [1] * (len(old) + (self.frame.units if self.is_inward else -self.frame.units))
        units = range(0) if self.is_inward else range(1, 1 + self.frame.units)
        for d, size in enumerate(old):
            if d not in units:
                sizes[self.dimension(d)] = size
        if kind is not None and kind.axis is not None:
            kind = with_axis(kind, self.dimension(kind.axis))
        return TensorType(kind or element_of(value), sizes)

    def moved(self, rewrite: Rewrite, value: SSAValue) -> SSAValue:
        """A value after the change."""
        return (self.frame.into if self.is_inward else self.frame.out_of)(rewrite, value)

    def restored(self, rewrite: Rewrite, value: SSAValue) -> SSAValue:
        """A changed value as it was."""
        return (self.frame.out_of if self.is_inward else self.frame.into)(rewrite, value)


def frame_before(value: SSAValue) -> tuple[SSAValue, Frame]:
    """The tensor that a value is the framed tensor of, and the frame; the value itself if it has none."""
    units, op = 0, owner(value)
    if isinstance(op, ReshapeOp) and (units := _units(shape_of(op.operand), shape_of(value))):
        value = op.operand
        op = owner(value)
    if isinstance(op, TransposeOp):
        order = tuple(array_values(op.permutation))
        return op.operand, Frame(order, units)
    return value, Frame(tuple(range(len(shape_of(value)))), units)


def frame_of(results: Sequence[SSAValue]) -> Frame | None:
    """The frame that every reader of some values takes them out of; None if they differ."""
    readers = chain.from_iterable(_readers(value) for value in results)
    found = {frame for frame, _ in readers}
    return found.pop() if len(found) == 1 else None


def taken_out(value: SSAValue) -> list[SSAValue]:
    """The tensors that the readers of a framed value take out of its frame."""
    return [outside for _, outside in _readers(value)]


def _readers(value: SSAValue) -> list[tuple[Frame, SSAValue]]:
    """For each reader, the frame that it takes a value out of, and the result."""
    found: list[tuple[Frame, SSAValue]] = []
    for use in value.uses:
        op, units, outside = use.operation, 0, value
        if isinstance(op, ReshapeOp) and (units := _units(shape_of(op.result), shape_of(value))):
            outside = op.result
            op = only_user(outside)
        if isinstance(op, TransposeOp):
            order = array_values(op.permutation)
            found.append((Frame(tuple(order.index(d) for d in range(len(order))), units), op.result))
        else:
            found.append((Frame(tuple(range(len(shape_of(outside)))), units), outside))
    return found


def _units(outside: Sequence[int], framed: Sequence[int]) -> int:
    """How many dimensions of size 1 a reshape inserts after the batch; 0 for another reshape."""
    count = len(framed) - len(outside)
    is_inserted = count > 0 and list(framed) == [outside[0], *[1] * count, *outside[1:]]
    return count if is_inserted else 0
