"""The order in which the readers of a value want its dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from zeropoint.export.permute import RULES
from zeropoint.export.permuted import is_identity, is_pointwise
from zeropoint.export.reshaped_orders import DimensionOrder, WantedOrder, last_order, reshaped_order
from zeropoint.ir.annotations import CHANNELS_LAST
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import (
    BinaryOp,
    ConstantOp,
    ConvolutionOp,
    DotGeneralOp,
    GatherOp,
    ReduceWindowOp,
    ReshapeOp,
    TransposeOp,
    UnaryOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of

SPATIAL = (ConvolutionOp, ReduceWindowOp)
"""Ops that require channels last."""
IMAGE_RANK = 4
KEEPING = frozenset(RULES) - {DotGeneralOp, GatherOp, TransposeOp}
"""Ops whose result gets the order of their operand."""


def window_order(op: ConvolutionOp | ReduceWindowOp) -> DimensionOrder:
    """The channels-last order of a window's input: batch, spatial dimensions, channels."""
    if isinstance(op, ConvolutionOp):
        layout = op.dimension_numbers.data
        return (layout.input_batch_dimension, *layout.input_spatial_dimensions, layout.input_feature_dimension)
    sizes = array_values(op.window_dimensions)
    rank = len(sizes)
    # If the window has size 1 in the last dimension and not in dimension 1, the channels are last already.
    is_last = CHANNELS_LAST in op.attributes or sizes[-1] == 1 != sizes[1]
    return tuple(range(rank)) if rank < 3 or is_last else last_order(rank)


def wanted_orders(block: Block) -> Mapping[SSAValue, WantedOrder]:
    """The order in which a convolution or window reads a value, directly or through ops that keep an order.

    Values that no such op reads, or that it reads in the model's order, are left out, and inputs that the model itself
    transposes. If readers differ, the first one in program order decides.
    """
    found: dict[SSAValue, WantedOrder] = {}
    for op in reversed(block.ops):
        for index, operand in enumerate(op.operands):
            wanted = _wanted_by(op, index, found)
            if wanted is not None and not is_identity(wanted.order):
                is_loose = wanted.is_loose and operand.has_one_use()
                found[operand] = replace(wanted, is_loose=is_loose)
    return found


def permutation(op: Operation) -> DimensionOrder | None:
    """The permutation of an op that only transposes; None for any other op."""
    if isinstance(op, TransposeOp):
        return array_values(op.permutation)
    if isinstance(op, QuantizeRegionOp) and op.logical_kernel.data == "transpose":
        inner = op.body.block.first_op
        return array_values(inner.permutation) if isinstance(inner, TransposeOp) else None
    return None


def _wanted_by(reader: Operation, index: int, known: Mapping[SSAValue, WantedOrder]) -> WantedOrder | None:
    """The order in which a reader wants its operand `index`. `known` has the orders wanted of later values."""
    operand = reader.operands[index]
    if isinstance(reader, QuantizeRegionOp):
        ops, inner = list(reader.body.block.ops)[:-1], reader.body.block.args[index]
    else:
        ops, inner = [reader], operand
    wanted = known.get(reader.results[0]) if len(reader.results) == 1 else None
    for op in ops:
        if isinstance(op, SPATIAL):
            is_loose = is_pointwise(op) and (wanted is None or wanted.is_loose)
            return WantedOrder(window_order(op), is_loose) if op.operands[0] is inner else None
    if wanted is None:
        return None
    moved = permutation(reader)
    if moved is not None:
        # The order in which nothing has to move.
        order = tuple(moved[dimension] for dimension in wanted.order)
        return None if isinstance(operand, BlockArgument) else WantedOrder(order)
    if not all(isinstance(op, ConstantOp | UnaryOp | BinaryOp) or type(op) in KEEPING for op in ops):
        return None
    given, made = shape_of(operand), shape_of(reader.results[0])
    keeps_dimensions = not any(isinstance(op, ReshapeOp) for op in ops)
    if len(given) == len(made) and (keeps_dimensions or _is_reduced(given, made)):
        # The operands of a sum or concatenation have to have one order.
        return replace(wanted, is_loose=wanted.is_loose and len(reader.operands) == 1)
    found = reshaped_order(made, given, wanted.order)
    if found is None and len(given) == IMAGE_RANK and not isinstance(operand, BlockArgument):
        # An image that is read by a shuffle of its channels, for example. What made it is channels last, too.
        last = last_order(IMAGE_RANK)
        found = None if reshaped_order(given, made, last) is None else last
    return None if found is None else WantedOrder(found)


def _is_reduced(given: Sequence[int], made: Sequence[int]) -> bool:
    """Whether each dimension of a result has the size of the operand's or is reduced to 1, as in a mean over pixels."""
    return all(new in (old, 1) for old, new in zip(given, made, strict=True))
