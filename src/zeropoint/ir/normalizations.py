"""Finds the variances of the rows in a layer normalization, and its constants.

Normalization divides each row by its standard deviation. An error that is small for the largest rows becomes large for
rows of small variance. Whether 8 bits are enough for the operand depends on the spread of the variances, so calibration
observes them inside the region (`instrument`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.ir import BlockArgument, Operation, SSAValue

from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, MultiplyOp, ReduceOp, ReshapeOp, RsqrtOp, SqrtOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights

NORMALIZATIONS = ("layer_norm", "rms_norm")
"""Kernels that divide each row by its standard deviation, or by the root of the mean of its squares."""


def row_variances(op: Operation) -> SSAValue | None:
    """The operand of the square root in a region that normalizes rows: variance plus epsilon. None for any other op.

    For `rms_norm`, the variance is around 0.
    """
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
class NormalizationForm:
    """A normalization: factor * (x - mean) / sqrt(variance + epsilon) + addend. The mean of `rms_norm` is 0."""

    axes: tuple[int, ...]
    """The dimensions of a row, in order."""
    epsilon: float
    factor: SSAValue | None
    """The factor as the body reads it, in the shape of x; None without one."""
    addend: SSAValue | None
    constants: Mapping[type[Operation], Array]
    """The numbers of the factor (`MultiplyOp`) and the addend (`AddOp`), in the shape of x."""


def normalization_form(region: QuantizeRegionOp, weights: Weights) -> NormalizationForm | None:
    """The dimensions and the float constants of a region in `NORMALIZATIONS`; None if it has another form."""
    source, *others = region.body.block.args
    axes = {array_values(op.dimensions) for op in region.body.block.ops if isinstance(op, ReduceOp)}
    if len(axes) != 1:
        return None
    found: dict[type[Operation], Array] = {}
    read: dict[type[Operation], SSAValue] = {}
    for argument in others:
        user, value, array = _constant(region, argument, weights)
        kind = type(user) if user is not None else None
        if kind not in (MultiplyOp, AddOp) or kind in found or array is None or array.shape != shape_of(source):
            return None
        found[kind], read[kind] = array, value
    rows = tuple(sorted(next(iter(axes))))
    return NormalizationForm(rows, _epsilon(region, weights), read.get(MultiplyOp), read.get(AddOp), found)


@dataclass(frozen=True)
class LayerNormForm:
    """A layer norm of rows along one dimension: gamma * (x - mean) / sqrt(variance + epsilon) + beta."""

    axis: int
    epsilon: float
    gamma: Array
    beta: Array


def layer_norm_form(region: QuantizeRegionOp, weights: Weights) -> LayerNormForm | None:
    """The dimension and the float constants of a region `layer_norm`.

    None if rows have several dimensions, or gamma or beta differ along other dimensions.
    """
    form = normalization_form(region, weights)
    if form is None or len(form.axes) != 1:
        return None
    (axis,) = form.axes
    terms = shape_of(region.body.block.args[0])[axis]
    given = {MultiplyOp: np.ones(terms), AddOp: np.zeros(terms)}
    rows = {kind: _row(form.constants[kind], axis) if kind in form.constants else given[kind] for kind in given}
    gamma, beta = rows[MultiplyOp], rows[AddOp]
    return None if gamma is None or beta is None else LayerNormForm(axis, form.epsilon, gamma, beta)


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


def _row(array: Array, axis: int) -> Array | None:
    """The numbers along one dimension of an array that is constant along the others; None for other arrays."""
    first = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
    return first[0] if (first == first[0]).all() else None


def _epsilon(region: QuantizeRegionOp, weights: Weights) -> float:
    """The number that is added to the variance before the square root; 0 without one."""
    roots = [op for op in region.body.block.ops if isinstance(op, RsqrtOp | SqrtOp)]
    value = roots[0].operand if roots else None
    while value is not None and isinstance(value.owner, BroadcastInDimOp | ReshapeOp):
        value = value.owner.operand
    return 0.0 if value is None else epsilon(value, weights)
