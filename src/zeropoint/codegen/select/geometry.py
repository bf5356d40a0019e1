"""Where a contraction reads and writes: its shape in bytes, from the views of its operand and its result."""

from __future__ import annotations

import math
from collections.abc import Sequence

from zeropoint.codegen.graph import Kernel, Parameters, View, row_major
from zeropoint.codegen.kernels.arithmetic import Arithmetic
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.select.selection import Selection
from zeropoint.codegen.select.windows import Windows


def over_images(
    selection: Selection, windows: Windows, source: View, target: View, groups: int, arithmetic: Arithmetic
) -> Contraction:
    """A convolution of images whose taps are runs of `groups` times four bytes."""
    _, channels, height, width = selection.image(target)
    _, _, in_row, in_pixel = selection.image_strides(source)
    _, _, out_row, out_pixel = selection.image_strides(target)
    (sy, sx), (dy, dx) = windows.strides, windows.dilation
    rows, columns = windows.weights.shape[:2]
    return Contraction(
        rows=height,
        width=width,
        in_row=sy * in_row,
        in_pixel=sx * in_pixel,
        out_row=out_row,
        out_pixel=out_pixel,
        runs=tuple(y * dy * in_row + x * dx * in_pixel for y in range(rows) for x in range(columns)),
        groups=groups,
        vectors=-(-channels // selection.isa.width),
        arithmetic=arithmetic,
    ).flat()


def over_rows(
    selection: Selection, source: View, target: View, groups: int, channels: int, arithmetic: Arithmetic
) -> Contraction:
    """A product of rows of `groups` times four bytes with a matrix; see `has_even_rows`."""
    count, pixel, out_pixel = math.prod(source.shape[:-1]), source.strides[-2], target.strides[-2]
    return Contraction(
        rows=1,
        width=count,
        in_row=count * pixel,
        in_pixel=pixel,
        out_row=count * out_pixel,
        out_pixel=out_pixel,
        runs=(0,),
        groups=groups,
        vectors=-(-channels // selection.isa.width),
        arithmetic=arithmetic,
    )


def has_even_rows(view: View) -> bool:
    """Whether the rows (of the last dimension) lie one behind the other at even distances."""
    if len(view.shape) < 2 or view.strides[-1] != view.itemsize:
        return False
    wanted = row_major(view.shape[:-1], view.strides[-2])
    return all(a == b or n == 1 for a, b, n in zip(view.strides[:-1], wanted, view.shape[:-1], strict=True))


def call_for_images(
    selection: Selection,
    name: str,
    kernel: Kernel,
    sources: Sequence[View],
    target: View,
    parameters: Parameters,
    operations: int,
) -> None:
    """One step for every image of a batch. The first source is what is contracted, a second one is added."""
    images = selection.image(target)[0]
    blocked = isinstance(kernel, Contraction) and kernel.is_blocked(selection.isa)
    for image in range(images):
        reads = [source.moved(image * selection.image_strides(source)[0]) for source in sources]
        writes = target.moved(image * selection.image_strides(target)[0])
        added = reads[1:] if images == 1 and not blocked else []
        selection.graph.call(name, kernel, reads, [writes], parameters, operations=operations, elementwise=added)
