"""The layout of formats whose images are channels last: every pass that such an exporter runs first, in order."""

from __future__ import annotations

from zeropoint.export.before_merges import compute_before_merges
from zeropoint.export.channels_last import channels_last
from zeropoint.export.file_orders import restore_file_orders
from zeropoint.export.flat_volumes import flatten_volumes
from zeropoint.export.flat_windows import flatten_windows
from zeropoint.export.merged_terms import split_merged_terms
from zeropoint.export.moved_chains import merge_chains
from zeropoint.ir.program import Program


def image_layout(program: Program, *, ports: bool, by_heads: bool) -> Program:
    """The program with channels last. `ports` says whether images at inputs and outputs are, too.

    With `by_heads`, products of heads that are among the channels are computed one by one. That has fewer transposes if
    the format's product takes transposed matrices.
    """
    program = restore_file_orders(program) if ports else program
    for step in (flatten_windows, merge_chains, compute_before_merges, split_merged_terms):
        program = step(program)
    return flatten_volumes(channels_last(program, ports=ports, by_heads=by_heads))
