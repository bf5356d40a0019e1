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
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import ContractionOp, output_channel_axis
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.quant import QuantizeRegionOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo.attributes import ConvolutionLayout
from zeropoint.ir.tensors import Array, element_of, shape_of, with_element
from zeropoint.materialize import elementwise, movement, onnxruntime, reduction
from zeropoint.materialize.contraction import accumulator_type
from zeropoint.materialize.contraction import contraction as exact_contraction
from zeropoint.materialize.express_accumulators import is_stated
from zeropoint.materialize.float_arithmetic import FloatArithmetic, bounded, is_of_bytes
from zeropoint.materialize.kernel import MaterializedKernel, UnroundedFloats
from zeropoint.materialize.product_chains import is_in_chain
from zeropoint.numerics.openvino import BiasedFactors, PerChannel, RangeFactors, SumTerm, rescaling, term_steps
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.storage import dtype_range
from zeropoint.targets.logical_kernels import CONTRACTIONS, PASSES_ELEMENTS

REASON = "OpenVINO's kernel computes in floats"
CONVOLUTIONS = frozenset({"convolution", "depthwise_convolution"})
"""The kernels into which OpenVINO fuses a following sum or hard swish."""
SLOPE, OFFSET = np.float32(1 / 6), np.float32(0.5)
"""A hard swish is x * clamp(SLOPE * x + OFFSET, 0, 1)."""


