"""Storage of quantized values: the type with its spelling, and the part of its range that is used.

Source: the "'quant' Dialect" document, `storedType`, `storageMin` and `storageMax`. Upstream MLIR also accepts `si8`,
`ui8`, three narrow float formats and `!quant.quantile`, as types distinct from `i8` and `u8`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute

from zeropoint.ir.floats import FORMATS, float_format
from zeropoint.ir.quant.quantile import QuantileType, bit_width
from zeropoint.numerics.storage import StorageType, integer_range

MAX_WIDTH = 32
FLOAT_STORAGE: tuple[type[Attribute], ...] = (Float8E5M2Type, Float8E4M3FNType, Float4E2M1FNType)
"""The float formats that may store quantized values."""

_SIGNED_SPELLING = re.compile(r"(s|u)i([0-9]+)")
_RANGED_SPELLING = re.compile(r"([^<>]+)<(-?[0-9]+):(-?[0-9]+)>")
_FLOAT_SPELLINGS: dict[str, Attribute] = {str(kind()): kind() for kind in FLOAT_STORAGE}


@dataclass(frozen=True)
class Storage:
    """A storage type and the part of its range that is used: `i8<-127:127>`.

    `minimum` and `maximum` are inclusive. `spelling` is the type as written if that is not `i8` or `u8`: `si8`, `ui8`,
    `f8E4M3FN` or a quantile type. `type` then has its signedness and width.
    """

    type: StorageType
    minimum: int
    maximum: int
    spelling: Attribute | None = None

    @staticmethod
    def of(text: str, minimum: int | None = None, maximum: int | None = None) -> Storage:
        """`Storage.of("i8")` is the whole range of i8, `Storage.of("i8<-127:127>")` or `Storage.of("i8", -127)` the
        narrow one.

        Raises ValueError for a text that is not a storage type, and for a range in it that the type does not hold.
        """
        if ranged := _RANGED_SPELLING.fullmatch(text):
            low, high = int(ranged[2]), int(ranged[3])
            least, greatest = Storage.of(ranged[1]).range
            if not least <= low < high <= greatest:
                raise ValueError(f"found storage type '{text}', expected a range inside {least}:{greatest}")
            return Storage.of(ranged[1], low, high)
        found = _SIGNED_SPELLING.fullmatch(text)
        if text in _FLOAT_SPELLINGS:
            whole = storage_of(_FLOAT_SPELLINGS[text])
        elif found:
            signedness = Signedness.SIGNED if found[1] == "s" else Signedness.UNSIGNED
            whole = storage_of(IntegerType(int(found[2]), signedness))
        else:
            storage_type = StorageType.parse(text)
            whole = Storage(storage_type, storage_type.min, storage_type.max)
        return Storage(
            whole.type,
            whole.minimum if minimum is None else minimum,
            whole.maximum if maximum is None else maximum,
            whole.spelling,
        )

    @property
    def range(self) -> tuple[int, int]:
        """The least and the greatest integer that the storage type holds."""
        return (self.type.min, self.type.max) if self.spelling is None else storage_range(self.spelling)

    @property
    def is_full_range(self) -> bool:
        """Whether every value of the storage type may occur."""
        return (self.minimum, self.maximum) == self.range

    @property
    def is_integer(self) -> bool:
        """Whether values are stored as integers."""
        return self.spelling is None or isinstance(self.spelling, IntegerType)

    @property
    def mlir_type(self) -> Attribute:
        """The storage side of `quant.scast`: signless for `i8` and `u8`, otherwise the type as spelled."""
        return IntegerType(self.type.width) if self.spelling is None else self.spelling

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of stored values; for a quantile type, the dtype of its storage type.

        Raises TypeError if NumPy has none.
        """
        if self.spelling is None or isinstance(stored_type(self.spelling), IntegerType):
            return np.dtype(self.type.dtype)
        dtype = float_format(stored_type(self.spelling)).dtype
        if dtype is None:
            raise TypeError(f"found storage type {self.spelling}, which NumPy cannot hold")
        return dtype

    def __str__(self) -> str:
        text = str(self.type) if self.spelling is None else str(self.spelling)
        return text if self.is_full_range else f"{text}<{self.minimum}:{self.maximum}>"


def is_storage_type(found: Attribute) -> bool:
    """Whether a type may store quantized values, regardless of its width."""
    return isinstance(found, (IntegerType, QuantileType, *FLOAT_STORAGE))


def stored_type(found: Attribute) -> Attribute:
    """The number type behind a storage type: for a quantile type its storage type, otherwise the type itself."""
    return found.data.storage_type if isinstance(found, QuantileType) else found


def type_width(found: Attribute) -> int:
    """The width in bits of a storage type."""
    return bit_width(stored_type(found))


def signedness_of(found: Attribute) -> Signedness | None:
    """The signedness of an integer type; None for any other type."""
    return cast("IntegerType", found).signedness.data if isinstance(found, IntegerType) else None


def type_is_signed(found: Attribute) -> bool:
    """Whether stored values are signed; signless integers count as signed."""
    return signedness_of(stored_type(found)) is not Signedness.UNSIGNED


def storage_range(found: Attribute) -> tuple[int, int]:
    """The least and greatest integer of a storage type; for a quantile type, its bounds if it has any."""
    if isinstance(found, QuantileType) and found.data.bounds is not None:
        return found.data.bounds
    stored = stored_type(found)
    if type(stored) in FORMATS:
        largest = int(float_format(stored).largest)
        return -largest, largest
    return integer_range(bit_width(stored), signed=type_is_signed(stored))


def storage_of(found: Attribute) -> Storage:
    """The whole range of a storage type of 1 to 32 bits; signless integers are signed.

    Raises ValueError for another width.
    """
    storage_type = StorageType(type_is_signed(found), type_width(found))
    minimum, maximum = storage_range(found)
    return Storage(storage_type, minimum, maximum, None if signedness_of(found) is Signedness.SIGNLESS else found)
