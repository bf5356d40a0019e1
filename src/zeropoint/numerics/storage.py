"""Storage types: the integer types that hold quantized values.

Source: the "'quant' Dialect" document (storage type, storage_min, storage_max); widths up to 32, and 64 for
accumulators.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_SPELLING = re.compile(r"([iu])([1-9][0-9]*)")


def half_range(width: int) -> int:
    """2^(width - 1). Signed integers are in -half..half - 1, and so are unsigned ones minus half."""
    return 1 << (width - 1)


def signed_range(width: int) -> tuple[int, int]:
    """The minimum and maximum signed integer of a width."""
    half = half_range(width)
    return -half, half - 1


def integer_range(width: int, *, signed: bool) -> tuple[int, int]:
    """The minimum and maximum integer of a width."""
    return signed_range(width) if signed else (0, (1 << width) - 1)


def as_signed(number: int, width: int) -> int:
    """The signed integer with the same bits as an unsigned one."""
    return number - (1 << width) if number >= half_range(width) else number


@dataclass(frozen=True)
class StorageType:
    """A signed or unsigned integer type of `width` bits, 1 to 32, or 64 for accumulators. Raises ValueError for other
    widths."""

    signed: bool
    width: int

    def __post_init__(self) -> None:
        if not (1 <= self.width <= 32 or self.width == 64):
            raise ValueError(f"found a storage type of {self.width} bits; expected 1 to 32, or 64")

    @staticmethod
    def parse(text: str) -> StorageType:
        """Parse `i8` as signed and `u8` as unsigned. Raises ValueError if `text` is neither form."""
        match = _SPELLING.fullmatch(text)
        if match is None:
            raise ValueError(f"found storage type '{text}'; expected i or u and a width, such as i8 or u8")
        return StorageType(match[1] == "i", int(match[2]))

    def __str__(self) -> str:
        return f"{'i' if self.signed else 'u'}{self.width}"

    @property
    def min(self) -> int:
        """The minimum."""
        return integer_range(self.width, signed=self.signed)[0]

    @property
    def max(self) -> int:
        """The maximum."""
        return integer_range(self.width, signed=self.signed)[1]

    @property
    def narrow_min(self) -> int:
        """The minimum of the narrow range: one above `min`, so that a signed range is symmetric."""
        return self.min + 1

    @property
    def middle(self) -> int:
        """The zero point of symmetric parameters: 0, or half of the range of unsigned storage."""
        return 0 if self.signed else half_range(self.width)

    @property
    def dtype(self) -> np.dtype[np.signedinteger] | np.dtype[np.unsignedinteger]:
        """The smallest NumPy integer type that holds every value: int8 for i4."""
        bits = next(bits for bits in (8, 16, 32, 64) if bits >= self.width)
        return np.dtype(f"{'int' if self.signed else 'uint'}{bits}")


def dtype_range(dtype: npt.DTypeLike) -> tuple[int, int]:
    """The minimum and maximum of a NumPy integer dtype. For storage, they are those of its container: int8 holds i4."""
    limits = np.iinfo(np.dtype(dtype).name)
    return int(limits.min), int(limits.max)


def smallest_dtype(minimum: int, maximum: int) -> np.dtype[np.signedinteger] | np.dtype[np.unsignedinteger]:
    """The smallest NumPy integer type that holds minimum..maximum. It is signed if both signs fit.

    So 0..127 gives int8. Pass a dtype if part of the range of u8 is meant. Raises ValueError beyond 64 bits.
    """
    for bits in (8, 16, 32, 64):
        for signed in (True, False):
            kind = StorageType(signed, bits)
            if kind.min <= minimum and maximum <= kind.max:
                return kind.dtype
    raise ValueError(f"found the range {minimum}..{maximum}; expected one that 64 bits hold")
