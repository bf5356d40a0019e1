"""OpenVINO's integer kernels: exact sums of products, then f32 arithmetic with one rounding at the end.

```mlir
%2 = "quant.region"(%0, %w, %b) ({ convolution, add }) {logical_kernel = "convolution"} : ...
```
becomes, under profile `openvino`,
```mlir
%s = (the convolution, i32 at the scales of the products, as its stored integers in f32)
%v = (%s * fl(s_in * s_w) + the bias in f32; without a bias, %s, and a scale and a shift for each channel)
%u = (%v * scale + shift in f64, rounded to f32: a fused multiply-add)
%2 = (%u clamped, rounded to even, minus the zero point, as i32 at the result's scale)
```
If OpenVINO fuses a sum or a hard swish into the convolution before it, that kernel reads %v, not %2
(`numerics.openvino`). Other kernels are those of profile `onnxruntime`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import f32, f64, i32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.annotations import SHARED_BIAS
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import ContractionOp, output_channel_axis
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.quant import QuantizeRegionOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo.attributes import ConvolutionLayout
from zeropoint.ir.tensors import Array, element_of, with_element
from zeropoint.materialize import elementwise, movement, onnxruntime
from zeropoint.materialize.contraction import ACCUMULATOR, accumulator_type
from zeropoint.materialize.contraction import contraction as exact_contraction
from zeropoint.materialize.express_accumulators import is_stated
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, bounded_floats, is_of_bytes
from zeropoint.materialize.kernel import MaterializedKernel, UnroundedFloats
from zeropoint.materialize.openvino_floats import (
    REASON,
    SCALES_SUMS,
    along,
    kept,
    of_dtype,
    real_of,
    requantized,
    stored,
    stored_again,
)
from zeropoint.materialize.openvino_held import READ_UNSIGNED, held_parameters, reads_floats
from zeropoint.materialize.openvino_means import average_pool, mean
from zeropoint.materialize.openvino_products import multiply
from zeropoint.materialize.openvino_sums import add, function_of, function_of_sum, subtract
from zeropoint.materialize.product_chains import is_in_chain
from zeropoint.numerics.openvino import BiasedFactors, RangeFactors, moved_ends, moved_scale
from zeropoint.targets.logical_kernels import BINARY, FUNCTION_OF_PRODUCT, FUNCTION_OF_SUM, FUNCTIONS

CONVOLUTIONS = frozenset({"convolution", "depthwise_convolution"})
"""The kernels into which OpenVINO fuses a following sum or hard swish."""
SLOPE, OFFSET = np.float32(1 / 6), np.float32(0.5)
"""A hard swish is x * clamp(SLOPE * x + OFFSET, 0, 1)."""


def contraction(kernel: MaterializedKernel) -> SSAValue:
    """Sums of products times their scale, plus the bias, in f32. The result is rounded once, or not at all."""
    op = next(op for op in kernel.body if isinstance(op, ContractionOp))
    is_real = kernel.output_type.storage == ACCUMULATOR
    if not is_real and not _is_integer(kernel, op):
        return exact_contraction(kernel)
    factors = _own_scales(kernel, op)
    accumulator = accumulator_type(op, kernel.type_of(op.lhs), kernel.type_of(op.rhs))
    if is_real:
        run = FloatArithmetic(kernel, SCALES_SUMS)
        return bounded_floats(run, real_of(run, _by_inverse(kernel, _unrounded(run, accumulator, op, factors))))
    if kernel.type_of(op.rhs).zero_points.any():
        return bounded(kernel, _rounded_once(FloatArithmetic(kernel, REASON), accumulator, op))
    run = FloatArithmetic(kernel, SCALES_SUMS)
    if _folds_range(kernel, op):
        return bounded(kernel, _folded(run, accumulator, op))
    is_alone = reads_floats(kernel, kernel.type_of(op.lhs)) or SHARED_BIAS in kernel.region.attributes
    return _rounded(run, _unrounded(run, accumulator, op, factors), is_alone=is_alone)


def _by_inverse(kernel: MaterializedKernel, unrounded: UnroundedFloats) -> UnroundedFloats:
    """Sums in units of their one scale, which OpenVINO replaces by the inverse of its inverse if it comes last.

    In products of matrices, a clamp or another elementwise op comes after it; in convolutions, it comes after a relu.
    """
    if unrounded.unit is None or unrounded.axis is not None:
        return unrounded
    bounds = Bounds()
    for op in kernel.body:
        bounds.then(op, kernel.weights)
    if kernel.region.logical_kernel.data in CONVOLUTIONS:
        is_last = (bounds.low, bounds.high) == (0, np.inf)
    else:
        is_last = bounds == Bounds() and not _is_followed(kernel.region)
    return replace(unrounded, unit=1 / (1 / unrounded.unit)) if is_last else unrounded


def _is_followed(region: QuantizeRegionOp) -> bool:
    """Whether OpenVINO computes an elementwise op of floats in the kernel before it: the only op that reads it."""
    readers = [use.operation for use in region.outputs[0].uses]
    if len(readers) != 1:
        return False
    (reader,) = readers
    if isinstance(reader, QuantizeRegionOp):
        return reader.logical_kernel.data in {*FUNCTIONS, *BINARY}
    return isinstance(reader, hlo.UnaryOp | hlo.BinaryOp)


def _own_scales(kernel: MaterializedKernel, op: ContractionOp) -> Array | None:
    """The scales of the sums, if they are not those of the types' products: of i8 data held as u8, or by channel."""
    given = kernel.type_of(op.lhs)
    is_moved = given.storage.type.signed and kernel.region.logical_kernel.data in READ_UNSIGNED[kernel.profile.kernels]
    if given.is_per_layer and not is_moved:
        return None
    if not given.is_per_layer:
        _take_one_scale(kernel, op.lhs)
    scales = np.ravel(moved_scale(of_dtype(given)) if is_moved else given.scales)
    held = UniformQuantizedType(replace(given.data, scales=tuple(scales.tolist())))
    return accumulator_type(op, held, kernel.type_of(op.rhs)).scales.astype(np.float32)


