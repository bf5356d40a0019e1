"""Control flow in the scf dialect, which carries tensors: `stablehlo.while`, `if` and `case`.

```mlir
%0:2 = stablehlo.while(%a = %x, %n = %zero) : tensor<4xi32>, tensor<i32>
cond { ... stablehlo.return %again : tensor<i1> } do { ... stablehlo.return %b, %m : tensor<4xi32>, tensor<i32> }
%1 = "stablehlo.if"(%p) ({ ... stablehlo.return %c }, { ... stablehlo.return %d }) : (tensor<i1>) -> tensor<4xi32>
%2 = "stablehlo.case"(%i) ({ ... }, { ... }) : (tensor<i32>) -> tensor<4xi32>
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
%1 = scf.if %p0 -> (tensor<4xi32>) { ... scf.yield %c } else { ... scf.yield %d }
%2 = scf.index_switch %i0 -> tensor<4xi32> case 0 { ... } default { ... }
```
The last branch of a `case` becomes the default, because StableHLO selects it for an index out of range. A
`stablehlo.composite` becomes a call of its decomposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, IndexType, i1, i64
from xdsl.dialects.tensor import ExtractOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.calls import CallOp
from zeropoint.ir.program import Program
from zeropoint.standard.lowering import Standard

LowerBlock = Callable[[Block, Standard], Sequence[SSAValue]]
"""Lowers the ops of a block except its terminator, and returns the terminator's operands in standard form."""


def call_decompositions(program: Program) -> None:
    """Replace every composite by a call of its decomposition, in place."""
    for op in [op for op in program.module.walk() if isinstance(op, hlo.CompositeOp)]:
        call = CallOp(op.decomposition, op.inputs, [result.type for result in op.results])
        call.location = op.location
        Rewriter.replace_op(op, call)


def lower_while(std: Standard, op: hlo.WhileOp, lower_block: LowerBlock) -> Sequence[SSAValue]:
    """`scf.while` with the results of the loop."""
    given = [std.value(value) for value in op.inputs]
    before, after = (_lowered(region, std, lower_block) for region in (op.cond, op.body))
    extracted = ExtractOp(before[1][0], [], i1)
    before[0].block.add_ops([extracted, scf.ConditionOp(extracted.results[0], *before[0].block.args)])
    after[0].block.add_op(scf.YieldOp(*after[1]))
    types = [value.type for value in given]
    return std.insert(scf.WhileOp(given, types, before[0], after[0])).results


def lower_if(std: Standard, op: hlo.IfOp, lower_block: LowerBlock) -> Sequence[SSAValue]:
    """`scf.if` with the results of the chosen branch."""
    condition = std.scalar(op.pred)
    chosen, other = (_branch(region, std, lower_block) for region in (op.true_branch, op.false_branch))
    return std.insert(scf.IfOp(condition, _results(chosen), chosen, other)).results


def lower_case(std: Standard, op: hlo.CaseOp, lower_block: LowerBlock) -> Sequence[SSAValue]:
    """`scf.index_switch`, whose default is the last branch."""
    index = std.insert(arith.IndexCastOp(std.scalar(op.index), IndexType())).result
    *branches, default = [_branch(region, std, lower_block) for region in op.branches]
    cases = DenseArrayBase.from_list(i64, range(len(branches)))
    return std.insert(scf.IndexSwitchOp(index, cases, default, branches, _results(default))).results


def _branch(region: Region, std: Standard, lower_block: LowerBlock) -> Region:
    """A branch in standard form."""
    lowered, results = _lowered(region, std, lower_block)
    lowered.block.add_op(scf.YieldOp(*results))
    return lowered


def _results(branch: Region) -> Sequence[Attribute]:
    """The types that a branch yields."""
    last = branch.block.last_op
    assert last is not None
    return last.operand_types


def _lowered(region: Region, std: Standard, lower_block: LowerBlock) -> tuple[Region, Sequence[SSAValue]]:
    """A region's block in standard form, without its terminator, and the values that the terminator returned."""
    block = region.block
    results = lower_block(block, std)
    last = block.last_op
    assert isinstance(last, Operation)
    Rewriter.erase_op(last)
    region.detach_block(block)
    return Region(block), results
