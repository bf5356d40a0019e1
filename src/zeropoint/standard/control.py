"""`stablehlo.while` as `scf.while`, which carries tensors.

```mlir
%0:2 = stablehlo.while(%a = %x, %n = %zero) : tensor<4xi32>, tensor<i32>
cond { ... stablehlo.return %again : tensor<i1> } do { ... stablehlo.return %b, %m : tensor<4xi32>, tensor<i32> }
```
becomes
```mlir
%0, %1 = scf.while (%a = %x, %n = %zero) : (tensor<4xi32>, tensor<i32>) -> (tensor<4xi32>, tensor<i32>) {
  %c = tensor.extract %again[] : tensor<i1>
  scf.condition(%c) %a, %n : tensor<4xi32>, tensor<i32>
} do {
^bb0(%a: tensor<4xi32>, %n: tensor<i32>):
  scf.yield %b, %m : tensor<4xi32>, tensor<i32>
}
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import i1
from xdsl.dialects.tensor import ExtractOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir import stablehlo as hlo
from zeropoint.standard.lowering import Standard

LowerBlock = Callable[[Block, Standard], Sequence[SSAValue]]
"""Lowers the ops of a block, of which the terminator stays, and returns the terminator's operands in standard form."""


def lower_while(std: Standard, op: hlo.WhileOp, lower_block: LowerBlock) -> Sequence[SSAValue]:
    """`scf.while` with the results of the loop."""
    given = [std.value(value) for value in op.inputs]
    before, after = (_lowered(region, std, lower_block) for region in (op.cond, op.body))
    extracted = ExtractOp(before[1][0], [], i1)
    before[0].block.add_ops([extracted, scf.ConditionOp(extracted.results[0], *before[0].block.args)])
    after[0].block.add_op(scf.YieldOp(*after[1]))
    types = [value.type for value in given]
    return std.insert(scf.WhileOp(given, types, before[0], after[0])).results


def _lowered(region: Region, std: Standard, lower_block: LowerBlock) -> tuple[Region, Sequence[SSAValue]]:
    """A region's block in standard form, without its terminator, and what that returned."""
    block = region.block
    results = lower_block(block, std)
    last = block.last_op
    assert isinstance(last, Operation)
    Rewriter.erase_op(last)
    region.detach_block(block)
    return Region(block), results
