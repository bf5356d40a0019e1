"""Queries about values for patterns, layout and schedule: constants, images, default layout, computed or not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, MemRefType, i64
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from zeropoint.codegen.graph import Halo, Space, View, dense_view, image_view, matrix_view
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.dequantized import dequantized_constant
from zeropoint.ir.native import memory_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.stablehlo import ConvolutionOp, ReshapeOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, tensor_of

ISA = "native.isa"
"""The module attribute with the instruction set of the kernels. Set by `group`."""

CHANNEL = "native.channel_dimension"
"""The module attribute with the channel dimension of images. Set by `group`."""
IMAGE_CHANNELS = (IntegerAttr(1, i64), IntegerAttr(3, i64))
"""The values of `CHANNEL` for images with channels after the batch, and at the end."""


class Values:
    """The values of a block of a program. `has` says whether a value is computed already."""

    def __init__(self, program: Program, block: Block, has: Callable[[SSAValue], bool]):
        self.program = program
        self.channel = channel_dimension(program)
        self.order: dict[Operation, float] = {op: n for n, op in enumerate(block.ops)}
        """The positions of ops in the block. An inserted op has a fraction between two positions."""
        self.has = has

    @staticmethod
    def inside(program: Program, body: Block) -> Values:
        """The values of a kernel's body. Its arguments count as computed."""
        return Values(program, body, lambda value: isinstance(value, BlockArgument))

    def constant(self, value: SSAValue) -> Array | None:
        """The array of a constant or of a dequantized constant; None for other values."""
        found = constant_array(value, self.program.weights)
        return dequantized_constant(self.program, value) if found is None else found

    def splat(self, value: SSAValue) -> float | None:
        """The number that a splat constant repeats; None otherwise."""
        return splat_value(value, self.program.weights)

    # Default layout.

    def is_image(self, value: SSAValue) -> bool:
        """Whether a value is stored with channels innermost: it has rank 4, and the program has convolutions."""
        return self.channel is not None and _rank(value) == 4

    @property
    def spatial(self) -> tuple[int, int]:
        """The dimensions of an image's rows and columns."""
        return (2, 3) if self.channel == 1 else (1, 2)

    def image(self, view: View) -> tuple[int, int, int, int]:
        """(N, C, H, W) of an image view."""
        return nchw(view.shape, self.channel)

    def image_strides(self, view: View) -> tuple[int, int, int, int]:
        """Strides of N, C, H, W in bytes."""
        return nchw(view.strides, self.channel)

    def fits(self, view: View, multiple: int = 16) -> bool:
        """Whether kernels may access `multiple` bytes of 8- or 16-bit activations at once, along channels or rows."""
        channel = self.channel if len(view.shape) == 4 else None
        inner = len(view.shape) - 1 if channel is None else channel
        adjacent = inner < 0 or view.strides[inner] == view.itemsize or view.shape[inner] == 1
        stored = view.activations or view.dtype == np.int16
        return stored and adjacent and view.is_aligned(inner, multiple)

    def has_rows(self, view: View) -> bool:
        """Whether an image of one channel has adjacent pixels, and whole words may be read from any of them."""
        images, channels, _, _ = self.image(view)
        image, _, row, pixel = self.image_strides(view)
        top, left, _, _ = view.halo.sides if view.halo else (0, 0, 0, 0)
        end = view.offset - top * row - left * pixel + images * image
        return view.activations and channels == pixel == 1 and end + 3 <= view.buffer.size

    def innermost(self, value: SSAValue) -> int:
        """The dimension whose elements are adjacent in the arena; -1 for a scalar."""
        channel = self.channel if self.is_image(value) else None
        return _rank(value) - 1 if channel is None else channel

    def fresh(
        self, shape: tuple[int, ...], dtype: np.dtype[np.generic], multiple: int = 16, halo: Halo | None = None
    ) -> View:
        """A new view in the arena with aligned pixels or rows. Images (rank 4) have channels innermost."""
        if self.channel is not None and len(shape) == 4:
            pitch = -(-shape[self.channel] * dtype.itemsize // multiple) * multiple
            return image_view(shape, self.channel, pitch, dtype, halo)
        return matrix_view(shape, dtype, multiple)

    def destination(self, value: SSAValue) -> View:
        """The view that a loop nest writes: the caller's array if the value is only returned, else a new view."""
        return self.output(value) or self.fresh(shape_of(value), element_dtype(element_of(value)))

    def output(self, value: SSAValue) -> View | None:
        """The caller's array, dense in the program's order, if a value is only returned; else None.

        A value also counts as returned if a cast of it between integers and a quantized type is returned.
        """
        uses = list(value.uses)
        while len(uses) == 1 and isinstance(cast := uses[0].operation, StorageCastOp):
            uses = list(cast.result.uses)
        if len(uses) != 1 or not isinstance(uses[0].operation, ReturnOp):
            return None
        return dense(value, Space.OUTPUT, uses[0].index)

    def is_only_returned(self, value: SSAValue) -> bool:
        """Whether only the caller reads a value, possibly in another shape."""
        user = next(iter(value.uses)).operation if value.has_one_use() else None
        shaped = user.result if isinstance(user, ReshapeOp) else value
        return self.output(shaped) is not None


def dense(value: SSAValue, space: Space, index: int = 0) -> View:
    """A view of a new buffer for a value, contiguous in the program's order."""
    return dense_view(shape_of(value), element_dtype(element_of(value)), space, index)


def _rank(value: SSAValue) -> int:
    """The rank of a tensor, or of the memref that `layout` makes of it."""
    return len((memory_of(value) if isinstance(value.type, MemRefType) else tensor_of(value)).get_shape())


def nchw(values: tuple[int, ...], channel: int | None) -> tuple[int, int, int, int]:
    """(N, C, H, W) of numbers in the order of an image's dimensions."""
    n, a, b, c = values
    return (n, a, b, c) if channel == 1 else (n, c, a, b)


def channel_dimension(program: Program) -> int | None:
    """The channel dimension of images, as recorded by `group`, else from the first convolution; None without either.

    Raises CodegenError for a recorded dimension that is not 1 or 3, because the text may have been edited.
    """
    noted = program.module.attributes.get(CHANNEL)
    if noted not in (None, *IMAGE_CHANNELS):
        raise CodegenError(f"found {CHANNEL} = {noted}, expected 1 or 3; group the program again", program.main)
    if isinstance(noted, IntegerAttr):
        return noted.value.data
    if ISA in program.module.attributes:
        return None  # a grouped program has recorded its dimension
    for op in program.entry.ops:
        if isinstance(op, ConvolutionOp) and len(shape_of(op.lhs)) == 4:
            layout = op.dimension_numbers.data
            if layout.input_batch_dimension == 0 and layout.input_feature_dimension in (1, 3):
                return layout.input_feature_dimension
    return None


def note_channel_dimension(program: Program, channel: int | None) -> None:
    """Record the channel dimension of images on the module, because convolutions are moved into kernels."""
    if channel is not None:
        program.module.attributes[CHANNEL] = IntegerAttr(channel, i64)
