"""Check that an array fits a program's input, and split it into samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from zeropoint.calibrate.columns import Column, DataError
from zeropoint.ir.arguments import STORE_IT, shape_fix, shape_text, stores_reals
from zeropoint.ir.program import Port
from zeropoint.ir.tensors import Array, element_dtype

CHANNELS = (1, 3, 4)
"""The numbers of channels of images: gray, RGB, RGB with alpha."""
_FLOAT_NAMES = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Fit:
    """An input together with the arrays that hold its samples.

    If `rows_per_sample` is None, each column is a sample. Otherwise there is one column, and each sample has this
    number of its rows.
    """

    port: Port
    columns: Sequence[Column]
    rows_per_sample: int | None
    where: str
    fill: bool = False
    """Whether rows that do not fill a sample are filled up with copies of the last row. They are left out otherwise."""

    @staticmethod
    def of(port: Port, found: Column | list[Column], where: str, *, fill: bool = False) -> Fit:
        """Determine how the arrays hold the samples of an input.

        Raises DataError if a shape or dtype does not fit.
        """
        if isinstance(found, list):
            for index, column in enumerate(found):
                check_dtype(column.dtype, port, f"{where}: sample {index}")
                check_shape(column.shape, port, f"{where}: sample {index}")
            return Fit(port, found, None, where)
        check_dtype(found.dtype, port, where)
        return Fit(port, [found], _rows_per_sample(found.shape, port, where, fill=fill), where, fill)

    @property
    def count(self) -> int:
        """The number of samples."""
        if self.rows_per_sample is None:
            return len(self.columns)
        whole = self.columns[0].shape[0] // self.rows_per_sample
        return whole + bool(self.fill and self.rest)

    @property
    def rest(self) -> int:
        """The number of rows that do not fill a sample."""
        return 0 if self.rows_per_sample is None else self.columns[0].shape[0] % self.rows_per_sample

    def samples(self) -> Iterator[Array]:
        """The samples in the input's shape and dtype. Raises DataError for values that are not finite."""
        for index, array in enumerate(self._raw()):
            yield fit_array(array, self.port, f"{self.where}: sample {index}")

    def _raw(self) -> Iterator[Array]:
        if self.rows_per_sample is None:
            yield from (column.whole() for column in self.columns)
        elif self.rows_per_sample == 1:
            yield from self.columns[0].rows()
        else:
            rows = self.columns[0].rows()
            for _ in range(self.count):
                taken = list(islice(rows, self.rows_per_sample))
                yield np.stack(taken + taken[-1:] * (self.rows_per_sample - len(taken)))


def fit_array(array: Array, port: Port, where: str) -> Array:
    """One sample in the shape and dtype of an input. Float types are converted.

    In a mask, the lowest finite number of the dtype replaces -inf.

    Raises DataError for a shape or dtype that does not fit, for values that are not finite in the input's dtype, and
    for integers that its dtype cannot hold.
    """
    check_dtype(array.dtype, port, where)
    if check_shape(array.shape, port, where):
        array = array[np.newaxis]
    dtype = element_dtype(port.type.element_type)
    with np.errstate(over="ignore"):
        converted = np.asarray(array, dtype=dtype, order="C")
    if dtype.kind in "biu":
        if array.dtype != dtype and not np.array_equal(converted, array):
            raise DataError(f"{where}: input '{port.name}': found {array.dtype} values that {dtype} cannot hold")
        if reason := port.misfit(converted):
            raise DataError(f"{where}: input '{port.name}': {reason}")
        return converted
    if port.is_mask:
        least = np.nextafter(np.array(-np.inf, dtype), np.array(0, dtype))  # hides a score like -inf
        converted = np.where(converted == -np.inf, least, converted)
    if not np.isfinite(converted).all():
        nan_count = int(np.count_nonzero(np.isnan(converted)))
        infinite_count = int(np.count_nonzero(np.isinf(converted)))
        fix = "remove the sample or repair it"
        if not nan_count and converted.min() == -np.inf and converted.max() < np.inf:
            fix = f"{fix}; in a mask, write a number just below the scores, such as -100, instead of -inf"
        raise DataError(
            f"{where}: input '{port.name}': found {nan_count} NaN and {infinite_count} infinite values in {dtype}, "
            f"expected finite ones; {fix}"
        )
    return converted


