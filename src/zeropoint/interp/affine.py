"""The parameters of quantized types, and conversions: quantize, dequantize and requantize.

Source: the "'quant' Dialect" document (affine values), and the StableHLO specification (`uniform_quantize`,
`uniform_dequantize`). The arithmetic is that of `zeropoint.numerics` under the program's profile. Casts support every
granularity and storage. Arithmetic on storage integers supports one scale, or one per channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from zeropoint.interp.binding import Unary
from zeropoint.interp.errors import UnsupportedError
from zeropoint.interp.exactness import DType
from zeropoint.ir.quant import UniformQuantizedType, evaluate
from zeropoint.ir.tensors import Array, element_dtype
from zeropoint.numerics import AffineParameters, Profile
from zeropoint.numerics.arrays import FloatArray, IntArray, along_axis
from zeropoint.numerics.requantize import requantize
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN


@dataclass(frozen=True, eq=False, kw_only=True)
class Affine(AffineParameters):
    """The parameters of a quantized type: one scale and zero point, or one for each index of `axis`.

    `width` and `dtype` are those of the storage, `expressed` is the dtype of the expressed type.
    """

    axis: int | None
    width: int
    dtype: DType
    expressed: DType

    @staticmethod
    def of(element_type: UniformQuantizedType) -> Affine:
        """The parameters of a type. Raises UnsupportedError for sub-channel types and float storage."""
        storage = element_type.storage
        if not (element_type.is_per_layer or element_type.is_per_channel):
            raise UnsupportedError(f"found {element_type}; expected one scale, or one per channel")
        if storage.spelling is not None and not isinstance(storage.spelling, IntegerType):
            raise UnsupportedError(f"found {element_type}; expected integer storage")
        numbers = element_type.affine
        return Affine(
            scale=numbers.scale,
            zero_point=numbers.zero_point,
            storage_min=numbers.storage_min,
            storage_max=numbers.storage_max,
            axis=element_type.axis,
            width=storage.type.width,
            dtype=element_dtype(element_type),
            expressed=element_dtype(element_type.expressed_type),
        )

    @property
    def is_per_layer(self) -> bool:
        """Whether there is one scale for the whole tensor."""
        return self.axis is None

    def zeros(self, rank: int) -> IntArray:
        """The zero points, shaped to broadcast with a tensor of rank `rank`."""
        return along_axis(self.zero_point, rank, self.axis, "zero point")

    def centred(self, stored: Array, dtype: DType) -> Array:
        """stored - zero_point, in `dtype`. It must represent storage_min..storage_max and the difference."""
        integers = stored.astype(dtype, copy=False)
        return integers - self.zeros(stored.ndim).astype(dtype) if self.zero_point.any() else integers


def is_quantized(element_type: Attribute) -> bool:
    """Whether values of the type are storage integers."""
    return isinstance(element_type, UniformQuantizedType)


def affine(element_type: Attribute) -> Affine:
    """The parameters of an element type. Raises UnsupportedError if it is not quantized."""
    return Affine.of(_quantized(element_type))


def _quantized(element_type: Attribute) -> UniformQuantizedType:
    if not isinstance(element_type, UniformQuantizedType):
        raise UnsupportedError(f"found {element_type} beside quantized types; expected a quantized type")
    return element_type


def quantization(target: Attribute, profile: Profile) -> Unary:
    """The conversion from real values to storage of `target`, rounded by the profile. Supports every granularity."""
    quantized = _quantized(target)
    return lambda operand: evaluate.quantize(operand, quantized, profile.name)


def dequantization(source: Attribute) -> Unary:
    """The conversion from storage of `source` to real values. Supports every granularity."""
    quantized = _quantized(source)
    return lambda operand: evaluate.dequantize(operand, quantized)


def requantization(source: Attribute, target: Attribute, profile: Profile, *, wide: bool = False) -> Unary:
    """clamp(round((stored - zero_point_in) * (scale_in / scale_out)) + zero_point_out). The identity on equal types.

    The accumulator has 64 bits if stored - zero_point_in may overflow 32 bits, or if the profile requires it. With
    `wide`, stored - zero_point_in always has 64 bits.
    """
    if source == target:
        return lambda operand: operand
    given, wanted = affine(source), affine(target)
    axis = given.axis if wanted.axis is None else wanted.axis
    if None not in (given.axis, wanted.axis) and given.axis != wanted.axis:
        raise UnsupportedError(f"found quantized axes {given.axis} and {wanted.axis}; expected the same axis")
    low, high = given.centred_range
    # The difference of two 32-bit numbers needs 33 bits.
    width = 32 if low >= INT32_MIN and high <= INT32_MAX else 64
    word = np.dtype(np.int32 if width == 32 and not wide else np.int64)
    form = max(width, profile.accumulator_width(given.width, wanted.width))
    multiplier = profile.multiplier(_scalar_or_channels(profile.ratio(given.scale, wanted.scale)), wanted.width, form)

    def run(operand: Array) -> Array:
        return requantize(
            given.centred(operand, word),
            multiplier,
            wanted.zero_point,
            wanted.storage_min,
            wanted.storage_max,
            axis=axis,
            dtype=wanted.dtype,
        )

    return run


def _scalar_or_channels(real: FloatArray) -> FloatArray:
    # A multiplier of rank 0 broadcasts to any tensor. One of shape (1,) would need an axis.
    return real.reshape(()) if real.size == 1 else real
