"""Whether native code and the interpreter give the same bits for an integer program: the column `differ` of tables."""

from collections.abc import Iterable

import numpy as np

import zeropoint as zp


def differing(integers: zp.Model, feeds: Iterable[dict[str, np.ndarray]]) -> str:
    """How many values of all outputs have other bits in native code than in the interpreter, of how many."""
    interpreter, native = integers.interpreted(), integers.native()
    found = total = 0
    for feed in feeds:
        results = native(**feed)
        for name, wanted in interpreter(**feed).items():
            found += _differing(wanted, results[name])
            total += wanted.size
    return f"{found} of {total}"


def _differing(first: np.ndarray, second: np.ndarray) -> int:
    """The values whose bytes differ. So zeros of either sign differ, and equal NaNs do not."""
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return first.size
    bits = [np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in (first, second)]
    return int((bits[0] != bits[1]).reshape(first.size, -1).any(axis=1).sum()) if first.size else 0
