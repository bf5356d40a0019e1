"""Removal of ops whose results are not used."""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator, Pure


def remove_dead_ops(block: Block) -> None:
    """Erase unused pure ops of `block`. One walk from the end removes whole chains."""
    for op in list(block.ops)[::-1]:
        remove_if_dead(op)


def remove_if_dead(op: Operation) -> bool:
    """Erase the op if it is pure and unused, and say whether it was. Terminators stay."""
    if any(result.first_use is not None for result in op.results):  # of most ops, and found faster than traits
        return False
    is_dead = op.has_trait(Pure) and not op.has_trait(IsTerminator)
    if is_dead:
        Rewriter.erase_op(op)
    return is_dead