def check_dtype(dtype: np.dtype[Any], port: Port, where: str) -> None:
    """Raise DataError if the dtype does not convert to the input's: floats convert to floats, integers to integers."""
    expected = element_dtype(port.type.element_type)
    if expected.kind in "biu":
        fits = dtype == expected if expected.kind == "b" else dtype.kind in "iu"
        fix = STORE_IT if stores_reals(dtype, expected) else f"convert it with .astype('{expected}')"
    else:
        fits = is_float(dtype)
        fix = "convert it, and scale it as the model expects"
    if not fits:
        raise DataError(f"{where}: input '{port.name}': found {dtype} data, expected {expected}; {fix}")


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a dtype are converted to the floats of an input."""
    return dtype.name in _FLOAT_NAMES


def is_exact(shape: Sequence[int], port: Port) -> bool:
    """Whether a shape is that of an input."""
    return _equal(shape, port.type.get_shape())


def is_one_sample(shape: Sequence[int], port: Port) -> bool:
    """Whether a shape is that of one sample of an input, with or without its leading 1."""
    expected = port.type.get_shape()
    return _equal(shape, expected) or (_has_batch_of_one(expected) and _equal(shape, expected[1:]))


def is_row(shape: Sequence[int], port: Port) -> bool:
    """Whether a shape is that of an input without its leading dimension, the batch."""
    return _equal(shape, port.type.get_shape()[1:])


def check_shape(shape: Sequence[int], port: Port, where: str) -> bool:
    """Whether one sample of this shape lacks the input's leading 1. Raises DataError if the shape does not fit."""
    expected = port.type.get_shape()
    if _equal(shape, expected):
        return False
    if _has_batch_of_one(expected) and _equal(shape, expected[1:]):
        return True
    raise DataError(
        f"{where}: input '{port.name}': found shape {shape_text(shape)}, expected {shape_text(expected)}; "
        f"{_fix(shape, expected)}"
    )


def _rows_per_sample(shape: Sequence[int], port: Port, where: str, *, fill: bool) -> int:
    """The number of rows per sample in an array of many samples. Raises DataError if its shape does not fit."""
    expected = port.type.get_shape()
    if shape and _equal(shape[1:], expected):
        return 1
    if shape and expected and _equal(shape[1:], expected[1:]):
        batch = 1 if _has_batch_of_one(expected) else expected[0]
        if 0 < shape[0] < batch and not fill:
            raise DataError(
                f"{where}: input '{port.name}': found {shape[0]} samples, expected {batch} or more: the model takes "
                f"{batch} at a time"
            )
        if batch:
            return batch
    forms = [shape_text(["n", *expected])]
    if expected:
        batch = "n" if _has_batch_of_one(expected) else f"n*{expected[0]}"
        forms.insert(0, shape_text([batch, *expected[1:]]))
    alone = "this is one sample: pass several, or a list that contains it" if is_one_sample(shape, port) else None
    raise DataError(
        f"{where}: input '{port.name}': found shape {shape_text(shape)}, expected {' or '.join(forms)} "
        f"for n samples; {alone or _fix(shape, expected, of_many=True)}"
    )


def misplaced_channels(shape: Sequence[int], port: Port) -> str | None:
    """The message for a sample or batch whose channels are on the wrong side, or too many or few; None for others."""
    expected = port.type.get_shape()
    if is_one_sample(shape, port) or is_one_sample(shape[1:], port):
        return None
    batches = [*shape[:1], *expected[1:]] if _has_batch_of_one(expected) else expected
    fix = _transpose(shape, batches) or _transpose(shape, expected) or _other_channels(shape, expected)
    return f"found shape {shape_text(shape)}, expected {shape_text(expected)}; {fix}" if fix else None


def _has_batch_of_one(expected: Sequence[int]) -> bool:
    return bool(expected) and expected[0] in (1, DYNAMIC_INDEX)


def _equal(shape: Sequence[int], expected: Sequence[int]) -> bool:
    return len(shape) == len(expected) and all(
        wanted in (found, DYNAMIC_INDEX) for found, wanted in zip(shape, expected, strict=True)
    )


def _fix(shape: Sequence[int], expected: Sequence[int], *, of_many: bool = False) -> str:
    """The fix for the shape of one sample, or of many: a transpose, a reshape or other data."""
    if found := _transpose(shape, expected) or _other_channels(shape, expected):
        return found
    if of_many:  # the leading dimension counts the samples, so the fix applies to one sample
        shape, expected = shape[1:], expected[1:]
    return shape_fix(shape, expected)


def _transpose(shape: Sequence[int], expected: Sequence[int]) -> str | None:
    """The transpose that moves the channels to the other side, if this gives the expected shape; None otherwise."""
    if len(shape) == len(expected) - 1 and _has_batch_of_one(expected):
        expected = expected[1:]
    for first in (0, 1):
        rest = list(range(first, len(shape)))
        if len(shape) != len(expected) or len(rest) < 3:
            continue
        for name, order in (("last", [*rest[-1:], *rest[:-1]]), ("first", [*rest[1:], *rest[:1]])):
            axes = [*range(first), *order]
            if _equal([shape[axis] for axis in axes[first:]], expected[first:]):
                wanted = "first" if name == "last" else "last"
                return f"its channels are {name}, expected {wanted}: use .transpose{tuple(axes)}"
    return None


def _other_channels(shape: Sequence[int], expected: Sequence[int]) -> str | None:
    """The fix for images of the expected size with another number of channels, such as gray for RGB; None otherwise."""
    if len(expected) != 4 or len(shape) < 2:
        return None
    for axis, sides in ((1, expected[2:]), (3, expected[1:3])):
        wanted = expected[axis]
        if wanted not in CHANNELS:
            continue
        image = shape[-3:] if len(shape) > 2 else ((1, *shape) if axis == 1 else (*shape, 1))
        found, size = (image[0], image[1:]) if axis == 1 else (image[2], image[:2])
        if _equal(size, sides) and found in CHANNELS and found != wanted:
            gray = "; for gray images, repeat the channel" if found == 1 else ""
            return f"its channels differ: found {found}, expected {wanted}; convert the images{gray}"
    return None
