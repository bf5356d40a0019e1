"""`reverse`.

Source: the StableHLO specification; the error messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.arrays import I64_ARRAY, array_values, i64_array
from zeropoint.ir.stablehlo.assembly import SameOperandsAndResultType
from zeropoint.ir.stablehlo.elements import check_inferred
from zeropoint.ir.stablehlo.signatures import ANY, OpSignature, SignatureOp, same_element_type
from zeropoint.ir.tensors import element_of, shape_of


@irdl_op_definition
class ReverseOp(SignatureOp):
    """The elements in reverse order along `dimensions`."""

    name = "stablehlo.reverse"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY,), ANY, (same_element_type,))
    operand = operand_def()
    result = result_def()
    dimensions = prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    custom_directives = (SameOperandsAndResultType,)
    assembly_format = (
        "$operand `,` `dims` `=` $dimensions attr-dict `:` custom<SameOperandsAndResultType>(type(operands), "
        "type($result))"
    )

    def __init__(self, operand: SSAValue, dimensions: Sequence[int]):
        super().__init__(
            operands=[operand], result_types=[operand.type], properties={"dimensions": i64_array(dimensions)}
        )

    def verify_(self) -> None:
        """Check the constraints of `reverse`: (C1) equal types, (C2) unique dimensions, (C3) in range."""
        super().verify_()
        dimensions, shape = array_values(self.dimensions), shape_of(self.operand)
        if len(set(dimensions)) < len(dimensions):
            raise VerifyException(f"dimensions should be unique. Got: {', '.join(map(str, dimensions))}")
        for dimension in dimensions:
            if dimension < 0:
                raise VerifyException(f"all dimensions should be non-negative. Got dimension: {dimension}.")
            if dimension >= len(shape):
                raise VerifyException(
                    f"all dimensions should be between [0, {len(shape)}). Got dimension: {dimension}."
                )
        check_inferred([(shape, element_of(self.operand))], self.result_types)


OPS = (ReverseOp,)