def _take_one_scale(kernel: MaterializedKernel, data: SSAValue) -> None:
    """Give data with a scale per channel and one zero point one scale, 1, for the same integers."""
    given, value = kernel.type_of(data), kernel.values[data]
    integers = kernel.insert(StorageCastOp(value, with_element(value, given.storage.mlir_type)), kernel.region)
    one = UniformQuantizedType.per_layer(given.storage, 1.0, int(given.zero_points.flat[0]))
    kernel.values[data] = kernel.insert(StorageCastOp(integers.result, with_element(value, one)), kernel.region).result


def _rounded(run: FloatArithmetic, unrounded: UnroundedFloats, *, is_alone: bool) -> SSAValue:
    """The result of a convolution or product. `is_alone`: OpenVINO computes no other op in the same kernel."""
    kernel = run.kernel
    if unrounded.axis is None and not kernel.output_type.is_per_layer:
        unrounded = replace(unrounded, axis=kernel.output_type.axis)
    held, moved = held_parameters(kernel)
    result = requantized(run, unrounded, RangeFactors.of(held, unrounded.unit), moved)
    limited = bounded(kernel, result) if kernel.output_type.is_per_layer else result
    if (
        limited is result
        and not is_alone
        and kernel.output_type.storage.is_full_range
        and kernel.region.logical_kernel.data in CONVOLUTIONS
    ):
        kernel.unrounded[result] = unrounded
    return limited


def _folds_range(kernel: MaterializedKernel, op: ContractionOp) -> bool:
    """Whether OpenVINO folds the result's range into the scales and the bias.

    It does so in fully connected layers with a bias. Those in a chain, which files have as batches
    (`product_chains.py`), must have an operand of zero point 0.
    """
    if kernel.region.logical_kernel.data != "fully_connected" or len(_biases(kernel)) != 1:
        return False
    return not kernel.type_of(op.lhs).zero_points.any() or not is_in_chain(kernel.region)


def _folded(run: FloatArithmetic, accumulator: UniformQuantizedType, op: ContractionOp) -> SSAValue:
    """The sums times a factor for each channel, plus an addend for each channel."""
    kernel, terms = run.kernel, _terms(run, accumulator, op)
    axis = None if accumulator.is_per_layer else output_channel_axis(op)
    fold = BiasedFactors.of(of_dtype(kernel.output_type), accumulator.scales.astype(np.float32))
    kernel.values[op.result] = run.made(hlo.MultiplyOp(terms, along(run, terms, fold.factors, axis)))
    (bias,) = _biases(kernel)
    return stored(run, _with_bias(run, bias, fold.addends))


def _terms(run: FloatArithmetic, accumulator: UniformQuantizedType, op: ContractionOp) -> SSAValue:
    """The sums of products as stored integers in f32."""
    sums = run.kernel.retyped(op, accumulator)
    return run.to(run.made(StorageCastOp(sums, with_element(sums, i32))), f32)


def _biases(kernel: MaterializedKernel) -> list[hlo.AddOp]:
    """The additions of biases; none if all of them are 0."""
    found = [other for other in kernel.body if isinstance(other, hlo.AddOp)]
    return [] if all(_adds_zeros(kernel, bias) for bias in found) else found


