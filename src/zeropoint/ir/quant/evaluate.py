"""Quantizes and dequantizes NumPy arrays of any shape by a quantized type of any granularity.

Source: the "'quant' Dialect" document, `quantize` and `dequantize` of `quant.qcast` and `quant.dcast`; for the scale of
each element, sections "Per-channel quantization" and "Sub-channel quantization".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import TensorType
from xdsl.utils.exceptions import VerifyException

from zeropoint.errors import Error
from zeropoint.ir.floats import float_format
from zeropoint.ir.quant.containers import check_container
from zeropoint.ir.quant.quantile import QuantileType
from zeropoint.ir.quant.storage import Storage
from zeropoint.ir.quant.types import UniformQuantizedType
from zeropoint.numerics import affine
from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.profile import profile as named_profile


class SizeError(Error, ValueError):
    """An array's shape does not fit its quantized type; with dynamic dimensions, this is found at run time."""


def element_parameters(shape: tuple[int, ...], quantized: UniformQuantizedType) -> tuple[AnyArray, AnyArray]:
    """The scales (f64) and zero points (i64) of a tensor's elements, as arrays that broadcast to `shape`.

    Element [i0, i1, ...] of a sub-channel type has the parameters [i0 / block0, i1 / block1, ...]. Raises SizeError,
    with the verifier's message, if the shape does not fit the type.
    """
    scales, points = quantized.data.arrays()
    if quantized.is_per_layer:
        return scales.reshape(()), points.reshape(())
    try:
        check_container(TensorType(quantized, shape) if shape else quantized)
    except VerifyException as error:
        raise SizeError(f"found an array of shape {list(shape)} for {quantized}: {error}") from error
    if quantized.axis is not None:
        along = [-1 if axis == quantized.axis else 1 for axis in range(len(shape))]
        return scales.reshape(along), points.reshape(along)
    for axis, size in quantized.blocks or ():
        scales, points = np.repeat(scales, size, axis), np.repeat(points, size, axis)
    return scales, points


def expressed_dtype(quantized: UniformQuantizedType) -> np.dtype[Any]:
    """The dtype of a type's expressed values.

    Raises TypeError for a float type that NumPy does not have.
    """
    dtype = float_format(quantized.expressed_type).dtype
    if dtype is None:
        raise TypeError(f"found expressed type {quantized.expressed_type}, which NumPy does not have")
    return dtype


def quantize(
    x: npt.ArrayLike,
    quantized: UniformQuantizedType,
    profile: str = "float32-rne",
    *,
    expressed: npt.DTypeLike | None = None,
) -> AnyArray:
    """Quantize real values to storage integers, by a quantized type and under a numerics profile.

    `x` has any shape and real dtype; it is rounded to the expressed type (or to `expressed`) first. The result has the
    same shape and the dtype of the storage type (`quantized.storage.dtype`: int8 for i8 and i4, uint8 for u8 and u4). A
    per-channel type must have one scale per index of `x` along its axis; the blocks of a sub-channel type must divide
    the shape.

    Arithmetic, rounding and clamping are those of `numerics.affine.quantize` in the expressed type. NaN becomes the
    zero point (under profile `stablehlo`, the integer 0), infinities are clamped. For a float storage type, x / scale +
    zero_point is clamped and rounded to the nearest number of that type. For a quantile type, the result is the stored
    number with the value nearest to x / scale + zero_point; of two equally near ones, the first. These two rules, with
    NaN as the zero point, hold under every profile.

    Raises ValueError, with the verifier's message, for a shape that does not fit the type, and for an unknown profile;
    TypeError for an expressed or storage type that NumPy does not have.

    Source: the "'quant' Dialect" document, `quantize` in section "quant.qcast".
    """
    behaviour = named_profile(profile).quantize
    expressed, storage = np.dtype(expressed or expressed_dtype(quantized)), quantized.storage
    reals = np.asarray(x)
    scales, points = element_parameters(reals.shape, quantized)
    if storage.is_integer:
        return affine.quantize(
            reals,
            scales,
            points,
            storage.minimum,
            storage.maximum,
            behaviour=behaviour,
            expressed=expressed,
            dtype=storage.dtype,
        )
    with np.errstate(all="ignore"):
        values = reals.astype(expressed) / scales.astype(expressed) + points.astype(expressed)
    values = np.where(np.isnan(values), points.astype(np.float64), values.astype(np.float64))
    if isinstance(storage.spelling, QuantileType):
        return _nearest_quantile(values, storage)
    return np.clip(values, storage.minimum, storage.maximum).astype(storage.dtype)


