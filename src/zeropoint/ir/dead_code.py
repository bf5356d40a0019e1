"""Removal of ops whose results nothing uses."""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure


def remove_dead_ops(block: Block) -> None:
    """Erase pure ops of `block` with no use, in one walk from the end, so that whole chains go at once."""
    for op in list(block.ops)[::-1]:
        remove_if_dead(op)


def remove_if_dead(op: Operation) -> None:
    """Erase a pure op with no use."""
    if op.has_trait(Pure) and not any(result.first_use for result in op.results):
        Rewriter.erase_op(op)
