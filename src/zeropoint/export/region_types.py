"""Questions of the layout pass about regions and the types of their ports."""

from __future__ import annotations

from xdsl.ir import Attribute, OpResult, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import DotGeneralOp
from zeropoint.ir.weights import Weights


def made_as(value: SSAValue) -> Attribute | None:
    """The type in which a kernel makes a value; None for a value that no kernel makes."""
    owner = value.owner
    return (
        owner.output_specs.data[value.index]
        if isinstance(owner, QuantizeRegionOp) and isinstance(value, OpResult)
        else None
    )


def rounds_again(region: QuantizeRegionOp) -> bool:
    """Whether every reader of a region's result rounds it to the type of the result."""
    spec = region.output_specs.data[0]
    return all(
        isinstance(use.operation, QuantizeRegionOp) and use.operation.input_specs.data[use.index] == spec
        for use in region.outputs[0].uses
    )


def only_moves(region: QuantizeRegionOp, port: int) -> bool:
    """Whether a region that moves its operand `port` rounds nothing: a reader may read the operand instead."""
    spec, operand = region.output_specs.data[0], region.inputs[port]
    return region.input_specs.data[port] == spec and (made_as(operand) == spec or rounds_again(region))


def multiplies_activations(region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether a region multiplies two activations."""
    sides = {op.rhs for op in region.body.block.ops if isinstance(op, DotGeneralOp)}
    ports = zip(region.body.block.args, region.inputs, strict=True)
    return any(argument in sides and constant_array(value, weights) is None for argument, value in ports)


def only_a_product_reads(value: SSAValue, weights: Weights) -> bool:
    """Whether a product of two activations is the only reader of a value."""
    readers = [use.operation for use in value.uses]
    return (
        len(readers) == 1 and isinstance(readers[0], QuantizeRegionOp) and multiplies_activations(readers[0], weights)
    )
