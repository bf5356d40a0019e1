"""The windows of convolutions and pools: padding and output sizes.

Source: the ONNX specification of `Conv`, `MaxPool` and `AveragePool`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.numerics.rounding import INT32_MAX

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True)
class OnnxWindow:
    """A window over spatial dimensions, with one entry per dimension.

    `declared_padding` is the padding of the node. `padding` includes the elements that ceil mode adds at the end.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    declared_padding: tuple[tuple[int, int], ...]
    padding: tuple[tuple[int, int], ...]

    def outputs(self, inputs: Sequence[int]) -> list[int]:
        """The number of positions per dimension: floor((in + low + high - extent) / stride) + 1."""
        rows = zip(inputs, self.sizes, self.strides, self.dilations, self.padding, strict=True)
        return [
            (size + low + high - _extent(taps, dilation)) // stride + 1
            for size, taps, stride, dilation, (low, high) in rows
        ]


def _extent(taps: int, dilation: int) -> int:
    return dilation * (taps - 1) + 1


def _same_padding(size: int, extent: int, stride: int, upper: bool) -> tuple[int, int]:
    """The padding for ceil(in / stride) outputs. The odd element is at the end for SAME_UPPER, else at the start."""
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + extent - size, 0)
    return (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)


def _ceil_padding(size: int, extent: int, stride: int, low: int, high: int) -> tuple[int, int]:
    """The padding that includes the last, partial window.

    A window that would start in the padding at the end is excluded.
    """
    outputs = -(-(size + low + high - extent) // stride) + 1
    if (outputs - 1) * stride >= size + low:
        outputs -= 1
    return low, max((outputs - 1) * stride + extent - size - low, 0)


def _declared(
    node: OnnxNode, inputs: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    rank = len(inputs)
    mode = node.choice("auto_pad", "NOTSET", AUTO_PADS)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        rows = zip(inputs, extents, strides, strict=True)
        return [_same_padding(size, extent, stride, mode == "SAME_UPPER") for size, extent, stride in rows]
    pads = (node.integers("pads") if mode == "NOTSET" else None) or (0,) * (2 * rank)
    if len(pads) != 2 * rank:
        raise NodeError(f"found {len(pads)} pads, expected {2 * rank}")
    return list(zip(pads[:rank], pads[rank:], strict=True))


def check_kernel_shape(node: OnnxNode, sizes: Sequence[int]) -> None:
    """Raise NodeError if a convolution's `kernel_shape` is not the shape of its kernel."""
    declared = node.integers("kernel_shape")
    if declared is not None and declared != tuple(sizes):
        raise NodeError(f"found kernel_shape {list(declared)}, expected {list(sizes)}, the shape of the kernel")


def check_positive(name: str, entries: Sequence[int], rank: int) -> None:
    """Raise NodeError unless there are `rank` positive integers below 2^31. A stride times a size then fits 64 bits."""
    if len(entries) != rank or min(entries, default=1) < 1 or max(entries, default=1) > INT32_MAX:
        raise NodeError(f"found {name} {list(entries)}, expected {rank} positive integers below 2^31")


def window_of(node: OnnxNode, inputs: Sequence[int], sizes: Sequence[int], *, ceil_mode: bool = False) -> OnnxWindow:
    """The window of a node over spatial dimensions of sizes `inputs`; `sizes` is the window's size.

    Raises NodeError if attributes do not match the rank, or the window is larger than the padded input.
    """
    rank = len(inputs)
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    if len(sizes) != rank or min(sizes, default=1) < 1:
        raise NodeError(f"found kernel_shape {list(sizes)}, expected {rank} positive integers")
    for name, entries in (("strides", strides), ("dilations", dilations)):
        check_positive(name, entries, rank)
    extents = [_extent(size, dilation) for size, dilation in zip(sizes, dilations, strict=True)]
    declared = _declared(node, inputs, extents, strides)
    padding = declared
    if ceil_mode:
        rows = zip(inputs, extents, strides, declared, strict=True)
        padding = [_ceil_padding(size, extent, stride, *pair) for size, extent, stride, pair in rows]
    window = OnnxWindow(tuple(sizes), strides, dilations, tuple(declared), tuple(padding))
    if min(window.outputs(inputs), default=1) < 1:
        raise NodeError(f"found a window of extents {extents} on {list(inputs)} elements, expected one that fits")
    return window
