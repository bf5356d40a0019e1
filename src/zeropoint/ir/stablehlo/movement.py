"""Ops that move data: broadcast, reshape, transpose, concatenate, pad, slice.

Source: the StableHLO specification. Result types are inferred from the operands, including per-layer quantized types;
pass `result_type` if a quantized axis moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo import quantization
from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values, i64_array
from zeropoint.ir.stablehlo.assembly import SliceRanges, VariadicOperandWithAttribute
from zeropoint.ir.stablehlo.elements import ElementKind, TensorConstraint, check_inferred, compatible_sizes
from zeropoint.ir.stablehlo.signatures import (
    ANY,
    ANY_OR_AXIS,
    EVERY_KIND,
    SCALAR,
    VARIADIC,
    OpSignature,
    SignatureOp,
    compatible_element_types,
    same_element_type,
)
from zeropoint.ir.tensors import Array, element_of, shape_of, tensor_of

_BOUNDED = TensorConstraint(
    (*EVERY_KIND, ElementKind.PER_TENSOR, ElementKind.PER_AXIS),
    "statically shaped or single bounded dimension tensor",
    is_static=True,
)


@irdl_op_definition
class BroadcastInDimOp(SignatureOp):
    """Dimension i of the operand becomes dimension `broadcast_dimensions[i]` of the result; size 1 is broadcast."""

    name = "stablehlo.broadcast_in_dim"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY_OR_AXIS,), _BOUNDED, (compatible_element_types,))
    operand = operand_def()
    result = result_def()
    broadcast_dimensions = prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    assembly_format = "$operand `,` `dims` `=` $broadcast_dimensions attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue, result_type: Attribute, broadcast_dimensions: Sequence[int]):
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"broadcast_dimensions": i64_array(broadcast_dimensions)},
        )

    @property
    def aligned_shape(self) -> tuple[int, ...]:
        """The shape of the operand in the rank of the result; the dimensions that it lacks have size 1."""
        sizes = dict(zip(array_values(self.broadcast_dimensions), shape_of(self.operand), strict=True))
        return tuple(sizes.get(dimension, 1) for dimension in range(len(shape_of(self.result))))

    @property
    def ascending_order(self) -> tuple[int, ...]:
        """The order in which the operand's dimensions appear in the result; the identity unless the op transposes."""
        dimensions = array_values(self.broadcast_dimensions)
        return tuple(sorted(range(len(dimensions)), key=dimensions.__getitem__))

    def aligned(self, operand: Array) -> Array:
        """An array of the operand with the dimensions of the result; those that it lacks have size 1."""
        return operand.transpose(self.ascending_order).reshape(self.aligned_shape)

    def verify_(self) -> None:
        """Check the constraints of `broadcast_in_dim`."""
        super().verify_()
        _check_broadcast_in_dim(self)


@irdl_op_definition
class ReshapeOp(SignatureOp):
    """The same elements, in row-major order, in another shape."""

    name = "stablehlo.reshape"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY_OR_AXIS,), _BOUNDED, (compatible_element_types,))
    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue, result_type: Attribute):
        super().__init__(operands=[operand], result_types=[result_type])

    def verify_(self) -> None:
        """Check the constraints of `reshape`."""
        super().verify_()
        _check_reshape(self)


@irdl_op_definition
class TransposeOp(SignatureOp):
    """Dimension i of the result is dimension `permutation[i]` of the operand."""

    name = "stablehlo.transpose"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY_OR_AXIS,), ANY_OR_AXIS, (compatible_element_types,))
    operand = operand_def()
    result = result_def()
    permutation = prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    assembly_format = "$operand `,` `dims` `=` $permutation attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue, permutation: Sequence[int], result_type: Attribute | None = None):
        if result_type is None:
            tensor = tensor_of(operand)
            shape = tensor.get_shape()
            result_type = TensorType(tensor.element_type, [shape[i] for i in permutation])
        super().__init__(
            operands=[operand], result_types=[result_type], properties={"permutation": i64_array(permutation)}
        )

    def verify_(self) -> None:
        """Check the constraints of `transpose`."""
        super().verify_()
        _check_transpose(self)


@irdl_op_definition
class ConcatenateOp(SignatureOp):
    """The operands concatenated along `dimension`."""

    name = "stablehlo.concatenate"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((VARIADIC,), ANY, (same_element_type,))
    inputs = var_operand_def()
    result = result_def()
    dimension = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(Pure())
    custom_directives = (VariadicOperandWithAttribute,)
    assembly_format = (
        "custom<VariadicOperandWithAttribute>($inputs) `dim` `=` $dimension attr-dict `:` "
        "functional-type(operands, results)"
    )

    def __init__(self, inputs: Sequence[SSAValue], dimension: int, result_type: Attribute | None = None):
        if result_type is None:
            shape = list(tensor_of(inputs[0]).get_shape())
            shape[dimension] = sum(tensor_of(value).get_shape()[dimension] for value in inputs)
            result_type = TensorType(tensor_of(inputs[0]).element_type, shape)
        super().__init__(
            operands=[inputs], result_types=[result_type], properties={"dimension": IntegerAttr(dimension, i64)}
        )

    def verify_(self) -> None:
        """Check the constraints of `concatenate`."""
        super().verify_()
        _check_concatenate(self)


