"""Casts between the float ops of a program, such as those of a QDQ file, as ops that native code has.

```mlir
%0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<u8:f32, 0.1:128>>
%1 = quant.dcast %0 : tensor<4x!quant.uniform<u8:f32, 0.1:128>> to tensor<4xf32>
```
Programs with other ops on quantized types are left as they are: to run such an op is to run it in real numbers, and
`lower` would make integer arithmetic of it, which has other bits.
"""

from __future__ import annotations

from xdsl.ir import Operation

from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizedType
from zeropoint.ir.quant.containers import element_or_self
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.lower.lower import lower


def lower_float_casts(program: Program) -> Program:
    """The program with its casts lowered; the same program if it has none, or other ops on quantized types."""
    quantized = [op for op in program.module.walk() if _has_quantized_types(op)]
    if not quantized or not all(isinstance(op, (QuantizeCastOp, DequantizeCastOp, ConstantOp)) for op in quantized):
        return program
    return lower(program)


def _has_quantized_types(op: Operation) -> bool:
    return any(isinstance(element_or_self(value.type), QuantizedType) for value in (*op.operands, *op.results))
