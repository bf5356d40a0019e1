"""RESCALE, CLAMP, and the casts between real numbers and storage integers."""

from __future__ import annotations

import numpy as np

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.tosa.builder import FunctionBuilder, TosaValue
from zeropoint.ir.floats import format_float
from zeropoint.ir.quant import UniformQuantizedType, stored_array
from zeropoint.ir.tensors import Array
from zeropoint.numerics.profile import Profile
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour

ROUNDINGS = {RequantizeBehaviour.TOSA_DOUBLE: "DOUBLE_ROUND", RequantizeBehaviour.FIXED32: "SINGLE_ROUND"}
"""TOSA's rounding modes by behaviour. DOUBLE_ROUND is in the extension EXT-DOUBLEROUND."""
BYTES = (-128, 127)
HALF = 1 << 15
"""The zero point of unsigned integers of 16 bits."""
DTYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "f32": np.float32}


def zero(f: FunctionBuilder, element: str, number: int = 0) -> TosaValue:
    """A zero point as an operand."""
    return f.constant(np.array([number], DTYPES[element]))


def zero_point_of(f: FunctionBuilder, kind: object, element: str) -> TosaValue:
    """The zero point of a type as an operand; 0 for floats and for types with scales per channel."""
    return zero(f, element, int(kind.zero_point) if isinstance(kind, UniformQuantizedType) and kind.is_per_layer else 0)


def filled(rank: int, number: float, dtype: type[np.generic]) -> Array:
    """A number as an array of rank `rank`, because TOSA's elementwise operators require operands of equal rank."""
    return np.full((1,) * rank, number, dtype)


def rescaled(
    f: FunctionBuilder, value: TosaValue, multiplier: Multiplier, given: int, wanted: int, element: str
) -> TosaValue:
    """RESCALE: (value - given) * multiplier + wanted, saturated to the element type.

    Multipliers per channel apply to the last dimension. Raises ExportError for a rounding that TOSA does not have.
    """
    rounding = ROUNDINGS.get(multiplier.behaviour)
    if rounding is None or multiplier.shift is None:
        raise ExportError(f"found behaviour '{multiplier.behaviour.value}', expected one of TOSA's roundings")
    numbers = np.atleast_1d(multiplier.multiplier).astype(np.int32), np.atleast_1d(multiplier.shift).astype(np.int8)
    operands = [value, *map(f.constant, numbers), zero(f, value.element, given), zero(f, element, wanted)]
    attributes = {
        "input_unsigned": "false",
        "output_unsigned": "false",
        "per_channel": str(numbers[0].size > 1).lower(),
        "rounding_mode": rounding,
        "scale32": "true",
    }
    return f.op("rescale", operands, value.shape, element, attributes)


def from_unsigned(f: FunctionBuilder, value: TosaValue, profile: Profile) -> TosaValue:
    """Unsigned integers of 8 or 16 bits, as i32.

    TOSA's types have no sign: a RESCALE reads them as unsigned, but does not write i32 then. It writes i16, which holds
    unsigned integers of 16 bits less the zero point 2^15.
    """
    half = HALF if value.element == "i16" else 0
    signed = _by_one(f, value, (half, 0), "i16", profile, "input_unsigned")
    wide = f.op("cast", [signed], value.shape, "i32")
    return wide if not half else _plus(f, wide, half)


def to_unsigned(f: FunctionBuilder, value: TosaValue, element: str, profile: Profile) -> TosaValue:
    """i32 as unsigned integers of 8 or 16 bits, whose range holds them."""
    half = HALF if element == "i16" else 0
    narrow = f.op("cast", [value if not half else _plus(f, value, -half)], value.shape, "i16")
    return _by_one(f, narrow, (0, half), element, profile, "output_unsigned")


def _plus(f: FunctionBuilder, value: TosaValue, number: int) -> TosaValue:
    return f.op("add", [value, f.constant(filled(len(value.shape), number, np.int32))], value.shape, "i32")


