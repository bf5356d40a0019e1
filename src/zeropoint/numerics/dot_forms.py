"""The ways in which processors add products of 8-bit numbers, with the width of every intermediate sum.

| form | per 32-bit element | instruction |
|---|---|---|
| `u8s8_quads` | acc + four products of u8 and i8 | x86 VPDPBUSD, AArch64 USDOT |
| `s8s8_quads` | acc + four products of i8 and i8 | AArch64 SDOT |
| `u8s8_pairs` | two products are added in i16, **saturating**; two such sums are added to acc | VPMADDUBSW, VPMADDWD |
| `u8s8_pairs_split` | the same, twice: w = (w >> 1) + (w - (w >> 1)) | the same |

Activations are stored in i8. Where the instruction takes u8, the stored bits are flipped with 128 (an xor), which adds
128 to each of them; 128 * (sum of the weights) is taken off the bias:

    sum (x + 128) w - 128 sum w = sum x w

**No saturation.** Of the forms, only pairs have a sum that is narrower than 32 bits. Two products of at most 255 |w|
fit i16 if 2 * 255 * |w| <= 32767, so for |w| <= 64 in any order of the terms. The halves of a weight of 8 bits are at
most 64. The 32-bit sums are those of `ranges`; adding 128 to activations moves them by 128 sum w, modulo 2^32, and
back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.numerics.arrays import AnyArray, IntArray

INT16_MIN, INT16_MAX = -(1 << 15), (1 << 15) - 1
BYTE_MAX = 255
PAIR_LIMIT = INT16_MAX // BYTE_MAX
"""The greatest sum of two weights of one sign whose products with any two u8 activations fit i16 together: 128."""


def greatest_pairs(weights: AnyArray) -> AnyArray:
    """The greatest magnitude that the weights of one sign of a pair sum to, per channel.

    `weights` are (channels, terms), integers or real numbers; a pair is terms 2 j and 2 j + 1. As u8 activations may be
    0, weights of opposite signs do not compensate each other.
    """
    pairs = _pairs(weights)
    # Activations are u8, so the worst activation beside a weight of the other sign is 0, not one that compensates it.
    sums = np.maximum(pairs.clip(0, None).sum(axis=2), -pairs.clip(None, 0).sum(axis=2))
    return sums.max(axis=1, initial=0)


def without_saturation(weights: AnyArray) -> AnyArray:
    """Integer weights (channels, terms), with the greater weight of each pair that would saturate moved towards 0."""
    pairs = _pairs(weights)
    signs = np.sign(pairs)
    # Weights of opposite signs need no room together.
    # 128 for both together: 255 * 128 = 32640 <= 32767, and 255 * 129 would not fit.
    over = np.abs(pairs.sum(axis=2)) * (signs.prod(axis=2) > 0) - PAIR_LIMIT
    # The greater of the two moves, because its relative error is then the smaller one.
    greater = np.abs(pairs).argmax(axis=2)[..., None]
    moved = (
        np.take_along_axis(pairs, greater, 2) - np.take_along_axis(signs, greater, 2) * over.clip(0, None)[..., None]
    )
    fitted = pairs.copy()
    np.put_along_axis(fitted, greater, moved, 2)
    return fitted.reshape(len(weights), -1)[:, : weights.shape[1]]


def _pairs(weights: AnyArray) -> AnyArray:
    """(channels, terms) as (channels, pairs, 2), with 0 beside the last of an odd number of terms."""
    # An odd last term is paired with a weight of 0.
    even = np.pad(weights, ((0, 0), (0, weights.shape[1] % 2)))
    return even.reshape(len(weights), even.shape[1] // 2, 2)


@dataclass(frozen=True)
class DotForm:
    """A form: what is added to activations, whether pairs saturate, and whether weights are split in two."""

    name: str
    offset: int
    pairs: bool = False
    split: bool = False

    @property
    def weight_limit(self) -> int:
        """The greatest |weight| that saturates no intermediate sum for any activations."""
        if not self.pairs:
            return 128
        # Two products of 255 |w| have to fit i16.
        single = INT16_MAX // (2 * BYTE_MAX)
        # 32767 // 510 = 64. Each half of a split weight has that limit, so the whole has 128: every int8.
        return 2 * single if self.split else single

    def products(self, x: IntArray, weights: IntArray, zero: int = 0) -> IntArray:
        """x @ weights in this form: [..., m, k] by [..., k, n], of integers of 8 bits; the sums are i64.

        `x` is less its zero point `zero`, which the instruction does not see: it is taken off the sums, as the offset.
        Pairs are terms 2 j and 2 j + 1. Their sums saturate to i16, as the instruction's do.
        """
        moved, w = x.astype(np.int64) + (zero + self.offset), weights.astype(np.int64)
        # The halves are unequal for odd weights: -127 is -64 and -63, both within the limit of 64.
        parts = [w >> 1, w - (w >> 1)] if self.split else [w]
        add = _paired if self.pairs else np.matmul
        total = sum((add(moved, part) for part in parts), start=np.int64(0))
        return np.asarray(total - (zero + self.offset) * w.sum(axis=-2, keepdims=True))


def _paired(x: IntArray, w: IntArray) -> IntArray:
    """Sums of products whose pairs saturate to i16."""
    if x.shape[-1] % 2:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, 1)])
        w = np.pad(w, [(0, 0)] * (w.ndim - 2) + [(0, 1), (0, 0)])
    total = np.zeros((*np.broadcast_shapes(x.shape[:-2], w.shape[:-2]), x.shape[-2], w.shape[-1]), np.int64)
    for k in range(0, x.shape[-1], 2):
        pair = x[..., k : k + 2] @ w[..., k : k + 2, :]
        # VPMADDUBSW saturates each pair before VPMADDWD adds them in 32 bits.
        total += np.clip(pair, INT16_MIN, INT16_MAX)
    return total


FORMS = {
    form.name: form
    for form in (
        DotForm("u8s8_quads", 128),
        DotForm("s8s8_quads", 0),
        DotForm("u8s8_pairs", 128, pairs=True),
        DotForm("u8s8_pairs_split", 128, pairs=True, split=True),
    )
}


def dot_form(name: str) -> DotForm:
    """The form of that name. Raises ValueError, listing the names, if there is none."""
    if name not in FORMS:
        raise ValueError(f"found dot form '{name}', expected one of: {', '.join(FORMS)}")
    return FORMS[name]
