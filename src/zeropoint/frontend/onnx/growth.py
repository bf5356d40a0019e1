"""The sizes of results that constants determine, so that they are checked before ONNX's evaluator allocates the result.

Source: the ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from zeropoint.ir.tensors import Array


def _product(array: Array) -> float:
    return math.prod(max(float(size), 0.0) for size in array.reshape(-1))


def _spread(value: Array, times: Array) -> float:
    return value.size * _product(times)


def _nothing() -> float:
    return 0.0


def _any_number() -> float:
    return math.inf


def _padded(value: Array, pads: Array) -> float:
    amounts = pads.reshape(2, -1) if pads.size == 2 * value.ndim else np.full((2, value.ndim), pads.max(initial=0))
    return math.prod(size + max(float(sum(both)), 0.0) for size, both in zip(value.shape, amounts.T, strict=True))


def _counted(start: Array, limit: Array, delta: Array) -> float:
    step = float(delta.reshape(-1)[0])
    return (float(limit.reshape(-1)[0]) - float(start.reshape(-1)[0])) / step if step else math.inf


_RESULTS: Mapping[str, tuple[int, Callable[..., float]]] = {
    "ConstantOfShape": (1, _product),
    "Expand": (2, _spread),
    "OneHot": (2, _spread),
    "Pad": (2, _padded),
    "Range": (3, _counted),
    "Resize": (0, _any_number),
    "Tile": (2, _spread),
    "Upsample": (0, _any_number),
}
"""For each op, the number of inputs that determine the size of the result, and a function of them that bounds it."""


def result_elements(op_type: str, inputs: Sequence[Array | None]) -> float:
    """An upper bound of the number of elements of an op's result; 0 if only the sizes of its inputs determine it."""
    count, elements = _RESULTS.get(op_type, (0, _nothing))
    given = [array for array in inputs[:count] if array is not None and array.size]
    return elements(*given) if len(given) == count else 0.0