def _rounded_once(run: FloatArithmetic, accumulator: UniformQuantizedType, op: ContractionOp) -> SSAValue:
    """The result of weights with a zero point, for which OpenVINO has no integer kernel.

    The order of its float sums is unknown. So the exact sum is rounded once, to even after the zero point is added.
    """
    kernel, wanted = run.kernel, run.kernel.output_type
    sums = kernel.retyped(op, accumulator)
    for other in kernel.body:
        if isinstance(other, hlo.BroadcastInDimOp | hlo.AddOp):
            sums = kernel.retyped(other, accumulator)
    terms = run.to(run.made(StorageCastOp(sums, with_element(sums, i32))), f64)
    axis = None if accumulator.is_per_layer else output_channel_axis(op)
    factors = along(run, terms, accumulator.scales / wanted.scale, axis)
    value = run.plus(run.made(hlo.MultiplyOp(terms, factors)), wanted.zero_point)
    return run.rounded(run.clamped(value, wanted.storage.minimum, wanted.storage.maximum), wanted.zero_point)


def _unrounded(
    run: FloatArithmetic, accumulator: UniformQuantizedType, op: ContractionOp, factors: Array | None = None
) -> UnroundedFloats:
    """The sums of products in f32: real numbers or, without a bias, integers in units of their scale.

    Without a bias, those of fully connected layers are real numbers, too, if the channels have several scales.
    """
    kernel, terms = run.kernel, _terms(run, accumulator, op)
    scales, biases = accumulator.scales.astype(np.float32) if factors is None else factors, _biases(kernel)
    axis = None if scales.size == 1 else output_channel_axis(op)
    if not biases and (kernel.region.logical_kernel.data in CONVOLUTIONS or len(set(scales.flat)) == 1):
        return UnroundedFloats(terms, np.float32(scales.item()) if axis is None else scales, axis)
    return UnroundedFloats(_real(run, terms, scales, axis, op))


def _real(run: FloatArithmetic, terms: SSAValue, scales: Array, axis: int | None, op: ContractionOp) -> SSAValue:
    """The result in f32: the sums times their scales, of which there may be several along an axis, plus the bias."""
    factors = along(run, terms, scales, axis)
    real = run.kernel.values[op.result] = run.made(hlo.MultiplyOp(terms, factors))
    for bias in _biases(run.kernel):
        real = _with_bias(run, bias)
    return real


def _is_integer(kernel: MaterializedKernel, op: ContractionOp) -> bool:
    """Whether OpenVINO has an integer kernel: operands and result have 8 bits.

    The weights are constants. If they are computed, they are i8, and both operands have zero point 0.
    """
    lhs, rhs, wanted = kernel.type_of(op.lhs), kernel.type_of(op.rhs), kernel.output_type
    is_constant = constant_array(kernel.values[op.rhs], kernel.weights) is not None
    is_symmetric = rhs.storage.type.signed and not lhs.zero_points.any() and not rhs.zero_points.any()
    return (
        (is_constant or is_symmetric)
        and not rhs.is_sub_channel
        and all(kind.storage.type.width == 8 for kind in (lhs, rhs, wanted))
    )


def _adds_zeros(kernel: MaterializedKernel, add: hlo.AddOp) -> bool:
    """Whether the bias of a sum is 0 everywhere. OpenVINO drops such a sum."""
    for operand in add.operands:
        made = operand.owner
        value = made.operand if isinstance(made, hlo.BroadcastInDimOp) else operand
        array = constant_array(kernel.values[value], kernel.weights) if value in kernel.values else None
        if array is not None:
            return not array.any()
    return False


def _with_bias(
    run: FloatArithmetic, add: hlo.AddOp, addends: Callable[[Array], Array] = lambda biases: biases
) -> SSAValue:
    """The addition of the bias in f32, or of the numbers that `addends` makes of it."""
    kernel = run.kernel
    for operand in add.operands:
        made = operand.owner
        value = made.operand if isinstance(made, hlo.BroadcastInDimOp) else operand
        if value not in kernel.arguments:
            continue
        kernel.values[value] = kernel.constant(addends(_real_constant(kernel, value)))
        if isinstance(made, hlo.BroadcastInDimOp):
            run.excuse(kernel.retyped(made, f32))
    result = kernel.retyped(add, f32)
    run.excuse(result)
    return result


def _real_constant(kernel: MaterializedKernel, value: SSAValue) -> Array:
    """A constant bias in f32."""
    kind, stored = element_of(kernel.values[value]), constant_array(kernel.values[value], kernel.weights)
    assert stored is not None  # guaranteed by `solve/operands.py`
    scales = kind.affine.scale if isinstance(kind, UniformQuantizedType) else np.ones(())
    return stored.astype(np.float32) * scales.astype(np.float32)


