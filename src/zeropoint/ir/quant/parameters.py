"""What the quantized types hold: storage bounds, scales, zero points; immutable, hashed once.

Source: the "'quant' Dialect" document, section "The !quant.uniform type".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import AnyFloat

from zeropoint.numerics.storage import StorageType


@dataclass(frozen=True)
class Storage:
    """A storage type and the part of its range that is used: `i8<-127:127>`.

    `minimum` and `maximum` are inclusive and lie inside the range of `type`.
    """

    type: StorageType
    minimum: int
    maximum: int

    @staticmethod
    def of(text: str, minimum: int | None = None, maximum: int | None = None) -> Storage:
        """`Storage.of("i8")` is the whole range of i8, `Storage.of("i8", -127)` the narrow one."""
        storage_type = StorageType.parse(text)
        return Storage(
            storage_type,
            storage_type.min if minimum is None else minimum,
            storage_type.max if maximum is None else maximum,
        )

    @property
    def is_full_range(self) -> bool:
        """Whether every value of the storage type may occur."""
        return self.minimum == self.type.min and self.maximum == self.type.max

    def __str__(self) -> str:
        return str(self.type) if self.is_full_range else f"{self.type}<{self.minimum}:{self.maximum}>"


@dataclass(frozen=True, eq=False)
class UniformParameters:
    """The parameters of `!quant.uniform`: real = (stored - zero_point) * scale.

    `axis` is None for per-layer quantization; then `scales` and `zero_points` have one entry. Otherwise they have one
    entry per channel along `axis`.
    """

    storage: Storage
    expressed_type: AnyFloat
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return (self.storage, self.expressed_type, self.scales, self.zero_points, self.axis)

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, UniformParameters) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class AnyParameters:
    """The parameters of `!quant.any`: a storage, and an expressed type that may be left open."""

    storage: Storage
    expressed_type: AnyFloat | None = None


@dataclass(frozen=True)
class CalibratedParameters:
    """The parameters of `!quant.calibrated`: the range of real values that was observed."""

    expressed_type: AnyFloat
    minimum: float
    maximum: float
