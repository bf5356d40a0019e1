"""Casts of the quant dialect as StableHLO's own ops.

```mlir
%1 = quant.scast %w : tensor<3x8xi4> to tensor<3x8x!quant.uniform<i4:f32:1, {...}>>
%2 = quant.dcast %1 : tensor<3x8x!quant.uniform<i4:f32:1, {...}>> to tensor<3x8xf32>
```
becomes
```mlir
%1 = stablehlo.constant() <{value = dense<...> : tensor<3x8xi4>}> : () -> tensor<3x8x!quant.uniform<i4:f32:1, {...}>>
%2 = stablehlo.uniform_dequantize %1
```
if `%w` is a constant, and a `bitcast_convert` otherwise. Weights in blocks have no such type in StableHLO.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from zeropoint.ir.stablehlo import BitcastConvertOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, quantized


def write_storage_cast(rewrite: Rewrite, op: StorageCastOp) -> None:
    """Write a storage cast as a quantized constant or a bit cast."""
    kind, array = quantized(op.result), constant_array(op.input, rewrite.weights)
    if kind is not None and not kind.is_sub_channel and array is not None:
        rewrite.replace(rewrite.constant(array, kind))
    elif _is_storage(op.input, op.result) or _is_storage(op.result, op.input):
        rewrite.replace(rewrite.add(BitcastConvertOp(op.input, op.result.type)))


def read_storage_cast(rewrite: Rewrite, op: BitcastConvertOp) -> None:
    """Make a storage cast of a bit cast between quantized values and their storage integers."""
    if _is_storage(op.operand, op.result) or _is_storage(op.result, op.operand):
        rewrite.replace(rewrite.add(StorageCastOp(op.operand, op.result.type)))


def write_cast(rewrite: Rewrite, op: DequantizeCastOp | QuantizeCastOp) -> None:
    """Write a cast between floats and quantized values as StableHLO's."""
    kind = quantized(op.input) or quantized(op.result)
    if kind is None or kind.is_sub_channel:
        return
    if isinstance(op, QuantizeCastOp):
        rewrite.replace(rewrite.add(UniformQuantizeOp(op.input, op.result.type)))
    else:
        rewrite.replace(rewrite.add(UniformDequantizeOp(op.input)))


def _is_storage(value: SSAValue, stored: SSAValue) -> bool:
    """Whether the second value has the storage type of the first."""
    kind, found = quantized(value), element_of(stored)
    return kind is not None and isinstance(found, IntegerType) and found == kind.storage.mlir_type
