"""Copies of ops in linear time.

xDSL's `op.clone()` inserts block arguments one at a time. Each insertion rebuilds the list, so the time is quadratic in
the number of arguments.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Block, Operation, SSAValue

Op = TypeVar("Op", bound=Operation)


def cloned(op: Op) -> Op:
    """The result of `op.clone()`."""
    values: dict[SSAValue, SSAValue] = {}
    copy = _without_operands(op, values, {})
    for old, new in zip(op.walk(), copy.walk(), strict=True):
        new.operands = tuple(values.get(operand, operand) for operand in old.operands)
    return copy


def without_ops(block: Block) -> Block:
    """An empty block with arguments of the same types, names and locations."""
    copy = Block(arg_types=block.arg_types)
    for old, new in zip(block.args, copy.args, strict=True):
        new.location, new.name_hint = old.location, old.name_hint
    return copy


def _without_operands(op: Op, values: dict[SSAValue, SSAValue], blocks: dict[Block, Block]) -> Op:
    """A copy without operands. Adds the copies of values and blocks to `values` and `blocks`."""
    copy = op.clone_without_regions(values, blocks, clone_operands=False)
    for region, new_region in zip(op.regions, copy.regions, strict=True):
        pairs = [(block, without_ops(block)) for block in region.blocks]
        blocks.update(pairs)
        for block, new in pairs:
            values.update(zip(block.args, new.args, strict=True))
            new_region.add_block(new)
        for block, new in pairs:
            new.add_ops([_without_operands(inner, values, blocks) for inner in block.ops])
    return copy
