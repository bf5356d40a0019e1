"""Ops whose positions are values: gather, dynamic_slice, dynamic_update_slice; and iota, which makes positions.

Source: the StableHLO specification; op and operand names are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
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

from zeropoint.ir.stablehlo.arrays import I64_ARRAY, i64_array
from zeropoint.ir.stablehlo.assembly import VariadicOperandWithAttribute
from zeropoint.ir.stablehlo.attributes import GatherDimensionNumbersAttr
from zeropoint.ir.stablehlo.dimensions import GatherDimensions
from zeropoint.ir.stablehlo.indexing_checks import (
    check_dynamic_slice,
    check_dynamic_update_slice,
    check_gather,
    gather_shape,
)
from zeropoint.ir.stablehlo.signatures import check_signature
from zeropoint.ir.tensors import shape_of, with_shape


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Slices of the operand, at the positions that `start_indices` holds; positions are clamped into the operand.

    ```mlir
    %0 = "stablehlo.gather"(%table, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}>
      : (tensor<9x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
    ```
    """

    name = "stablehlo.gather"
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
        shape = gather_shape(dimensions, slice_sizes, shape_of(start_indices))
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
        check_signature(self)
        check_gather(self)


@irdl_op_definition
class DynamicSliceOp(IRDLOperation):
    """The elements from `start_indices` on, `slice_sizes` of them; the start is clamped so that they are all there."""

    name = "stablehlo.dynamic_slice"
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
        check_signature(self)
        check_dynamic_slice(self)


@irdl_op_definition
class DynamicUpdateSliceOp(IRDLOperation):
    """The operand with `update` in it from `start_indices` on; the start is clamped so that all of it fits."""

    name = "stablehlo.dynamic_update_slice"
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
        check_signature(self)
        check_dynamic_update_slice(self)


@irdl_op_definition
class IotaOp(IRDLOperation):
    """0, 1, 2, ... along `iota_dimension`, the same for every index of the others."""

    name = "stablehlo.iota"
    output = result_def()
    iota_dimension = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(Pure())
    assembly_format = "`dim` `=` $iota_dimension attr-dict `:` type($output)"

    def __init__(self, result_type: Attribute, iota_dimension: int):
        super().__init__(result_types=[result_type], properties={"iota_dimension": IntegerAttr(iota_dimension, i64)})

    def verify_(self) -> None:
        """Check the constraints of `iota`: (C1) `iota_dimension` is one of the result's."""
        dimension = self.iota_dimension.value.data
        if dimension < 0:
            raise VerifyException(
                "attribute 'iota_dimension' failed to satisfy constraint: "
                "64-bit signless integer attribute whose value is non-negative"
            )
        check_signature(self)
        rank = len(shape_of(self.output))
        if rank == 0:
            raise VerifyException("does not support scalars.")
        if dimension >= rank:
            raise VerifyException("iota dimension cannot go beyond the output rank.")
