"""Ops whose attributes are operands: shapes, paddings and slices that are known when the program runs.

Source: the StableHLO specification, "dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota",
"dynamic_pad", "dynamic_reshape", "get_dimension_size".
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, DenseArrayBase, IntegerAttr, i1, i64
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

from zeropoint.ir.stablehlo.arrays import I64_ARRAY
from zeropoint.ir.stablehlo.attributes import ConvDimensionNumbersAttr, GatherDimensionNumbersAttr
from zeropoint.ir.stablehlo.dynamic_checks import (
    check_dimension,
    check_dynamic_broadcast,
    check_dynamic_conv,
    check_dynamic_iota,
    check_dynamic_pad,
    check_dynamic_reshape,
)
from zeropoint.ir.stablehlo.signatures import check_signature


@irdl_op_definition
class GetDimensionSizeOp(IRDLOperation):
    """The size of one dimension."""

    name = "stablehlo.get_dimension_size"
    operand = operand_def()
    result = result_def()
    dimension = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(Pure())
    assembly_format = "$operand `,` `dim` `=` $dimension attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        """Check the constraints of `get_dimension_size`."""
        check_signature(self)
        check_dimension(self, int(self.dimension.value.data))


@irdl_op_definition
class DynamicReshapeOp(IRDLOperation):
    """The same elements in row-major order under the shape that the second operand holds."""

    name = "stablehlo.dynamic_reshape"
    operand = operand_def()
    output_shape = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$operand `,` $output_shape attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        """Check the constraints of `dynamic_reshape`."""
        check_signature(self)
        check_dynamic_reshape(self)


@irdl_op_definition
class DynamicBroadcastInDimOp(IRDLOperation):
    """`broadcast_in_dim` to the shape that the second operand holds."""

    name = "stablehlo.dynamic_broadcast_in_dim"
    operand = operand_def()
    output_dimensions = operand_def()
    result = result_def()
    broadcast_dimensions = prop_def(I64_ARRAY)
    known_expanding_dimensions = opt_prop_def(I64_ARRAY)
    known_nonexpanding_dimensions = opt_prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$operand `,` $output_dimensions `,` `dims` `=` $broadcast_dimensions attr-dict `:` "
        "functional-type(operands, results)"
    )

    def verify_(self) -> None:
        """Check the constraints of `dynamic_broadcast_in_dim`."""
        check_signature(self)
        check_dynamic_broadcast(self)


@irdl_op_definition
class DynamicIotaOp(IRDLOperation):
    """`iota` of the shape that the operand holds."""

    name = "stablehlo.dynamic_iota"
    output_shape = operand_def()
    result = result_def()
    iota_dimension = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(Pure())
    assembly_format = "$output_shape `,` `dim` `=` $iota_dimension attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        """Check the constraints of `dynamic_iota`."""
        check_signature(self)
        check_dynamic_iota(self, int(self.iota_dimension.value.data))


@irdl_op_definition
class DynamicPadOp(IRDLOperation):
    """`pad` by as much as the last three operands hold."""

    name = "stablehlo.dynamic_pad"
    operand = operand_def()
    padding_value = operand_def()
    edge_padding_low = operand_def()
    edge_padding_high = operand_def()
    interior_padding = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        """Check the constraints of `dynamic_pad`."""
        check_signature(self)
        check_dynamic_pad(self)


@irdl_op_definition
class DynamicConvOp(IRDLOperation):
    """`convolution` with the padding that the third operand holds."""

    name = "stablehlo.dynamic_conv"
    lhs = operand_def()
    rhs = operand_def()
    padding = operand_def()
    result = result_def()
    window_strides = opt_prop_def(I64_ARRAY)
    lhs_dilation = opt_prop_def(I64_ARRAY)
    rhs_dilation = opt_prop_def(I64_ARRAY)
    window_reversal = opt_prop_def(DenseArrayBase.constr(i1))
    dimension_numbers = prop_def(ConvDimensionNumbersAttr)
    feature_group_count = prop_def(IntegerAttr)
    batch_group_count = prop_def(IntegerAttr)
    precision_config = opt_prop_def(ArrayAttr)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Check the constraints of `dynamic_conv`."""
        check_signature(self)
        check_dynamic_conv(self)


@irdl_op_definition
class DynamicGatherOp(IRDLOperation):
    """`gather` of slices as great as the third operand holds."""

    name = "stablehlo.dynamic_gather"
    operand = operand_def()
    start_indices = operand_def()
    slice_sizes = operand_def()
    result = result_def()
    dimension_numbers = prop_def(GatherDimensionNumbersAttr)
    indices_are_sorted = opt_prop_def(BoolAttr)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Check the types of `dynamic_gather`."""
        check_signature(self)
