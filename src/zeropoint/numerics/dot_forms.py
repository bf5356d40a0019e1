"""The ways in which processors add products of 8-bit numbers, and the width of every intermediate sum.

| form | per 32-bit element | instruction |
|---|---|---|
| `u8s8_quads` | acc + four products of u8 and i8 | x86 VPDPBUSD, AArch64 USDOT |
| `s8s8_quads` | acc + four products of i8 and i8 | AArch64 SDOT |
| `u8s8_pairs` | two products are added in i16, **saturating**; two such sums are added to acc | VPMADDUBSW, VPMADDWD |
| `u8s8_pairs_split` | the same, twice: w = (w >> 1) + (w - (w >> 1)) | the same |
| `u8s16_pairs` | acc + products 0 and 2 + products 1 and 3, of numbers extended to 16 bits | VPMADDWD, twice |

Activations are stored in i8. If the instruction takes u8, each stored byte is xored with 128, which adds 128 to it. In
exchange, 128 * (sum of the weights) is subtracted from the bias:

    sum (x + 128) w - 128 sum w = sum x w

**No saturation.** Only pairs have a sum that is narrower than 32 bits. Two products of at most 255 |w| fit i16 if 2 *
255 * |w| <= 32767. This holds for |w| <= 64, in any order of the terms. The halves of an 8-bit weight are at most 64.
`ranges` bounds the 32-bit sums. Adding 128 to activations moves them by 128 sum w modulo 2^32, and the bias moves them
back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeropoint.numerics.arrays import AnyArray, IntArray

INT16_MIN, INT16_MAX = -(1 << 15), (1 << 15) - 1
BYTE_MAX = 255
PAIR_LIMIT = INT16_MAX // BYTE_MAX
"""The maximum sum of two weights of one sign whose products with any two u8 activations together fit i16: 128."""


def greatest_pairs(weights: AnyArray) -> AnyArray:
    """The maximum sum of the magnitudes of a pair's weights of one sign, per channel.

    `weights` are (channels, terms), integers or real numbers. A pair is terms 2 j and 2 j + 1. Weights of opposite
    signs do not compensate each other, because a u8 activation may be 0.
    """
    pairs = _pairs(weights)
    # Activations are u8, so the worst activation for a weight of the other sign is 0, which compensates nothing.
    sums = np.maximum(pairs.clip(0, None).sum(axis=2), -pairs.clip(None, 0).sum(axis=2))
    return sums.max(axis=1, initial=0)


def without_saturation(weights: AnyArray) -> AnyArray:
    """Integer weights (channels, terms) in which no pair saturates: the larger weight of a pair is moved towards 0."""
    pairs = _pairs(weights)
    signs = np.sign(pairs)
    # Weights of opposite signs do not add up in the worst case.
    over = np.abs(pairs.sum(axis=2)) * (signs.prod(axis=2) > 0) - PAIR_LIMIT
    # The larger weight moves, because its relative error is smaller.
    greater = np.abs(pairs).argmax(axis=2)[..., None]
    moved = (
        np.take_along_axis(pairs, greater, 2) - np.take_along_axis(signs, greater, 2) * over.clip(0, None)[..., None]
    )
    fitted = pairs.copy()
    np.put_along_axis(fitted, greater, moved, 2)
    return fitted.reshape(len(weights), -1)[:, : weights.shape[1]]


def _pairs(weights: AnyArray) -> AnyArray:
    """(channels, terms) as (channels, pairs, 2), with a 0 after an odd last term."""
    # An odd last term is paired with a weight of 0.
    even = np.pad(weights, ((0, 0), (0, weights.shape[1] % 2)))
    return even.reshape(len(weights), even.shape[1] // 2, 2)


@dataclass(frozen=True)
class DotForm:
    """A form: what it adds to activations, whether pairs saturate, and whether weights are split in two.

    `wide` says that activations and weights are extended to 16 bits.
    """

    name: str
    offset: int
    pairs: bool = False
    split: bool = False
    wide: bool = False

    @property
    def weight_limit(self) -> int:
        """The maximum |weight| for which no intermediate sum saturates, for any activations."""
        if not self.pairs:
            return 128
        # Two products of 255 |w| have to fit i16.
        single = INT16_MAX // (2 * BYTE_MAX)
        # 32767 // 510 = 64 for each half of a split weight. So a whole weight may have 128, which is every int8.
        return 2 * single if self.split else single

    def products(self, x: IntArray, weights: IntArray, zero: int = 0) -> IntArray:
        """x @ weights in this form, for integers of 8 bits: [..., m, k] by [..., k, n]. The sums are i64.

        `x` has its zero point `zero` subtracted, but the instruction sees stored values, so the zero point is
        subtracted from the sums, like the offset. Pairs are terms 2 j and 2 j + 1. Their sums saturate to i16, as in
        the instruction.
        """
        moved, w = x.astype(np.int64) + (zero + self.offset), weights.astype(np.int64)
        # The halves of an odd weight differ: -127 is -64 and -63, both within the limit of 64.
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
        DotForm("u8s16_pairs", 128, wide=True),
    )
}


def dot_form(name: str) -> DotForm:
    """The form of this name. Raises ValueError, listing the names, if there is none."""
    if name not in FORMS:
        raise ValueError(f"found dot form '{name}', expected one of: {', '.join(FORMS)}")
    return FORMS[name]
