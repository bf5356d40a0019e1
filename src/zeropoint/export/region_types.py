"""Questions of the layout pass about regions: the types of their ports, their readers, the orders that they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from zeropoint.export.permuted import Permuted, is_identity, kept_order
from zeropoint.export.reshaped_orders import DimensionOrder, last_order
from zeropoint.export.wanted_orders import permutation
from zeropoint.ir.constants import constant_array
from zeropoint.ir.linear_resizes import resize_matrices
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, DotGeneralOp, ReduceOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights

IMAGE = frozenset({1, 2})
"""The dimensions of an image, channels last."""
SOFTMAXES = ("log_softmax", "softmax")


def made_as(value: SSAValue) -> Attribute | None:
    """The type in which a kernel makes a value; None for a value that no kernel makes."""
    owner = value.owner
    return (
        owner.output_specs.data[value.index]
        if isinstance(owner, QuantizeRegionOp) and isinstance(value, OpResult)
        else None
    )


def is_read_as(value: SSAValue, spec: Attribute) -> bool:
    """Whether every reader of a value is a region that reads it in the type `spec`."""
    return all(
        isinstance(use.operation, QuantizeRegionOp) and use.operation.input_specs.data[use.index] == spec
        for use in value.uses
    )


def only_moves(region: QuantizeRegionOp, port: int) -> bool:
    """Whether a region that moves its operand `port` rounds nothing: a reader may read the operand instead."""
    spec, operand = region.output_specs.data[0], region.inputs[port]
    return region.input_specs.data[port] == spec and (made_as(operand) == spec or is_read_as(region.outputs[0], spec))


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


def _products_read(value: SSAValue, weights: Weights) -> bool:
    """Whether every reader of a value is a product of two activations, or a transpose before such products."""
    readers = [use.operation for use in value.uses]
    return bool(readers) and all(
        isinstance(reader, QuantizeRegionOp)
        and (
            multiplies_activations(reader, weights)
            or (permutation(reader) is not None and _products_read(reader.outputs[0], weights))
        )
        for reader in readers
    )


def softmax_order(
    region: QuantizeRegionOp, natural: Mapping[SSAValue, Permuted], weights: Weights
) -> DimensionOrder | None:
    """The order in which a softmax is over the last dimension, if products read it, which take any order; None else.

    `natural` has the values in a new order.
    """
    sums = [op for op in region.body.block.ops if isinstance(op, ReduceOp)]
    if region.logical_kernel.data not in SOFTMAXES or not sums or not _products_read(region.outputs[0], weights):
        return None
    over = array_values(sums[0].dimensions)
    found = natural.get(region.inputs[0])
    kept = kept_order(region.inputs[0]) if found is None else found.order
    order = (*(dimension for dimension in kept if dimension not in over), *over)
    return None if is_identity(order) else order


def image_order(
    region: QuantizeRegionOp, natural: Mapping[SSAValue, Permuted], weights: Weights
) -> DimensionOrder | None:
    """The order in which the dimensions that a region resizes are those of an image; None keeps the model's order.

    `natural` has the values in a new order.
    """
    axes = resize_matrices(region.body.block.ops, weights).keys()
    found = natural.get(region.inputs[0])
    if found is not None and all(found.order.index(axis) in IMAGE for axis in axes):
        return found.order
    return None if axes <= IMAGE else last_order(len(shape_of(region.inputs[0])))


def broadcast_order(argument: SSAValue, ops: Sequence[Operation], order: DimensionOrder) -> DimensionOrder | None:
    """The order of an argument whose broadcast gets `order`; None if it keeps the model's."""
    for op in ops:
        if isinstance(op, BroadcastInDimOp) and op.operand is argument and len(shape_of(op.result)) == len(order):
            dimensions = array_values(op.broadcast_dimensions)
            found = tuple(sorted(range(len(dimensions)), key=lambda i: order.index(dimensions[i])))
            return None if is_identity(found) else found
    return None
