"""Expands convolutions with batch groups into ones with feature groups, and reverses kernels instead of windows.

Source: the StableHLO specification, "convolution".
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import SSAValue

from zeropoint.expand.emission import Emission
from zeropoint.ir.stablehlo import ConvolutionOp, ReshapeOp, ReverseOp, TransposeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of


def grouped_features(emit: Emission, op: ConvolutionOp) -> Sequence[SSAValue] | None:
    """The convolution without batch groups and window reversal; None if it has neither.

    Each group of batches becomes a group of features: (groups * n, f, ...) becomes (n, groups * f, ...).
    """
    groups, reversal = int(op.batch_group_count.value.data), array_values(op.window_reversal, ())
    if groups == 1 and not any(reversal):
        return None
    layout, properties = op.dimension_numbers.data, dict(op.properties)
    lhs, rhs = op.lhs, op.rhs
    if any(reversal):
        dims = [dim for dim, flag in zip(layout.kernel_spatial_dimensions, reversal, strict=True) if flag]
        rhs = emit.add(ReverseOp(rhs, dims))
        del properties["window_reversal"]
    if groups > 1:
        lhs = _batches_as_features(emit, lhs, groups, (layout.input_batch_dimension, layout.input_feature_dimension))
        properties["batch_group_count"] = IntegerAttr(1, i64)
        properties["feature_group_count"] = IntegerAttr(groups, i64)
    made = ConvolutionOp.create(operands=[lhs, rhs], result_types=[op.result.type], properties=properties)
    return [emit.add(made)]


def _batches_as_features(emit: Emission, value: SSAValue, groups: int, dims: tuple[int, int]) -> SSAValue:
    shape, element, (batch, feature) = [*shape_of(value)], element_of(value), dims
    apart = [*shape[:batch], groups, shape[batch] // groups, *shape[batch + 1 :]]
    split = emit.add(ReshapeOp(value, TensorType(element, apart)))
    # The groups are moved before the features. Dimensions after the batch dimension have moved by one.
    order = [dim for dim in range(len(apart)) if dim != batch]
    order.insert(order.index(feature + (feature > batch)), batch)
    ordered = emit.add(TransposeOp(split, order))
    shape[batch], shape[feature] = shape[batch] // groups, shape[feature] * groups
    return emit.add(ReshapeOp(ordered, TensorType(element, shape)))
