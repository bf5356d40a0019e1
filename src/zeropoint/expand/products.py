"""Products of integers with a constant matrix whose terms are not adjacent: the operand is transposed first.

```mlir
%y = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<1x32x24x24xi16>, tensor<24x48xi16>) -> ...
```
becomes
```mlir
%0 = stablehlo.transpose %x, dims = [0, 1, 3, 2]
%y = stablehlo.dot_general %0, %w, contracting_dims = [3] x [0]
```
The kernel of products takes rows of adjacent terms, and is several times as fast as a loop nest. Resizing has such a
product for every dimension but the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from zeropoint.expand.emission import Emission
from zeropoint.ir.stablehlo import ConvertOp, DotGeneralOp, TransposeOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of


def has_terms_apart(op: DotGeneralOp) -> bool:
    """Whether one dimension of integers is contracted that is not the last one, without batches."""
    dims = op.dot_dimension_numbers.data
    last = len(shape_of(op.lhs)) - 1
    one = len(dims.lhs_contracting_dimensions) == 1 and not dims.lhs_batching_dimensions
    return one and dims.lhs_contracting_dimensions != (last,) and element_dtype(element_of(op.lhs)).kind in "iu"


def with_adjacent_terms(emit: Emission, op: DotGeneralOp) -> Sequence[SSAValue] | None:
    """The product of the transposed operand; None if the other one is computed."""
    weights = op.rhs.owner.operand if isinstance(op.rhs.owner, ConvertOp) else op.rhs
    if emit.array(weights) is None:
        return None
    dims, shape = op.dot_dimension_numbers.data, shape_of(op.lhs)
    (term,) = dims.lhs_contracting_dimensions
    order = [*(d for d in range(len(shape)) if d != term), term]
    # A conversion stays beside the product: the kernel reads what is converted.
    source = op.lhs.owner.operand if isinstance(op.lhs.owner, ConvertOp) else op.lhs
    made = emit.converted(emit.add(TransposeOp(source, order)), element_of(op.lhs))
    contracted = replace(dims, lhs_contracting_dimensions=(len(shape) - 1,))
    product = DotGeneralOp(made, op.rhs, op.result.type, contracted)
    product.attributes.update(op.attributes)
    return emit.several(product)