@irdl_op_definition
class PadOp(SignatureOp):
    """Pads the operand with a scalar at the edges and between elements; negative padding removes elements."""

    name = "stablehlo.pad"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY, SCALAR), ANY, (same_element_type,))
    operand = operand_def()
    padding_value = operand_def()
    result = result_def()
    edge_padding_low = prop_def(I64_ARRAY)
    edge_padding_high = prop_def(I64_ARRAY)
    interior_padding = prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    assembly_format = (
        "$operand `,` $padding_value `,` `low` `=` $edge_padding_low `,` `high` `=` $edge_padding_high `,` "
        "`interior` `=` $interior_padding attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        operand: SSAValue,
        padding_value: SSAValue,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int] | None = None,
    ):
        tensor = tensor_of(operand)
        interior = [0] * len(low) if interior is None else interior
        shape = [
            size + lo + hi + max(size - 1, 0) * mid
            for size, lo, hi, mid in zip(tensor.get_shape(), low, high, interior, strict=True)
        ]
        super().__init__(
            operands=[operand, padding_value],
            result_types=[TensorType(tensor.element_type, shape)],
            properties={
                "edge_padding_low": i64_array(low),
                "edge_padding_high": i64_array(high),
                "interior_padding": i64_array(interior),
            },
        )

    def verify_(self) -> None:
        """Check the constraints of `pad`."""
        super().verify_()
        _check_pad(self)


