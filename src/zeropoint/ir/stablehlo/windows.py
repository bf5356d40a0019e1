"""Windows of `convolution` and `reduce_window`: their attributes and the result shape.

Source: the StableHLO specification, "reduce_window" and "convolution"; the error messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, DenseIntOrFPElementsAttr, i64
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.arrays import array_values, padding_values


@dataclass(frozen=True)
class Window:
    """A window in one dimension; `base_dilation` dilates the operand, `window_dilation` the window."""

    size: int
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
    base_dilation: int = 1
    window_dilation: int = 1

    def output_size(self, operand_size: int) -> int:
        """The number of window positions in an operand of this size; DYNAMIC_INDEX if a size is dynamic."""
        if operand_size < 0 or self.size < 0:
            return DYNAMIC_INDEX
        padded = self.padding[0] + _dilated(operand_size, self.base_dilation) + self.padding[1]
        window = _dilated(self.size, self.window_dilation)
        return 0 if padded <= 0 or window > padded else (padded - window) // self.stride + 1


def _dilated(size: int, dilation: int) -> int:
    return 0 if size == 0 else (size - 1) * dilation + 1


def _entries(attribute: DenseArrayBase[Any] | None, rank: int, name: str) -> tuple[int, ...]:
    values = array_values(attribute)
    if not values:
        return (1,) * rank
    if len(values) != rank:
        raise VerifyException(_size_sentence(name, rank, len(values)))
    return values


def _size_sentence(name: str, rank: int, found: int) -> str:
    return f"expects {name} to have same dimension-size as size of window dimensions ({rank}), but got: {found}."


def _padding(attribute: DenseIntOrFPElementsAttr[Any] | None, rank: int) -> tuple[tuple[int, int], ...]:
    if attribute is not None:
        if attribute.get_element_type() != i64:
            raise VerifyException(
                "attribute 'padding' failed to satisfy constraint: 64-bit signless integer elements attribute"
            )
        shape = attribute.get_shape()
        if len(shape) != 2 or shape[1] != 2:
            text = ", ".join(map(str, shape))
            raise VerifyException(f"expects the shape of padding-attribute to be {{N, 2}}, but got {{{text}}}.")
        if shape[0] not in (0, rank):
            raise VerifyException(_size_sentence("padding-entries", rank, shape[0]))
    return padding_values(attribute, rank)


_ENTRY_NAMES = {
    "size": "value",
    "stride": "stride",
    "base_dilation": "base dilation factor",
    "window_dilation": "window dilation factor",
}


def check_windows(
    sizes: Sequence[int],
    *,
    strides: DenseArrayBase[Any] | None,
    padding: DenseIntOrFPElementsAttr[Any] | None,
    base_dilations: DenseArrayBase[Any] | None,
    window_dilations: DenseArrayBase[Any] | None,
    reversal: DenseArrayBase[Any] | None = None,
) -> list[Window]:
    """The windows that the attributes describe, one per dimension. Absent attributes default to 1, padding to 0.

    Raises VerifyException.
    """
    rank = len(sizes)
    all_strides = _entries(strides, rank, "window-strides")
    all_base = _entries(base_dilations, rank, "base-dilation factors")
    all_window = _entries(window_dilations, rank, "window-dilation factors")
    all_padding = _padding(padding, rank)
    _entries(reversal, rank, "window-reversal")
    windows = [
        Window(size, stride, pair, base, dilation)
        for size, stride, pair, base, dilation in zip(
            sizes, all_strides, all_padding, all_base, all_window, strict=True
        )
    ]
    for index, window in enumerate(windows):
        _check_positive(window, index)
    return windows


def _check_positive(window: Window, index: int) -> None:
    for field, name in _ENTRY_NAMES.items():
        value: int = getattr(window, field)
        if value <= 0 and not (field == "size" and value == DYNAMIC_INDEX):
            raise VerifyException(
                f"expects window to have positive {name} for {index}-th window dimension, but got {value}."
            )
