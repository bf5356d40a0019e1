"""Squares of differences that a quantized model rounds once, as LiteRT's SQUARED_DIFFERENCE does.

```mlir
%d = stablehlo.subtract %x, %y : tensor<4xf32>
%s = stablehlo.multiply %d, %d : tensor<4xf32>
%q = quant.qcast %s : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
```
The difference has no type of its own. In other models it is a kernel, and the square another one, so that targets may
give them different widths.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from zeropoint.fuse.match import FloatGraph, RegionMatch
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, MultiplyOp, SubtractOp

NAME = "squared_difference"


def match_squared_difference(op: Operation, graph: FloatGraph) -> RegionMatch | None:
    """The square of a difference of two values with types of the model, whose result has one."""
    if NAME not in graph.kernels or not isinstance(op, MultiplyOp) or op.lhs is not op.rhs:
        return None
    difference = op.lhs.owner
    if not isinstance(difference, SubtractOp) or difference in graph.covered or not graph.is_float(op.result):
        return None
    broadcasts, inputs = list[Operation](), list[SSAValue]()
    for operand in difference.operands:
        repeats = operand.owner
        if isinstance(repeats, BroadcastInDimOp) and graph.only_user(operand) is difference:
            broadcasts.append(repeats)
            operand = repeats.operand
        inputs.append(operand)
    typed = all(isinstance(value.owner, DequantizeCastOp) for value in inputs)
    rounded = any(isinstance(use.operation, QuantizeCastOp) for use in op.result.uses)
    if not typed or not rounded or any(use.operation is not op for use in difference.result.uses):
        return None
    return RegionMatch(NAME, (*broadcasts, difference, op), tuple(dict.fromkeys(inputs)))
