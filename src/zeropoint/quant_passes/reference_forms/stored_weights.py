"""Constants with a scale per channel that are dequantized: channels last.

```mlir
%1 = stablehlo.uniform_dequantize %w : (tensor<8x3x!quant.uniform<i8:f32:0, {...}>>) -> tensor<8x3xf32>
```
becomes
```mlir
%1 = stablehlo.uniform_dequantize %t : (tensor<3x8x!quant.uniform<i8:f32:1, {...}>>) -> tensor<3x8xf32>
%2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<3x8xf32>) -> tensor<8x3xf32>
```
with the constant transposed.
"""

from __future__ import annotations

from zeropoint.ir.stablehlo import TransposeOp, UniformDequantizeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, is_constant_op, only_user, owner, quantized


def write_dequantized(rewrite: Rewrite, op: UniformDequantizeOp) -> None:
    """Dequantize a constant with its channels last, and transpose the numbers."""
    kind, last = quantized(op.operand), len(shape_of(op.operand)) - 1
    if kind is None or kind.axis in (None, last) or not is_constant_op(op.operand):
        return
    assert kind.axis is not None
    order = [*range(kind.axis), *range(kind.axis + 1, last + 1), kind.axis]
    real = rewrite.add(UniformDequantizeOp(rewrite.transposed(op.operand, order)))
    rewrite.replace(rewrite.add(TransposeOp(real, [order.index(d) for d in range(last + 1)])))


def read_dequantized(rewrite: Rewrite, op: TransposeOp) -> None:
    """Dequantize a transposed constant per channel, not transpose a dequantized one."""
    made = owner(op.operand)
    if not isinstance(made, UniformDequantizeOp) or not is_constant_op(made.operand) or only_user(op.operand) is None:
        return
    kind = quantized(made.operand)
    if kind is not None and kind.axis is not None:
        order = array_values(op.permutation)
        rewrite.replace(rewrite.add(UniformDequantizeOp(rewrite.transposed(made.operand, order))))
