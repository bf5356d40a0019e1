"""Integer lists as attributes: `array<i64: ...>` and the padding pairs `dense<...> : tensor<Nx2xi64>`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, overload

import numpy as np
from xdsl.dialects.builtin import BytesAttr, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerType, TensorType, i64
from xdsl.utils.exceptions import VerifyException

I64Array = DenseArrayBase[IntegerType]
I64_ARRAY = DenseArrayBase.constr(i64)
"""The constraint of a property that is an `array<i64: ...>`."""
PaddingPairs = Sequence[tuple[int, int]]
"""(low, high) of every dimension."""


def padding_attribute(padding: Sequence[tuple[int, int]]) -> DenseIntOrFPElementsAttr:
    """(low, high) per dimension as `dense<...> : tensor<Nx2xi64>`."""
    pairs = np.asarray(padding, dtype="<i8").reshape(len(padding), 2)
    return DenseIntOrFPElementsAttr(TensorType(i64, pairs.shape), BytesAttr(pairs.tobytes()))


@overload
def i64_array(values: Sequence[int]) -> I64Array: ...


@overload
def i64_array(values: Sequence[int] | None) -> I64Array | None: ...


def i64_array(values: Sequence[int] | None) -> I64Array | None:
    """`array<i64: ...>` of the values; None for None."""
    return None if values is None else DenseArrayBase.from_list(i64, [int(value) for value in values])


def array_values(attribute: DenseArrayBase[Any] | None, default: Sequence[int] = ()) -> tuple[int, ...]:
    """The entries of an optional `array<i64: ...>` or `array<i1: ...>`."""
    return tuple(default) if attribute is None else cast("I64Array", attribute).get_values()


def padding_values(attribute: DenseIntOrFPElementsAttr[Any] | None, rank: int) -> tuple[tuple[int, int], ...]:
    """The (low, high) pairs of an optional padding attribute; zeros if it is absent or has no entries."""
    stored = b"" if attribute is None else attribute.data.data
    pairs = np.frombuffer(stored, dtype="<i8").reshape(-1, 2)
    return tuple((int(low), int(high)) for low, high in pairs) or ((0, 0),) * rank


def check_not_negative(name: str, value: int) -> None:
    """Check that the value of an i64 attribute is not negative.

    Raises VerifyException.
    """
    if value < 0:
        raise VerifyException(
            f"attribute '{name}' failed to satisfy constraint: 64-bit signless integer attribute whose value is "
            "non-negative"
        )
