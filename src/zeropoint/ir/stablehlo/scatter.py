"""`scatter`, the inverse of `gather`.

Source: the StableHLO specification; op and operand names are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
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

from zeropoint.ir.stablehlo.attributes import ScatterDimensionNumbersAttr
from zeropoint.ir.stablehlo.dimensions import ScatterDimensions
from zeropoint.ir.stablehlo.scatter_checks import check_scatter
from zeropoint.ir.stablehlo.signatures import check_signature
from zeropoint.ir.tensors import element_of, with_element


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """The inputs with `updates` in them, at the positions that `scatter_indices` holds; what is there already and the
    update go through the body. Updates that do not lie inside are left out.

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
        check_signature(self)
        check_scatter(self)
