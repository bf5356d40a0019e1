"""Dynamic ops: their shapes, paddings and slice sizes are operands, known only at run time.

Source: the StableHLO specification, "dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota",
"dynamic_pad", "dynamic_reshape", "get_dimension_size".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo import quantization
from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values, check_not_negative
from zeropoint.ir.stablehlo.attributes import ConvDimensionNumbersAttr, GatherDimensionNumbersAttr
from zeropoint.ir.stablehlo.constant import ConstantOp
from zeropoint.ir.stablehlo.elements import check_inferred, compatible_elements, compatible_shapes
from zeropoint.ir.stablehlo.signatures import ANY, ANY_OR_AXIS, FREE, INT32, POSITIONS, SCALAR, OpSignature, SignatureOp
from zeropoint.ir.tensors import element_of, shape_of


@irdl_op_definition
class GetDimensionSizeOp(SignatureOp):
    """The size of one dimension."""

    name = "stablehlo.get_dimension_size"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY_OR_AXIS,), INT32)
    operand = operand_def()
    result = result_def()
    dimension = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(Pure())
    assembly_format = "$operand `,` `dim` `=` $dimension attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        """Check the constraints of `get_dimension_size`."""
        super().verify_()
        _check_dimension(self, int(self.dimension.value.data))


@irdl_op_definition
class DynamicReshapeOp(SignatureOp):
    """`reshape` to the shape that the second operand holds."""

    name = "stablehlo.dynamic_reshape"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY_OR_AXIS, FREE), ANY_OR_AXIS)
    operand = operand_def()
    output_shape = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$operand `,` $output_shape attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        """Check the constraints of `dynamic_reshape`."""
        super().verify_()
        _check_dynamic_reshape(self)


@irdl_op_definition
class DynamicBroadcastInDimOp(SignatureOp):
    """`broadcast_in_dim` to the shape that the second operand holds."""

    name = "stablehlo.dynamic_broadcast_in_dim"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY_OR_AXIS, FREE), ANY_OR_AXIS)
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
        super().verify_()
        _check_dynamic_broadcast(self)


@irdl_op_definition
class DynamicIotaOp(SignatureOp):
    """`iota` of the shape that the operand holds."""

    name = "stablehlo.dynamic_iota"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((FREE,), ANY)
    output_shape = operand_def()
    result = result_def()
    iota_dimension = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(Pure())
    assembly_format = "$output_shape `,` `dim` `=` $iota_dimension attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        """Check the constraints of `dynamic_iota`."""
        super().verify_()
        _check_dynamic_iota(self, int(self.iota_dimension.value.data))


@irdl_op_definition
class DynamicPadOp(SignatureOp):
    """`pad` by the amounts that the last three operands hold."""

    name = "stablehlo.dynamic_pad"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY, SCALAR, FREE), ANY)
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
        super().verify_()
        _check_dynamic_pad(self)


@irdl_op_definition
class DynamicConvOp(SignatureOp):
    """`convolution` with the padding that the third operand holds."""

    name = "stablehlo.dynamic_conv"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY, ANY_OR_AXIS, FREE), ANY_OR_AXIS)
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
        super().verify_()
        _check_dynamic_conv(self)


@irdl_op_definition
class DynamicGatherOp(SignatureOp):
    """`gather` of slices of the sizes that the third operand holds."""

    name = "stablehlo.dynamic_gather"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY, POSITIONS, FREE), ANY)
    operand = operand_def()
    start_indices = operand_def()
    slice_sizes = operand_def()
    result = result_def()
    dimension_numbers = prop_def(GatherDimensionNumbersAttr)
    indices_are_sorted = opt_prop_def(BoolAttr)
    traits = traits_def(Pure())


def _check_sizes_operand(found: Attribute, position: int, rank: int = 1) -> None:
    """Check that an operand with sizes is a one-dimensional tensor of integers."""
    fits = (
        type(found) is TensorType
        and len(shape_of(found)) == rank
        and DYNAMIC_INDEX not in shape_of(found)
        and isinstance(element_of(found), IndexType | IntegerType)
    )
    if not fits:
        raise VerifyException(
            f"operand #{position} must be statically shaped {rank}-dimensional tensor of index or 2/4/8/16/32/64-bit "
            f"integer values, but got '{found}'"
        )


def constant_sizes(value: SSAValue) -> tuple[int, ...] | None:
    """The numbers in a constant operand, or None if it is not an inline constant."""
    if not isinstance(value, OpResult) or not isinstance(value.op, ConstantOp):
        return None
    found = value.op.value
    if not isinstance(found, DenseIntOrFPElementsAttr):
        return None
    return tuple(int(entry) for entry in cast("DenseIntOrFPElementsAttr[Any]", found).get_values())


def __check_output_shape(sizes: SSAValue, result: Attribute) -> None:
    given = constant_sizes(sizes)
    if given is not None and not compatible_shapes(given, shape_of(result)):
        raise VerifyException(
            f"output shape [{', '.join(map(str, given))}] is incompatible with return type of operation '{result}'"
        )


def _check_same_elements(operand: Attribute, result: Attribute) -> None:
    if not compatible_elements(element_of(operand), element_of(result)):
        raise VerifyException(
            f"expects operand and result to have compatible element type. Got: '{operand}' and '{result}'"
        )


def _check_dimension(op: GetDimensionSizeOp, dimension: int) -> None:
    """Check get_dimension_size: the dimension is one of the operand's.

    Raises VerifyException.
    """
    check_not_negative("dimension", dimension)
    rank = len(shape_of(op.operand))
    if dimension >= rank:
        raise VerifyException(f"requires dimension attribute in range [0, {rank}); found ({dimension})")
    check_inferred([((), i32)], op.result_types)


def _check_dynamic_reshape(op: DynamicReshapeOp) -> None:
    """Check dynamic_reshape: C1 to C5.

    Raises VerifyException.
    """
    operand, sizes, result = op.operand.type, op.output_shape, op.result.type
    _check_sizes_operand(sizes.type, 1)
    _check_same_elements(operand, result)
    if shape_of(sizes)[0] != len(shape_of(result)):
        raise VerifyException("result should have a rank equal to the number of elements in output_shape")
    is_static = DYNAMIC_INDEX not in (*shape_of(operand), *shape_of(result))
    if is_static and prod(shape_of(operand)) != prod(shape_of(result)):
        raise VerifyException(
            f"number of output elements ({prod(shape_of(result))}) doesn't match expected number of elements "
            f"({prod(shape_of(operand))})"
        )
    quantization.check_same_parameters(operand, result)
    quantization.check_reshape_axis(operand, result)
    __check_output_shape(sizes, result)


def _check_dynamic_broadcast(op: DynamicBroadcastInDimOp) -> None:
    """Check dynamic_broadcast_in_dim: C1 to C9.

    Raises VerifyException.
    """
    operand, result = op.operand.type, op.result.type
    _check_sizes_operand(op.output_dimensions.type, 1)
    _check_same_elements(operand, result)
    quantization.check_same_parameters_per_layer(operand, result)
    dimensions = array_values(op.broadcast_dimensions)
    sizes, result_sizes = shape_of(operand), shape_of(result)
    if len(dimensions) != len(sizes):
        raise VerifyException(
            f"broadcast_dimensions size ({len(dimensions)}) does not match operand rank ({len(sizes)})"
        )
    if len(result_sizes) < len(sizes):
        raise VerifyException(f"result rank ({len(result_sizes)}) is less than operand rank ({len(sizes)})")
    if len(set(dimensions)) < len(dimensions):
        raise VerifyException("broadcast_dimensions should not have duplicates")
    for index, (size, dimension) in enumerate(zip(sizes, dimensions, strict=True)):
        if not 0 <= dimension < len(result_sizes):
            raise VerifyException(
                f"broadcast_dimensions contains invalid value {dimension} for result with rank {len(result_sizes)}"
            )
        if DYNAMIC_INDEX not in (size, result_sizes[dimension]) and size not in (1, result_sizes[dimension]):
            raise VerifyException(
                f"size of operand dimension {index} ({size}) is not compatible with size of result dimension "
                f"{dimension} ({result_sizes[dimension]})"
            )
    _check_hints(op, len(sizes))
    quantization.check_broadcast_axis(operand, result, dimensions)
    __check_output_shape(op.output_dimensions, result)


def _check_hints(op: DynamicBroadcastInDimOp, rank: int) -> None:
    hints = [*array_values(op.known_expanding_dimensions), *array_values(op.known_nonexpanding_dimensions)]
    if len(set(hints)) != len(hints):
        raise VerifyException("duplicate expansion hint for at least one operand dimension")
    for hint in hints:
        if not 0 <= hint < rank:
            raise VerifyException(f"hint for expanding dimension {hint} does not refer to a valid operand dimension")


def _check_dynamic_iota(op: DynamicIotaOp, dimension: int) -> None:
    """Check dynamic_iota: C1 and C2.

    Raises VerifyException.
    """
    _check_sizes_operand(op.output_shape.type, 0)
    check_not_negative("iota_dimension", dimension)
    if dimension >= len(shape_of(op.result)):
        raise VerifyException("iota dimension cannot go beyond the output rank.")
    __check_output_shape(op.output_shape, op.result.type)


def _check_dynamic_pad(op: DynamicPadOp) -> None:
    """Check dynamic_pad: C1 to C4.

    Raises VerifyException.
    """
    operand, result = op.operand.type, op.result.type
    amounts = [op.edge_padding_low.type, op.edge_padding_high.type, op.interior_padding.type]
    for position, found in enumerate(amounts, start=2):
        _check_sizes_operand(found, position)
    if element_of(operand) != element_of(op.padding_value) or element_of(operand) != element_of(result):
        raise VerifyException("failed to verify that all of {operand, padding_value, result} have same element type")
    if len(shape_of(operand)) != len(shape_of(result)):
        raise VerifyException("failed to verify that all of {operand, result} have same rank")
    if any(found != amounts[0] for found in amounts):
        raise VerifyException(
            "failed to verify that all of {edge_padding_low, edge_padding_high, interior_padding} have same type"
        )
    (count,) = shape_of(amounts[0])
    if count != len(shape_of(operand)):
        raise VerifyException(f"padding operands size ({count}) must match operand rank ({len(shape_of(operand))})")


def _check_dynamic_conv(op: DynamicConvOp) -> None:
    """Check dynamic_conv: the padding has a pair for each spatial dimension.

    Raises VerifyException.
    """
    _check_sizes_operand(op.padding.type, 2, rank=2)
    spatial = len(op.dimension_numbers.data.input_spatial_dimensions)
    found: Sequence[int] = shape_of(op.padding)
    if tuple(found) != (spatial, 2):
        raise VerifyException(f"expects padding to be of shape [{spatial}, 2], but got [{', '.join(map(str, found))}]")


OPS = (
    GetDimensionSizeOp,
    DynamicReshapeOp,
    DynamicBroadcastInDimOp,
    DynamicIotaOp,
    DynamicPadOp,
    DynamicConvOp,
    DynamicGatherOp,
)
