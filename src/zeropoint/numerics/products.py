"""Sums of products of floats (`dot_general`, `convolution`), for the interpreter and for native code.

The sum of a_0 b_0, a_1 b_1, ..., a_(n-1) b_(n-1) is computed in one chain, from the first product to the last:

1. s = +0; then s = a_k b_k + s for k = 0, 1, ..., n - 1. In f32, every such step is rounded once, as in IEEE 754's
   fusedMultiplyAdd. In f64, the product is rounded, and then the sum.
2. The result is s + 0, so a zero result is +0.

The result does not depend on the instruction set, the number of threads, or the memory layout. A product with a zero,
as in padding, does not change the result if the other factor is finite.

A product of two f32 is exact in f64. Its sum with s, rounded to f64 and then to f32, is the fused result unless the f64
lies midway between two f32 and was itself rounded. In that case, the f64 is first rounded to odd (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd").
"""

from __future__ import annotations

import math

import numpy as np

from zeropoint.numerics.arrays import AnyArray

BLOCK = 1 << 14
"""The number of sums computed at a time, so that intermediate results stay in the cache."""
LONGEST = 1 << 12
"""The number of sums of one row computed at a time."""

_DROPPED = np.int64((1 << 29) - 1)
"""Mask of the significand bits that an f64 has in addition to those of an f32."""
_MIDDLE = np.int64(1 << 28)
_LEAST_NORMAL = 2.0**-126
_WHOLE = 2.0**-102
"""A product of two f32 has at most 48 bits. From this magnitude on, it is a multiple of 2^-149, like every f32."""


