"""The patterns of fusion, in the order in which they get their chance.

A pattern is a small function from an op to a match. The kernels that they name come from the target's table: a function
of one value is named `gelu` where the target has that kernel, and `elementwise_unary` where it makes a table of any. So
do the bounds that its kernels take in, and the composites that they cover: fusion differs by the target's data only.
"""

from __future__ import annotations

from zeropoint.fuse import contraction, elementwise, movement, normalization, pooling
from zeropoint.fuse.match import Pattern

FORWARD, BACKWARD = 1, -1
ROUNDS: tuple[tuple[int, tuple[Pattern, ...]], ...] = (
    # Whole idioms before the kernels that their parts would be.
    (FORWARD, normalization.PATTERNS),
    (FORWARD, (*contraction.PATTERNS, *pooling.PATTERNS)),
    # From the last op to the first, so that a function of many ops is found from its end.
    (BACKWARD, elementwise.PATTERNS),
    (FORWARD, movement.PATTERNS),
)
"""Walks over the program, each with a direction and patterns."""
