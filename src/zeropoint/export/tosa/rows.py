"""Pools, means, elementwise kernels, tables and data movement as TOSA operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from xdsl.ir import Attribute

from zeropoint.export.averages import counted_padding_of
from zeropoint.export.errors import ExportError
from zeropoint.export.gathers import clamped_indices, last_indices, leading_indices, taken_axis
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.tosa.arithmetic import (
    bounded,
    centred,
    filled,
    multiplied,
    requantized,
    rescaled,
    unit,
    zero_point_of,
)
from zeropoint.export.tosa.builder import TosaValue, integers
from zeropoint.export.tosa.contractions import fitted, window_of_ones
from zeropoint.export.tosa.emission import TosaEmission
from zeropoint.export.tosa.moves import (
    concatenated,
    every,
    padded,
    reduced,
    repeated,
    reshaped,
    reversed_along,
    sliced,
    spread,
    taken,
    transposed,
)
from zeropoint.export.windows import image_padding, pool_window
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.quant import UniformQuantizedType, dequantize, quantize, stored_array
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ConcatenateOp,
    DivideOp,
    GatherOp,
    MultiplyOp,
    PadOp,
    ReduceOp,
    ReduceWindowOp,
    ReverseOp,
    SelectOp,
    SliceOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array
from zeropoint.numerics.elementwise import TosaAdd
from zeropoint.numerics.multiplication import Multiplication

TosaConverter = Callable[[ExportKernel, TosaEmission], None]


def quantized_type(kernel: ExportKernel, kind: Attribute) -> UniformQuantizedType:
    """The quantized type of a port. Raises ExportError for a float port and for scales per channel."""
    if not isinstance(kind, UniformQuantizedType) or kind.is_per_channel:
        raise ExportError(f"found an operand or result of {kind}, expected one scale", kernel.region)
    return kind


def pool(name: str) -> TosaConverter:
    """MAX_POOL2D or AVG_POOL2D. The latter divides by the number of elements in a window, without padding."""

    def convert(kernel: ExportKernel, emit: TosaEmission) -> None:
        image, found = emit.source(kernel), pool_window(kernel)
        window, strides, pairs = found.kernel, found.strides, found.padding
        shape = (image.shape[0], *found.size, image.shape[-1])
        if shape != tuple(image.shape):
            image = reshaped(emit.f, image, shape)
        element = image.element
        kind = kernel.specs[0]
        averages = name == "avg_pool2d"
        counted = image_padding(counted_padding_of(kernel)) if averages else ()
        if any(map(any, counted)):
            fill = np.array(kind.zero_point if isinstance(kind, UniformQuantizedType) else 0).astype(_dtype(element))
            image = padded(emit.f, image, [(0, 0), *counted, (0, 0)], fill)
            pairs = [(low - a, high - b) for (low, high), (a, b) in zip(pairs, counted, strict=True)]
        image, pads = fitted(emit, image, window, strides, pairs)
        zeros = [zero_point_of(emit.f, spec, element) for spec in (kind, kernel.output_spec)] if averages else []
        attributes = {"kernel": integers(window), "pad": integers(pads), "stride": integers(strides)}
        if averages:
            attributes["acc_type"] = "f32" if element == "f32" else "i32"
        height, width = (
            (size + sum(pads[2 * axis : 2 * axis + 2]) - window[axis]) // strides[axis] + 1
            for axis, size in enumerate(image.shape[1:3])
        )
        made = emit.f.op(name, [image, *zeros], (image.shape[0], height, width, image.shape[3]), element, attributes)
        emit.finish(kernel, bounded(kernel, emit.f, made))

    return convert


def _dtype(element: str) -> type[np.generic]:
    return np.float32 if element == "f32" else np.int8


def division_of(kernel: ExportKernel) -> DivideOp | MultiplyOp | None:
    """The op that divides the sums of a kernel, or None."""
    return next((op for op in kernel.ops if isinstance(op, DivideOp | MultiplyOp)), None)


def divisor_of(kernel: ExportKernel, emit: TosaEmission, division: DivideOp | MultiplyOp) -> Array:
    """The right operand of a division. Raises ExportError for a computed one."""
    numbers = kernel.array(division.operands[1])
    if numbers is None:
        raise ExportError("found a computed divisor, expected a constant", kernel.region)
    return numbers.astype(np.float64)


def summed(kernel: ExportKernel, emit: TosaEmission) -> None:
    """A mean or sum over dimensions: REDUCE_SUM in i32, RESCALE by s_in / (count * s_out).

    Sums over windows are depthwise convolutions with weights of 1.
    """
    if any(isinstance(op, ReduceWindowOp) for op in kernel.ops):
        window_sum(kernel, emit)
        return
    op = kernel.first(ReduceOp)
    given, share = quantized_type(kernel, kernel.specs[0]), share_of(kernel, emit)
    value = centred(emit.f, emit.source(kernel), given.zero_point, emit.profile)
    total = reduced(emit.f, "reduce_sum", value, array_values(op.dimensions))
    emit.finish(kernel, requantized(kernel, emit.f, total, given.scale * share, emit.profile))


def window_sum(kernel: ExportKernel, emit: TosaEmission) -> None:
    """DEPTHWISE_CONV2D with weights of 1, RESCALE by s_in / s_out."""
    image, found, given = emit.source(kernel), pool_window(kernel), quantized_type(kernel, kernel.specs[0])
    image = reshaped(emit.f, image, (image.shape[0], *found.size, image.shape[-1]))
    image, pads = fitted(emit, image, found.kernel, found.strides, found.padding)
    total = window_of_ones(emit.f, image, found.kernel, found.strides, pads, given)
    emit.finish(kernel, requantized(kernel, emit.f, total, given.scale * share_of(kernel, emit), emit.profile))


def share_of(kernel: ExportKernel, emit: TosaEmission) -> float:
    """The factor of a kernel's sums: 1 / count for a mean, 1 for a sum. Raises ExportError for several factors."""
    division = division_of(kernel)
    if division is None:
        return 1.0
    numbers = np.unique(divisor_of(kernel, emit, division))
    if len(numbers) != 1:
        raise ExportError(f"found a sum with {len(numbers)} different divisors, expected one", kernel.region)
    return 1.0 / float(numbers[0]) if isinstance(division, DivideOp) else float(numbers[0])


