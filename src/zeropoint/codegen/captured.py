"""Values that the regions of a loop or branch read from outside: operands of the native op, or copied constants.

```mlir
%w = stablehlo.constant dense_resource<w6dc8> : tensor<8x8xf32>
%r = stablehlo.while(%h = %x) : tensor<1x8xf32> cond {...} do {
  %p = stablehlo.dot_general %h, %w ...                       // %w is copied into the region: its kernel packs it
  %s = stablehlo.add %p, %y                                   // %y is computed outside: an argument of the region
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from zeropoint.ir.cloning import cloned
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.dequantized import dequantized_constant
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import IotaOp


def captured(program: Program, regions: Sequence[Region]) -> list[SSAValue]:
    """The values that regions read from outside, in the order of their uses, without constants."""
    found = dict.fromkeys(value for region in regions for value in _from_outside(region))
    return [value for value in found if not _is_constant(program, value)]


def _from_outside(region: Region) -> Iterator[SSAValue]:
    inside = set(region.walk())
    blocks = {block for op in inside for nested in op.regions for block in nested.blocks} | set(region.blocks)
    for op in region.walk():
        for value in op.operands:
            if value.owner not in inside and value.owner not in blocks:
                yield value


def _is_constant(program: Program, value: SSAValue) -> bool:
    """Whether kernels read a value as a constant."""
    if isinstance(value, OpResult) and isinstance(value.op, IotaOp):
        return True
    known = constant_array(value, program.weights) is not None or splat_value(value, program.weights) is not None
    return known or dequantized_constant(program, value) is not None


def isolated(region: Region, carried: int, values: Sequence[SSAValue]) -> FuncOp:
    """A function of a region's arguments and of `values`, which it reads from outside; constants are copied into it.

    `carried` is the number of its arguments.
    """
    source = region.block
    block = Block(arg_types=[value.type for value in (*source.args, *values)])
    mapping: dict[SSAValue, SSAValue] = dict(zip((*source.args, *values), block.args, strict=True))
    assert len(source.args) == carried
    for value in dict.fromkeys(_from_outside(region)):
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
    """A copy of an op that reads what `mapping` has for the values outside of it."""
    copy = cloned(op)
    for inner in copy.walk():
        inner.operands = [mapping.get(value, value) for value in inner.operands]
    mapping.update(zip(op.results, copy.results, strict=True))
    return copy


def _copy(value: SSAValue, mapping: dict[SSAValue, SSAValue], block: Block) -> None:
    """Copy the ops that make a constant to the end of a block."""
    if value in mapping:
        return
    assert isinstance(value, OpResult)
    for operand in value.op.operands:
        _copy(operand, mapping, block)
    block.add_op(_cloned(value.op, mapping))
