"""Functions of 16-bit integers: linear interpolation between the entries of a table.

For x in -2^15..2^15 - 1 and a table t of 2^(16 - S) + 1 entries:

    u = x + 2^15, i = u >> S, f = u & (2^S - 1)
    result = t[i] + (((t[i + 1] - t[i]) f + 2^(S - 1)) >> S)        1 <= S <= 14

**No overflow.** Entries have at most 16 bits, so |t[i + 1] - t[i]| < 2^16. With S <= 14, the product is below 2^30. The
result is between t[i] and t[i + 1].

**Error.** `tabulated` returns the shortest table whose results differ from the rounded function by at most
`LARGEST_ERROR` steps. It checks every x, so the bound is exact, not an estimate. A function with jumps has no such
table; it needs an entry for every x (`fxpmath.table`).
"""

from __future__ import annotations

import numpy as np

from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.storage import half_range

BITS = 16
"""The width of x."""
GREATEST_SHIFT = 14
"""The maximum S: a table of five entries."""
USUAL_SHIFT = 7
"""The first S to try: 513 entries, as in LiteRT's tables of 16-bit functions."""
LARGEST_ERROR = 1
"""The maximum difference from the rounded function, in steps of the result."""


def shift_of(entries: int) -> int | None:
    """S of a table with this number of entries; None if the number is not 2^(16 - S) + 1 for an S of 1 to 14."""
    found = BITS - (entries - 1).bit_length() + 1 if entries > 1 else -1
    return found if 1 <= found <= GREATEST_SHIFT and entries == (1 << (BITS - found)) + 1 else None


def interpolated(x: AnyArray, table: AnyArray) -> AnyArray:
    """Evaluate a table at 16-bit integers, as i32. Raises ValueError for another number of entries."""
    shift = shift_of(table.size)
    if shift is None:
        raise ValueError(f"found a table of {table.size} entries, expected 2^k + 1 with k from 2 to {BITS - 1}")
    # From 0 to 65535, so that the high bits are the index of an entry.
    u = x.astype(np.int32) + half_range(BITS)
    index = u >> shift
    entries = table.astype(np.int32)
    low = np.take(entries, index)
    rise = np.take(entries, index + 1) - low
    # Half of a step is added before the shift: round half up.
    return low + ((rise * (u & ((1 << shift) - 1)) + (1 << (shift - 1))) >> shift)


def tabulated(image: AnyArray) -> AnyArray | None:
    """The shortest table of a function within `LARGEST_ERROR`, with at least 513 entries; None if there is none.

    `image` has the rounded results for x = -2^15 to 2^15, including the end beyond the largest x.
    """
    domain = np.arange(-half_range(BITS), half_range(BITS))
    for shift in range(USUAL_SHIFT, 0, -1):
        table = image[:: 1 << shift]
        if np.abs(interpolated(domain, table) - image[:-1].astype(np.int64)).max() <= LARGEST_ERROR:
            return table
    return None
