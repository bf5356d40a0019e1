"""Contractions: products are summed exactly in i32 at scale s_in * s_w, with the bias, and requantized once.

Quantized StableHLO requires operands of the same storage width and zero point 0 on the right (`convolution` C30,
`dot_general` C15 and C17). Other operands are converted first, exactly. Weights of 8 bits beside 16-bit activations are
stored in 16 bits. If both operands are activations and the right one has a zero point, both are stored in 16 bits with
their zero points subtracted. StableHLO's types exclude weights with a scale per block; a contraction with them becomes
an `fxpmath.real_matmul` with the same accumulators.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Operation, SSAValue

from zeropoint.ir import annotations
from zeropoint.ir.annotations import carry, has_row_scales
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import (
    ContractionOp,
    is_matrix_product,
    output_channel_axis,
    weight_channel_axis,
    weights_by_channel,
)
from zeropoint.ir.fxpmath import RealMatMulOp
from zeropoint.ir.locations import location_of
from zeropoint.ir.quant import Storage, StorageCastOp, UniformQuantizedType
from zeropoint.ir.quant.channel_scales import channel_scales, transposed_blocks
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ReshapeOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import Array, element_of, shape_of, with_element, with_shape
from zeropoint.materialize.elementwise import encased
from zeropoint.materialize.float_arithmetic import FloatArithmetic
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.numerics.accumulator import accumulator_bound
from zeropoint.numerics.arrays import along_axis
from zeropoint.numerics.profile import Profile
from zeropoint.numerics.row_scales import RowScales
from zeropoint.numerics.storage import signed_range

ACCUMULATOR = Storage.of("i32")
CLAMPS_SUMS = f"{annotations.INTEGER_SUMS}the runtime clamps in floats"
BYTE = 8


def accumulator_type(
    op: ContractionOp, lhs: UniformQuantizedType, rhs: UniformQuantizedType, profile: Profile | None = None
) -> UniformQuantizedType:
    """The type of accumulators: i32 with zero point 0 and the scale of the products, as `profile` multiplies them.

    The scale is per channel if the weight or the data has several scales. Without a profile, the product is exact.
    """
    product = np.multiply if profile is None else profile.product_of_scales
    if not rhs.is_per_layer or not lhs.is_per_layer:
        axis, shape = weight_channel_axis(op), shape_of(op.rhs)
        assert axis is not None  # guaranteed by `solve/operands.py`
        channels = channel_scales(rhs, axis, shape[axis])
        # Data has several scales only if each group of channels has one (`file_contractions.py`).
        data = np.repeat(lhs.scales, max(shape[axis] // lhs.scales.size, 1)) if lhs.scales.size > 1 else lhs.scale
        scales = product(data, channels).tolist()
        return UniformQuantizedType.per_channel(ACCUMULATOR, output_channel_axis(op), scales)
    return UniformQuantizedType.per_layer(ACCUMULATOR, float(product(lhs.scale, rhs.scale)))


def _accumulator(kernel: MaterializedKernel, op: ContractionOp) -> UniformQuantizedType:
    """The type of a kernel's accumulators; that of its result if `express_accumulators` made these equal."""
    types = kernel.type_of(op.lhs), kernel.type_of(op.rhs)
    exact = accumulator_type(op, *types)
    return exact if kernel.output_type == exact else accumulator_type(op, *types, kernel.profile)


def _same_scales(like: UniformQuantizedType, storage: Storage) -> UniformQuantizedType:
    """The type with the scales of `like`, zero point 0, and the given storage."""
    if like.is_per_channel and like.axis is not None:
        return UniformQuantizedType.per_channel(storage, like.axis, like.scales.tolist())
    return UniformQuantizedType.per_layer(storage, like.scale)


def _centred_constant(kernel: MaterializedKernel, value: SSAValue, stored: Array, width: int) -> None:
    """Replace a constant by one with its zero points subtracted, in storage of at least `width` bits."""
    quantized = kernel.type_of(value)
    points = quantized.zero_points
    low, high = quantized.affine.centred_range
    least, greatest = signed_range(BYTE)
    fits = least <= low and high <= greatest
    storage = Storage.of(f"i{width if fits else max(width, 2 * BYTE)}", low, high)
    centred = stored.astype(np.int64) - along_axis(points, stored.ndim, quantized.axis, "zero point")
    made = constant_op(centred.astype(storage.type.dtype), kernel.weights, quantized=_same_scales(quantized, storage))
    named = location_of(kernel.values[value])
    kernel.values[value] = kernel.insert(made, kernel.region).output
    made.location = named  # the name of the constant, which names the array in the weights file


