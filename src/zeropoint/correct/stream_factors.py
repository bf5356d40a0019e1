"""The factors of the channels of a residual stream.

Channel c of value v has the largest magnitude a_vc, relative to that of all channels of v. So a_c, the maximum over the
values, is at most 1, and with factors f_c = a_c no value's scale is larger. As for single values (`equalize.py`),
f_c = a_c^p / w_c^(1 - p), relative to its maximum. w_c is the largest weight that reads c, relative to that of all
channels of the reader. The exponent p is the one with the least expected error of the readers' results, each relative
to its error without factors.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from zeropoint.correct.residual_streams import Member, ResidualStream
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.solve.equalizable import POWERS, expected_noise, greatest_read, matrix_of, noise_of_depthwise

UNEVEN = 0.6
"""Streams are equalized if their channels use, on average, at least this many bits less than the widest one.

Without corrections, a face detector with 0.7 bits gains 8 dB, and a trained ResNet-50 with 0.8 to 1.6 bits gains 5.
"""


def stream_factors(
    stream: ResidualStream, ranges: Mapping[Member, Array], weights: Weights, least: float
) -> Array | None:
    """The factors by channel; None if the channels are even, or if all exponents are worse than none.

    `ranges` are those of the channels of the values that were observed, (channels, 2). No factor is below `least`.
    """
    magnitude = relative_magnitude(stream, ranges)
    seen = magnitude > 0
    if not seen.any() or -np.log2(magnitude[seen]).mean() < UNEVEN:
        return None
    readers = list(stream.readers())
    read = np.zeros(stream.size)
    for member, reader in readers:
        found = greatest_read(reader, weights)
        read[member.channels] = np.maximum(read[member.channels], found / max(found.max(), np.finfo(float).tiny))

    def by(power: float) -> Array:
        found = np.where(seen, magnitude, 1.0) ** power / np.where(read > 0, read, 1.0) ** (1 - power)
        return np.where(seen, np.clip(found / found[seen].max(), least, 1.0), 1.0)

    ones = np.ones(stream.size)
    # Errors are relative, so the unit of ranges that were not observed does not matter.
    known = {member: ranges.get(member, _both(magnitude[member.channels])) for member, _ in readers}
    before = [_noise(member, reader, known[member], ones, weights) for member, reader in readers]

    def error(factors: Array) -> float:
        after = (_noise(member, reader, known[member], factors, weights) for member, reader in readers)
        return sum(new / old for new, old in zip(after, before, strict=True) if old > 0)

    tried = [ones, *map(by, POWERS)]
    best = int(np.argmin([error(factors) for factors in tried]))
    return tried[best] if best else None


def relative_magnitude(stream: ResidualStream, ranges: Mapping[Member, Array]) -> Array:
    """The largest magnitude of each channel in any value, relative to that of the value; (channels,)."""
    made = np.zeros(stream.size)
    for member, found in ranges.items():
        magnitude = np.abs(found).max(axis=1)
        if magnitude.max(initial=0.0) > 0:
            made[member.channels] = np.maximum(made[member.channels], magnitude / magnitude.max())
    return made


def _both(magnitude: Array) -> Array:
    """Ranges of both signs, (channels, 2)."""
    return np.stack([-magnitude, magnitude], axis=1)


def _noise(member: Member, reader: QuantizeRegionOp, ranges: Array, factors: Array, weights: Weights) -> float:
    """The expected error of a reader's results; that of its operand's rounding alone if it is grouped."""
    matrix, own = matrix_of(reader, weights), factors[member.channels]
    if matrix is not None:
        return expected_noise(matrix, ranges, own)
    return noise_of_depthwise(greatest_read(reader, weights), ranges, own)
