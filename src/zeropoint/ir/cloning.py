"""Copies of ops in linear time.

xDSL's `op.clone()` inserts block arguments one at a time. Each insertion rebuilds the list, so the time is quadratic in
the number of arguments.
"""

from __future__ import annotations

from operator import is_
from typing import TypeVar

from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.core import SSAValues

Op = TypeVar("Op", bound=Operation)


def cloned(op: Op) -> Op:
    """The result of `op.clone()`."""
    values: dict[SSAValue, SSAValue] = {}
    early: list[tuple[Operation, Operation]] = []
    copy = _copy(op, values, {}, early)
    for old, new in early:
        new.operands = tuple(values.get(operand, operand) for operand in old.operands)
    return copy


def without_ops(block: Block) -> Block:
    """An empty block with arguments of the same types, names and locations."""
    copy = Block(arg_types=block.arg_types)
    for old, new in zip(block.args, copy.args, strict=True):
        new.location, new.name_hint = old.location, old.name_hint
    return copy


def _copy(
    op: Op, values: dict[SSAValue, SSAValue], blocks: dict[Block, Block], early: list[tuple[Operation, Operation]]
) -> Op:
    """A copy. Adds the copies of values and blocks to `values` and `blocks`.

    Adds an op that reads a value that has no copy yet, and its copy, to `early`: the operands are those of `op`.
    """
    given = tuple(op.operands)
    operands = [values.get(operand, operand) for operand in given]
    # Not `create`, which looks up the definition of the op to add default properties: the op has them.
    copy = type(op).__new__(type(op))
    copy.operands = operands
    copy.results = SSAValues(OpResult(old.type, copy, index) for index, old in enumerate(op.results))
    copy.properties, copy.attributes, copy.location = dict(op.properties), dict(op.attributes), op.location
    if op.successor_uses:
        copy.successors = [blocks.get(successor, successor) for successor in op.successors]
    if any(map(is_, given, operands)):
        early.append((op, copy))
    for old, new in zip(op.results, copy.results, strict=True):
        values[old] = new
        if old.name_hint is not None:
            new.name_hint = old.name_hint
    for _ in op.regions:
        copy.add_region(Region())
    for region, new_region in zip(op.regions, copy.regions, strict=True):
        pairs = [(block, without_ops(block)) for block in region.blocks]
        blocks.update(pairs)
        for block, new in pairs:
            values.update(zip(block.args, new.args, strict=True))
            new_region.add_block(new)
        for block, new in pairs:
            new.add_ops([_copy(inner, values, blocks, early) for inner in block.ops])
    return copy
