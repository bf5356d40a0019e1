"""The ops of a block in an order that does not depend on their order in the text."""

from __future__ import annotations

from xdsl.ir import Block, Operation


def dataflow_order(block: Block) -> list[Operation]:
    """The ops that the terminator of a block depends on, each after its operands' ops, in order of the operands.

    Ops that it does not depend on come last, as they are in the block. Ops inside of the ops' regions are not listed.
    """
    last = block.last_op
    found: dict[Operation, None] = {}
    pending = [] if last is None else [(last, False)]
    while pending:
        op, is_ready = pending.pop()
        if op in found or op.parent is not block:
            continue
        if is_ready:
            found[op] = None
            continue
        pending.append((op, True))
        owners = [operand.owner for operand in op.operands]
        pending += [(owner, False) for owner in reversed(owners) if isinstance(owner, Operation)]
    return [*found, *(op for op in block.ops if op not in found)]