def contraction(kernel: MaterializedKernel) -> SSAValue:
    """Sums of products times their scale, plus the bias, in f32. The result is rounded once."""
    op = next(op for op in kernel.body if isinstance(op, ContractionOp))
    if not _is_integer(kernel, op):
        return exact_contraction(kernel)
    run = FloatArithmetic(kernel, REASON)
    accumulator = accumulator_type(op, kernel.type_of(op.lhs), kernel.type_of(op.rhs))
    if kernel.type_of(op.rhs).zero_points.any():
        return bounded(kernel, _rounded_once(run, accumulator, op))
    if _folds_range(kernel, op):
        return bounded(kernel, _folded(run, accumulator, op))
    unrounded = _unrounded(run, accumulator, op)
    by = RangeFactors.of(_of_dtype(kernel.output_type), unrounded.unit)
    result = _requantized(run, unrounded, by)
    limited = bounded(kernel, result)
    if (
        limited is result
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
    fold = BiasedFactors.of(_of_dtype(kernel.output_type), accumulator.scales.astype(np.float32))
    kernel.values[op.result] = run.made(hlo.MultiplyOp(terms, _along(run, terms, fold.factors, axis)))
    (bias,) = _biases(kernel)
    return _stored(run, _with_bias(run, bias, fold.addends))


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
    factors = _along(run, terms, accumulator.scales / wanted.scale, axis)
    value = run.plus(run.made(hlo.MultiplyOp(terms, factors)), wanted.zero_point)
    return run.rounded(run.clamped(value, wanted.storage.minimum, wanted.storage.maximum), wanted.zero_point)


def _unrounded(run: FloatArithmetic, accumulator: UniformQuantizedType, op: ContractionOp) -> UnroundedFloats:
    """The sums of products in f32: real numbers or, without a bias, integers in units of their scale.

    Without a bias, those of fully connected layers are real numbers, too, if the channels have several scales.
    """
    kernel, terms = run.kernel, _terms(run, accumulator, op)
    scales, biases = accumulator.scales.astype(np.float32), _biases(kernel)
    axis = None if accumulator.is_per_layer else output_channel_axis(op)
    if not biases and (kernel.region.logical_kernel.data in CONVOLUTIONS or len(set(scales.flat)) == 1):
        return UnroundedFloats(terms, np.float32(scales.item()) if axis is None else scales, axis)
    real = kernel.values[op.result] = run.made(hlo.MultiplyOp(terms, _along(run, terms, scales, axis)))
    for bias in biases:
        real = _with_bias(run, bias)
    return UnroundedFloats(real)


def _is_integer(kernel: MaterializedKernel, op: ContractionOp) -> bool:
    """Whether operands and result have 8 bits, and the weights are constants."""
    lhs, rhs, wanted = kernel.type_of(op.lhs), kernel.type_of(op.rhs), kernel.output_type
    return (
        constant_array(kernel.values[op.rhs], kernel.weights) is not None
        and not rhs.is_sub_channel
        and all(kind.storage.type.width == 8 for kind in (lhs, rhs, wanted))
        and lhs.is_per_layer
        and wanted.is_per_layer
    )


def _along(run: FloatArithmetic, like: SSAValue, numbers: Array | np.float32, axis: int | None) -> SSAValue:
    """Numbers along an axis, or one number, broadcast to the shape of `like`."""
    number = run.kernel.constant(np.asarray(numbers).reshape(() if axis is None else -1))
    return run.made(hlo.BroadcastInDimOp(number, like.type, [] if axis is None else [axis]))


def _fused(run: FloatArithmetic, of: UnroundedFloats, factor: PerChannel, addend: PerChannel) -> SSAValue:
    """fma(value, factor, addend), with factors and addends along the axis of the value's unit, if it has one."""
    if of.axis is None:
        return run.fused(of.value, np.float32(factor), np.float32(addend))
    wide = run.to(of.value, f64)
    numbers = [np.broadcast_to(np.asarray(each, np.float64), np.shape(factor)) for each in (factor, addend)]
    product = run.made(hlo.MultiplyOp(wide, _along(run, wide, numbers[0], of.axis)))
    return run.to(run.made(hlo.AddOp(product, _along(run, wide, numbers[1], of.axis))), f32)


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
        kind = element_of(kernel.values[value]) if value in kernel.values else None
        if not isinstance(kind, UniformQuantizedType):
            continue
        kernel.values[value] = kernel.constant(addends(_real_constant(kernel, value, kind)))
        if isinstance(made, hlo.BroadcastInDimOp):
            run.excuse(kernel.retyped(made, f32))
    result = kernel.retyped(add, f32)
    run.excuse(result)
    return result


def _real_constant(kernel: MaterializedKernel, value: SSAValue, kind: UniformQuantizedType) -> Array:
    """A constant bias in f32."""
    stored = constant_array(kernel.values[value], kernel.weights)
    assert stored is not None  # guaranteed by `solve/operands.py`
    return stored.astype(np.float32) * kind.affine.scale.astype(np.float32)


def _of_dtype(kind: UniformQuantizedType) -> AffineParameters:
    """The parameters with the range of the dtype that holds the storage, because OpenVINO has no narrower ranges."""
    first, last = dtype_range(kind.storage.dtype)
    return replace(kind.affine, storage_min=first, storage_max=last)


def _requantized(run: FloatArithmetic, of: UnroundedFloats, by: RangeFactors) -> SSAValue:
    """Floats quantized to the result's type. They are clamped before they are rounded."""
    if not by.is_scale:
        value = _fused(run, of, by.scale, by.shift)
    else:
        value = run.made(hlo.MultiplyOp(of.value, _along(run, of.value, by.scale, of.axis)))
    return _stored(run, value)


def _stored(run: FloatArithmetic, value: SSAValue) -> SSAValue:
    """Steps of the result's type, clamped and then rounded."""
    wanted = run.kernel.output_type
    value = run.clamped(value, wanted.storage.minimum, wanted.storage.maximum)
    return run.rounded(value, wanted.zero_point)


def add(kernel: MaterializedKernel) -> SSAValue:
    """A sum of one operand in steps of the other, or else as in onnxruntime.

    If OpenVINO computes the sum in the convolution that makes the operand, the operand is not rounded before.
    """
    op = next(op for op in kernel.body if isinstance(op, hlo.AddOp))
    convolved = _convolved_operand(kernel, op)
    term = _expressed_operand(kernel, op) if convolved is None else convolved
    if term is None or not is_of_bytes(kernel):
        return onnxruntime.add(kernel)
    run = FloatArithmetic(kernel, REASON)
    values = [kernel.values[operand] for operand in op.operands]
    mine, theirs = (kernel.type_of(op.operands[number]) for number in (term, 1 - term))
    is_fused = convolved is not None and _is_fused(kernel, op, term)
    if is_fused:
        before = kernel.unrounded[values[term]]
        by = SumTerm.of(_of_dtype(mine), _of_dtype(theirs), before.unit)
        real = run.clamped(_fused(run, before, by.factor, by.offset), by.low, by.high)
    else:
        steps, start = term_steps(_of_dtype(mine), _of_dtype(theirs))
        number = run.plus(run.centred(values[term], mine), mine.zero_point - dtype_range(mine.storage.dtype)[0])
        real = run.fused(run.to(number, f32), steps, start)
    stored = run.to(run.plus(run.centred(values[1 - term], theirs), theirs.zero_point), f32)
    total = run.made(hlo.AddOp(real, stored))
    if convolved is None:
        return bounded(kernel, _stored_again(run, total, theirs))
    result = RangeFactors.of(_of_dtype(kernel.output_type), np.float32(theirs.scale))
    return bounded(kernel, _requantized(run, UnroundedFloats(total), result))


def _expressed_operand(kernel: MaterializedKernel, op: hlo.AddOp) -> int | None:
    """The number of the operand that a sum of two quantized values expresses in steps of the other; None for others.

    It is the one that nothing else reads, else the first.
    """
    if shape_of(op.lhs) != shape_of(op.rhs) or not all(operand in kernel.arguments for operand in op.operands):
        return None
    if not all(_is_rounded(_outer(kernel, operand)) for operand in op.operands):
        return None
    alone = [_readers(kernel, operand) == 1 for operand in op.operands]
    return (1 if alone[1] and not alone[0] else 0) if any(alone) else None


def _is_rounded(value: SSAValue) -> bool:
    """Whether a value is quantized by an op of its own, or by one that is no contraction and moves no elements."""
    maker = value.owner
    if isinstance(maker, QuantizeRegionOp):
        return maker.logical_kernel.data not in PASSES_ELEMENTS.union(CONTRACTIONS)
    return not isinstance(maker, hlo.ConstantOp)


def _readers(kernel: MaterializedKernel, operand: SSAValue) -> int:
    """How many ops read the operand in its quantized type."""
    spec = kernel.region.input_specs.data[kernel.arguments.index(operand)]
    uses = [use for use in _outer(kernel, operand).uses if not isinstance(use.operation, hlo.UniformQuantizeOp)]
    return sum(
        not isinstance(use.operation, QuantizeRegionOp) or use.operation.input_specs.data[use.index] == spec
        for use in uses
    )


def hard_swish(kernel: MaterializedKernel) -> SSAValue:
    """A hard swish in f32, of the unrounded result of the convolution it is fused into, or of the stored integers."""
    given, run = kernel.values[kernel.arguments[0]], FloatArithmetic(kernel, REASON)
    maker = defining_op(kernel.region.inputs[0])
    if isinstance(maker, QuantizeRegionOp) and fuses_hard_swish(maker) and given in kernel.unrounded:
        real = _real(run, kernel.unrounded[given])
    elif is_of_bytes(kernel):
        kind = kernel.type_of(kernel.arguments[0])
        real = run.times(run.to(run.centred(given, kind), f32), np.float32(kind.scale))
    else:
        return elementwise.encased(kernel, REASON)
    factor = run.clamped(run.plus(run.times(real, SLOPE), OFFSET), 0, 1)
    product = UnroundedFloats(run.made(hlo.MultiplyOp(real, factor)))
    return _requantized(run, product, RangeFactors.of(_of_dtype(kernel.output_type)))


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


def _real(run: FloatArithmetic, of: UnroundedFloats) -> SSAValue:
    """Floats as real numbers."""
    return of.value if of.unit is None else run.made(hlo.MultiplyOp(of.value, _along(run, of.value, of.unit, of.axis)))


def concatenate(kernel: MaterializedKernel) -> SSAValue:
    """A concatenation. Operands with other parameters are rescaled."""
    for argument in kernel.arguments:
        kernel.values[argument] = _rescaled(kernel, kernel.values[argument])
    return movement.KERNELS["concatenate"](kernel)


def rescale(kernel: MaterializedKernel) -> SSAValue:
    """A requantization to other parameters."""
    return _rescaled(kernel, kernel.values[kernel.arguments[0]])


def mean(kernel: MaterializedKernel) -> SSAValue:
    """The sum of stored integers, divided by their number and then quantized, in f32."""
    run, given = FloatArithmetic(kernel, REASON), kernel.type_of(kernel.arguments[0])
    found = onnxruntime.sum_of_mean(run)
    if found is None:
        return reduction.summed(kernel)
    total, terms = found
    stored = run.to(run.plus(total, terms * given.zero_point), f32)
    quotient = run.made(hlo.DivideOp(stored, run.filled(stored, np.float32(terms))))
    by = RangeFactors.of_stored(_of_dtype(kernel.output_type), np.float32(given.scale), given.zero_point)
    return _requantized(run, UnroundedFloats(quotient), by)


def softmax(kernel: MaterializedKernel) -> SSAValue:
    """Softmax in float, between casts."""
    return elementwise.encased(kernel, REASON)


def _rescaled(kernel: MaterializedKernel, value: SSAValue) -> SSAValue:
    """The value requantized to the result's type, with one rounding."""
    given, wanted = element_of(value), kernel.output_type
    if given == wanted or not isinstance(given, UniformQuantizedType) or not given.is_per_layer:
        return value
    run = FloatArithmetic(kernel, REASON)
    return _stored_again(run, run.to(run.centred(value, given), f32), given)


def _stored_again(run: FloatArithmetic, value: SSAValue, given: UniformQuantizedType) -> SSAValue:
    """Multiples of the scale of a type, in f32, quantized to the result's type with two roundings before the last."""
    wanted = run.kernel.output_type
    k, shift = rescaling(given.affine, _of_dtype(wanted))
    steps = run.plus(run.times(value, k), shift)
    first, last = dtype_range(wanted.storage.dtype)
    return run.rounded(run.clamped(steps, 0, last - first), wanted.zero_point - first)


def _convolved_operand(kernel: MaterializedKernel, op: hlo.AddOp) -> int | None:
    """The number of the operand whose convolution computes the sum, or else of one that only the sum reads."""
    if shape_of(op.lhs) != shape_of(op.rhs) or not all(operand in kernel.arguments for operand in op.operands):
        return None
    found = [
        number
        for number, operand in enumerate(op.operands)
        if kernel.values[operand] in kernel.unrounded and len(list(_outer(kernel, operand).uses)) == 1
    ]
    return next((number for number in found if _is_fused(kernel, op, number)), found[0] if found else None)


def _is_fused(kernel: MaterializedKernel, op: hlo.AddOp, number: int) -> bool:
    """Whether OpenVINO computes a sum in the convolution of an operand.

    The fused convolution overwrites the other operand in place, so that must be neither a constant nor the
    convolution's own input.
    """
    maker, other = defining_op(_outer(kernel, op.operands[number])), op.operands[1 - number]
    assert maker is not None  # `unrounded` has results of ops only
    is_constant = constant_array(kernel.values[other], kernel.weights) is not None
    return not is_constant and _outer(kernel, other) not in maker.operands


def _outer(kernel: MaterializedKernel, operand: SSAValue) -> SSAValue:
    """The operand of the region for an argument of its body."""
    return kernel.region.inputs[kernel.arguments.index(operand)]


KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {
    **onnxruntime.KERNELS,
    "add": add,
    "concatenate": concatenate,
    "convolution": contraction,
    "depthwise_convolution": contraction,
    "fully_connected": contraction,
    "hard_swish": hard_swish,
    "mean": mean,
    "rescale": rescale,
    "softmax": softmax,
}
"""By logical kernel."""
