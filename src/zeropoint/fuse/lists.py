"""The fusion patterns, in the order of trial.

A pattern maps an op to a match or None. Fusion depends on the target only through its table. The table determines the
kernel names: a function of one value is `gelu` if the target has that kernel, and `elementwise_unary` if the target
uses a lookup table for any function. The table also determines which clamps kernels absorb and which composites they
cover.
"""

from __future__ import annotations

from zeropoint.fuse import contraction, elementwise, movement, normalization, pooling, positions, resizing
from zeropoint.fuse.match import RegionPattern
from zeropoint.fuse.squared_differences import match_squared_difference

FORWARD, BACKWARD = 1, -1
ROUNDS: tuple[tuple[int, tuple[RegionPattern, ...]], ...] = (
    # Whole idioms come before the kernels that would match their parts.
    (FORWARD, (*normalization.PATTERNS, *positions.PATTERNS, *resizing.PATTERNS, match_squared_difference)),
    (FORWARD, (*contraction.PATTERNS, *pooling.PATTERNS)),
    # From the last op to the first: a function of many ops is matched from its end.
    (BACKWARD, elementwise.PATTERNS),
    (FORWARD, movement.PATTERNS),
)
"""Walks over the program, each with a direction and patterns."""
