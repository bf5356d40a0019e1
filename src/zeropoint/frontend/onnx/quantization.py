"""`QuantizeLinear` and `DequantizeLinear`: casts of the quant dialect, which pin parameters, or explicit arithmetic.

The result of QuantizeLinear gets a quantized type if all its readers dequantize it. Explicit arithmetic is used for
integers that other ops read, for integers from an input, for computed values with scales per block, and for floats of 8
bits or fewer.

Source: the ONNX operator specification, "QuantizeLinear": round(x / scale) + zero point, saturated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
from onnx import NodeProto, helper
from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness, UnitAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.frontend.onnx.broadcasting import broadcast_to
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.elementwise import converted, saturated
from zeropoint.frontend.onnx.movement import part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, axis_of
from zeropoint.frontend.onnx.partial_blocks import is_partial, smaller_blocks
from zeropoint.frontend.onnx.tensors import integer_of, program_element
from zeropoint.ir.annotations import BY_CHANNEL, FILE_HAS_FLOATS
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, ClampOp, DivideOp, MultiplyOp, RoundNearestEvenOp, SubtractOp
from zeropoint.ir.tensors import Array, element_of, shape_of, with_element, with_shape
from zeropoint.numerics.storage import integer_range

STORAGE: Mapping[np.dtype[np.generic], Storage] = {
    np.dtype(ml_dtypes.int2): Storage.of("i8", -2, 1),
    np.dtype(ml_dtypes.uint2): Storage.of("u8", 0, 3),
    np.dtype(ml_dtypes.int4): Storage.of("i8", -8, 7),
    np.dtype(ml_dtypes.uint4): Storage.of("u8", 0, 15),
    np.dtype(np.int8): Storage.of("i8"),
    np.dtype(np.uint8): Storage.of("u8"),
    np.dtype(np.int16): Storage.of("i16"),
    np.dtype(np.uint16): Storage.of("u16"),
    np.dtype(np.int32): Storage.of("i32"),
}
"""The storage by integer dtype. Integers below 8 bits are a subrange of an 8-bit type, so that 8-bit kernels apply."""
SIGNED = {np.dtype(ml_dtypes.uint2): np.dtype(ml_dtypes.int2), np.dtype(ml_dtypes.uint4): np.dtype(ml_dtypes.int4)}
"""The signed dtype of the same width."""
DEQUANTIZING: Mapping[str, frozenset[int]] = {
    "DequantizeLinear": frozenset({0}),
    "Identity": frozenset({0}),
    "QLinearConv": frozenset({0, 3}),
    "QLinearMatMul": frozenset({0, 3}),
}
"""The inputs of each op that may be quantized values. The next two inputs are the scale and the zero point."""
QUANTIZING: Mapping[str, int] = {"QuantizeLinear": 1, "QLinearConv": 6, "QLinearMatMul": 6}
"""The input of each op that is the scale of its result. The next input is the zero point."""


def clipped(nodes: Iterable[NodeProto], array: Callable[[str], Array | None]) -> dict[str, tuple[int, int]]:
    """The results of QuantizeLinear whose only reader is a Clip before DequantizeLinear, with the Clip's bounds.

    Quantization-aware training exports narrower integers this way. `array` returns constants by name.
    """
    made: set[str] = set()
    readers: dict[str, list[NodeProto]] = {}
    for node in nodes:
        if node.op_type == "QuantizeLinear":
            made.update(node.output)
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found: dict[str, tuple[int, int]] = {}
    for name in made:
        (reader, *others) = readers.get(name, [None])
        if reader is None or others or reader.op_type != "Clip" or len(reader.input) != 3:
            continue
        if any(other.op_type != "DequantizeLinear" for other in readers.get(reader.output[0], [])):
            continue
        bounds = [array(bound) for bound in reader.input[1:]]
        low, high = (None if bound is None or bound.size != 1 else int(bound.reshape(())) for bound in bounds)
        if low is not None and high is not None and low < high:
            found[name] = low, high
    return found


@dataclass(frozen=True)
class OnnxParameters:
    """The numbers of the inputs that are scale and zero point, and how these apply to the value.

    `axis` is the dimension of 1-D scales. `block` is the number of elements along it that share a scale; 0 without
    blocks.
    """

    scale: int
    zero_point: int
    axis: int = 1
    block: int = 0


def _declared(node: OnnxNode) -> OnnxParameters:
    return OnnxParameters(1, 2, node.integer("axis", 1), node.integer("block_size", 0))


def quantize_linear(node: OnnxNode, build: Builder) -> SSAValue:
    """`QuantizeLinear`: `quant.qcast` to the type of scale and zero point, with the zero point's dtype as storage."""
    element: Attribute | None = None
    points = node.constant(2)
    if not node.has(2) and (code := node.integer("output_dtype", 0)):
        element = program_element(code)
        points = np.zeros((), helper.tensor_dtype_to_np_dtype(code))
    return quantized(node, node.operand(0), _declared(node), points, build, element)


