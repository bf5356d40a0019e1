"""Kernels of LiteRT on storage integers, where its arithmetic is not what StableHLO says of quantized types.

```mlir
%1 = "quant.region"(%0) ({ reduce with add, divide by 49 }) {logical_kernel = "mean"} : ...
```
becomes, under a profile whose kernels are LiteRT's,
```mlir
%s = quant.scast %0 : tensor<1x7x7x8x!quant.uniform<i8:f32, 0.1:-3>> to tensor<1x7x7x8xi8>
%c = (convert %s to i32, less the zero point)
%a = stablehlo.reduce(%c init: 0) applies stablehlo.add across dimensions = [1, 2] : ... -> tensor<1x8xi32>
%r = "fxpmath.requantize"(%a, %multiplier, %shift) {behaviour = "fixed32-double", ...} : ... -> tensor<1x8xi8>
%1 = quant.scast %r : tensor<1x8xi8> to tensor<1x8x!quant.uniform<i8:f32, 0.05>>
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array, constant_op, splat_value
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.fxpmath import RequantizeOp, TableOp
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    CompareOp,
    ComparisonDirection,
    ConvertOp,
    DivideOp,
    MultiplyOp,
    PadOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    SelectOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, padding_attribute, padding_values
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.materialize.elementwise import encased
from zeropoint.materialize.kernel import Kernel
from zeropoint.materialize.reduction import summed
from zeropoint.numerics.litert import function_table, mean_multiplier
from zeropoint.numerics.requantize import accumulator_limit
from zeropoint.numerics.rounding import INT32_MAX


def _stored(kernel: Kernel) -> SSAValue:
    """The storage integers of the kernel's input."""
    value = kernel.values[kernel.arguments[0]]
    element = element_of(value)
    assert isinstance(element, UniformQuantizedType)
    cast = StorageCastOp(value, with_element(value, IntegerType(element.storage.type.width)))
    return kernel.insert(cast, kernel.region).result


def _expressed(kernel: Kernel, stored: SSAValue) -> SSAValue:
    """The quantized value of the kernel's result whose storage integers are given."""
    return kernel.insert(StorageCastOp(stored, with_element(stored, kernel.output_type)), kernel.region).result


def _constant(kernel: Kernel, array: Array) -> SSAValue:
    return kernel.builder.insert(constant_op(array, kernel.weights)).output


def _repeated(kernel: Kernel, number: int | Array, like: SSAValue) -> SSAValue:
    """A number, or an array of the shape, in the element type of `like`."""
    array = np.asarray(number, element_dtype(element_of(like)))
    constant = _constant(kernel, array)
    if array.shape == shape_of(like):
        return constant
    return kernel.insert(BroadcastInDimOp(constant, with_element(like, element_of(like)), []), kernel.region).result


def _is_plain(kernel: Kernel) -> bool:
    """Whether input and output have signed storage and one scale."""
    kinds = (element_of(kernel.values[kernel.arguments[0]]), kernel.output_type)
    return all(
        isinstance(kind, UniformQuantizedType)
        and kind.is_per_layer
        and kind.storage.type.signed
        and kind.storage.type.width in (8, 16)
        for kind in kinds
    )


def _division(kernel: Kernel) -> DivideOp | MultiplyOp | None:
    return next((op for op in kernel.body if isinstance(op, DivideOp | MultiplyOp)), None)


def _counts(kernel: Kernel, op: DivideOp | MultiplyOp) -> Array | None:
    """The integers that sums are divided by."""
    number = splat_value(op.operands[1], kernel.weights)
    numbers = constant_array(op.operands[1], kernel.weights) if number is None else np.array(number)
    if numbers is None:
        return None
    counts = numbers.astype(np.float64) if isinstance(op, DivideOp) else 1 / numbers.astype(np.float64)
    return np.rint(counts).astype(np.int64) if np.allclose(counts, np.rint(counts), rtol=1e-6) else None


def mean(kernel: Kernel) -> SSAValue:
    """Centred integers summed, and requantized with the count inside the multiplier."""
    division = _division(kernel)
    op = next(op for op in kernel.body if isinstance(op, ReduceOp))
    terms = prod(shape_of(op.inputs[0])[axis] for axis in array_values(op.dimensions))
    counts = None if division is None else _counts(kernel, division)
    if counts is None or not (counts == terms).all() or not _is_plain(kernel):
        return summed(kernel)
    given, wanted = kernel.type_of(kernel.arguments[0]), kernel.output_type
    multiplier = mean_multiplier(given.scale / wanted.scale, terms)
    if terms * given.reach > min(INT32_MAX, int(accumulator_limit(multiplier))):
        return summed(kernel)
    wide = _widened(kernel)
    centred = SubtractOp(wide, _repeated(kernel, given.zero_point, wide))
    kernel.values[kernel.arguments[0]] = kernel.insert(centred, kernel.region).result
    total = _reduced(kernel)
    assert multiplier.shift is not None
    parts = [np.atleast_1d(part).astype(np.int32) for part in (multiplier.multiplier, multiplier.shift)]
    requantized = RequantizeOp(
        total,
        _constant(kernel, parts[0]),
        _constant(kernel, parts[1]),
        with_element(total, IntegerType(wanted.storage.type.width)),
        behaviour=multiplier.behaviour.value,
        zero_point=wanted.zero_point,
        storage_min=wanted.storage.minimum,
        storage_max=wanted.storage.maximum,
    )
    return _expressed(kernel, kernel.insert(requantized, kernel.region).result)


def _widened(kernel: Kernel) -> SSAValue:
    stored = _stored(kernel)
    return kernel.insert(ConvertOp(stored, with_element(stored, i32)), kernel.region).result


