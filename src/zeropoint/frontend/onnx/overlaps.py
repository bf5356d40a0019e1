"""Ops that invert windows: `Col2Im` adds overlapping columns, `MaxUnpool` writes maxima to their positions.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.movement import part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.scattering import update_body
from zeropoint.frontend.onnx.windows import OnnxWindow, window_of
from zeropoint.ir.stablehlo import AddOp, PadOp, ScatterDimensions, ScatterOp
from zeropoint.ir.tensors import element_of, shape_of, with_shape


def col2im(node: OnnxNode, build: Builder) -> SSAValue:
    """`Col2Im`: for each element of a block, a `pad` places it in the image. Their results are added.

        %0 = stablehlo.pad %columns, %zero, low = [0, 0, 0, 1], high = [0, 0, 2, 1], interior = [0, 0, 1, 1]

    The padding is negative where a block reaches beyond the image.
    """
    value = node.operand(0)
    image, block = node.integers_at(1, "image_shape") or (), node.integers_at(2, "block_shape") or ()
    window = window_of(node, image, block)
    columns = window.outputs(image)
    batch, channels, positions = shape_of(value)
    if channels % prod(block) or positions != prod(columns):
        raise NodeError(
            f"found shape {list(shape_of(value))}, expected [N, C * {prod(block)}, {prod(columns)}] for an image of "
            f"{list(image)} and blocks of {list(block)}"
        )
    features = channels // prod(block)
    apart = build.reshape(value, [batch, features, prod(block), *columns])
    zero = build.scalar(0, value)
    parts: list[SSAValue] = []
    for number, tap in enumerate(product(*map(range, block))):
        part = build.reshape(part_of(apart, 2, range(number, number + 1), build), [batch, features, *columns])
        parts.append(build.insert(PadOp(part, zero, *_padding_of(window, tap, columns, image))))
    return reduce(lambda a, b: build.apply(AddOp, a, b), parts)


def _padding_of(
    window: OnnxWindow, tap: Sequence[int], columns: Sequence[int], image: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """The padding (low, high, interior) that places the columns of a tap in the image."""
    low = [at * step - before for at, step, (before, _) in zip(tap, window.dilations, window.padding, strict=True)]
    covered = [(count - 1) * stride + 1 for count, stride in zip(columns, window.strides, strict=True)]
    high = [size - start - length for size, start, length in zip(image, low, covered, strict=True)]
    return [0, 0, *low], [0, 0, *high], [0, 0, *(stride - 1 for stride in window.strides)]


def max_unpool(node: OnnxNode, build: Builder) -> SSAValue:
    """`MaxUnpool`: a `scatter` into zeros, at positions in the flat input of the pool.

    A larger `output_shape` adds zeros at the ends.
    """
    value, indices = node.operand(0), node.operand(1)
    if len(shape_of(value)) < 3:
        raise NodeError(f"found shape {list(shape_of(value))}, expected batch, channels and dimensions of an image")
    batch, channels, *inputs = shape_of(value)
    rank = len(inputs)
    sizes, strides = node.integers("kernel_shape") or (), node.integers("strides") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    if len(sizes) != rank or len(strides) != rank or len(pads) != 2 * rank:
        raise NodeError(
            f"found kernel_shape {list(sizes)}, strides {list(strides)} and pads {list(pads)}, expected {rank}, {rank} "
            f"and {2 * rank} numbers"
        )
    rows = zip(inputs, sizes, strides, pads[:rank], pads[rank:], strict=True)
    outputs = [(count - 1) * stride - low - high + size for count, size, stride, low, high in rows]
    shape = [batch, channels, *outputs]
    wanted = node.integers_at(2, "output_shape") or tuple(shape)
    if len(wanted) != len(shape) or min(outputs) < 1 or any(a < b for a, b in zip(wanted, shape, strict=True)):
        raise NodeError(f"found output_shape {list(wanted)}, expected {list(shape)} or larger")
    count = prod(shape_of(value))
    zeros = build.broadcast(build.scalar(0, value), with_shape(value, [prod(shape)]), ())
    dimensions = ScatterDimensions(inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1)
    positions = build.reshape(converted(indices, i64, build), [count, 1])
    body = update_body(element_of(value), "none")
    flat = build.insert(ScatterOp([zeros], positions, [build.reshape(value, [count])], dimensions, body))
    found = build.reshape(flat, shape)
    more = [want - have for want, have in zip(wanted, shape, strict=True)]
    return build.insert(PadOp(found, build.scalar(0, value), [0] * len(shape), more)) if any(more) else found
