"""Joins an elementwise op with the casts of its operands and result to one storage (`materialize/widths.py`).

The op then reads and writes the narrow integers, and its rounding clamps to the narrow type at once:

```mlir
%3 = stablehlo.uniform_quantize %0 {zeropoint.same_integers} : ... -> tensor<4x!quant.uniform<i16:f32, 0.5>>
%4 = stablehlo.multiply %3, %1 : ... -> tensor<4x!quant.uniform<i16:f32, 0.2>>
%2 = stablehlo.uniform_quantize %4 {zeropoint.same_integers} : ... -> tensor<4x!quant.uniform<i16<-4096:4095>:f32, 0.2>>
```
becomes
```mlir
%2 = stablehlo.multiply %0, %1 : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i16:f32, 0.1>>)
    -> tensor<4x!quant.uniform<i16<-4096:4095>:f32, 0.2>>
```
"""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import SAME_INTEGERS
from zeropoint.ir.dead_code import remove_if_dead
from zeropoint.ir.stablehlo import AddOp, DivideOp, MultiplyOp, SubtractOp, UniformQuantizeOp


def join_widths(block: Block) -> None:
    """Join the elementwise ops of a block with such casts."""
    for op in list(block.ops):
        if not isinstance(op, AddOp | DivideOp | MultiplyOp | SubtractOp):
            continue
        for index, operand in enumerate(op.operands):
            if isinstance(operand.owner, UniformQuantizeOp) and SAME_INTEGERS in operand.owner.attributes:
                op.operands[index] = operand.owner.operand
                remove_if_dead(operand.owner)
        result = op.results[0]
        reader: Operation | None = next(iter(result.uses)).operation if result.has_one_use() else None
        if isinstance(reader, UniformQuantizeOp) and SAME_INTEGERS in reader.attributes:
            op.attributes.update(reader.attributes)
            del op.attributes[SAME_INTEGERS]
            Rewriter.replace_value_with_new_type(result, reader.result.type)
            Rewriter.replace_op(reader, [], [op.results[0]])
