"""Ops indexed by values: gather, dynamic_slice, dynamic_update_slice; and iota, which makes indices.

Source: the StableHLO specification; op and operand names are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, BoolAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values, check_not_negative, i64_array
from zeropoint.ir.stablehlo.assembly import VariadicOperandWithAttribute
from zeropoint.ir.stablehlo.attributes import GatherDimensionNumbersAttr
from zeropoint.ir.stablehlo.dimensions import GatherDimensions
from zeropoint.ir.stablehlo.elements import ElementKind, TensorConstraint, check_inferred, compatible_sizes
from zeropoint.ir.stablehlo.signatures import ANY, INTEGERS, NUMBER, OpSignature, SignatureOp
from zeropoint.ir.tensors import element_of, shape_of, with_shape

_INDICES = TensorConstraint((ElementKind.INTEGER,), "variadic of 0D tensor", rank=0)
_COUNTED = TensorConstraint(NUMBER.kinds, "statically shaped tensor", is_static=True)


@irdl_op_definition
class GatherOp(SignatureOp):
    """Slices of the operand at the positions in `start_indices`; positions are clamped so that slices are in bounds.

    ```mlir
    %0 = "stablehlo.gather"(%table, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}>
      : (tensor<9x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
    ```
    """

    name = "stablehlo.gather"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY, INTEGERS), ANY)
    operand = operand_def()
    start_indices = operand_def()
    result = result_def()
    dimension_numbers = prop_def(GatherDimensionNumbersAttr)
    slice_sizes = prop_def(I64_ARRAY)
    indices_are_sorted = opt_prop_def(BoolAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        operand: SSAValue,
        start_indices: SSAValue,
        dimensions: GatherDimensions,
        slice_sizes: Sequence[int],
        *,
        indices_are_sorted: bool | None = None,
    ):
        shape = _gather_shape(dimensions, slice_sizes, shape_of(start_indices))
        super().__init__(
            operands=[operand, start_indices],
            result_types=[with_shape(operand, shape)],
            properties={
                "dimension_numbers": GatherDimensionNumbersAttr(dimensions),
                "slice_sizes": i64_array(slice_sizes),
                "indices_are_sorted": None if indices_are_sorted is None else BoolAttr.from_bool(indices_are_sorted),
            },
        )

    def verify_(self) -> None:
        """Check the constraints of `gather`."""
        super().verify_()
        _check_gather(self)


@irdl_op_definition
class DynamicSliceOp(SignatureOp):
    """A slice of `slice_sizes` elements at `start_indices`; the start is clamped so that the slice is in bounds."""

    name = "stablehlo.dynamic_slice"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY, _INDICES), ANY)
    operand = operand_def()
    start_indices = var_operand_def()
    result = result_def()
    slice_sizes = prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    custom_directives = (VariadicOperandWithAttribute,)
    assembly_format = (
        "$operand `,` custom<VariadicOperandWithAttribute>($start_indices) `sizes` `=` "
        "$slice_sizes attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, operand: SSAValue, start_indices: Sequence[SSAValue], slice_sizes: Sequence[int]):
        super().__init__(
            operands=[operand, start_indices],
            result_types=[with_shape(operand, slice_sizes)],
            properties={"slice_sizes": i64_array(slice_sizes)},
        )

    def verify_(self) -> None:
        """Check the constraints of `dynamic_slice`."""
        super().verify_()
        _check_dynamic_slice(self)


@irdl_op_definition
class DynamicUpdateSliceOp(SignatureOp):
    """The operand with `update` written at `start_indices`; the start is clamped so that the update is in bounds."""

    name = "stablehlo.dynamic_update_slice"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY, ANY, _INDICES), ANY)
    operand = operand_def()
    update = operand_def()
    start_indices = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue, update: SSAValue, start_indices: Sequence[SSAValue]):
        super().__init__(operands=[operand, update, start_indices], result_types=[operand.type])

    def verify_(self) -> None:
        """Check the constraints of `dynamic_update_slice`."""
        super().verify_()
        _check_dynamic_update_slice(self)


@irdl_op_definition
class IotaOp(SignatureOp):
    """0, 1, 2, ... along `iota_dimension`, constant along the other dimensions."""

    name = "stablehlo.iota"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((), _COUNTED)
    output = result_def()
    iota_dimension = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(Pure())
    assembly_format = "`dim` `=` $iota_dimension attr-dict `:` type($output)"

    def __init__(self, result_type: Attribute, iota_dimension: int):
        super().__init__(result_types=[result_type], properties={"iota_dimension": IntegerAttr(iota_dimension, i64)})

    def verify_(self) -> None:
        """Check the constraints of `iota`: (C1) `iota_dimension` is a dimension of the result."""
        dimension = self.iota_dimension.value.data
        check_not_negative("iota_dimension", dimension)
        super().verify_()
        rank = len(shape_of(self.output))
        if rank == 0:
            raise VerifyException("does not support scalars.")
        if dimension >= rank:
            raise VerifyException("iota dimension cannot go beyond the output rank.")


def _check_gather(op: GatherOp) -> None:
    """Check a gather.

    Raises VerifyException.
    """
    _same_element_types(op.operand, op.result, names="operand, result")
    operand, indices = shape_of(op.operand), shape_of(op.start_indices)
    dims, slices = op.dimension_numbers.data, array_values(op.slice_sizes)
    _check_gather_dimensions(dims, operand, indices)
    if len(slices) != len(operand):  # (C20)
        raise VerifyException(f"slice_sizes size ({len(slices)}) not equal to operand rank ({len(operand)})")
    for name in ("collapsed_slice_dims", "operand_batching_dims"):  # (C9), (C12)
        for dim in getattr(dims, name):
            if slices[dim] > 1:
                raise VerifyException(
                    f"Expects that for each dim in {name}, slice_sizes[dim] should be <= 1, but got {slices[dim]}"
                )
    for index, (slice_size, size) in enumerate(zip(slices, operand, strict=True)):  # (C21)
        if slice_size < 0 or 0 <= size < slice_size:
            raise VerifyException(
                f"slice size ({slice_size}) is out of bounds for operand dimension ({size}) at index {index}"
            )
    check_inferred([(_gather_shape(dims, slices, indices), element_of(op.operand))], op.result_types)


def _check_gather_dimensions(dims: GatherDimensions, operand: Sequence[int], indices: Sequence[int]) -> None:
    named = len(dims.offset_dims) + len(dims.collapsed_slice_dims) + len(dims.operand_batching_dims)
    if named != len(operand):  # (C1)
        raise VerifyException(
            f"offset_dims size ({len(dims.offset_dims)}) plus collapse_slice_dims size "
            f"({len(dims.collapsed_slice_dims)}) plus operand_batching_dims size ({len(dims.operand_batching_dims)}) "
            f"is not equal to operand rank ({len(operand)})"
        )
    vector_dim = dims.index_vector_dim
    check_in_bounds(vector_dim, len(indices), "index_vector_dim", "rank-of('start_indices')")  # (C2)
    vector_size = (*indices, 1)[vector_dim]
    if not compatible_sizes(vector_size, len(dims.start_index_map)):  # (C3)
        raise VerifyException(
            f"start_index_map size ({len(dims.start_index_map)}) is not equal to size of index dimension "
            f"({vector_dim}) of start_indices ({vector_size})"
        )
    _check_sorted(dims.offset_dims, "offset_dims")  # (C4)
    _check_unique(dims.offset_dims, "offset_dims")
    check_distinct(  # (C6)
        dims.collapsed_slice_dims, dims.operand_batching_dims, "collapsed_slice_dims", "operand_batching_dims"
    )
    for name in ("collapsed_slice_dims", "operand_batching_dims"):  # (C7), (C8), (C10), (C11)
        _check_sorted(getattr(dims, name), name)
        check_each_in_bounds(getattr(dims, name), len(operand), name, "rank-of('operand')")
    batching = dims.start_indices_batching_dims
    _check_unique(batching, "start_indices_batching_dims")  # (C13)
    check_each_in_bounds(  # (C14)
        batching, len(indices), "start_indices_batching_dims", "rank-of('start_indices')"
    )
    if vector_dim in batching:  # (C15)
        raise VerifyException(f"expects start_indices_batching_dims not to include index_vector_dim {vector_dim}")
    if len(dims.operand_batching_dims) != len(batching):  # (C16)
        raise VerifyException("operand_batching_dims and start_indices_batching_dims should have the same size")
    for index, (first, second) in enumerate(zip(dims.operand_batching_dims, batching, strict=True)):  # (C17)
        if not compatible_sizes(operand[first], indices[second]):
            raise VerifyException(
                f"operand_batching_dims[{index}] and start_indices_batching_dims[{index}] must have compatible sizes, "
                f"but got {operand[first]} and {indices[second]}"
            )
    check_distinct(  # (C18)
        dims.start_index_map, dims.operand_batching_dims, "start_index_map", "operand_batching_dims"
    )
    check_each_in_bounds(dims.start_index_map, len(operand), "start_index_map", "rank-of('operand')")  # (C19)


def _gather_shape(dims: GatherDimensions, slices: Sequence[int], indices: Sequence[int]) -> list[int]:
    """The shape of a gather's result (C22): batch sizes, with the slice sizes at `offset_dims`.

    Raises VerifyException for offset dimensions that the result does not have (C5).
    """
    batches = [size for dim, size in enumerate(indices) if dim != dims.index_vector_dim]
    rank = len(batches) + len(dims.offset_dims)
    check_each_in_bounds(dims.offset_dims, rank, "offset_dims", "implied-result-rank")
    left_out = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    offsets = [size for dim, size in enumerate(slices) if dim not in left_out]
    at_offset = dict(zip(dims.offset_dims, offsets, strict=True))
    remaining = iter(batches)
    return [at_offset[dim] if dim in at_offset else next(remaining) for dim in range(rank)]


def _check_dynamic_slice(op: DynamicSliceOp) -> None:
    """Check a dynamic_slice.

    Raises VerifyException.
    """
    _same_element_types(op.operand, op.result, names="operand, result")
    sizes, slices, count = shape_of(op.operand), array_values(op.slice_sizes), len(op.start_indices)
    if count != len(slices):  # (C2)
        raise VerifyException(
            f"has mismatched number of slice sizes ({len(slices)}) and number of start indices ({count})"
        )
    if len(sizes) != count:
        raise VerifyException(
            f"has mismatched number of start indices ({count}) and the rank of operand ({len(sizes)})"
        )
    _check_start_indices(op.start_indices)  # (C3)
    for index, (slice_size, size) in enumerate(zip(slices, sizes, strict=True)):  # (C4)
        if slice_size < 0:
            raise VerifyException(f"has negative size index to dynamic slice: {slice_size}")
        if size != DYNAMIC_INDEX and slice_size > size:
            raise VerifyException(
                f"has slice size {slice_size} greater than dimension size {size} in dimension {index} of operand"
            )
    check_inferred([(slices, element_of(op.operand))], op.result_types)  # (C5)


def _check_dynamic_update_slice(op: DynamicUpdateSliceOp) -> None:
    """Check a dynamic_update_slice.

    Raises VerifyException.
    """
    _same_element_types(op.operand, op.update, op.result, names="operand, update, result")
    sizes, updates, count = shape_of(op.operand), shape_of(op.update), len(op.start_indices)
    if len(updates) != len(sizes):  # (C3)
        raise VerifyException(f"update rank does not match operand rank: {len(updates)} vs {len(sizes)}.")
    if count != len(sizes):  # (C4)
        raise VerifyException(f"expects number of start_indices to match operand rank: {count} vs {len(sizes)}.")
    _check_start_indices(op.start_indices)  # (C5)
    for index, (update, size) in enumerate(zip(updates, sizes, strict=True)):  # (C6)
        if DYNAMIC_INDEX not in (update, size) and update > size:
            raise VerifyException(
                f"expects size at dimension {index} of update to be in range [0, {size}]. Got: {update}."
            )
    check_inferred([(sizes, element_of(op.operand))], op.result_types)  # (C1)


def _same_element_types(*values: SSAValue, names: str) -> None:
    first, *others = (element_of(value) for value in values)
    if any(other != first for other in others):
        raise VerifyException(f"failed to verify that all of {{{names}}} have same element type")


def _check_start_indices(values: Sequence[SSAValue]) -> None:
    if len({element_of(value) for value in values}) > 1:
        raise VerifyException("start indices must have same element type")


def check_in_bounds(dim: int, bound: int, name: str, bound_name: str) -> None:
    """Check that a dimension is in [0, bound].

    Raises VerifyException.
    """
    if not 0 <= dim <= bound:
        raise VerifyException(f"Expects {name} to be in range [0, {bound_name}] i.e. [0, {bound}]. got: {dim}.")


def check_each_in_bounds(dims: Sequence[int], bound: int, name: str, bound_name: str) -> None:
    """Check that dimensions are in [0, bound).

    Raises VerifyException.
    """
    for dim in dims:
        if not 0 <= dim < bound:
            raise VerifyException(
                f"Expects each element of {name} to be in range [0, {bound_name}) i.e. [0, {bound}). got: {dim}."
            )


def check_distinct(first: Sequence[int], second: Sequence[int], first_name: str, second_name: str) -> None:
    """Check that two lists of dimensions are disjoint and free of duplicates.

    Raises VerifyException.
    """
    seen: set[int] = set()
    for dim in (*first, *second):
        if dim in seen:
            raise VerifyException(f"has duplicated dimension from {first_name} and {second_name}: {dim}")
        seen.add(dim)


def _check_sorted(dims: Sequence[int], name: str) -> None:
    if list(dims) != sorted(dims):
        raise VerifyException(f"expects {name} to be sorted, got: [{', '.join(map(str, dims))}]")


def _check_unique(dims: Sequence[int], name: str) -> None:
    if len(set(dims)) < len(dims):
        raise VerifyException(f"expects {name} to not repeat, got: [{', '.join(map(str, dims))}]")


OPS = (GatherOp, DynamicSliceOp, DynamicUpdateSliceOp, IotaOp)
