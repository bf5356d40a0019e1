"""`scatter`, the inverse of `gather`.

Source: the StableHLO specification; op and operand names are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, BoolAttr, TensorType
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.attributes import ScatterDimensionNumbersAttr
from zeropoint.ir.stablehlo.dimensions import ScatterDimensions
from zeropoint.ir.stablehlo.elements import check_inferred, compatible_shapes, compatible_sizes
from zeropoint.ir.stablehlo.indexing import check_distinct, check_each_in_bounds, check_in_bounds
from zeropoint.ir.stablehlo.reduction import check_reducer
from zeropoint.ir.stablehlo.signatures import POSITIONS, VARIADIC, OpSignature, SignatureOp
from zeropoint.ir.tensors import element_of, shape_of, with_element


@irdl_op_definition
class ScatterOp(SignatureOp):
    """The inputs with `updates` applied at the positions in `scatter_indices`. The body combines the present element
    with the update. Updates that are out of bounds are skipped.

    ```mlir
    %0 = "stablehlo.scatter"(%counts, %rows, %ones) <{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%count: tensor<i32>, %one: tensor<i32>):
        %sum = stablehlo.add %count, %one : tensor<i32>
        stablehlo.return %sum : tensor<i32>
    }) : (tensor<9xi32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<9xi32>
    ```
    """

    name = "stablehlo.scatter"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((VARIADIC,), VARIADIC, middle=POSITIONS)
    inputs = var_operand_def()
    scatter_indices = operand_def()
    updates = var_operand_def()
    results_ = var_result_def()
    scatter_dimension_numbers = prop_def(ScatterDimensionNumbersAttr)
    indices_are_sorted = opt_prop_def(BoolAttr)
    unique_indices = opt_prop_def(BoolAttr)
    update_computation = region_def("single_block")
    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        scatter_indices: SSAValue,
        updates: Sequence[SSAValue],
        dimensions: ScatterDimensions,
        body: Region,
        *,
        indices_are_sorted: bool | None = None,
        unique_indices: bool | None = None,
    ):
        arguments = body.block.args[: len(inputs)]
        super().__init__(
            operands=[inputs, scatter_indices, updates],
            result_types=[[with_element(x, element_of(a)) for x, a in zip(inputs, arguments, strict=True)]],
            properties={
                "scatter_dimension_numbers": ScatterDimensionNumbersAttr(dimensions),
                "indices_are_sorted": None if indices_are_sorted is None else BoolAttr.from_bool(indices_are_sorted),
                "unique_indices": None if unique_indices is None else BoolAttr.from_bool(unique_indices),
            },
            regions=[body],
        )

    def verify_(self) -> None:
        """Check the constraints of `scatter`."""
        super().verify_()
        _check_scatter(self)


def _check_scatter(op: ScatterOp) -> None:
    """Check a scatter.

    Raises VerifyException.
    """
    inputs, updates = [value.type for value in op.inputs], [value.type for value in op.updates]
    if not inputs:
        raise VerifyException("The reduction-region expected to return some value(s)")
    dims, indices = op.scatter_dimension_numbers.data, shape_of(op.scatter_indices)
    operand, update = shape_of(inputs[0]), shape_of(updates[0])
    if not all(compatible_shapes(operand, shape_of(other)) for other in inputs):  # (C1)
        raise VerifyException("Not all inputs have compatible shapes.")
    if not all(compatible_shapes(update, shape_of(other)) for other in updates):  # (C3)
        raise VerifyException("Not all updates have compatible shapes.")
    check_in_bounds(dims.index_vector_dim, len(indices), "index_vector_dim", "rank-of('scatter_indices')")  # (C22)
    scalars = [TensorType(element_of(found), []) for found in updates]
    returned = check_reducer(op.update_computation.block, inputs, scalars, ())  # (C6), (C23)
    expanded = (*indices, 1) if dims.index_vector_dim == len(indices) else indices
    rank = len(expanded) - 1 + len(dims.update_window_dims)
    if len(update) != rank:  # (C4)
        raise VerifyException(
            f"expects updates tensor must be of rank {rank} ( == rank-of('scatter_indices') - 1 + "
            "size-of('update_window_dims'), where 'scatter_indices' is expanded by a trailing 1 dimension if "
            f"'index_vector_dim' == rank-of('scatter_indices')), but got {len(update)}."
        )
    _check_dimensions(dims, operand, expanded, update)
    __check_update_shape(dims, operand, expanded, update)
    check_inferred([(operand, element_of(found)) for found in returned], op.result_types)  # (C24)


def _check_dimensions(
    dims: ScatterDimensions, operand: Sequence[int], indices: Sequence[int], update: Sequence[int]
) -> None:
    named = len(dims.update_window_dims) + len(dims.inserted_window_dims) + len(dims.input_batching_dims)
    if named != len(operand):  # (C2)
        raise VerifyException(
            "Expects rank-of operand to match size-of('update_window_dims') + size-of('inserted_window_dims') + "
            f"size-of('input_batching_dims') i.e. {named} but got {len(operand)}."
        )
    _check_sorted(dims.update_window_dims, "update_window_dims")  # (C7)
    _check_unique(dims.update_window_dims, "update_window_dims")
    check_each_in_bounds(dims.update_window_dims, len(update), "update_window_dims", "rank-of('updates')")  # (C8)
    check_distinct(  # (C9)
        dims.inserted_window_dims, dims.input_batching_dims, "inserted_window_dims", "input_batching_dims"
    )
    for name in ("inserted_window_dims", "input_batching_dims"):  # (C10) to (C13)
        _check_sorted(getattr(dims, name), name)
        check_each_in_bounds(getattr(dims, name), len(operand), name, "rank-of('operand')")
    _check_batching(dims, operand, indices)
    mapped, vector_dim = dims.scatter_dims_to_operand_dims, dims.index_vector_dim
    if not compatible_sizes(indices[vector_dim], len(mapped)):  # (C19)
        raise VerifyException(
            f"Scatter op has {len(mapped)} elements in scatter_dims_to_operand_dims and the bound of dimension "
            f"index_vector_dim={vector_dim} of scatter_indices is {indices[vector_dim]}. These two numbers must be "
            "equal."
        )
    check_distinct(  # (C20)
        mapped, dims.input_batching_dims, "scatter_dims_to_operand_dims", "input_batching_dims"
    )
    check_each_in_bounds(mapped, len(operand), "scatter_dims_to_operand_dims", "rank-of('operand')")  # (C21)


def _check_batching(dims: ScatterDimensions, operand: Sequence[int], indices: Sequence[int]) -> None:
    name, batching = "scatter_indices_batching_dims", dims.scatter_indices_batching_dims
    _check_unique(batching, name)  # (C14)
    check_each_in_bounds(batching, len(indices), name, "rank-of('scatter_indices')")  # (C15)
    if dims.index_vector_dim in batching:  # (C16)
        raise VerifyException(f"expects {name} not to include index_vector_dim {dims.index_vector_dim}.")
    if len(dims.input_batching_dims) != len(batching):  # (C17)
        raise VerifyException(f"input_batching_dims and {name} should have the same size.")
    for index, (first, second) in enumerate(zip(dims.input_batching_dims, batching, strict=True)):  # (C18)
        if not compatible_sizes(operand[first], indices[second]):
            raise VerifyException(
                f"input_batching_dims[{index}] and {name}[{index}] must have compatible sizes, but got "
                f"{operand[first]} and {indices[second]}."
            )


def __check_update_shape(
    dims: ScatterDimensions, operand: Sequence[int], indices: Sequence[int], update: Sequence[int]
) -> None:
    """(C4): windows fit into the operand, and there is one for each index."""
    dropped = {*dims.inserted_window_dims, *dims.input_batching_dims}
    bounds = [size for dim, size in enumerate(operand) if dim not in dropped]
    for dim, bound in zip(dims.update_window_dims, bounds, strict=True):
        if DYNAMIC_INDEX not in (update[dim], bound) and update[dim] > bound:
            raise VerifyException(
                "expects bounds of the window dimensions of updates to not exceed the bounds of the corresponding "
                f"dimensions of operand. For dimension {dim}, updates bound is {update[dim]}, operand bound is {bound}."
            )
    batches = [size for dim, size in enumerate(indices) if dim != dims.index_vector_dim]
    scattered = [dim for dim in range(len(update)) if dim not in dims.update_window_dims]
    for dim, bound in zip(scattered, batches, strict=True):
        if not compatible_sizes(update[dim], bound):
            raise VerifyException(
                "expects bounds of the scatter dimensions of updates to be same as the bounds of the corresponding "
                f"dimensions of scatter indices. For scatter dimension {dim}, updates bound is {update[dim]} , "
                f"scatter_indices bound is {bound}."
            )


def _check_sorted(dims: Sequence[int], name: str) -> None:
    if list(dims) != sorted(dims):
        raise VerifyException(f"Expects {name} to be sorted; got: [{', '.join(map(str, dims))}].")


def _check_unique(dims: Sequence[int], name: str) -> None:
    if len(set(dims)) < len(dims):
        raise VerifyException(f"Expects {name} to not repeat; got: [{', '.join(map(str, dims))}].")


OPS = (ScatterOp,)
