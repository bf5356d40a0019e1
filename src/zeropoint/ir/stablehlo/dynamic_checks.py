"""Constraints of the ops whose attributes are operands.

Source: the StableHLO specification; the sentences, and what is let through, are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    TensorType,
    i32,
)
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo import quantization
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.constant import ConstantOp
from zeropoint.ir.stablehlo.elements import check_inferred, compatible_elements, compatible_shapes
from zeropoint.ir.tensors import element_of, shape_of

if TYPE_CHECKING:
    from zeropoint.ir.stablehlo.dynamic import (
        DynamicBroadcastInDimOp,
        DynamicConvOp,
        DynamicIotaOp,
        DynamicPadOp,
        DynamicReshapeOp,
        GetDimensionSizeOp,
    )


def _check_sizes_operand(found: Attribute, position: int, rank: int = 1) -> None:
    """Operands that hold sizes are tensors of integers, in one dimension."""
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


def _check_not_negative(name: str, value: int) -> None:
    if value < 0:
        raise VerifyException(
            f"attribute '{name}' failed to satisfy constraint: 64-bit signless integer attribute whose value is "
            "non-negative"
        )


def constant_sizes(value: SSAValue) -> tuple[int, ...] | None:
    """The numbers that a constant operand holds, None where it is no small constant."""
    if not isinstance(value, OpResult) or not isinstance(value.op, ConstantOp):
        return None
    found = value.op.value
    if not isinstance(found, DenseIntOrFPElementsAttr):
        return None
    return tuple(int(entry) for entry in cast("DenseIntOrFPElementsAttr[Any]", found).get_values())


def _check_output_shape(sizes: SSAValue, result: Attribute) -> None:
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


def check_dimension(op: GetDimensionSizeOp, dimension: int) -> None:
    """Check get_dimension_size: the dimension is one of the operand's.

    Raises VerifyException.
    """
    _check_not_negative("dimension", dimension)
    rank = len(shape_of(op.operand))
    if dimension >= rank:
        raise VerifyException(f"requires dimension attribute in range [0, {rank}); found ({dimension})")
    check_inferred([((), i32)], op.result_types)


def check_dynamic_reshape(op: DynamicReshapeOp) -> None:
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
    _check_output_shape(sizes, result)


def check_dynamic_broadcast(op: DynamicBroadcastInDimOp) -> None:
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
    _check_output_shape(op.output_dimensions, result)


def _check_hints(op: DynamicBroadcastInDimOp, rank: int) -> None:
    hints = [*array_values(op.known_expanding_dimensions), *array_values(op.known_nonexpanding_dimensions)]
    if len(set(hints)) != len(hints):
        raise VerifyException("duplicate expansion hint for at least one operand dimension")
    for hint in hints:
        if not 0 <= hint < rank:
            raise VerifyException(f"hint for expanding dimension {hint} does not refer to a valid operand dimension")


def check_dynamic_iota(op: DynamicIotaOp, dimension: int) -> None:
    """Check dynamic_iota: C1 and C2.

    Raises VerifyException.
    """
    _check_sizes_operand(op.output_shape.type, 0)
    _check_not_negative("iota_dimension", dimension)
    if dimension >= len(shape_of(op.result)):
        raise VerifyException("iota dimension cannot go beyond the output rank.")
    _check_output_shape(op.output_shape, op.result.type)


def check_dynamic_pad(op: DynamicPadOp) -> None:
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


def check_dynamic_conv(op: DynamicConvOp) -> None:
    """Check dynamic_conv: the padding has a pair for each spatial dimension.

    Raises VerifyException.
    """
    _check_sizes_operand(op.padding.type, 2, rank=2)
    spatial = len(op.dimension_numbers.data.input_spatial_dimensions)
    found: Sequence[int] = shape_of(op.padding)
    if tuple(found) != (spatial, 2):
        raise VerifyException(f"expects padding to be of shape [{spatial}, 2], but got [{', '.join(map(str, found))}]")
