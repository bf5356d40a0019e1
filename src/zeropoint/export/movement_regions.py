"""Kernels of one op that only moves elements: operands and result have one type."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from zeropoint.export.reshaped_orders import DimensionOrder
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import TransposeOp


def movement_region(
    values: Sequence[SSAValue], spec: Attribute, moved: Callable[[Sequence[SSAValue]], Operation]
) -> QuantizeRegionOp:
    """A region with the op that `moved` makes of its arguments. Its name is that of the op."""
    block = Block(arg_types=[value.type for value in values])
    op = moved(block.args)
    block.add_ops([op, ReturnOp([op.results[0]])])
    name = op.name.split(".")[-1]
    return QuantizeRegionOp(values, [op.results[0].type], name, [spec] * len(values), [spec], Region(block))


def transpose_region(value: SSAValue, order: DimensionOrder, spec: Attribute) -> QuantizeRegionOp:
    """A region that transposes a value. Its operand and its result have the type `spec`."""
    return movement_region([value], spec, lambda given: TransposeOp(given[0], order))


def rescale_region(value: SSAValue, given: Attribute, made: Attribute) -> QuantizeRegionOp:
    """A region that changes the type of a value, or that rounds a float to it if both types are one."""
    block = Block(arg_types=[value.type])
    block.add_op(ReturnOp([block.args[0]]))
    return QuantizeRegionOp([value], [value.type], "rescale", [given], [made], Region(block))
