"""The array types of this package, and how one parameter a channel meets a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]


def along_axis(parameter: AnyArray, rank: int, axis: int | None, name: str) -> AnyArray:
    """Reshape one parameter a channel so that it broadcasts along `axis` of a tensor of `rank` dimensions.

    A single parameter, or one that has `rank` dimensions already (one a block, say), is returned as it is.
    Raises ValueError where there are several parameters and no axis, or an axis that the tensor lacks.
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
