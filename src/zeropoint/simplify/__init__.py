"""Simplification of float programs: the ordered list of passes."""

from zeropoint.ir.inline_calls import inline_calls
from zeropoint.ir.program import Program
from zeropoint.ir.sequence import in_sequence
from zeropoint.simplify.add_masks import add_masks
from zeropoint.simplify.bound_infinite_masks import bound_infinite_masks
from zeropoint.simplify.cast_ports import cast_ports
from zeropoint.simplify.decompose_batch_norm import decompose_batch_norm
from zeropoint.simplify.drop_repeated_shifts import drop_repeated_shifts
from zeropoint.simplify.drop_zero_terms import drop_zero_terms
from zeropoint.simplify.fold_batch_norm import fold_batch_norm
from zeropoint.simplify.fold_broadcasts import fold_broadcasts
from zeropoint.simplify.fold_constants import fold_constants
from zeropoint.simplify.fold_counts import fold_counts
from zeropoint.simplify.fold_decided import fold_decided
from zeropoint.simplify.fold_empty import fold_empty
from zeropoint.simplify.fold_padding import fold_padding
from zeropoint.simplify.fold_positions import fold_positions
from zeropoint.simplify.fold_slices import fold_slices
from zeropoint.simplify.fold_updates import fold_updates
from zeropoint.simplify.join_pads import join_pads
from zeropoint.simplify.pin_constants import pin_constants
from zeropoint.simplify.restore_limits import restore_limits
from zeropoint.simplify.single_positions import single_positions
from zeropoint.simplify.statements import attributes_to_statements, has_statements, statements_to_attributes
from zeropoint.simplify.unroll_loops import unroll_loops

__all__ = [
    "PASSES",
    "add_masks",
    "bound_infinite_masks",
    "cast_ports",
    "decompose_batch_norm",
    "drop_repeated_shifts",
    "drop_zero_terms",
    "fold_batch_norm",
    "fold_broadcasts",
    "fold_constants",
    "fold_counts",
    "fold_decided",
    "fold_empty",
    "fold_padding",
    "fold_positions",
    "fold_slices",
    "fold_updates",
    "inline_calls",
    "join_pads",
    "pin_constants",
    "restore_limits",
    "simplify",
    "single_positions",
    "unroll_loops",
]

PASSES = (
    inline_calls,
    pin_constants,
    unroll_loops,
    fold_updates,
    fold_empty,
    single_positions,
    fold_positions,
    fold_constants,
    fold_decided,
    cast_ports,
    drop_repeated_shifts,
    drop_zero_terms,
    add_masks,
    bound_infinite_masks,
    fold_broadcasts,
    fold_counts,
    join_pads,
    fold_slices,
    restore_limits,
    decompose_batch_norm,
    fold_batch_norm,
    fold_padding,
)


def simplify(program: Program) -> Program:
    """Inline calls, pin and fold constants, join padded values, fold slices of concatenations, batch norms and padding.

    The result is the same with and without annotations of computed values (`statements.py`).
    """
    program = inline_calls(program)
    stated = has_statements(program)
    if stated:
        program = program.for_change()
        statements_to_attributes(program)
    program = in_sequence(PASSES[1:], program)
    if stated:
        attributes_to_statements(program)
    return program
