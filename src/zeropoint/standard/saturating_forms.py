"""Refuses dot forms that StableHLO and linalg cannot express: those whose sums of two products may saturate.

```mlir
%w = stablehlo.constant dense<127> : tensor<8x3xi8>
%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {zeropoint.dot_form = "u8s8_pairs"} : ...
```
is refused. Other compilers add the products exactly. The interpreter saturates the sum of each pair to 16 bits, as the
instruction does. All other forms are exact, so their attribute may be dropped.
"""

from __future__ import annotations

from zeropoint.ir.annotations import DOT_FORM
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.numerics.dot_forms import INT16_MAX
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.ranges import pair_sums, ranges_of


def refuse_saturating_forms(program: Program) -> None:
    """Raise LoweringError, naming the op, for a contraction that names a form in which its sums may saturate."""
    ranges = ranges_of(program.weights)
    for op in program.module.walk():
        if not isinstance(op, ConvolutionOp | DotGeneralOp):
            continue
        pairs = pair_sums(ranges, op)
        if pairs is not None and not pairs.holds:
            form = op.attributes[DOT_FORM]
            raise LoweringError(
                f"{describe(op)}: found dot form {form} with {pairs.what} up to {pairs.range.greatest}, which "
                f"saturate; expected at most {INT16_MAX} (i16), because other compilers add products exactly; "
                f"remove {DOT_FORM} for the exact sum, or use smaller weights",
                op,
            )