def stored_array(array: npt.ArrayLike, quantized: UniformQuantizedType) -> AnyArray:
    """The storage integers of a constant. They are computed at compile time in f64, with ties to even.

    Shapes, dtypes and errors are those of `quantize`.
    """
    return quantize(array, quantized, expressed=np.float64)


def stored_bound(bound: float, quantized: UniformQuantizedType, profile: str) -> AnyArray:
    """The storage integer of a real bound of a clamp, by a type of one scale.

    A bound beyond the storage is its end under every profile: `upstream` would wrap it, and clamp to another number.
    """
    storage = quantized.storage
    low, high = dequantize([storage.minimum, storage.maximum], quantized, expressed=np.float64)
    if bound <= low or bound >= high:
        return np.asarray(storage.minimum if bound <= low else storage.maximum, storage.dtype)
    return quantize(bound, quantized, profile)


def dequantize(
    q: npt.ArrayLike,
    quantized: UniformQuantizedType,
    *,
    expressed: npt.DTypeLike | None = None,
    dtype: npt.DTypeLike | None = None,
) -> AnyArray:
    """Dequantize stored integers to real values, by a quantized type.

    `q` has any shape and holds numbers of the storage type, in any dtype that can represent them. The result has the
    same shape and the dtype of the expressed type (or `expressed`): (float(q) - float(zero_point)) * scale, each step
    rounded to that dtype, then to `dtype` if that is given. For a quantile type, float(q) is the table's value for q.

    Raises ValueError, with the verifier's message, for a shape that does not fit the type, and for a number without a
    value in a quantile type; TypeError for an expressed type that NumPy does not have.

    Source: the "'quant' Dialect" document, `dequantize` in section "quant.dcast".
    """
    expressed = np.dtype(expressed or expressed_dtype(quantized))
    stored = np.asarray(q)
    scales, points = element_parameters(stored.shape, quantized)
    if isinstance(quantized.storage.spelling, QuantileType):
        stored = _quantile_values(stored, quantized.storage)
    return affine.dequantize(stored, scales, points, expressed, dtype=dtype)


def _table(storage: Storage) -> AnyArray:
    """The values of a quantile type's stored numbers, in order from the least stored number."""
    quantile = storage.spelling
    assert isinstance(quantile, QuantileType)
    if len(quantile.data.values) != storage.range[1] - storage.range[0] + 1:
        raise TypeError(f"found {quantile}, whose values belong to bit patterns; expected integers or storage bounds")
    return np.array(quantile.data.values)


def _nearest_quantile(values: AnyArray, storage: Storage) -> AnyArray:
    """The stored numbers within the storage bounds whose values are nearest to `values`."""
    least = storage.range[0]
    table = _table(storage)[storage.minimum - least : storage.maximum - least + 1]
    distinct, first = np.unique(table, return_index=True)
    middles = (distinct[1:] + distinct[:-1]) / 2
    below, above = np.searchsorted(middles, values, side="left"), np.searchsorted(middles, values, side="right")
    return (np.minimum(first[below], first[above]) + storage.minimum).astype(storage.dtype)


def _quantile_values(stored: AnyArray, storage: Storage) -> AnyArray:
    table, indices = _table(storage), stored.astype(np.int64) - storage.range[0]
    if indices.size and not (indices.min() >= 0 and indices.max() < len(table)):
        raise ValueError(
            f"found stored numbers {stored.min()}..{stored.max()}, expected {storage.range[0]}..{storage.range[1]}, "
            f"which are all that {storage.spelling} gives a value"
        )
    return table[indices]
