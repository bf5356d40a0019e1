"""Values that the regions of an op read from outside of them.

```mlir
%w = stablehlo.constant dense_resource<w6dc8> : tensor<8x8xf32>
%r = stablehlo.while(%h = %x) : tensor<1x8xf32> cond {...} do {
  %p = stablehlo.dot_general %h, %w ...                       // captures %w
  %s = stablehlo.add %p, %y                                   // captures %y
```
Source: MLIR, mlir/Transforms/RegionUtils.h (`getUsedValuesDefinedAbove`, `makeRegionIsolatedFromAbove`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from zeropoint.ir.cloning import cloned


def captured(regions: Sequence[Region]) -> list[SSAValue]:
    """The values that regions read from outside of them, each once, in the order of their uses."""
    ops = [op for region in regions for op in region.walk()]
    nested = (inner for op in ops for inner in op.regions)
    inside: set[Operation | Block] = {*ops, *(block for region in (*regions, *nested) for block in region.blocks)}
    return list(dict.fromkeys(value for op in ops for value in op.operands if value.owner not in inside))


def isolated_region(region: Region, values: Sequence[SSAValue]) -> FuncOp:
    """A function of a region's arguments and of `values`, which it captures.

    The ops that make the other captured values are copied into it: they must be constants, or read constants only.
    """
    source = region.block
    block = Block(arg_types=[value.type for value in (*source.args, *values)])
    mapping: dict[SSAValue, SSAValue] = dict(zip((*source.args, *values), block.args, strict=True))
    for value in captured([region]):
        _copy(value, mapping, block)
    for op in source.ops:
        if op is source.last_op:
            block.add_op(made := ReturnOp(*(mapping[value] for value in op.operands)))
            made.location = op.location
        else:
            block.add_op(_cloned(op, mapping))
    returned = block.last_op
    assert returned is not None
    return FuncOp("main", ([a.type for a in block.args], [v.type for v in returned.operands]), Region(block))


def _cloned(op: Operation, mapping: dict[SSAValue, SSAValue]) -> Operation:
    """A copy of an op. `mapping` maps values from outside the op to those that the copy reads instead."""
    copy = cloned(op)
    for inner in copy.walk():
        inner.operands = [mapping.get(value, value) for value in inner.operands]
    mapping.update(zip(op.results, copy.results, strict=True))
    return copy


def _copy(value: SSAValue, mapping: dict[SSAValue, SSAValue], block: Block) -> None:
    """Copy the ops that make a value to the end of a block."""
    if value in mapping:
        return
    assert isinstance(value, OpResult)
    for operand in value.op.operands:
        _copy(operand, mapping, block)
    block.add_op(_cloned(value.op, mapping))