def sums_of_products(a: AnyArray, b: AnyArray) -> AnyArray:
    """The matrix product of a[..., m, k] and b[..., k, n] in the order of the module's docstring. Both are f32 or both
    f64."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (m, terms), n = a.shape[-2:], b.shape[-1]
    count = math.prod(batch)
    left = np.broadcast_to(a, (*batch, m, terms)).reshape(count, m, terms)
    right = np.broadcast_to(b, (*batch, terms, n)).reshape(count, terms, n)
    found = np.empty((count, m, n), a.dtype)
    if not found.size:
        return found.reshape(*batch, m, n)
    with np.errstate(all="ignore"):
        if n < m:
            # Swap the factors, so that the longer side is contiguous in memory.
            _by_blocks(right.swapaxes(1, 2), left.swapaxes(1, 2), found.swapaxes(1, 2))
        else:
            _by_blocks(left, right, found)
    return found.reshape(*batch, m, n)


def _by_blocks(a: AnyArray, b: AnyArray, found: AnyArray) -> None:
    """Write the products of a[B, m, k] and b[B, k, n] to found[B, m, n], block by block."""
    chain = _fused if found.dtype == np.float32 else _unfused
    batches, rows, columns = found.shape
    across = min(columns, LONGEST)
    down = min(rows, BLOCK // across)
    # Many small products (attention heads) share a block, so that each step of the loop over k is a NumPy call on long
    # rows.
    deep = BLOCK // (down * across)
    for z in range(0, batches, deep):
        for y in range(0, rows, down):
            # k comes first: each step of the chain reads one contiguous slice of both operands.
            left = np.ascontiguousarray(a[z : z + deep, y : y + down].transpose(2, 0, 1))
            for x in range(0, columns, across):
                right = b[z : z + deep, :, x : x + across].transpose(1, 0, 2)
                found[z : z + deep, y : y + down, x : x + across] = chain(left, right)


def _unfused(a: AnyArray, b: AnyArray) -> AnyArray:
    """The sums over k of a[k, B, m] b[k, B, n], in f64."""
    sums = np.zeros((*a.shape[1:], b.shape[2]), a.dtype)
    product = np.empty_like(sums)
    for left, right in zip(a, b, strict=True):
        np.multiply(left[:, :, None], right[:, None, :], out=product)
        np.add(sums, product, out=sums)
    # As in f32: a zero result is +0.
    return np.add(sums, 0.0, out=sums)


def _fused(a: AnyArray, b: AnyArray) -> AnyArray:
    """The same for f32, with every step rounded once."""
    shape = (*a.shape[1:], b.shape[2])
    sums = np.zeros(shape)
    # Subnormal sums need another test for midpoints, which costs a pass over all sums. So it is used only if the data
    # may need it.
    tiny = _least(a) * _least(b) < _WHOLE
    # Few sums take less time than the overhead of NumPy's calls, so many steps are computed and tested at once.
    steps = max(1, BLOCK // max(sums.size, 1))
    totals, dropped = np.empty((steps, *shape)), np.empty((steps, *shape), np.int64)
    for start in range(0, len(a), steps):
        left = a[start : start + steps, :, :, None].astype(np.float64)
        right = b[start : start + steps, :, None, :].astype(np.float64)
        before = sums.copy()
        total = np.multiply(left, right, out=totals[: len(left)])
        _add_up(total, sums)
        # An f64 is midway between two f32 if exactly the highest of its 29 additional bits is set.
        middle = np.bitwise_and(total.view(np.int64), _DROPPED, out=dropped[: len(left)]) == _MIDDLE
        if tiny:
            # The midpoints between subnormal numbers are at other bits.
            middle |= np.abs(total) < _LEAST_NORMAL
        # Rare: about one sum in 2^29 for random data. All other sums are already the fused result.
        if middle.any():
            sums = _one_by_one(left, right, before, tiny=tiny)
    # -0 + 0 is +0. Otherwise the sign of a zero sum would depend on whether padding was added to it.
    return sums.astype(np.float32) + np.float32(0)


def _add_up(products: AnyArray, sums: AnyArray) -> None:
    """Add products[k] to `sums` step by step, rounded to f64 and then to f32. products[k] is overwritten by the f64 of
    step k."""
    rounded = np.empty(sums.shape, np.float32)
    for total in products:
        np.add(total, sums, out=total)
        # The next step adds to the f32, not to the f64, because every step of the chain is rounded.
        np.copyto(rounded, total, casting="same_kind")
        np.copyto(sums, rounded)


def _one_by_one(a: AnyArray, b: AnyArray, sums: AnyArray, *, tiny: bool) -> AnyArray:
    """Add the products of a and b to `sums` step by step. An f64 midway between two f32 is first rounded to odd."""
    for left, right in zip(a, b, strict=True):
        product = left * right
        total = product + sums
        middle = (total.view(np.int64) & _DROPPED) == _MIDDLE
        if tiny:
            middle |= np.abs(total) < _LEAST_NORMAL
        if middle.any():
            _round_to_odd(total, product, sums, middle)
        sums = total.astype(np.float32).astype(np.float64)
    return sums


def _least(x: AnyArray) -> float:
    """The least non-zero |x|, in f64."""
    magnitude = np.abs(x)
    # Without a mask, which takes seven times as long. It is needed for zeros, and NaNs do not count.
    least = float(np.min(magnitude, initial=np.inf))
    return least if least > 0 else float(np.min(magnitude, where=magnitude > 0, initial=np.inf))


def _round_to_odd(total: AnyArray, product: AnyArray, sums: AnyArray, where: AnyArray) -> None:
    """Change `total`, which is product + sums rounded to nearest, to rounding to odd: if inexact, take the odd
    neighbour."""
    t, p, c = total[where], product[where], sums[where]
    # The error of a sum (Knuth, TwoSum).
    back = t - p
    error = (p - (t - back)) + (c - back)
    bits = t.view(np.int64)
    # The bit patterns of floats are ordered by magnitude, so the neighbour in the direction of the error is one bit
    # away.
    outwards = np.where((error > 0) == (t > 0), 1, -1)
    is_even = bits & 1 == 0
    bits += np.where(((error > 0) | (error < 0)) & is_even, outwards, 0)
    total[where] = t
