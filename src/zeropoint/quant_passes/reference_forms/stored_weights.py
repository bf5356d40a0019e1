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

from xdsl.ir import SSAValue

from zeropoint.ir.constants import constant_array, is_constant
from zeropoint.ir.quant import DequantizeCastOp, StorageCastOp
from zeropoint.ir.stablehlo import TransposeOp, UniformDequantizeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, only_user, owner, quantized


def write_dequantized(rewrite: Rewrite, op: UniformDequantizeOp) -> None:
    """Dequantize a constant with its channels last, and transpose the numbers."""
    kind, last = quantized(op.operand), len(shape_of(op.operand)) - 1
    if kind is None or kind.axis in (None, last) or not is_constant(op.operand):
        return
    assert kind.axis is not None
    order = [*range(kind.axis), *range(kind.axis + 1, last + 1), kind.axis]
    real = rewrite.add(UniformDequantizeOp(rewrite.transposed(op.operand, order)))
    rewrite.replace(rewrite.add(TransposeOp(real, [order.index(d) for d in range(last + 1)])))


def read_transposed(rewrite: Rewrite, op: TransposeOp) -> None:
    """Dequantize a transposed constant per channel, not transpose a dequantized one."""
    made = owner(op.operand)
    if isinstance(made, UniformDequantizeOp) and _is_stored(made.operand) and only_user(op.operand) is not None:
        order = array_values(op.permutation)
        rewrite.replace(rewrite.add(UniformDequantizeOp(rewrite.transposed(made.operand, order))))


def read_dequantized(rewrite: Rewrite, op: UniformDequantizeOp) -> None:
    """Cast the integers of a constant per channel, as kernels with stored weights do."""
    kind, array = quantized(op.operand), constant_array(op.operand, rewrite.weights)
    if kind is None or array is None or not _is_stored(op.operand):
        return
    stored = rewrite.constant(array, element=kind.storage.mlir_type)
    cast = rewrite.add(StorageCastOp(stored, op.operand.type))
    rewrite.replace(rewrite.add(DequantizeCastOp(cast, op.result.type)))


def _is_stored(value: SSAValue) -> bool:
    """Whether a value is a constant with a scale per channel."""
    kind = quantized(value)
    return kind is not None and kind.is_per_channel and kind.storage.is_integer and is_constant(value)
