"""Schedules contractions: the dense or depthwise kernel of a `ContractionMatch`, for every arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from zeropoint.codegen.graph import ContractionSteps, EmittedKernel, Graph, Parameters, View
from zeropoint.codegen.kernels.arithmetic import Arithmetic, Residual
from zeropoint.codegen.kernels.blockwise import Blocks
from zeropoint.codegen.kernels.computed import AnyEpilogue, ComputedEpilogue, ComputedOutput, Output
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.contraction_shape import tile_chunk
from zeropoint.codegen.kernels.depthwise import Depthwise
from zeropoint.codegen.kernels.depthwise_floats import FloatDepthwise
from zeropoint.codegen.kernels.depthwise_shape import WindowShape
from zeropoint.codegen.kernels.dequantized import PackedFloats
from zeropoint.codegen.kernels.float_arithmetic import Floats
from zeropoint.codegen.kernels.integer_arithmetic import Expressed, Integers
from zeropoint.codegen.kernels.requantize import Epilogue
from zeropoint.codegen.kernels.scaled_rows import ScaledRows
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.patterns.contraction import ContractionMatch, ExpressedMatch, contraction_of
from zeropoint.codegen.patterns.dequantized import Dequantized
from zeropoint.codegen.patterns.pools import Pool
from zeropoint.codegen.patterns.reaches import in_i32, magnitudes
from zeropoint.codegen.patterns.windows import Piece, Windows
from zeropoint.codegen.schedule.body import Body, named_form
from zeropoint.codegen.views import part as part_of
from zeropoint.ir.annotations import unique_name
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.stablehlo import UniformDequantizeOp
from zeropoint.ir.tensors import Array
from zeropoint.numerics import Multiplier, Requantization
from zeropoint.numerics.arrays import IntArray


def schedule_contraction(body: Body) -> None:
    """Append the steps of a contraction. A convolution has one step per image, piece and part of the groups."""
    match, first = contraction_of(body.program, body.kernel, body.found), len(body.graph.steps)
    _schedule(body, match)
    # The bias of scaled rows is not that of the sums of products.
    plain = not isinstance(match.weights, Pool) and match.factor is None
    if match.is_rescaled and match.source_bytes == 1 and plain:
        rescale = next((op for op in body.ops if isinstance(op, RequantizeOp | UniformDequantizeOp)), None)
        name = None if rescale is None else unique_name(rescale)
        steps, adjusted = range(first, len(body.graph.steps)), partial(_with_bias, body, match)
        body.graph.contractions.append(ContractionSteps(steps, body.inputs[0], name, match.bias, adjusted))


def _with_bias(body: Body, match: ContractionMatch, bias: Array) -> Graph:
    """The same steps with another bias, as a graph of their own.

    Raises CodegenError if 32 bits do not hold the sums with it and the rounding term of the conversion.
    """
    graph = Graph(body.graph.inputs, body.graph.outputs, body.graph.isa)
    match = replace(match, bias=bias)
    if not match.fits:
        raise CodegenError(f"{match.name}: found sums that exceed 32 bits with the bias, expected less")
    _schedule(body.in_graph(graph), match)
    return graph


def _schedule(body: Body, match: ContractionMatch) -> None:
    source, target = body.inputs[0], body.outputs[0]
    other = None if match.tail.other is None else body.inputs[min(1, len(body.inputs) - 1)]
    scheduled = _Contraction(body, match, other)
    if isinstance(match.weights, Pool):
        scheduled.pool(match.weights, source, target)
    elif isinstance(match.weights, Windows):
        scheduled.convolution(match.weights, source, target)
    else:
        assert match.matrix is not None
        scheduled.rows(match.matrix, source, target)


class _Contraction:
    def __init__(self, body: Body, match: ContractionMatch, other: View | None):
        self.body, self.match, self.other = body, match, other
        self.values, self.isa, self.graph = body.values, body.isa, body.graph
        self.name = match.name
        self.form = named_form(body)

    # The entry points, one per form of weights: a matrix, windows, a pool.

    def rows(self, matrix: Array, source: View, target: View) -> None:
        """Append the step of a product of rows with a constant matrix."""
        weights = (
            matrix if self.match.arithmetic is None else np.pad(matrix, ((0, -len(matrix) % self._together), (0, 0)))
        )
        scaled = self.match.factor is not None
        pixels = None if self.other is None else self.other.itemsize if scaled else self.other.strides[-2]
        arithmetic = self._arithmetic(weights, self.match.bias, (0, pixels or 0))
        count, pixel, out_pixel = math.prod(source.shape[:-1]), source.strides[-2], target.strides[-2]
        groups, vectors = len(weights) // self._together, -(-weights.shape[1] // self.isa.width)
        # A step in time of a recurrence is one row. Its weights are those of the other steps, unlike its multipliers.
        apart = count == 1 and isinstance(arithmetic, Integers)
        shape = Contraction.of_rows(count, pixel, out_pixel, groups, vectors, arithmetic, apart=apart)
        reads = [source] if self.other is None else [source, self.other, *self.body.inputs[2:]]
        # A blocked kernel keeps accumulators in the output, so the residual must not share the output's memory.
        added = [] if scaled or shape.is_blocked(self.isa) else reads[1:]
        parameters = self._packed(shape, weights, self.match.bias)
        operations = 2 * count * matrix.size
        self.graph.call(self.name, shape, reads, [target], *parameters, operations=operations, elementwise=added)

    def convolution(self, windows: Windows, source: View, target: View) -> None:
        """Append the steps of a convolution, piece by piece. The source's buffer includes the padding."""
        if windows.padding is not None:
            _, _, row, pixel = self.values.image_strides(source)
            # The padding precedes the view in the same buffer.
            source = source.moved(-windows.padding.top * row - windows.padding.left * pixel)
        for piece in windows.pieces:
            here, there = piece.source(self.values, source), piece.target(self.values, target)
            bias = self.match.bias
            if self.match.arithmetic is not None:
                bias = bias + piece.beside
            if windows.depthwise:
                self._depthwise(piece, here, there, bias)
            else:
                self._dense(piece, here, there, bias)

    def pool(self, pool: Pool, source: View, target: View) -> None:
        """Append the steps of a sum over windows, as a depthwise convolution whose weights are 1."""
        channels = self.values.image(source)[1]
        if len(target.shape) != 4:  # the result is (N, C), or has one more dimension, of size 1
            n, c = target.shape[0], channels
            first = self.values.channel == 1
            strides = (target.strides[0], 1, 0, 0) if first else (target.strides[0], 0, 0, 1)
            target = replace(target, shape=(n, c, 1, 1) if first else (n, 1, 1, c), strides=strides)
        # A pool has no dilation, so taps have the strides of pixels.
        apart = self.values.image_strides(source)[2:]
        weights = np.ones((*pool.kernel, channels), np.int8)
        self._sums_of_windows(weights, source, (apart[0], apart[1]), target, pool.strides, self.match.bias)

    # Steps on images.

    def _dense(self, piece: Piece, source: View, target: View, bias: Array) -> None:
        """Append a convolution that is not depthwise. Each step has as few groups as fill vectors."""
        floats = self.match.arithmetic is None
        # A dense kernel also multiplies by zeros for other groups. Float zeros are -0, which the kernel skips, because
        # 0 * infinity is NaN.
        windows = _signed_zeros(piece) if floats else piece.windows
        parts = windows.parts(self._together, self.isa.width)
        # A sparse kernel skips weights of -0.
        sparse = not piece.taps or parts[0].windows.groups > 1
        row, pixel = (0, 0) if self.other is None else self.values.image_strides(self.other)[2:]
        arithmetic = self._arithmetic(windows.weights, bias, (row, pixel), sparse=sparse)
        # Steps of a family need no barrier between them.
        family = object() if len(parts) > 1 else None
        for part in parts:
            there = self._channels(target, part.channels)
            sources = [source.moved(part.first * source.itemsize)]
            if self.other is not None:
                sources.append(self._channels(self.other, part.channels))
            dense = part.windows.dense(-0.0 if floats else 0)
            if windows.reads_rows and self.values.image_strides(source)[3] == 1:
                # The taps of a row are adjacent bytes, as the channels of a pixel are.
                dense = dense.transpose(0, 2, 1, 3)
            # Input channels are padded to whole steps of the micro-kernel. Their weights are 0.
            padding = self._steps(dense.shape[2], source) * self._together - dense.shape[2]
            dense = np.pad(dense, ((0, 0), (0, 0), (0, padding), (0, 0)))
            shape = self._shape(windows, dense.shape, source, target, arithmetic)
            (packed,) = self._packed(shape, dense.reshape(-1, dense.shape[3]), bias[part.channels], part.channels)
            operations = 2 * shape.rows * shape.width * part.windows.weights.size
            self._images(shape, sources, there, packed, operations, family)

    def _steps(self, channels: int, source: View) -> int:
        """The steps of the micro-kernel for the channels of a pixel: a few more if that makes products of tiles longer.

        They are inside of the pixel, whose padding has any integers.
        """
        steps, pixel = -(-channels // self._together), self.values.image_strides(source)[3]
        whole = -(-steps // 4) * 4
        is_longer = whole // tile_chunk(whole) < steps // tile_chunk(steps)
        in_tiles = self.isa.tiles is not None and self.match.arithmetic is not None and self.match.source_bytes == 1
        # The channels of a group are not the first ones of the pixel.
        alone = channels == self.values.image(source)[1]
        return whole if in_tiles and alone and is_longer and 4 * whole <= pixel else steps

    def _channels(self, view: View, channels: slice) -> View:
        """The view of some channels of an image."""
        counts = list(view.shape)
        starts = [0] * len(counts)
        starts[self.values.channel or 0] = channels.start
        counts[self.values.channel or 0] = channels.stop - channels.start
        return part_of(view, starts, counts)

    def _shape(
        self, windows: Windows, dense: tuple[int, ...], source: View, target: View, arithmetic: Arithmetic
    ) -> Contraction:
        """The kernel of a convolution with weights of shape `dense` = (rows, columns, inputs, channels)."""
        rows, columns, inputs, channels = dense
        _, _, height, width = self.values.image(target)
        _, _, in_row, in_pixel = self.values.image_strides(source)
        _, _, out_row, out_pixel = self.values.image_strides(target)
        (sy, sx), (dy, dx) = windows.strides, windows.dilation
        return Contraction(
            rows=height,
            width=width,
            in_row=sy * in_row,
            in_pixel=sx * in_pixel,
            out_row=out_row,
            out_pixel=out_pixel,
            runs=tuple(y * dy * in_row + x * dx * in_pixel for y in range(rows) for x in range(columns)),
            groups=inputs // self._together,
            vectors=-(-channels // self.isa.width),
            arithmetic=arithmetic,
        ).flat()

    def _depthwise(self, piece: Piece, source: View, target: View, bias: Array) -> None:
        """Append a depthwise convolution. With dilation d, the kernel runs on the view of every d-th row and pixel."""
        windows = piece.windows if self.match.arithmetic is not None else _signed_zeros(piece)
        _, _, row, pixel = self.values.image_strides(source)
        apart = windows.dilation[0] * row, windows.dilation[1] * pixel
        strides = windows.strides[0] // windows.dilation[0], windows.strides[1] // windows.dilation[1]
        self._sums_of_windows(windows.weights[:, :, 0], source, apart, target, strides, bias, sparse=not piece.taps)

    def _sums_of_windows(
        self,
        weights: Array,
        source: View,
        apart: tuple[int, int],
        target: View,
        strides: tuple[int, int],
        bias: Array,
        *,
        sparse: bool = False,
    ) -> None:
        """Append a depthwise convolution with `weights` of shape (kernel rows, kernel columns, channels).

        `apart` has the row and pixel strides of the source, in bytes.
        """
        output = self.match.arithmetic
        rows, columns, _ = weights.shape
        _, channels, height, width = self.values.image(target)
        _, _, out_row, out_pixel = self.values.image_strides(target)
        # Pixels have a pitch of 16 channels. The padding is computed and not read.
        channels = -(-channels // 16) * 16
        shape = WindowShape(height, width, channels, *apart, out_row, out_pixel, (rows, columns), strides)
        if isinstance(output, Requantization | ComputedOutput):
            if shape.is_flat:
                shape, weights = shape.turned(), weights.transpose(1, 0, 2)
            epilogue = self._epilogue(output, weights, bias)
            kernel = Depthwise(**vars(shape), halves=self._halves(weights), epilogue=epilogue)
            packed = kernel.pack(self.isa, weights, bias, output)
        else:
            assert output is None
            kernel = FloatDepthwise(**vars(shape), arithmetic=self._floats((0, 0), sparse=sparse))
            packed = kernel.pack(self.isa, weights, bias, self._factor())
        operations = 2 * height * width * weights.size
        self._images(kernel, [source], target, self.graph.parameters(packed), operations)

    def _images(
        self,
        kernel: EmittedKernel,
        sources: list[View],
        target: View,
        parameters: Parameters,
        operations: int,
        family: object | None = None,
    ) -> None:
        """Append one step per image of the batch. The first source is contracted, and the second is the residual.

        The steps of a `family`, and the steps of the images, write disjoint parts of the target.
        """
        images = self.values.image(target)[0]
        alone = images == 1 and family is None
        family = object() if family is None and images > 1 else family
        blocked = isinstance(kernel, Contraction) and kernel.is_blocked(self.isa)
        for image in range(images):
            reads = [source.moved(image * self.values.image_strides(source)[0]) for source in sources]
            writes = target.moved(image * self.values.image_strides(target)[0])
            added = reads[1:] if alone and not blocked else []
            self.graph.call(
                self.name, kernel, reads, [writes], parameters, operations=operations, elementwise=added, family=family
            )

    # Arithmetic.

    @property
    def _together(self) -> int:
        """The number of terms per step of the micro-kernel: four 8-bit integers, two 16-bit integers, or one float."""
        return 1 if self.match.arithmetic is None else 4 // self.match.source_bytes

    def _arithmetic(
        self, weights: Array, bias: Array, residual: tuple[int, int], *, sparse: bool = False
    ) -> Arithmetic:
        """The arithmetic for weights (..., channels). `residual` has the residual's row and pixel strides in bytes."""
        output, given = self.match.arithmetic, self.match.weights
        if output is None:
            floats = self._floats(residual, sparse=sparse)
            if isinstance(given, Dequantized):
                return PackedFloats(floats, given.bits, len(given.scales), bool(given.points.any()))
            return floats
        if isinstance(output, ExpressedMatch):
            sums = Expressed(self._halves(weights), self._floats(residual), pairs=self._pairs, wide=self._wide)
        else:
            tail = self.match.tail
            added = None if tail.other is None else Residual(*residual, tail.first, tail.sum)
            if (factor := self.match.factor) is not None and added is not None:
                assert isinstance(output, Requantization)
                reach = factor.reach(self.match.source_reach * magnitudes(weights) + np.abs(bias))
                epilogue = Epilogue.of(output, reach, self.isa, self.match.result_bits)
                inner = Integers(self._halves(weights), epilogue, wide=self._wide)
                numbers = replace(added, channels=False)
                return ScaledRows(inner, numbers, factor.shifts, factor.greatest, factor.bounds, factor.short)
            epilogue = self._epilogue(output, weights, bias)
            sums = Integers(self._halves(weights), epilogue, added, pairs=self._pairs, wide=self._wide)
        return sums if self.match.blocks is None else Blocks(sums, len(self.match.blocks.factors))

    def _floats(self, residual: tuple[int, int], *, sparse: bool = False) -> Floats:
        tail = self.match.tail
        added = None if tail.other is None else Residual(*residual, first=False, total=None)
        return Floats(tail.bounds, tail.bounds_last, added, sparse, scaled=tail.factor is not None)

    def _factor(self, chosen: slice = slice(None)) -> Array | None:
        """The factors of the chosen channels of floats."""
        factor = self.match.tail.factor
        return None if factor is None else np.broadcast_to(factor, self.match.bias.shape)[chosen]

    @property
    def _pairs(self) -> bool:
        """Whether a step of the micro-kernel has two products of 16-bit numbers."""
        return self._together == 2

    @property
    def _wide(self) -> bool:
        """Whether the dot form extends bytes to 16 bits."""
        return self.form is not None and self.form.wide and not self._pairs

    def _halves(self, weights: Array) -> int:
        """2 if the dot product could saturate with these weights, so that each weight is split in two; otherwise 1."""
        if self._pairs:
            return 1
        if self.form is not None:
            return 2 if self.form.split or self.form.wide else 1
        return 2 if int(np.abs(weights.astype(np.int16)).max(initial=0)) > self.isa.weight_limit else 1

    def _epilogue(self, output: Output, weights: Array, bias: IntArray) -> AnyEpilogue:
        """The epilogue for weights (..., channels). Accumulators are at most reach * sum|w| + |bias|."""
        blocks, activation = self.match.blocks, self.match.source_reach
        sums = activation * magnitudes(weights) if blocks is None else blocks.reach(activation)
        reach = sums + np.abs(bias)
        if isinstance(output, ComputedOutput):
            return ComputedEpilogue.of(output, reach, self.isa)
        return Epilogue.of(output, in_i32(reach), self.isa, self.match.result_bits)

    def _packed(self, shape: Contraction, steps: Array, bias: Array, chosen: slice = slice(None)) -> list[Parameters]:
        """Pack weights (terms, channels), biases and the parameters of the arithmetic for the kernel: one block, or two
        if it has them apart.

        They belong to the `chosen` output channels of the match.
        """
        isa, channels, arithmetic, output = self.isa, steps.shape[1], shape.arithmetic, self.match.arithmetic
        groups, terms = list(shape.groups_of(isa, channels)), steps.reshape(-1, self._together, channels)
        if isinstance(arithmetic, Integers) and isinstance(output, Requantization | ComputedOutput):
            blocks = arithmetic.blocks(isa, groups, terms, bias, _of_channels(output, chosen), apart=shape.apart)
            return list(map(self.graph.parameters, blocks))
        if isinstance(arithmetic, Expressed) and isinstance(output, ExpressedMatch):
            packed = arithmetic.pack(isa, groups, terms, bias, output.scales[chosen])
        elif isinstance(arithmetic, ScaledRows) and (factor := self.match.factor) is not None:
            assert isinstance(output, Requantization)
            packed = arithmetic.pack(isa, groups, terms, bias, factor.totals, factor.bias, output)
        elif isinstance(arithmetic, Blocks) and (blocks := self.match.blocks) is not None:
            assert output is not None
            own = output.scales if isinstance(output, ExpressedMatch) else output
            packed = arithmetic.pack(isa, groups, terms, bias, own, blocks.factors, blocks.corrections)
        elif isinstance(arithmetic, PackedFloats) and isinstance(given := self.match.weights, Dequantized):
            packed = arithmetic.pack(groups, given.stored, bias, self._factor(chosen), given.scales, given.points)
        else:
            assert isinstance(arithmetic, Floats)
            packed = arithmetic.pack(groups, steps, bias, self._factor(chosen))
        return [self.graph.parameters(packed)]


def _of_channels(output: Output, channels: slice) -> Output:
    """The same for some channels."""
    if isinstance(output, ComputedOutput):
        return output.of_channels(channels)
    multiplier = output.multiplier
    shift = None if multiplier.shift is None else multiplier.shift[channels]
    return replace(output, multiplier=Multiplier(multiplier.behaviour, multiplier.multiplier[channels], shift))


def _signed_zeros(piece: Piece) -> Windows:
    """The float convolution of a piece, whose only weights of -0 are those that the kernel must skip.

    Weights of -0 become +0. Without taps, all weights are -0.
    """
    windows = piece.windows
    # -0 + 0 is +0, so that the kernel does not skip a weight of -0 of the model.
    weights = windows.weights + np.float32(0) if piece.taps else np.full_like(windows.weights, -0.0)
    return replace(windows, weights=weights)
