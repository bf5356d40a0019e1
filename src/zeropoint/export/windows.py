"""Strides, dilations and padding of windows in LiteRT's terms: SAME, VALID, or a preceding PAD.

Source: TensorFlow's definition of SAME: the output has ceil(size / stride) positions, and the smaller half of the
required padding comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.ir.stablehlo import ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import PaddingPairs, array_values, padding_values
from zeropoint.ir.tensors import shape_of

SAME, VALID = 0, 1


@dataclass(frozen=True)
class WindowRun:
    """`count` windows of one length along a dimension, the first from `begin`, each a `stride` after the last one."""

    begin: int
    length: int
    count: int
    stride: int

    @property
    def end(self) -> int:
        """The end of the last window."""
        return self.begin + (self.count - 1) * self.stride + self.length


@dataclass(frozen=True)
class ExportedWindow:
    """Windows over the two spatial dimensions of an image."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]

    @property
    def scheme(self) -> int | None:
        """SAME or VALID; None if the padding is neither."""
        if not any(map(any, self.padding)):
            return VALID
        return SAME if self.padding == tuple(map(self.same, range(2))) else None

    def same(self, axis: int) -> tuple[int, int]:
        """The padding SAME of a dimension."""
        stride, size = self.strides[axis], self.size[axis]
        extent = (self.kernel[axis] - 1) * self.dilations[axis] + 1
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        return total // 2, total - total // 2

    @property
    def positions(self) -> tuple[int, int]:
        """The number of windows along each dimension. No dilation."""
        first, second = (
            (size - extent) // stride + 1
            for size, extent, stride in zip(self.padded, self.kernel, self.strides, strict=True)
        )
        return first, second

    def runs(self, axis: int) -> list[WindowRun]:
        """The windows along a dimension without their padding, in runs of one size. No dilation."""
        size, kernel, stride, low = self.size[axis], self.kernel[axis], self.strides[axis], self.padding[axis][0]
        found: list[WindowRun] = []
        for position in range(self.positions[axis]):
            first = position * stride - low
            begin, end = max(first, 0), min(first + kernel, size)
            last = found[-1] if found else None
            if last is not None and (begin, end - begin) == (last.begin + last.count * stride, last.length):
                found[-1] = replace(last, count=last.count + 1)
            else:
                found.append(WindowRun(begin, end - begin, 1, stride))
        return found

    @property
    def at_every_position(self) -> ExportedWindow:
        """The windows with steps of 1 and padding SAME."""
        every = replace(self, strides=(1, 1))
        return replace(every, padding=(every.same(0), every.same(1)))

    def after(self, other: ExportedWindow) -> ExportedWindow:
        """The windows over the image that has the padding of `other`, which is a part of this padding."""
        (top, bottom), (left, right) = (
            (mine[0] - theirs[0], mine[1] - theirs[1]) for mine, theirs in zip(self.padding, other.padding, strict=True)
        )
        return replace(self, size=other.padded, padding=((top, bottom), (left, right)))

    @property
    def strides_and_dilations(self) -> dict[str, int]:
        """The stride and dilation fields of a convolution's options."""
        return {
            "strideH": self.strides[0],
            "strideW": self.strides[1],
            "dilationHFactor": self.dilations[0],
            "dilationWFactor": self.dilations[1],
        }

    @property
    def padded(self) -> tuple[int, int]:
        """The size of the padded image."""
        first, second = (size + low + high for size, (low, high) in zip(self.size, self.padding, strict=True))
        return first, second

    @property
    def paddings(self) -> list[tuple[int, int]]:
        """The PAD amounts, low and high, of the four dimensions."""
        return [(0, 0), *self.padding, (0, 0)]


def is_image_window(op: ReduceWindowOp) -> bool:
    """Whether a window covers one or two dimensions of [batch, ..., channels] and is not dilated."""
    sizes = array_values(op.window_dimensions)
    return len(sizes) in (3, 4) and sizes[0] == 1 == sizes[-1] and not _is_dilated(op)


def is_volume_window(op: ReduceWindowOp) -> bool:
    """Whether a window covers three dimensions of [batch, ..., channels] and is not dilated."""
    sizes = array_values(op.window_dimensions)
    return len(sizes) == 5 and sizes[0] == 1 == sizes[-1] and not _is_dilated(op)


def _is_dilated(op: ReduceWindowOp) -> bool:
    return any(step != 1 for array in (op.base_dilations, op.window_dilations) for step in array_values(array))


def pool_window(kernel: ExportKernel) -> ExportedWindow:
    """The window of a pool over one or two dimensions of [batch, ..., channels]. One becomes an image of height 1.

    Raises ExportError for other windows.
    """
    op = kernel.first(ReduceWindowOp)
    shape, sizes = shape_of(op.inputs[0]), array_values(op.window_dimensions)
    rank = len(shape)
    if not is_image_window(op):
        dilated = " that is dilated" if _is_dilated(op) else ""
        raise ExportError(
            f"found a window {list(sizes)}{dilated}, expected one over one or two spatial dimensions before the "
            "channels",
            kernel.region,
        )
    strides = array_values(op.window_strides, (1,) * rank)
    width = rank - 2
    size, window, steps = ((array[1] if rank == 4 else 1, array[width]) for array in (shape, sizes, strides))
    return ExportedWindow(size, window, steps, (1, 1), image_padding(padding_values(op.padding, rank)))


def image_padding(padding: PaddingPairs) -> tuple[tuple[int, int], tuple[int, int]]:
    """The padding of the spatial dimensions of [batch, ..., channels], as that of an image."""
    _, *first, last, _ = padding
    return (first[0] if first else (0, 0)), last