def quantized(
    node: OnnxNode,
    value: SSAValue,
    where: OnnxParameters,
    points: Array | None,
    build: Builder,
    element: Attribute | None = None,
) -> SSAValue:
    """A real value quantized as a node specifies: to a quantized type, or by explicit arithmetic.

    %0 = stablehlo.divide %x, %scale, then `round_nearest_even`, `add` of the zero point, `clamp`, `convert`
    """
    dtype = np.dtype(np.uint8) if points is None else points.dtype
    _check_scales(node, where)
    pinned = node.constant(where.scale) is not None and (points is not None or not node.has(where.zero_point))
    if pinned and dtype in STORAGE and not where.block and not node.is_read_as_integers():
        storage = within(STORAGE[dtype], node.bounds())
        scales = node.parameter(where.scale, "scale")
        assert scales is not None  # because it is `pinned`
        made = with_element(value, _type(value, where, storage, *_mirrored(storage, scales, points)))
        return build.insert(QuantizeCastOp(value, made))
    if element is None:
        has_points = node.has(where.zero_point)
        element = element_of(node.operand(where.zero_point)) if has_points else IntegerType(8, Signedness.UNSIGNED)
    ratio = build.apply(DivideOp, value, _over(node.operand(where.scale), value, where, build))
    if isinstance(element, AnyFloat):
        return saturated(ratio, element, build)
    number = build.apply(RoundNearestEvenOp, ratio)
    if node.has(where.zero_point):
        zero = converted(node.operand(where.zero_point), f32, build)
        number = build.apply(AddOp, number, _over(zero, value, where, build))
    low, high = _bounds(element)
    number = build.insert(ClampOp(build.scalar(low, number), number, build.scalar(high, number)))
    return converted(number, element, build)


def within(storage: Storage, bounds: tuple[int, int] | None) -> Storage:
    """The storage with its range intersected with bounds; unchanged if the intersection is empty or one number."""
    low, high = bounds or (storage.minimum, storage.maximum)
    low, high = max(low, storage.minimum), min(high, storage.maximum)
    return Storage(storage.type, low, high, storage.spelling) if low < high else storage


def _bounds(element: Attribute) -> tuple[int, int]:
    integer = integer_of(element)
    assert integer is not None
    return integer_range(integer.width.data, signed=integer.signedness.data is not Signedness.UNSIGNED)


def dequantize_linear(node: OnnxNode, build: Builder) -> SSAValue:
    """`DequantizeLinear`: `quant.dcast` of a quantized value, or `convert`, `subtract`, `multiply` of integers.

    Constant integers get a quantized type by `quant.scast`, which pins their parameters, followed by `quant.dcast`.
    """
    return dequantized(node, 0, _declared(node), build)


def note_scales_by_channel(node: NodeProto, results: Sequence[SSAValue], build: Builder) -> None:
    """Mark what reads a value whose one scale is repeated for each channel. onnxruntime computes it in floats."""
    read = {build.values[name] for name in node.input if name in build.values}
    noted = any(isinstance(value.owner, DequantizeCastOp) and BY_CHANNEL in value.owner.attributes for value in read)
    for value in results if noted and node.op_type not in QUANTIZING else ():
        if value not in read and isinstance(value.owner, Operation):
            value.owner.attributes[FILE_HAS_FLOATS] = UnitAttr()


def dequantized(node: OnnxNode, index: int, where: OnnxParameters, build: Builder) -> SSAValue:
    """An input of a node, dequantized."""
    value, stored = node.operand(index), node.constant(index)
    _check_scales(node, where)
    if isinstance(kind := element_of(value), UniformQuantizedType):
        made = DequantizeCastOp(value, with_element(value, f32))
        if kind.is_per_layer and (given := node.constant(where.scale)) is not None and given.size > 1:
            made.attributes[BY_CHANNEL] = UnitAttr()
        return build.insert(made)
    scales, points = node.constant(where.scale), node.constant(where.zero_point)
    pinned = stored is not None and scales is not None and (points is not None or not node.has(where.zero_point))
    if pinned and stored is not None and scales is not None and stored.dtype in STORAGE:
        filled = _filled(where, stored.shape, scales, points)
        if filled is not None:
            with build.at(node.input_name(index)):
                return _pinned(value, stored, *filled, build)
        return build.constant(_real(stored, where, scales, points))
    number = converted(value, f32, build)
    if node.has(where.zero_point):
        zero = converted(node.operand(where.zero_point), f32, build)
        number = build.apply(SubtractOp, number, _over(zero, value, where, build))
    scale = converted(node.operand(where.scale), f32, build)
    return build.apply(MultiplyOp, number, _over(scale, value, where, build))


