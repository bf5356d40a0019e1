"""The array types of this package, and broadcasting of per-channel parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import EllipsisType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
F32Array = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]
Block = tuple[slice | EllipsisType, ...]

BLOCK_ELEMENTS = 1 << 15
"""The number of elements computed at a time: the int64 intermediates of a block fit a second-level cache."""


def along_axis(parameter: AnyArray, rank: int, axis: int | None, name: str) -> AnyArray:
    """Reshape a per-channel parameter so that it broadcasts along `axis` of a tensor of rank `rank`.

    A single parameter, or one that already has rank `rank` (one per block, for example), is returned unchanged. Raises
    ValueError if there are several parameters and no axis, or if the tensor lacks the axis.
    """
    if parameter.size == 1:
        return parameter.reshape(())
    if axis is None:
        if parameter.ndim == rank and rank > 1:
            return parameter
        raise ValueError(f"found {parameter.size} values of {name} and no axis; expected one value, or axis=")
    if parameter.ndim != 1 or not -rank <= axis < rank:
        raise ValueError(
            f"found {name} of shape {parameter.shape} along axis {axis} of a tensor of {rank} dimensions; "
            "expected one value a channel along one of its axes"
        )
    shape = [1] * rank
    shape[axis] = parameter.size
    return parameter.reshape(shape)


def blocks(shape: tuple[int, ...]) -> Iterator[Block]:
    """Indices that split an array of this shape into blocks of about BLOCK_ELEMENTS elements, in memory order."""
    size = math.prod(shape)
    if size <= BLOCK_ELEMENTS:
        yield (...,)
        return
    inner = size // shape[0]
    if inner > BLOCK_ELEMENTS:
        for index in range(shape[0]):
            for rest in blocks(shape[1:]):
                yield (slice(index, index + 1), *rest)
        return
    step = BLOCK_ELEMENTS // inner
    for start in range(0, shape[0], step):
        yield (slice(start, start + step), ...)


def part(parameter: AnyArray, block: Block) -> AnyArray:
    """The part of a parameter that applies to a block. Scalars and broadcast dimensions of size 1 are kept whole."""
    if parameter.ndim == 0:
        return parameter
    kept = (cut if cut is ... or size > 1 else slice(None) for cut, size in zip(block, parameter.shape, strict=False))
    return parameter[tuple(kept)]


def plain(value: Any) -> Any:
    """Convert a NumPy number, or an array of one element, to a Python number, and arrays and tuples to (nested) lists.

    Anything else is returned unchanged. PyTorch's tensors are converted as well, because they have `tolist`.
    """
    if isinstance(value, list | tuple):
        return [plain(part) for part in cast("list[Any]", value)]
    to_list = getattr(value, "tolist", None)
    return to_list() if callable(to_list) else value
