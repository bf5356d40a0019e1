"""Parameters of the quantized types: storage bounds, scales, zero points. They are immutable and hashed once.

Source: the "'quant' Dialect" document, section "The !quant.uniform type".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f64

from zeropoint.ir.floats import format_float
from zeropoint.ir.quant.storage import Storage


@dataclass(frozen=True, eq=False)
class UniformParameters:
    """The parameters of `!quant.uniform`: real = (stored - zero_point) * scale.

    Per layer, `scales` and `zero_points` have one entry. Per channel, `axis` is set and they have one entry per index
    of that axis. Sub-channel, `blocks` holds (axis, block size) pairs, and they have the entries of a tensor of `shape`
    in row-major order: one per block; an axis without a block size counts as one block.
    """

    storage: Storage
    expressed_type: AnyFloat
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None
    blocks: tuple[tuple[int, int], ...] | None = None
    shape: tuple[int, ...] = ()

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return (
            self.storage,
            self.expressed_type,
            self.scales,
            self.zero_points,
            self.axis,
            self.blocks,
            self.shape,
        )

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, UniformParameters) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """`scale:zero_point` as upstream prints it, one text per scale; a zero point of 0 is omitted."""
        number_type = f64 if self.blocks is None else self.expressed_type
        numbers = [format_float(scale, number_type) for scale in self.scales]
        pairs = zip(numbers, self.zero_points, strict=True)
        return tuple(f"{scale}:{point}" if point else scale for scale, point in pairs)

    def arrays(self) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.int64]]]:
        """Scales (f64) and zero points (i64): of shape `shape` for sub-channel quantization, flat otherwise."""
        scales, points = np.array(self.scales, np.float64), np.array(self.zero_points, np.int64)
        return (scales, points) if self.blocks is None else (scales.reshape(self.shape), points.reshape(self.shape))

    @property
    def is_shape_consistent(self) -> bool:
        """Whether there are as many scales and zero points as `shape` has entries."""
        count = len(self.scales) if self.blocks is None else prod(self.shape)
        return len(self.scales) == len(self.zero_points) == count


@dataclass(frozen=True)
class AnyParameters:
    """The parameters of `!quant.any`: a storage and an optional expressed type."""

    storage: Storage
    expressed_type: AnyFloat | None = None


@dataclass(frozen=True)
class CalibratedParameters:
    """The parameters of `!quant.calibrated`: the observed range of real values."""

    expressed_type: AnyFloat
    minimum: float
    maximum: float