def add(name: str, sign: int) -> TosaConverter:
    """ADD or SUB in i32. A RESCALE before it brings each operand to the larger scale; one after it, to the result's."""

    def convert(kernel: ExportKernel, emit: TosaEmission) -> None:
        sides = [emit.side(kernel, value) for value in kernel.first(BinaryOp).operands]
        kinds = [quantized_type(kernel, kind) for _, kind in sides]
        wanted = quantized_type(kernel, kernel.output_spec)
        ours = TosaAdd.of([kind.affine for kind in kinds], wanted.affine, (1, sign))
        operands = [
            rescaled(emit.f, value, multiplier, kind.zero_point, 0, "i32")
            for (value, _), kind, multiplier in zip(sides, kinds, ours.operand_multipliers, strict=True)
        ]
        shape = np.broadcast_shapes(*(value.shape for value in operands))
        total = emit.f.op(name, operands, shape, "i32")
        made = rescaled(emit.f, total, ours.output_multiplier, 0, wanted.zero_point, "i8")
        emit.finish(kernel, bounded(kernel, emit.f, repeated(emit.f, made, kernel.output_shape)))

    return convert


def multiply(kernel: ExportKernel, emit: TosaEmission) -> None:
    """MUL in i32 of the operands minus their zero points, then a RESCALE."""
    sides = [emit.side(kernel, value) for value in kernel.first(BinaryOp).operands]
    kinds = [quantized_type(kernel, kind) for _, kind in sides]
    wanted = quantized_type(kernel, kernel.output_spec)
    behaviour = emit.profile.requantize(wanted.storage.type.width)
    ours = Multiplication.of([kind.affine for kind in kinds], wanted.affine, behaviour, wanted.storage.type.width)
    operands = [
        centred(emit.f, value, kind.zero_point, emit.profile) for (value, _), kind in zip(sides, kinds, strict=True)
    ]
    shape = np.broadcast_shapes(*(value.shape for value in operands))
    total = multiplied(emit.f, operands[0], operands[1], shape)
    made = rescaled(emit.f, total, ours.multiplier, 0, wanted.zero_point, "i8")
    emit.finish(kernel, bounded(kernel, emit.f, repeated(emit.f, made, kernel.output_shape)))


