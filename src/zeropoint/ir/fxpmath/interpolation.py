"""A function of 16-bit storage integers, as a table with linear interpolation (`zeropoint.numerics.interpolation`).

```mlir
%y = "fxpmath.interpolate"(%x, %table) : (tensor<1x128xi16>, tensor<513xi16>) -> tensor<1x128xi16>
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from zeropoint.ir.fxpmath.checks import check_same_shape, check_tensor
from zeropoint.ir.quant.checks import refusal
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.numerics.interpolation import BITS, shift_of


@irdl_op_definition
class InterpolateOp(IRDLOperation):
    """Applies a function to 16-bit storage integers, by linear interpolation between the entries of a table.

    With 2^k + 1 entries, S = 16 - k, u = x + 2^15, i = u >> S and f = u & (2^S - 1), the result is
    table[i] + ((table[i + 1] - table[i]) * f + 2^(S-1)) >> S, in i32.
    """

    name = "fxpmath.interpolate"
    operand = operand_def()
    table = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, table: SSAValue, result_type: Attribute):
        super().__init__(operands=[operand, table], result_types=[result_type])

    @property
    def shift(self) -> int:
        """S, the number of fraction bits of a position between two entries."""
        found = shift_of(shape_of(self.table)[0])
        assert found is not None  # `verify_`
        return found

    def verify_(self) -> None:
        """Check the widths, and that the table has 2^k + 1 entries of the result's type."""
        check_tensor(self, "operand", self.operand, (16,))
        check_tensor(self, "result", self.result, (8, 16))
        check_same_shape(self, "operand", self.operand, self.result)
        kind = self.table.type
        fits = isinstance(kind, TensorType) and len(shape_of(self.table)) == 1
        if not fits or element_of(self.table) != element_of(self.result) or shift_of(shape_of(self.table)[0]) is None:
            raise refusal(
                self,
                f"table must be a vector of 2^k + 1 elements {element_of(self.result)}, k from 2 to {BITS - 1}, "
                f"but got '{kind}'",
            )
