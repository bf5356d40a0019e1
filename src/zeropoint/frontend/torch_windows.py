"""Pools and interpolations that PyTorch's ONNX exporter lacks, or exports wrongly, with the operations that it has."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any


def average_pool(rank: int) -> Callable[..., Any]:
    """A pool over one of these numbers of dimensions."""

    def pooled(
        x: Any,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        """An average over whole windows of a value that is padded with zeros, times elements / divisor."""
        del count_include_pad  # with a divisor, it says nothing
        if divisor_override is None:
            return NotImplemented
        functions: Any = importlib.import_module("torch.nn.functional")
        sizes, steps, pads = (_spread(given, rank) for given in (kernel, stride or kernel, padding))
        borders: list[int] = []
        for n, size, step, pad in zip(x.shape[-rank:], sizes, steps, pads, strict=True):
            free = n + 2 * pad - size
            count = free // step + 1
            # A window must start inside of the value or of the padding before it.
            count += int(ceil_mode and free % step > 0 and count * step < n + pad)
            borders = [pad, max(pad, (count - 1) * step + size - n - pad), *borders]
        average: Any = getattr(functions, f"avg_pool{rank}d")
        return average(functions.pad(x, borders), sizes, steps) * (math.prod(sizes) / divisor_override)

    return pooled


def _spread(given: Sequence[int], rank: int) -> list[int]:
    """One number for each dimension; a single number is that of all."""
    return list(given) * rank if len(given) == 1 else list(given)


def adaptive_max_pool(x: Any, sizes: Sequence[int]) -> Any:
    """The maxima of windows of different lengths, and their positions: shorter windows repeat their last element."""
    rank = len(sizes)
    lengths = x.shape[-rank:]
    places: Any = 0
    for axis, (n, count) in enumerate(zip(lengths, sizes, strict=True)):
        n = int(n)
        shape = [1] * (2 * rank)
        windows = _windows(n, count)
        shape[axis], shape[rank + axis] = windows.shape
        places = places * n + windows.reshape(shape)
    places = places.flatten(-rank)
    elements = x.flatten(-rank)[..., places]
    greatest = elements.argmax(-1, keepdim=True)
    return elements.amax(-1), places.expand(elements.shape).gather(-1, greatest).squeeze(-1)


def _windows(size: int, count: int) -> Any:
    """The positions in each of `count` windows that cover a dimension, all as many as the longest has."""
    torch: Any = importlib.import_module("torch")
    ends = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    number, longest = torch.arange(count), max(end - start for start, end in ends)
    last = ((number + 1) * size + count - 1) // count - 1
    return torch.minimum((number * size // count)[:, None] + torch.arange(longest), last[:, None])


def adaptive_average_pool(x: Any, sizes: Sequence[int]) -> Any:
    """The means of windows of different lengths: a product with a constant matrix for each dimension."""
    torch: Any = importlib.import_module("torch")
    rank = len(sizes)
    for axis, count in zip(range(-rank, 0), sizes, strict=True):
        size = int(x.shape[axis])
        place, window = torch.arange(size)[:, None], torch.arange(count)
        starts, ends = window * size // count, ((window + 1) * size + count - 1) // count
        matrix = ((place >= starts) & (place < ends)).to(x.dtype) / (ends - starts).to(x.dtype)
        x = (x.movedim(axis, -1) @ matrix).movedim(-1, axis)
    return x


def aligned_to_corners(op: str) -> Callable[..., Any]:
    """An interpolation of which the exporter aligns corners to a length that is not rounded."""

    def resized(x: Any, output_size: Any, align_corners: bool, scale_factors: Sequence[float] | None) -> Any:
        if not align_corners or scale_factors is None:
            return NotImplemented
        torch: Any = importlib.import_module("torch")
        lengths = x.shape[2:]
        sizes = [math.floor(int(n) * factor) for n, factor in zip(lengths, scale_factors, strict=True)]
        return getattr(torch.ops.aten, op).vec(x, sizes, align_corners, None)

    return resized