def _widened(kernel: MaterializedKernel, value: SSAValue) -> None:
    """Replace an 8-bit activation by i16 at the same scale, with its zero point subtracted."""
    quantized = kernel.type_of(value)
    wide = UniformQuantizedType.per_layer(Storage.of("i16"), quantized.scale)
    narrow = kernel.values[value]
    kernel.values[value] = kernel.insert(UniformQuantizeOp(narrow, with_element(narrow, wide)), kernel.region).result


def _share_storage(kernel: MaterializedKernel, op: ContractionOp) -> bool:
    """Give both operands the same storage width, and the right one zero point 0.

    Returns False if that needs over 16 bits.
    """
    width = kernel.type_of(op.lhs).storage.type.width
    rhs = kernel.type_of(op.rhs)
    stored = constant_array(kernel.values[op.rhs], kernel.weights)
    if stored is not None and (rhs.zero_points.any() or rhs.storage.type.width < width):
        _centred_constant(kernel, op.rhs, stored, width)
    elif rhs.zero_points.any():
        if max(width, rhs.storage.type.width) > BYTE:
            return False
        for value in dict.fromkeys((op.lhs, op.rhs)):
            _widened(kernel, value)
    if kernel.type_of(op.lhs).storage.type.width < kernel.type_of(op.rhs).storage.type.width:
        _widened(kernel, op.lhs)
    return True


def _passes_32_bits(kernel: MaterializedKernel, op: ContractionOp) -> bool:
    """Whether a sum of products plus the bias can exceed 32 bits, given the stored weights."""
    stored, given = constant_array(kernel.values[op.rhs], kernel.weights), kernel.type_of(op.lhs)
    axis = weight_channel_axis(op)
    if stored is None or axis is None:
        return False
    channels = weights_by_channel(stored, axis)
    raw = accumulator_bound(channels, given.storage.minimum, given.storage.maximum)
    centred = accumulator_bound(channels, given.storage.minimum, given.storage.maximum, given.zero_point)
    bias = max((_greatest(kernel, other) for other in kernel.body if isinstance(other, AddOp)), default=0)
    return int(np.maximum(raw, centred + bias).max(initial=0)) > ACCUMULATOR.maximum


def _greatest(kernel: MaterializedKernel, op: AddOp) -> int:
    """The greatest magnitude of the constant operands of an addition, broadcast or not."""
    found = 0
    for operand in op.operands:
        made = operand.owner
        value = made.operand if isinstance(made, BroadcastInDimOp) else operand
        array = constant_array(kernel.values[value], kernel.weights) if value in kernel.values else None
        if array is not None:
            found = max(found, int(np.abs(array.astype(np.int64)).max(initial=0)))
    return found


def _in_blocks(kernel: MaterializedKernel, op: ContractionOp, accumulator: UniformQuantizedType) -> SSAValue:
    """The sums of products with weights in blocks, as a `real_matmul`.

    The leading dimensions of lhs are collapsed to rows.
    """
    axis, given = weight_channel_axis(op), kernel.values[op.lhs]
    shape, result = shape_of(given), shape_of(op.result)
    rows = with_shape(given, [math.prod(shape[:-1]), shape[-1]])
    if len(shape) != 2:
        given = kernel.insert(ReshapeOp(given, rows), op).result
    weight = kernel.values[op.rhs] if axis == 1 else _turned(kernel, op)
    matrix = accumulator
    if accumulator.axis is not None:
        matrix = UniformQuantizedType.per_channel(ACCUMULATOR, 1, accumulator.scales.tolist())
    product = RealMatMulOp(given, weight, result_type=TensorType(matrix, [rows.get_shape()[0], result[-1]]))
    value = kernel.insert(product, op).result
    if len(shape) != 2:
        value = kernel.insert(ReshapeOp(value, with_element(op.result, accumulator)), op).result
    kernel.values[op.result] = value
    return value


def _turned(kernel: MaterializedKernel, op: ContractionOp) -> SSAValue:
    """The weights in blocks, transposed to [terms, channels]."""
    kind, value = kernel.type_of(op.rhs), kernel.values[op.rhs]
    cast = value.owner
    assert isinstance(cast, StorageCastOp)  # `materialize.py`
    stored = constant_array(cast.input, kernel.weights)
    assert stored is not None
    made = constant_op(np.ascontiguousarray(stored.T), kernel.weights, element_type=element_of(cast.input))
    made.location = location_of(cast.input)
    turned = transposed_blocks(kind, (1, 0))
    held = kernel.builder.insert(made).output
    return kernel.insert(StorageCastOp(held, with_element(held, turned)), op).result


