"""`convolution` and `dot_general`.

Source: the StableHLO specification, "convolution" and "dot_general".
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values, i64_array, padding_attribute, padding_values
from zeropoint.ir.stablehlo.assembly import (
    ConvolutionDimensions,
    DotDimensionNumbers,
    WindowAttributes,
)
from zeropoint.ir.stablehlo.attributes import ConvDimensionNumbersAttr, DotDimensionNumbersAttr
from zeropoint.ir.stablehlo.contraction_checks import check_convolution, check_dot_general
from zeropoint.ir.stablehlo.dimensions import ConvolutionLayout, DotDimensions
from zeropoint.ir.stablehlo.dot_algorithm import DotAlgorithmAttr, PrecisionConfigAndAlgorithm
from zeropoint.ir.stablehlo.signatures import check_signature

__all__ = ["ConvolutionOp", "DotGeneralOp", "array_values", "i64_array", "padding_attribute", "padding_values"]


@irdl_op_definition
class ConvolutionOp(IRDLOperation):
    """Convolution of `lhs` by the kernel `rhs`."""

    name = "stablehlo.convolution"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    window_strides = opt_prop_def(I64_ARRAY)
    padding = opt_prop_def(DenseIntOrFPElementsAttr)
    lhs_dilation = opt_prop_def(I64_ARRAY)
    rhs_dilation = opt_prop_def(I64_ARRAY)
    window_reversal = opt_prop_def(DenseArrayBase.constr(i1))
    dimension_numbers = prop_def(ConvDimensionNumbersAttr)
    feature_group_count = prop_def(IntegerAttr)
    batch_group_count = prop_def(IntegerAttr)
    precision_config = opt_prop_def(ArrayAttr)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    custom_directives = (ConvolutionDimensions, WindowAttributes)
    assembly_format = (
        "`(` operands `)` `dim_numbers` `=` custom<ConvolutionDimensions>($dimension_numbers) `,` "
        "`window` `=` `{` custom<WindowAttributes>($window_strides, $padding, $lhs_dilation, $rhs_dilation, "
        "$window_reversal) `}` attr-dict `:` functional-type(operands, results)"
    )

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

    def verify_(self) -> None:
        """Check the constraints of `convolution`."""
        check_signature(self)
        check_convolution(self)


@irdl_op_definition
class DotGeneralOp(IRDLOperation):
    """The sum of products over the contracting dimensions, for each index of the others."""

    name = "stablehlo.dot_general"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    dot_dimension_numbers = prop_def(DotDimensionNumbersAttr)
    precision_config = opt_prop_def(ArrayAttr)
    algorithm = opt_prop_def(DotAlgorithmAttr)
    traits = traits_def(Pure())
    custom_directives = (DotDimensionNumbers, PrecisionConfigAndAlgorithm)
    assembly_format = (
        "$lhs `,` $rhs `,` custom<DotDimensionNumbers>($dot_dimension_numbers) "
        "custom<PrecisionConfigAndAlgorithm>($precision_config, $algorithm) attr-dict `:` "
        "functional-type(operands, results)"
    )

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute, dimensions: DotDimensions):
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={"dot_dimension_numbers": DotDimensionNumbersAttr(dimensions)},
        )

    def verify_(self) -> None:
        """Check the constraints of `dot_general`."""
        check_signature(self)
        check_dot_general(self)
