"""`convolution` and `dot_general`.

Source: the StableHLO specification, "convolution" and "dot_general".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, TensorType, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from zeropoint.ir.stablehlo.attributes import (
    ConvDimensionNumbersAttr,
    ConvolutionLayout,
    DotDimensionNumbersAttr,
    DotDimensions,
)


def padding_attribute(padding: Sequence[tuple[int, int]]) -> DenseIntOrFPElementsAttr:
    """(low, high) per dimension as `dense<...> : tensor<Nx2xi64>`."""
    flat = [int(side) for pair in padding for side in pair]
    return DenseIntOrFPElementsAttr.from_list(TensorType(i64, [len(padding), 2]), flat)


def i64_array(values: Sequence[int] | None) -> DenseArrayBase | None:
    """`array<i64: ...>`, or nothing."""
    return None if values is None else DenseArrayBase.from_list(i64, [int(value) for value in values])


def array_values(attribute: DenseArrayBase | None, default: Sequence[int]) -> tuple[int, ...]:
    """The entries of an optional `array<i64: ...>`."""
    return tuple(default) if attribute is None else tuple(int(value) for value in attribute.get_values())


def padding_values(attribute: DenseIntOrFPElementsAttr | None, rank: int) -> tuple[tuple[int, int], ...]:
    """The (low, high) pairs of an optional padding attribute; zeros where it is absent."""
    if attribute is None:
        return ((0, 0),) * rank
    low_high = np.frombuffer(attribute.data.data, dtype="<i8").reshape(rank, 2)
    return tuple((int(low), int(high)) for low, high in low_high)


@irdl_op_definition
class ConvolutionOp(IRDLOperation):
    """Convolution of `lhs` by the kernel `rhs`."""

    name = "stablehlo.convolution"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    window_strides = opt_prop_def(DenseArrayBase)
    padding = opt_prop_def(DenseIntOrFPElementsAttr)
    lhs_dilation = opt_prop_def(DenseArrayBase)
    rhs_dilation = opt_prop_def(DenseArrayBase)
    window_reversal = opt_prop_def(DenseArrayBase)
    dimension_numbers = prop_def(ConvDimensionNumbersAttr)
    feature_group_count = prop_def(IntegerAttr)
    batch_group_count = prop_def(IntegerAttr)
    precision_config = opt_prop_def(ArrayAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        result_type: Attribute,
        layout: ConvolutionLayout,
        *,
        window_strides: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
        lhs_dilation: Sequence[int] | None = None,
        rhs_dilation: Sequence[int] | None = None,
        window_reversal: Sequence[bool] | None = None,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
    ):
        reversal = None if window_reversal is None else DenseArrayBase.from_list(i1, list(window_reversal))
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={
                "window_strides": i64_array(window_strides),
                "padding": None if padding is None else padding_attribute(padding),
                "lhs_dilation": i64_array(lhs_dilation),
                "rhs_dilation": i64_array(rhs_dilation),
                "window_reversal": reversal,
                "dimension_numbers": ConvDimensionNumbersAttr(layout),
                "feature_group_count": IntegerAttr(feature_group_count, i64),
                "batch_group_count": IntegerAttr(batch_group_count, i64),
            },
        )


@irdl_op_definition
class DotGeneralOp(IRDLOperation):
    """The sum of products over the contracting dimensions, for each index of the others."""

    name = "stablehlo.dot_general"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    dot_dimension_numbers = prop_def(DotDimensionNumbersAttr)
    precision_config = opt_prop_def(ArrayAttr)
    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute, dimensions: DotDimensions):
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={"dot_dimension_numbers": DotDimensionNumbersAttr(dimensions)},
        )
