"""Finds the variances of the rows in a layer normalization, and its constants.

Normalization divides each row by its standard deviation. An error that is small for the largest rows becomes large for
rows of small variance. Whether 8 bits are enough for the operand depends on the spread of the variances, so calibration
observes them inside the region (`instrument`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import BlockArgument, Operation, SSAValue

from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, MultiplyOp, ReduceOp, ReshapeOp, RsqrtOp, SqrtOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights

NORMALIZATIONS = ("layer_norm",)
"""Kernels that divide each row by its standard deviation."""


def row_variances(op: Operation) -> SSAValue | None:
    """The operand of the square root in a region that normalizes rows: variance plus epsilon. None for any other op."""
    if not isinstance(op, QuantizeRegionOp) or op.logical_kernel.data not in NORMALIZATIONS:
        return None
    roots = [inner for inner in op.body.block.ops if isinstance(inner, RsqrtOp | SqrtOp)]
    return roots[0].operand if len(roots) == 1 else None


def stated_variances(op: Operation) -> StatisticsOp | None:
    """The statistics of `row_variances`, whether or not the square root reads them; None without statistics."""
    variances = row_variances(op)
    if variances is None:
        return None
    if isinstance(variances.owner, StatisticsOp):
        return variances.owner
    return next((use.operation for use in variances.uses if isinstance(use.operation, StatisticsOp)), None)


def epsilon(variances: SSAValue, weights: Weights) -> float:
    """The constant that is added to the variances before the square root; 0 without one."""
    while isinstance(variances.owner, StatisticsOp):
        variances = variances.owner.arg
    if not isinstance(variances.owner, AddOp):
        return 0.0
    numbers = [splat_value(operand, weights) for operand in variances.owner.operands]
    return next((number for number in numbers if number is not None), 0.0)


@dataclass(frozen=True)
class LayerNormForm:
    """A layer norm of rows along one dimension: gamma * (x - mean) / sqrt(variance + epsilon) + beta."""

    axis: int
    epsilon: float
    gamma: Array
    beta: Array
    factor: SSAValue | None
    """gamma as the body reads it, in the shape of x; None without gamma."""
    addend: SSAValue | None
    """beta as the body reads it, in the shape of x; None without beta."""


def layer_norm_form(region: QuantizeRegionOp, weights: Weights) -> LayerNormForm | None:
    """The dimension and the float constants of a region `layer_norm`.

    None if rows have several dimensions, or gamma or beta differ along other dimensions.
    """
    source, *others = region.body.block.args
    axes = {array_values(op.dimensions) for op in region.body.block.ops if isinstance(op, ReduceOp)}
    if len(axes) != 1 or len(next(iter(axes))) != 1:
        return None
    ((axis,),) = axes
    terms = shape_of(source)[axis]
    found: dict[type[Operation], Array] = {MultiplyOp: np.ones(terms), AddOp: np.zeros(terms)}
    read: dict[type[Operation], SSAValue] = {}
    for argument in others:
        user, value, array = _constant(region, argument, weights)
        row = None if array is None else _row(array, axis, shape_of(source))
        if row is None or user is None or type(user) not in found:
            return None
        found[type(user)], read[type(user)] = row, value
    gamma, beta = found[MultiplyOp], found[AddOp]
    return LayerNormForm(axis, _epsilon(region, weights), gamma, beta, read.get(MultiplyOp), read.get(AddOp))


def _constant(
    region: QuantizeRegionOp, argument: BlockArgument, weights: Weights
) -> tuple[Operation | None, SSAValue, Array | None]:
    """The op that computes with a constant argument, and the constant as that op reads it; None for other arguments."""
    value: SSAValue = argument
    array: Array | None = constant_array(region.inputs[argument.index], weights)
    while array is not None and value.has_one_use():
        user = next(iter(value.uses)).operation
        if isinstance(user, BroadcastInDimOp):
            dimensions, shape = array_values(user.broadcast_dimensions), shape_of(user.result)
            sizes = [1] * len(shape)
            for size, dimension in zip(array.shape, dimensions, strict=True):
                sizes[dimension] = size
            whole: Array = array.reshape(sizes)
            array = np.broadcast_to(whole, shape)
        elif isinstance(user, ReshapeOp):
            array = array.reshape(shape_of(user.result))
        else:
            return user, value, array
        value = user.result
    return None, value, None


def _row(array: Array, axis: int, shape: tuple[int, ...]) -> Array | None:
    """The numbers along one dimension of an array that is constant along the others; None for other arrays."""
    if array.shape != shape:
        return None
    first = np.moveaxis(array, axis, -1).reshape(-1, shape[axis])
    return first[0] if (first == first[0]).all() else None


def _epsilon(region: QuantizeRegionOp, weights: Weights) -> float:
    """The number that is added to the variance before the square root; 0 without one."""
    roots = [op for op in region.body.block.ops if isinstance(op, RsqrtOp | SqrtOp)]
    value = roots[0].operand if roots else None
    while value is not None and isinstance(value.owner, BroadcastInDimOp | ReshapeOp):
        value = value.owner.operand
    return 0.0 if value is None else epsilon(value, weights)