def table(kernel: ExportKernel, emit: TosaEmission) -> None:
    """A TABLE of 256 entries for a function of one 8-bit value."""
    given, wanted = (quantized_type(kernel, kind) for kind in (kernel.specs[0], kernel.output_spec))
    block = kernel.region.body.block
    returned = block.last_op
    assert returned is not None
    if len(set(kernel.region.inputs)) != 1:
        raise ExportError("found a function of several values, expected a function of one value", kernel.region)
    domain = dequantize(np.arange(-128, 128, dtype=np.int32), given)
    with np.errstate(all="ignore"):
        image = evaluate_chain(
            returned.operands[0], block.args[0], domain, emit.weights, dict.fromkeys(block.args, domain)
        )
    entries = quantize(image, wanted, emit.profile.name).astype(np.int8)
    value = emit.source(kernel)
    emit.finish(kernel, emit.f.op("table", [value, emit.f.constant(entries)], value.shape, "i8"))


def rescale(kernel: ExportKernel, emit: TosaEmission) -> None:
    """RESCALE from one type to another."""
    given, wanted = (quantized_type(kernel, kind) for kind in (kernel.specs[0], kernel.output_spec))
    value = emit.source(kernel)
    multiplier = emit.profile.multiplier(emit.profile.ratio(given.scale, wanted.scale), wanted.storage.type.width)
    emit.finish(
        kernel, bounded(kernel, emit.f, rescaled(emit.f, value, multiplier, given.zero_point, wanted.zero_point, "i8"))
    )


def reshape(kernel: ExportKernel, emit: TosaEmission) -> None:
    """RESHAPE."""
    emit.finish(kernel, emit.source(kernel))


def transpose(kernel: ExportKernel, emit: TosaEmission) -> None:
    """TRANSPOSE."""
    order = array_values(kernel.first(TransposeOp).permutation)
    emit.finish(kernel, transposed(emit.f, emit.source(kernel), order))


def slice_(kernel: ExportKernel, emit: TosaEmission) -> None:
    """SLICE. Strides become a RESHAPE and another SLICE."""
    op = kernel.first(SliceOp)
    emit.finish(kernel, strided(op, emit.source(kernel), emit))


def strided(op: SliceOp, value: TosaValue, emit: TosaEmission) -> TosaValue:
    """A slice with strides."""
    value = sliced(emit.f, value, array_values(op.start_indices), array_values(op.limit_indices))
    for axis, step in enumerate(array_values(op.strides)):
        value = every(emit.f, value, axis, step, filled(1, 0, np.dtype(_NAMES[value.element]).type))
    return value


_NAMES = {"i1": "bool", "i8": "int8", "i32": "int32", "f32": "float32"}


def pad(kernel: ExportKernel, emit: TosaEmission) -> None:
    """PAD with the stored padding value. Interior padding pads a new dimension; negative padding becomes a SLICE."""
    op = kernel.first(PadOp)
    number = kernel.array(op.padding_value)
    if number is None:
        raise ExportError("found a computed padding value, expected a constant", kernel.region)
    fill = stored_array(number, quantized_type(kernel, kernel.output_spec)).astype(np.int8)
    emit.finish(kernel, padded_by(op, emit.source(kernel), fill, emit))


def padded_by(op: PadOp, value: TosaValue, fill: Array, emit: TosaEmission) -> TosaValue:
    """A value padded between its elements and at its edges."""
    for axis, interior in enumerate(array_values(op.interior_padding)):
        value = spread(emit.f, value, axis, interior + 1, fill)
    pairs = list(zip(array_values(op.edge_padding_low), array_values(op.edge_padding_high), strict=True))
    return padded(emit.f, value, pairs, fill)


def concatenate(kernel: ExportKernel, emit: TosaEmission) -> None:
    """CONCAT."""
    op = kernel.first(ConcatenateOp)
    values = [emit.source(kernel, kernel.port(value)) for value in op.inputs]
    emit.finish(kernel, concatenated(emit.f, values, op.dimension.value.data))


def broadcast(kernel: ExportKernel, emit: TosaEmission) -> None:
    """RESHAPE to the rank of the result, TILE."""
    op = kernel.first(BroadcastInDimOp)
    value = reshaped(emit.f, emit.source(kernel), op.aligned_shape)
    emit.finish(kernel, repeated(emit.f, value, kernel.output_shape))


def gather(kernel: ExportKernel, emit: TosaEmission) -> None:
    """GATHER of whole slices. The indices are not quantized, and clamped first."""
    op = kernel.first(GatherOp)
    value, indices = (emit.source(kernel, kernel.port(port)) for port in (op.operand, op.start_indices))
    array = emit.array(kernel.region.inputs[kernel.port(op.start_indices)])
    emit.finish(kernel, gathered(op, value, indices, array, emit))