def _filled(
    where: OnnxParameters, shape: Sequence[int], scales: Array, points: Array | None
) -> tuple[OnnxParameters, Array, Array | None] | None:
    """The parameters with blocks that fill a shape; None if these are too small to be a type."""
    axis = axis_of(where.axis, len(shape)) if where.block else 0
    if not where.block or not is_partial(shape, axis, where.block, scales.shape):
        return where, scales, points
    if points is not None and points.shape != scales.shape:
        raise NodeError(f"found zero points of shape {list(points.shape)}, expected {list(scales.shape)}")
    found = smaller_blocks(shape[axis], axis, where.block, scales, points)
    return None if found is None else (replace(where, block=found[0]), *found[1:])


def _check_scales(node: OnnxNode, where: OnnxParameters) -> None:
    """Raises NodeError for a constant scale that is 0 or not finite."""
    scales = node.constant(where.scale)
    if scales is None:
        return
    numbers = scales.astype(np.float64).reshape(-1)
    (wrong,) = np.nonzero(~np.isfinite(numbers) | (numbers == 0))
    if len(wrong):
        place = f" at index {wrong[0]}" if numbers.size > 1 else ""
        raise NodeError(
            f"found scale {numbers[wrong[0]]:g}{place} of '{node.input_name(where.scale)}', expected finite numbers "
            "other than 0; quantize the model again"
        )


def _over(parameter: SSAValue, value: SSAValue, where: OnnxParameters, build: Builder) -> SSAValue:
    """A scale or zero point broadcast to the shape of a value: per tensor, per index of the axis, or per block."""
    shape, found = shape_of(value), shape_of(parameter)
    target = with_shape(parameter, shape)
    if not found or found == (1,):
        return build.broadcast(build.reshape(parameter, ()), target, ())
    if len(found) == 1 and not where.block:
        axis = axis_of(where.axis, len(shape))
        if found[0] != shape[axis]:
            raise NodeError(f"found {found[0]} scales or zero points, expected {shape[axis]}, the size of axis {axis}")
        return build.broadcast(parameter, target, [axis])
    if not where.block:
        return broadcast_to(parameter, shape, build)
    axis = axis_of(where.axis, len(shape))
    partial = len(found) == len(shape) and is_partial(shape, axis, where.block, found)
    if len(found) != len(shape) or not (partial or found[axis] * where.block == shape[axis]):
        raise NodeError(
            f"found scales of shape {list(found)} and blocks of {where.block}, which do not fill {list(shape)}"
        )
    apart = build.reshape(parameter, [*found[: axis + 1], 1, *found[axis + 1 :]])
    wanted = [*found[: axis + 1], where.block, *found[axis + 1 :]]
    spread = build.broadcast(apart, with_shape(apart, wanted), list(range(len(wanted))))
    whole = build.reshape(spread, [*found[:axis], found[axis] * where.block, *found[axis + 1 :]])
    return part_of(whole, axis, range(shape[axis]), build) if partial else whole


def _real(stored: Array, where: OnnxParameters, scales: Array, points: Array | None) -> Array:
    """The real numbers, in f32, of integers whose last block is partial. As arithmetic of the program, they would be
    rounded to 8 bits at each step."""
    axis = axis_of(where.axis, stored.ndim)
    kept = range(stored.shape[axis])
    factors = np.repeat(scales, where.block, axis).take(kept, axis).astype(np.float32)
    zeros = 0 if points is None else np.repeat(points, where.block, axis).take(kept, axis).astype(np.float32)
    return (stored.astype(np.float32) - zeros) * factors


def _pinned(
    value: SSAValue, stored: Array, where: OnnxParameters, scales: Array, points: Array | None, build: Builder
) -> SSAValue:
    dtype = stored.dtype
    if dtype in SIGNED:  # kernels require weights with zero point 0; unsigned weights usually have it in mid-range
        middle = (STORAGE[dtype].maximum + 1) // 2
        dtype, stored = SIGNED[dtype], stored.astype(np.int8) - np.int8(middle)
        points = (np.zeros(scales.shape) if points is None else points.astype(np.int64)) - middle
    quantized_type = _type(value, where, STORAGE[dtype], np.abs(scales), points)
    if (scales < 0).any():
        stored, points = _mirrored_weights(stored.astype(np.int64), STORAGE[dtype], where, scales, points)
        quantized_type = _type(value, where, STORAGE[dtype], np.abs(scales), points)
    made = build.quantized_constant(stored, quantized_type)
    return build.insert(DequantizeCastOp(made, with_element(made, f32)))


