"""Products of 32-bit sums and factors, as in means, on storage integers.

```mlir
%1 = stablehlo.multiply %0, %c : (tensor<4x!quant.uniform<i32:f32, 0.5>>, tensor<4x!quant.uniform<i32:f32, 0.25>>)
       -> tensor<4x!quant.uniform<i32:f32, 0.125>>
```
becomes
```mlir
%1 = stablehlo.bitcast_convert %0 : (tensor<4x!quant.uniform<i32:f32, 0.5>>) -> tensor<4xi32>
%2 = stablehlo.bitcast_convert %c : (tensor<4x!quant.uniform<i32:f32, 0.25>>) -> tensor<4xi32>
%3 = stablehlo.multiply %1, %2 : tensor<4xi32>
%4 = stablehlo.bitcast_convert %3 : (tensor<4xi32>) -> tensor<4x!quant.uniform<i32:f32, 0.125>>
```
C++ StableHLO multiplies in f32, which rounds products beyond 2^24, so that ties of a mean fall otherwise.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from zeropoint.ir.stablehlo import BitcastConvertOp, MultiplyOp
from zeropoint.ir.tensors import with_element
from zeropoint.quant_passes.reference_forms.rescales import WORD
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, only_user, owner, per_tensor


def write_product(rewrite: Rewrite, op: MultiplyOp) -> None:
    """Write a product as one of integers, if the scale of the result is the product of the scales."""
    if not _is_exact(op.lhs, op.rhs, op.result):
        return
    lhs, rhs = (rewrite.add(BitcastConvertOp(value, with_element(value, i32))) for value in (op.lhs, op.rhs))
    rewrite.replace(rewrite.add(BitcastConvertOp(rewrite.add(MultiplyOp(lhs, rhs)), op.result.type)))


def read_product(rewrite: Rewrite, op: BitcastConvertOp) -> None:
    """Make a product of quantized values of one between bit casts."""
    made = owner(op.operand)
    if not isinstance(made, MultiplyOp) or only_user(op.operand) is None:
        return
    lhs, rhs = owner(made.lhs), owner(made.rhs)
    if not isinstance(lhs, BitcastConvertOp) or not isinstance(rhs, BitcastConvertOp):
        return
    if _is_exact(lhs.operand, rhs.operand, op.result):
        rewrite.replace(rewrite.add(MultiplyOp(lhs.operand, rhs.operand, op.result.type)))


def _is_exact(lhs: SSAValue, rhs: SSAValue, result: SSAValue) -> bool:
    """Whether the product of two 32-bit values is that of their integers."""
    kinds = [per_tensor(value) for value in (lhs, rhs, result)]
    words = [kind for kind in kinds if kind is not None and kind.storage == WORD and kind.zero_point == 0]
    return len(words) == len(kinds) and words[2].scale == words[0].scale * words[1].scale