def gathered(op: GatherOp, value: TosaValue, indices: TosaValue, array: Array | None, emit: TosaEmission) -> TosaValue:
    """A gather by clamped indices. If they are the constant `array`, they are clamped here, else by operators.

    At index vectors, the first dimensions are joined, and each vector becomes the position in them.
    """
    count = leading_indices(op)
    axis, sizes = (0, value.shape[:count]) if count else (taken_axis(op), ())
    joined = reshaped(emit.f, value, (prod(sizes), *value.shape[count:])) if count else value
    if array is not None:
        clamped = clamped_indices(op, array)
        rows = np.asarray(np.ravel_multi_index(tuple(np.moveaxis(clamped, -1, 0)), sizes)) if count else clamped
        return taken(emit.f, joined, axis, emit.f.constant(rows.astype(np.int32)))
    rank = len(indices.shape)
    last = last_indices(op).astype(np.int32).reshape((1,) * (rank - 1) + (-1,) if rank else ())
    for name, bound in (("maximum", filled(rank, 0, np.int32)), ("minimum", last)):
        indices = emit.f.op(name, [indices, emit.f.constant(bound)], indices.shape, "i32")
    if count:
        steps = np.array([prod(sizes[i + 1 :]) for i in range(count)], np.int32).reshape((1,) * (rank - 1) + (-1,))
        indices = multiplied(emit.f, indices, emit.f.constant(steps), indices.shape)
        indices = reduced(emit.f, "reduce_sum", indices, [rank - 1])
    return taken(emit.f, joined, axis, indices)


def select(kernel: ExportKernel, emit: TosaEmission) -> None:
    """SELECT of stored integers. A scalar condition is broadcast."""
    (condition, _), *sides = (emit.side(kernel, value) for value in kernel.first(SelectOp).operands)
    shape = condition.shape or (1,) * len(kernel.output_shape)
    operands = [reshaped(emit.f, condition, shape), *(value for value, _ in sides)]
    emit.finish(kernel, emit.f.op("select", operands, kernel.output_shape, "i8"))


def order(name: str) -> TosaConverter:
    """MAXIMUM or MINIMUM of values of one scale, in i32, because TOSA has neither for 8 bits."""

    def convert(kernel: ExportKernel, emit: TosaEmission) -> None:
        sides = [emit.side(kernel, value) for value in kernel.first(BinaryOp).operands]
        point = quantized_type(kernel, kernel.output_spec).zero_point
        wide = [centred(emit.f, value, point, emit.profile) for value, _ in sides]
        found = emit.f.op(name, wide, np.broadcast_shapes(*(value.shape for value in wide)), "i32")
        made = bounded(kernel, emit.f, rescaled(emit.f, found, unit(emit.profile), 0, point, "i8"))
        emit.finish(kernel, repeated(emit.f, made, kernel.output_shape))

    return convert


def extreme(name: str) -> TosaConverter:
    """REDUCE_MAX or REDUCE_MIN of stored integers."""

    def convert(kernel: ExportKernel, emit: TosaEmission) -> None:
        axes = array_values(kernel.first(ReduceOp).dimensions)
        emit.finish(kernel, reduced(emit.f, name, emit.source(kernel), axes))

    return convert


def reverse(kernel: ExportKernel, emit: TosaEmission) -> None:
    """REVERSE."""
    axes = array_values(kernel.first(ReverseOp).dimensions)
    emit.finish(kernel, reversed_along(emit.f, emit.source(kernel), axes))


KERNELS: Mapping[str, TosaConverter] = {
    "add": add("add", 1),
    "average_pool": pool("avg_pool2d"),
    "broadcast": broadcast,
    "concatenate": concatenate,
    "elementwise_unary": table,
    "gather": gather,
    "logistic": table,
    "max_pool": pool("max_pool2d"),
    "maximum": order("maximum"),
    "mean": summed,
    "minimum": order("minimum"),
    "multiply": multiply,
    "pad": pad,
    "reduce_max": extreme("reduce_max"),
    "reduce_min": extreme("reduce_min"),
    "rescale": rescale,
    "reshape": reshape,
    "reverse": reverse,
    "select": select,
    "slice": slice_,
    "subtract": add("sub", -1),
    "sum": summed,
    "tanh": table,
    "transpose": transpose,
}
"""The converter of each logical kernel."""
