"""Quantized programs whose ops say themselves which kernels compute on integers, such as quantized StableHLO.

```mlir
%1 = stablehlo.convolution(%0, %w) ... : (tensor<...x!quant.uniform<i8:f32, 0.5>>, ...) -> ...   an integer kernel
%5 = stablehlo.convolution(%4, %v) ... : (tensor<...xf32>, ...) -> tensor<...xf32>               computed in floats
```
Nothing is left to decide in them: no kernel is formed, and no value needs a range. In other quantized models, every op
is on floats between casts, and propagation decides which of them are integer kernels.
"""

from __future__ import annotations

from xdsl.ir import Operation

from zeropoint.ir.annotations import ORIGIN
from zeropoint.ir.constants import is_constant
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizeRegionOp,
    StorageCastOp,
)
from zeropoint.ir.quant.containers import is_typed
from zeropoint.ir.stablehlo import ConstantOp, UniformDequantizeOp, UniformQuantizeOp

CASTS = (DequantizeCastOp, QuantizeCastOp, StorageCastOp, UniformDequantizeOp, UniformQuantizeOp)


def states_kernels(program: Program) -> bool:
    """Whether a program has quantized ops, or is the file of one that zeropoint exported."""
    ops = list(program.module.walk())
    if any(isinstance(op, QuantizeRegionOp) for op in ops):
        return False
    return ORIGIN in program.module.attributes or any(map(_is_quantized_op, ops))


def _is_quantized_op(op: Operation) -> bool:
    """Whether an op computes quantized values from computed quantized values."""
    if isinstance(op, (ConstantOp, *CASTS)) or not any(map(is_typed, op.results)):
        return False
    return any(is_typed(value) and not is_constant(value) for value in op.operands)