def _takes_row_scales(kernel: MaterializedKernel, op: ContractionOp, accumulator: UniformQuantizedType) -> bool:
    """Whether the kernel rounds rows of 16-bit activations to 8 bits, as its row in the table says it can.

    That takes a product with a constant matrix of 8 bits, whose sums fit 32 bits and are requantized: sums that floats
    read keep the precision of the activations.
    """
    stored, given = constant_array(kernel.values[op.rhs], kernel.weights), kernel.type_of(op.lhs)
    axis = weight_channel_axis(op)
    if not has_row_scales(kernel.region) or kernel.output_type == accumulator or not is_matrix_product(op):
        return False
    low, high = signed_range(BYTE)
    narrow = stored is not None and low <= int(stored.min(initial=0)) <= int(stored.max(initial=0)) <= high
    if stored is None or axis is None or not narrow or given.storage.type.width <= BYTE:
        return False
    try:
        RowScales.of(given.storage.minimum, given.storage.maximum, given.zero_point, weights_by_channel(stored, axis))
    except ValueError:
        return False
    return True


def _summed(kernel: MaterializedKernel, op: Operation, accumulator: UniformQuantizedType, *, long: bool) -> SSAValue:
    """The op on accumulators, which are marked as 64-bit if `long`."""
    value = kernel.retyped(op, accumulator)
    if long and isinstance(value.owner, Operation):
        value.owner.attributes[annotations.ACCUMULATOR] = i64
    return value


def _named(kernel: MaterializedKernel, value: SSAValue) -> SSAValue:
    """The result with the kernel's name instead of its last op's, because it is the result of the kernel."""
    if isinstance(value.owner, Operation):
        value.owner.location = kernel.region.location
    return value


def _real_in(kernel: MaterializedKernel, value: SSAValue, bounds: Bounds) -> SSAValue:
    """Accumulators as real numbers, clamped to bounds."""
    real = kernel.insert(UniformDequantizeOp(value), kernel.region).result
    return FloatArithmetic(kernel, CLAMPS_SUMS).clamped(real, bounds.low, bounds.high)


def _quantized(kernel: MaterializedKernel, total: SSAValue) -> SSAValue:
    return kernel.insert(UniformQuantizeOp(total, with_element(total, kernel.output_type)), kernel.region).result


def contraction(
    kernel: MaterializedKernel, narrowed: Callable[[MaterializedKernel, SSAValue], SSAValue] = _quantized
) -> SSAValue:
    """`convolution | dot_general`, `add` of the bias, `uniform_quantize` unless the result is the accumulator, `clamp`.

    Sums of 16-bit activations may exceed 32 bits. With constant weights, sums that may are marked by
    `zeropoint.accumulator`. Without, nothing bounds them, so the op itself requantizes. `narrowed` rounds sums to the
    type of the result.
    """
    op = next(op for op in kernel.body if isinstance(op, ContractionOp))
    is_wide = kernel.type_of(op.lhs).storage.type.width > BYTE
    direct = is_wide and constant_array(kernel.values[op.rhs], kernel.weights) is None
    blocks = kernel.type_of(op.rhs).is_sub_channel
    if not blocks and not _share_storage(kernel, op):
        return encased(kernel)
    accumulator = kernel.output_type if direct else _accumulator(kernel, op)
    bounds = Bounds()
    long = is_wide and not direct and _passes_32_bits(kernel, op)
    value = _in_blocks(kernel, op, accumulator) if blocks else _summed(kernel, op, accumulator, long=long)
    if not long and _takes_row_scales(kernel, op, accumulator):
        assert isinstance(value.owner, Operation)
        carry(kernel.region, value.owner, annotations.ACTIVATION_SCALES)
    for other in kernel.body:
        if isinstance(other, BroadcastInDimOp) and other.operand in kernel.values:
            kernel.retyped(other, accumulator)
        elif isinstance(other, AddOp):
            value = _summed(kernel, other, accumulator, long=long)
        elif other is not op:
            bounds.then(other, kernel.weights)
    if kernel.output_type == accumulator and not direct:  # from `express_accumulators`
        return _named(kernel, value) if bounds == Bounds() else _real_in(kernel, value, bounds)
    if not direct:
        value = narrowed(kernel, value)
    return kernel.bounded(value, bounds, kernel.region)


KERNELS = {
    "batch_matmul": contraction,
    "convolution": contraction,
    "depthwise_convolution": contraction,
    "fully_connected": contraction,
    "transpose_convolution": contraction,
}