def _reduced(kernel: Kernel) -> SSAValue:
    """The sums of the body on the i32 values that stand for its input, before the division."""
    value = kernel.values[kernel.arguments[0]]
    for op in kernel.body:
        if isinstance(op, ReduceOp | ReduceWindowOp):
            kernel.values[op.init_values[0]] = _constant(kernel, np.array(0, np.int32))
            value = kernel.retyped(op, i32, binary_body(AddOp, i32))
        elif isinstance(op, ReshapeOp | BroadcastInDimOp) and op.operand in kernel.values:
            value = kernel.retyped(op, i32)
    return value


def _windows(op: ReduceWindowOp) -> Array:
    """How many values of the input each window holds, padding left out: of the shape of the result."""
    shape, sizes = shape_of(op.inputs[0]), array_values(op.window_dimensions)
    rank = len(shape)
    strides, dilations = (array_values(array, (1,) * rank) for array in (op.window_strides, op.window_dilations))
    counts = np.ones((), np.int64)
    for axis, (low, _) in enumerate(padding_values(op.padding, rank)):
        starts = np.arange(shape_of(op.results[0])[axis])[:, None] * strides[axis] - low
        taps = starts + np.arange(sizes[axis]) * dilations[axis]
        counts = np.multiply.outer(counts, ((taps >= 0) & (taps < shape[axis])).sum(axis=1))
    return counts


def average_pool(kernel: Kernel) -> SSAValue:
    """Stored integers summed and divided, the quotient rounded half away from zero.

    Padding that counts holds the zero point.
    """
    op = next(op for op in kernel.body if isinstance(op, ReduceWindowOp))
    division = _division(kernel)
    counts = None if division is None else _counts(kernel, division)
    given, held = kernel.type_of(kernel.arguments[0]), _windows(op)
    whole = prod(array_values(op.window_dimensions))
    dilated = any(step != 1 for step in array_values(op.base_dilations))
    if counts is None or not _is_plain(kernel) or given != kernel.output_type or dilated:
        return summed(kernel)
    padded = bool((counts == whole).all()) and bool((held != whole).any())
    if not padded and not np.array_equal(np.broadcast_to(counts, held.shape), held):
        return summed(kernel)
    kernel.values[kernel.arguments[0]] = _widened(kernel)
    total = _padded_sums(kernel, op, given.zero_point) if padded else _reduced(kernel)
    count = _repeated(kernel, whole if padded or (held == whole).all() else held, total)
    half = _repeated(kernel, whole // 2 if padded or (held == whole).all() else held // 2, total)
    mean_of = kernel.insert(DivideOp(_away(kernel, total, half), count), kernel.region).result
    narrow = ConvertOp(mean_of, with_element(mean_of, IntegerType(given.storage.type.width)))
    return _expressed(kernel, kernel.insert(narrow, kernel.region).result)


def _padded_sums(kernel: Kernel, op: ReduceWindowOp, zero_point: int) -> SSAValue:
    value = kernel.values[kernel.arguments[0]]
    pairs = padding_values(op.padding, len(shape_of(value)))
    filled = _constant(kernel, np.array(zero_point, np.int32))
    pad = PadOp(value, filled, [low for low, _ in pairs], [high for _, high in pairs])
    properties = {**op.properties, "padding": padding_attribute([(0, 0)] * len(pairs))}
    sums = ReduceWindowOp.create(
        operands=[kernel.insert(pad, op).result, _constant(kernel, np.array(0, np.int32))],
        result_types=[with_element(op.results[0], i32)],
        properties=properties,
        regions=[binary_body(AddOp, i32)],
    )
    return kernel.insert(sums, op).results[0]


def _away(kernel: Kernel, total: SSAValue, half: SSAValue) -> SSAValue:
    """total + half where it is positive, total - half elsewhere: a division that truncates then rounds to nearest."""
    positive = kernel.insert(
        CompareOp(total, _repeated(kernel, 0, total), ComparisonDirection.GT), kernel.region
    ).result
    more = kernel.insert(AddOp(total, half), kernel.region).result
    less = kernel.insert(SubtractOp(total, half), kernel.region).result
    return kernel.insert(SelectOp(positive, more, less), kernel.region).result


def function(kernel: Kernel) -> SSAValue:
    """A function of 8 bits as the runtime's own table."""
    given, wanted = element_of(kernel.values[kernel.arguments[0]]), kernel.output_type
    if not isinstance(given, UniformQuantizedType) or not _is_plain(kernel) or given.storage.type.width != 8:
        return encased(kernel)
    entries = function_table(_name(kernel), given.affine, wanted.affine, _at(kernel))
    if entries is None or wanted.storage.type.width != 8:
        return encased(kernel)
    stored = _stored(kernel)
    table = _constant(kernel, entries.astype(np.int8))
    return _expressed(kernel, kernel.insert(TableOp(stored, table, stored.type), kernel.region).result)


def _name(kernel: Kernel) -> str:
    return kernel.region.logical_kernel.data


def _at(kernel: Kernel) -> Callable[[float], float]:
    """The function of the kernel's body at a point."""
    returned = kernel.region.body.block.last_op
    assert isinstance(returned, Operation)

    def at(point: float) -> float:
        points = np.array([point], np.float32)
        return float(evaluate_chain(returned.operands[0], kernel.arguments[0], points, kernel.weights)[0])

    return at


KERNELS: Mapping[str, Callable[[Kernel], SSAValue]] = {
    "abs": function,
    "average_pool": average_pool,
    "elu": function,
    "exp": function,
    "gelu": function,
    "hard_swish": function,
    "leaky_relu": function,
    "log": function,
    "mean": mean,
}
"""By logical kernel; the others are as `materialize` has them. Logistic and tanh have scales that are powers of two,
where a reciprocal rounds nothing."""