def _mirrored(storage: Storage, scales: Array, points: Array | None) -> tuple[Array, Array | None]:
    """Positive scales, and the zero points that give the same real values with them.

    The scales of a type are positive. For a negative scale s, (q - z) * s equals (q' - z') * -s, with the mirrored
    integers q' = low + high - q and z' = low + high - z. Rounding and saturation are symmetric, too.
    """
    if not (scales < 0).any():
        return scales, points
    zeros = np.zeros(scales.shape, np.int64) if points is None else points.astype(np.int64)
    return np.abs(scales), np.where(scales < 0, storage.minimum + storage.maximum - zeros, zeros)


def _mirrored_weights(
    stored: Array, storage: Storage, where: OnnxParameters, scales: Array, points: Array | None
) -> tuple[Array, Array | None]:
    """Constant integers and zero points that give the same real values with positive scales.

    Integers with a negative scale are mirrored at the zero point, so that a zero point of 0 stays 0, as kernels require
    of weights. If one of them would be out of range (-128), all are mirrored at the middle of the range, as in
    `_mirrored`.
    """
    zeros = np.zeros(scales.shape, np.int64) if points is None else points.astype(np.int64)
    negative = _spread(scales < 0, stored.shape, where)
    at_points = np.where(negative, 2 * _spread(zeros, stored.shape, where) - stored, stored)
    if at_points.min(initial=0) >= storage.minimum and at_points.max(initial=0) <= storage.maximum:
        return at_points, points
    ends = storage.minimum + storage.maximum
    return np.where(negative, ends - stored, stored), np.where(scales < 0, ends - zeros, zeros)


def _spread(parameters: Array, shape: Sequence[int], where: OnnxParameters) -> Array:
    """Parameters in a shape that broadcasts to `shape`. `_type` has checked that they fit."""
    if parameters.size == 1:
        return parameters.reshape(())
    axis = axis_of(where.axis, len(shape))
    if where.block:
        return np.repeat(parameters, where.block, axis)
    return parameters.reshape([-1 if dimension == axis else 1 for dimension in range(len(shape))])


def _type(
    value: SSAValue, where: OnnxParameters, storage: Storage, scales: Array, points: Array | None
) -> UniformQuantizedType:
    """`!quant.uniform`: per layer for one scale, per channel for 1-D scales, else per block."""
    factors = scales.astype(np.float64).reshape(-1)
    zeros = np.zeros(factors.shape, np.int64) if points is None else points.astype(np.int64).reshape(-1)
    try:
        if where.block:
            return _blocked(value, where, storage, scales, points)
        if scales.ndim == 0 or factors.size == 1:
            return UniformQuantizedType.per_layer(storage, float(factors[0]), int(zeros[0]))
        axis = axis_of(where.axis, len(shape_of(value)))
        if factors.size != shape_of(value)[axis] or zeros.size != factors.size:
            raise NodeError(
                f"found {factors.size} scales and {zeros.size} zero points, expected {shape_of(value)[axis]}, the size "
                f"of axis {axis}"
            )
        return UniformQuantizedType.per_channel(storage, axis, factors.tolist(), zeros.tolist())
    except VerifyException as error:
        raise NodeError(f"found invalid scale and zero point: {error}") from error


def _blocked(
    value: SSAValue, where: OnnxParameters, storage: Storage, scales: Array, points: Array | None
) -> UniformQuantizedType:
    """The type with one scale per block of elements along the axis. Raises NodeError for scales of another shape."""
    shape = shape_of(value)
    axis = axis_of(where.axis, len(shape))
    wanted = tuple(size // where.block if index == axis else size for index, size in enumerate(shape))
    given = scales.shape if points is None else (scales.shape, points.shape)
    if shape[axis] % where.block or given != (wanted if points is None else (wanted, wanted)):
        raise NodeError(
            f"found scales of shape {list(scales.shape)} and blocks of {where.block}, which do not fill {list(shape)}"
        )
    blocks = [(index, where.block if index == axis else 1) for index in range(len(shape))]
    zeros = None if points is None else points.astype(np.int64)
    return UniformQuantizedType.sub_channel(storage, blocks, scales.astype(np.float64), zeros)
