"""Padding of convolutions that OpenVINO 2026.4.1 computes wrong. In files for it, a concatenation pads their operand.

Source: measured.
"""

from __future__ import annotations

from typing import cast

from zeropoint.export.onnx.emission import Tensor
from zeropoint.export.onnx.graph import Attributes


def is_padded_wrong(source: Tensor, attributes: Attributes) -> bool:
    """Whether OpenVINO 2026.4.1 computes a convolution of integers with its padding wrong."""
    found = (_is_strided_point(attributes), _is_padded_plane(source, attributes), _misses(source, attributes))
    return any(found)


def _is_strided_point(attributes: Attributes) -> bool:
    """Whether a window of one element has steps and padding. OpenVINO computes even another number of such windows."""
    sizes, strides, pads = (cast("list[int]", attributes[name]) for name in ("kernel_shape", "strides", "pads"))
    return max(sizes, default=0) == 1 and max(strides) > 1 and any(pads)


def _is_padded_plane(source: Tensor, attributes: Attributes) -> bool:
    """Whether a window of groups or of one channel, over three dimensions, has padding beside a first one of size 1.
    OpenVINO computes it wrong if each group has one channel and several results."""
    pads, is_grouped = cast("list[int]", attributes["pads"]), attributes["group"] != 1
    return len(pads) == 6 and source.shape[2] == 1 and any(pads[::3]) and (is_grouped or source.shape[1] == 1)


def _misses(source: Tensor, attributes: Attributes) -> bool:
    """Whether a window with gaps lies around all elements of a dimension, which are fewer than the step of its gaps."""
    steps, sizes = (cast("list[int]", attributes[name]) for name in ("dilations", "kernel_shape"))
    rank = len(steps)
    pads = cast("list[int]", attributes["pads"])
    found = zip(source.shape[2:], steps, sizes, pads[:rank], pads[rank:], strict=True)
    return any(size < step and count > 1 and low + high > 0 for size, step, count, low, high in found)