@irdl_op_definition
class SliceOp(SignatureOp):
    """The elements from `start_indices` (inclusive) to `limit_indices` (exclusive) in steps of `strides`."""

    name = "stablehlo.slice"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY,), ANY, (same_element_type,))
    operand = operand_def()
    result = result_def()
    start_indices = prop_def(I64_ARRAY)
    limit_indices = prop_def(I64_ARRAY)
    strides = prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    custom_directives = (SliceRanges,)
    assembly_format = (
        "$operand custom<SliceRanges>($start_indices, $limit_indices, $strides) attr-dict `:` "
        "functional-type(operands, results)"
    )

    def __init__(self, operand: SSAValue, start: Sequence[int], limit: Sequence[int], strides: Sequence[int]):
        tensor = tensor_of(operand)
        shape = [-(-(hi - lo) // step) for lo, hi, step in zip(start, limit, strides, strict=True)]
        super().__init__(
            operands=[operand],
            result_types=[TensorType(tensor.element_type, shape)],
            properties={
                "start_indices": i64_array(start),
                "limit_indices": i64_array(limit),
                "strides": i64_array(strides),
            },
        )

    def verify_(self) -> None:
        """Check the constraints of `slice`."""
        super().verify_()
        _check_slice(self)


def _check_broadcast_in_dim(op: BroadcastInDimOp) -> None:
    """Check a broadcast_in_dim. Raises VerifyException."""
    operand, result = op.operand.type, op.result.type
    quantization.check_same_parameters_per_layer(operand, result)
    dimensions = array_values(op.broadcast_dimensions)
    sizes, result_sizes = shape_of(operand), shape_of(result)
    if len(dimensions) != len(sizes):
        raise VerifyException(
            f"broadcast_dimensions size ({len(dimensions)}) does not match operand rank ({len(sizes)})"
        )
    if len(set(dimensions)) < len(dimensions):
        raise VerifyException("broadcast_dimensions should not have duplicates")
    for index, (size, dimension) in enumerate(zip(sizes, dimensions, strict=True)):
        if not 0 <= dimension < len(result_sizes):
            raise VerifyException(
                f"broadcast_dimensions contains invalid value {dimension} for result with rank {len(result_sizes)}"
            )
        if size not in (DYNAMIC_INDEX, 1, result_sizes[dimension]):
            raise VerifyException(
                f"size of operand dimension {index} ({size}) is not equal to 1 or size of result dimension "
                f"{dimension} ({result_sizes[dimension]})"
            )
    quantization.check_broadcast_axis(operand, result, dimensions)


def _check_reshape(op: ReshapeOp) -> None:
    """Check a reshape. Raises VerifyException."""
    operand, result = op.operand.type, op.result.type
    sizes, result_sizes = shape_of(operand), shape_of(result)
    if DYNAMIC_INDEX in sizes or DYNAMIC_INDEX in result_sizes:
        return
    if prod(result_sizes) != prod(sizes):
        raise VerifyException(
            f"number of output elements ({prod(result_sizes)}) doesn't match expected number of elements "
            f"({prod(sizes)})"
        )
    quantization.check_same_parameters(operand, result)
    quantization.check_reshape_axis(operand, result)


def _check_transpose(op: TransposeOp) -> None:
    """Check a transpose. Raises VerifyException."""
    operand, result = op.operand.type, op.result.type
    permutation = array_values(op.permutation)
    sizes = shape_of(operand)
    if len(permutation) != len(sizes):
        raise VerifyException(
            f"TransposeOp operand rank {len(sizes)} does not match permutation size {len(permutation)}"
        )
    if sorted(permutation) != list(range(len(sizes))):
        raise VerifyException(
            f"attribute permutation must be a permutation of {list(range(len(sizes)))} but got "
            f"{', '.join(map(str, permutation))}"
        )
    check_inferred([([sizes[dim] for dim in permutation], element_of(operand))], [result])
    quantization.check_same_parameters(operand, result)
    quantization.check_transpose_axis(operand, result, permutation)


def _check_concatenate(op: ConcatenateOp) -> None:
    """Check a concatenate. Raises VerifyException."""
    if not op.inputs:
        raise VerifyException("expected 1 or more operands, but found 0")
    dimension = op.dimension.value.data
    if dimension < 0:
        raise VerifyException(
            "attribute 'dimension' failed to satisfy constraint: "
            "64-bit signless integer attribute whose value is non-negative"
        )
    shapes = [shape_of(value) for value in op.inputs]
    first = shapes[0]
    if not first:
        raise VerifyException("rank-0 values cannot be concatenated")
    if dimension >= len(first):
        raise VerifyException(f"dimension {dimension} is out-of-bounds for input rank {len(first)}")
    for index, shape in enumerate(shapes):
        _check_concatenated(first, shape, index, dimension)
    sizes = [shape[dimension] for shape in shapes]
    inferred = list(first)
    inferred[dimension] = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else sum(sizes)
    check_inferred([(inferred, element_of(op.inputs[0].type))], op.result_types)


def _check_concatenated(first: Sequence[int], shape: Sequence[int], index: int, dimension: int) -> None:
    if len(shape) != len(first):
        raise VerifyException(f"operands (0) and ({index}) do not match rank")
    for dim, (expected, found) in enumerate(zip(first, shape, strict=True)):
        if dim != dimension and not compatible_sizes(expected, found):
            texts = [", ".join(map(str, sizes)) for sizes in (first, shape)]
            raise VerifyException(
                f"shapes of operand (0) and ({index}) are not compatible at non-concat index {dim}: "
                f"({texts[0]}) != ({texts[1]})"
            )


def _check_pad(op: PadOp) -> None:
    """Check a pad. Raises VerifyException."""
    lists = [array_values(found) for found in (op.edge_padding_low, op.edge_padding_high, op.interior_padding)]
    if len({len(found) for found in lists}) > 1:
        raise VerifyException(
            "failed to verify that all of {edge_padding_low, edge_padding_high, interior_padding} have same size"
        )
    sizes = shape_of(op.operand)
    if len(lists[0]) != len(sizes):
        raise VerifyException(f"edge_padding_low length ({len(lists[0])}) must match operand rank ({len(sizes)})")
    inferred: list[int] = []
    for index, (size, low, high, interior) in enumerate(zip(sizes, *lists, strict=True)):
        if interior < 0:
            raise VerifyException(f"Interior padding cannot be negative: {interior}")
        padded = DYNAMIC_INDEX if size < 0 else size + low + high + max(size - 1, 0) * interior
        if size >= 0 and padded < 0:
            raise VerifyException(f"Padding result in negative size for dimension {index}")
        inferred.append(padded)
    check_inferred([(inferred, element_of(op.operand))], op.result_types)


def _check_slice(op: SliceOp) -> None:
    """Check a slice. Raises VerifyException."""
    lists = [array_values(found) for found in (op.start_indices, op.limit_indices, op.strides)]
    if len({len(found) for found in lists}) > 1:
        raise VerifyException("failed to verify that all of {start_indices, limit_indices, strides} have same size")
    sizes = shape_of(op.operand)
    if len(lists[0]) != len(sizes):
        raise VerifyException(
            f"the number of elements in start_indices ({len(lists[0])}) does not match the rank of the operand "
            f"({len(sizes)})"
        )
    inferred: list[int] = []
    for index, (size, start, limit, stride) in enumerate(zip(sizes, *lists, strict=True)):
        _check_range(size, start, limit, stride, index)
        inferred.append(-(-(limit - start) // stride))
    check_inferred([(inferred, element_of(op.operand))], op.result_types)


def _check_range(size: int, start: int, limit: int, stride: int, index: int) -> None:
    if start < 0:
        raise VerifyException(f"negative start index {start} in dimension {index}")
    if 0 <= size < limit:
        raise VerifyException(f"limit index {limit} is larger than dimension size {size} in dimension {index}")
    if start > limit:
        raise VerifyException(f"start index {start} is larger than limit index {limit} in dimension {index}")
    if stride <= 0:
        raise VerifyException(f"stride must be positive but got {stride} in dimension {index}")


OPS = (BroadcastInDimOp, ReshapeOp, TransposeOp, ConcatenateOp, PadOp, SliceOp)
