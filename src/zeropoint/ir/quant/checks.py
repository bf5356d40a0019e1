"""Verification of quantized types on their own, with upstream MLIR's messages; and the form of an op's error.

Source: upstream MLIR's `QuantizedType::verifyInvariants` and related checks. Each function raises VerifyException. Some
checks exist only here, because upstream accepts some meaningless types: a scale of 0 or NaN, a zero point outside of
the storage type, an axis with two block sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.floats import diagnostic_text, float_format
from zeropoint.ir.quant.parameters import AnyParameters, CalibratedParameters, UniformParameters
from zeropoint.ir.quant.storage import MAX_WIDTH, Storage


def refusal(op: Operation, sentence: str) -> VerifyException:
    """The error of an op that fails verification, prefixed by its name as in upstream's `emitOpError`."""
    return VerifyException(f"'{op.name}' op {sentence}")


def check_storage(storage: Storage) -> None:
    """Check for 1 to 32 bits, and bounds that are in order and inside the range of the type."""
    if storage.type.width > MAX_WIDTH:
        raise VerifyException(f"illegal storage type size: {storage.type.width}")
    least, greatest = storage.range
    if storage.minimum >= storage.maximum or storage.minimum < least or storage.maximum > greatest:
        raise VerifyException(f"illegal storage min and storage max: ({storage.minimum}:{storage.maximum})")


def check_expressed(expressed_type: object) -> None:
    """Check that the expressed type is a floating-point type."""
    try:
        float_format(expressed_type)  # pyright: ignore[reportArgumentType] (other values are rejected)
    except TypeError as error:
        raise VerifyException("expressed type must be floating point") from error


def check_scale(scale: float, expressed_type: AnyFloat) -> None:
    """Check that the scale is a positive number in the range of the expressed type."""
    number_format = float_format(expressed_type)
    # The comparisons are false for NaN. For a format wider than f64, `smallest` is 0, so 0 is excluded separately.
    if not (number_format.smallest <= scale <= number_format.largest) or scale == 0:
        smallest, largest = diagnostic_text(number_format.smallest), diagnostic_text(number_format.largest)
        raise VerifyException(f"scale {diagnostic_text(scale)} out of expressed type range [{smallest}, {largest}]")


def scales_fit(scales: Sequence[float], expressed_type: AnyFloat) -> bool:
    """Whether `check_scale` accepts every scale."""
    number_format = float_format(expressed_type)
    # min and max may skip a NaN, but the sum is NaN if any scale is.
    in_range = number_format.smallest <= min(scales) and max(scales) <= number_format.largest
    return in_range and min(scales) > 0 and not math.isnan(sum(scales))


def check_uniform(parameters: UniformParameters) -> None:
    """Check the parameters of `!quant.uniform`, apart from its container."""
    check_storage(parameters.storage)
    check_expressed(parameters.expressed_type)
    scales, points = parameters.scales, parameters.zero_points
    if not parameters.is_shape_consistent or not scales:
        raise VerifyException(f"illegal number of scales and zeroPoints: {len(scales)}, {len(points)}")
    if not scales_fit(scales, parameters.expressed_type):
        for scale in scales:
            check_scale(scale, parameters.expressed_type)
    _check_axes(parameters)
    least, greatest = parameters.storage.range
    for point in (min(points), max(points)):
        if not least <= point <= greatest:
            raise VerifyException(f"zero point {point} out of storage type range [{least}, {greatest}]")


def _check_axes(parameters: UniformParameters) -> None:
    blocks = parameters.blocks or ()
    axes = [axis for axis, _ in blocks] if parameters.axis is None else [parameters.axis]
    for axis in axes:
        if axis < 0:
            raise VerifyException(f"illegal quantized dimension: {axis}")
    for _, size in blocks:
        if size <= 0:
            raise VerifyException(f"illegal block size: {size}")
    for axis in axes:
        if axes.count(axis) > 1:
            raise VerifyException(f"quantized dimension {axis} has more than one block size")


def check_any(parameters: AnyParameters) -> None:
    """Check the parameters of `!quant.any`."""
    check_storage(parameters.storage)
    if parameters.expressed_type is not None:
        check_expressed(parameters.expressed_type)


def check_calibrated(parameters: CalibratedParameters) -> None:
    """Check the parameters of `!quant.calibrated`; a range with NaN is invalid."""
    check_expressed(parameters.expressed_type)
    if not parameters.minimum < parameters.maximum:
        minimum, maximum = diagnostic_text(parameters.minimum), diagnostic_text(parameters.maximum)
        raise VerifyException(f"illegal min and max: ({minimum}:{maximum})")