def hard_swish(kernel: MaterializedKernel) -> SSAValue:
    """A hard swish in f32, of the unrounded result of the convolution it is fused into, or of the stored integers."""
    given, run = kernel.values[kernel.arguments[0]], FloatArithmetic(kernel, REASON)
    maker = defining_op(kernel.region.inputs[0])
    if isinstance(maker, QuantizeRegionOp) and fuses_hard_swish(maker) and given in kernel.unrounded:
        real = real_of(run, kernel.unrounded[given])
    elif is_of_bytes(kernel):
        kind = kernel.type_of(kernel.arguments[0])
        real = run.times(run.to(run.centred(given, kind), f32), np.float32(kind.scale))
    else:
        return elementwise.encased(kernel, REASON)
    factor = run.clamped(run.plus(run.times(real, SLOPE), OFFSET), 0, 1)
    product = UnroundedFloats(run.made(hlo.MultiplyOp(real, factor)))
    return requantized(run, product, RangeFactors.of(of_dtype(kernel.output_type)))


def function_of_product(kernel: MaterializedKernel) -> SSAValue:
    """A function of a contraction's floats, quantized in the contraction."""
    values: dict[SSAValue, SSAValue] = {argument: kernel.values[argument] for argument in kernel.arguments}
    held, moved = held_parameters(kernel)
    found = UnroundedFloats(function_of(kernel, values, REASON), axis=kernel.output_type.axis)
    return requantized(FloatArithmetic(kernel, REASON), found, RangeFactors.of(held), moved)


def fuses_hard_swish(region: QuantizeRegionOp) -> bool:
    """Whether OpenVINO computes the hard swish that reads a convolution in the convolution, without rounding before it.

    The hard swish is the only reader, and nothing stands between the two in the file: no clamp, no transpose, and no
    cast to a type that the model states.
    """
    if region.logical_kernel.data not in CONVOLUTIONS or len(list(region.outputs[0].uses)) != 1 or is_stated(region):
        return False
    (use,) = region.outputs[0].uses
    reader, (first, *others) = use.operation, region.body.block.ops
    if not isinstance(reader, QuantizeRegionOp) or reader.logical_kernel.data != "hard_swish":
        return False
    if not isinstance(first, hlo.ConvolutionOp) or not _is_channels_first(first.dimension_numbers.data):
        return False
    data, weights, result = *region.input_specs.data[:2], region.output_specs.data[0]
    return (
        all(isinstance(op, hlo.AddOp | hlo.BroadcastInDimOp) for op in others[:-1])
        and all(isinstance(kind, UniformQuantizedType) and kind.storage.is_full_range for kind in (data, result))
        and isinstance(weights, UniformQuantizedType)
        and not weights.zero_points.any()
    )


def _is_channels_first(numbers: ConvolutionLayout) -> bool:
    made = (numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions)
    return made == (*range(len(made)),)


def concatenate(kernel: MaterializedKernel) -> SSAValue:
    """A concatenation. Operands with other parameters are rescaled."""
    for argument in kernel.arguments:
        kernel.values[argument] = _rescaled(kernel, kernel.values[argument])
    return movement.KERNELS["concatenate"](kernel)


def rescale(kernel: MaterializedKernel) -> SSAValue:
    """A requantization to other parameters."""
    return _rescaled(kernel, kernel.values[kernel.arguments[0]])


def softmax(kernel: MaterializedKernel) -> SSAValue:
    """Softmax in float, between casts."""
    return elementwise.encased(kernel, REASON)


def _rescaled(kernel: MaterializedKernel, value: SSAValue) -> SSAValue:
    """The value requantized to the result's type, with one rounding."""
    given, wanted = element_of(value), kernel.output_type
    if given == wanted or not isinstance(given, UniformQuantizedType) or given.is_sub_channel:
        return value
    if wanted.is_per_channel:
        return elementwise.cast_again(kernel, value)
    run, unit = FloatArithmetic(kernel, REASON, given.axis), np.float32(of_dtype(given).scale)
    steps = run.to(run.centred(value, given), f32)
    return kept(run, steps, given, *moved_ends(of_dtype(wanted), unit)) or stored_again(run, steps, unit)


KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {
    **onnxruntime.KERNELS,
    "add": add,
    "average_pool": average_pool,
    "batch_matmul": contraction,
    "concatenate": concatenate,
    "convolution": contraction,
    "depthwise_convolution": contraction,
    "fully_connected": contraction,
    FUNCTION_OF_SUM: function_of_sum,
    FUNCTION_OF_PRODUCT: function_of_product,
    "hard_swish": hard_swish,
    "mean": mean,
    "multiply": multiply,
    "rescale": rescale,
    "softmax": softmax,
    "subtract": subtract,
}
"""By logical kernel."""