def _by_one(
    f: FunctionBuilder, value: TosaValue, points: tuple[int, int], element: str, profile: Profile, unsigned: str
) -> TosaValue:
    """RESCALE by 1, with one side that is unsigned. Zero points have the bits of their type."""
    multiplier = unit(profile)
    numbers = f.constant(np.array([multiplier.multiplier], np.int32)), f.constant(np.array([multiplier.shift], np.int8))
    attributes = {
        "input_unsigned": "false",
        "output_unsigned": "false",
        unsigned: "true",
        "per_channel": "false",
        "rounding_mode": "SINGLE_ROUND",
        "scale32": "true",
    }
    sides = [
        f.constant(np.array([point]).astype(DTYPES[kind]))
        for point, kind in zip(points, (value.element, element), strict=True)
    ]
    return f.op("rescale", [value, *numbers, *sides], value.shape, element, attributes)


def unit(profile: Profile) -> Multiplier:
    """The multiplier 1."""
    return Multiplier.of(1.0, profile.requantize(16), 16)


def centred(f: FunctionBuilder, value: TosaValue, zero_point: int, profile: Profile) -> TosaValue:
    """The value in i32, minus its zero point: a RESCALE by 1."""
    return rescaled(f, value, unit(profile), zero_point, 0, "i32")


def requantized(
    kernel: ExportKernel, f: FunctionBuilder, total: TosaValue, scales: Array | float, profile: Profile
) -> TosaValue:
    """RESCALE i32 sums, of one scale or one per channel, to the type of the kernel's result, and clamp them.

    Sums of a float kernel are only clamped.
    """
    kind = kernel.output_spec
    if isinstance(kind, UniformQuantizedType):
        multiplier = profile.multiplier(profile.ratio(scales, kind.scale), kind.storage.type.width)
        total = rescaled(f, total, multiplier, 0, kind.zero_point, "i8")
    return bounded(kernel, f, total)


def bounded(kernel: ExportKernel, f: FunctionBuilder, value: TosaValue) -> TosaValue:
    """CLAMP to the kernel's bounds and the storage range of its result, unless the element type enforces both."""
    low, high = kernel.bounds
    kind = kernel.output_spec
    if isinstance(kind, UniformQuantizedType):
        least, most = (int(end) for end in stored_array(np.array([low, high]), kind))
        if least <= BYTES[0] and most >= BYTES[1]:
            return value
        return clamped(f, value, str(least), str(most))
    if (low, high) == (-np.inf, np.inf):
        return value
    ends = (format_float(float(np.clip(end, *_FLOATS))) for end in (low, high))
    return clamped(f, value, *ends)


_FLOATS = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))


def clamped(f: FunctionBuilder, value: TosaValue, low: str, high: str) -> TosaValue:
    """CLAMP."""
    ends = {"min_val": f"{low} : {value.element}", "max_val": f"{high} : {value.element}"}
    return f.op("clamp", [value], value.shape, value.element, ends)


def multiplied(f: FunctionBuilder, first: TosaValue, second: TosaValue, shape: tuple[int, ...]) -> TosaValue:
    """MUL without a shift."""
    return f.op("mul", [first, second, zero(f, "i8")], shape, first.element)


def quantized(f: FunctionBuilder, value: TosaValue, kind: UniformQuantizedType, profile: Profile) -> TosaValue:
    """The storage integers of real numbers: value * (1 / scale), rounded to nearest even, plus the zero point.

    The cast saturates to 16 bits and converts NaN to 0. The RESCALE saturates to the storage.
    """
    inverse = np.float32(1) / np.float32(kind.scale)
    scaled = multiplied(f, value, f.constant(filled(len(value.shape), float(inverse), np.float32)), value.shape)
    rounded = f.op("cast", [scaled], value.shape, "i16")
    made = rescaled(f, rounded, unit(profile), 0, kind.zero_point, "i8")
    storage = kind.storage
    return made if storage.is_full_range else clamped(f, made, str(storage.minimum), str(storage.maximum))


def dequantized(f: FunctionBuilder, value: TosaValue, kind: UniformQuantizedType) -> TosaValue:
    """The real numbers of storage integers: (float(q) - zero_point) * scale."""
    shape, rank = value.shape, len(value.shape)
    real = f.op("cast", [value], shape, "f32")
    along = [-1 if kind.is_per_channel and axis == kind.axis else 1 for axis in range(rank)]
    if kind.zero_points.any():
        points = f.constant(kind.zero_points.astype(np.float32).reshape(along))
        real = f.op("sub", [real, points], shape, "f32")
    return multiplied(f, real, f.constant(kind.scales.astype(np.float32).reshape(along)), shape)
