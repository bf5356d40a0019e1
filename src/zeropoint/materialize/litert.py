"""LiteRT kernels on storage integers, where their arithmetic differs from StableHLO's on quantized types.

```mlir
%1 = "quant.region"(%0) ({ reduce with add, divide by 49 }) {logical_kernel = "mean"} : ...
```
becomes, under a profile with LiteRT's kernels,
```mlir
%s = quant.scast %0 : tensor<1x7x7x8x!quant.uniform<i8:f32, 0.1:-3>> to tensor<1x7x7x8xi8>
%c = (convert %s to i32, minus the zero point)
%a = stablehlo.reduce(%c init: 0) applies stablehlo.add across dimensions = [1, 2] : ... -> tensor<1x8xi32>
%r = "fxpmath.requantize"(%a, %multiplier, %shift) {behaviour = "fixed32-double", ...} : ... -> tensor<1x8xi8>
%1 = quant.scast %r : tensor<1x8xi8> to tensor<1x8x!quant.uniform<i8:f32, 0.05>>
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerType, i8, i16, i32
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.bounds import Bounds
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.fxpmath import InterpolateOp, TableOp
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConvertOp,
    DivideOp,
    MultiplyOp,
    PadOp,
    ReduceOp,
    ReduceWindowOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, padding_attribute, padding_values
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import element_of, shape_of, with_element
from zeropoint.materialize import litert_resize
from zeropoint.materialize.counted_padding import CountedPadding, counted_padding
from zeropoint.materialize.elementwise import CLAMPS, binary, clamped, encased
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.litert_division import word_quotient
from zeropoint.materialize.litert_softmax import log_softmax, softmax
from zeropoint.materialize.litert_squared_difference import squared_difference
from zeropoint.materialize.reduction import summed
from zeropoint.materialize.storage import (
    away_from_zero,
    centred,
    counts_of,
    division_of,
    expressed,
    is_plain,
    reduced,
    repeated,
    requantized,
    stored_input,
    widened,
)
from zeropoint.materialize.words import Words
from zeropoint.numerics.elementwise import litert_adds
from zeropoint.numerics.litert import function_table, mean_multiplier
from zeropoint.numerics.litert_division import divides, quotient_multiplier, quotient_table
from zeropoint.numerics.litert_words import interpolation_table, whole_table
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour, accumulator_limit, ratio_of_scales
from zeropoint.numerics.rounding import INT32_MAX


def mean(kernel: MaterializedKernel) -> SSAValue:
    """The sum of centred integers (q - z), requantized. The division by the count is part of the multiplier."""
    division = division_of(kernel)
    op = next(op for op in kernel.body if isinstance(op, ReduceOp))
    terms = prod(shape_of(op.inputs[0])[axis] for axis in array_values(op.dimensions))
    counts = None if division is None else counts_of(kernel, division)
    if counts is None or not (counts == terms).all() or not is_plain(kernel):
        return summed(kernel)
    given, wanted = kernel.type_of(kernel.arguments[0]), kernel.output_type
    multiplier = mean_multiplier(given.scale / wanted.scale, terms)
    if terms * given.affine.reach > min(INT32_MAX, int(accumulator_limit(multiplier))):
        return summed(kernel)
    kernel.values[kernel.arguments[0]] = centred(kernel)
    return expressed(kernel, requantized(kernel, reduced(kernel), multiplier))


def average_pool(kernel: MaterializedKernel) -> SSAValue:
    """The sum of stored integers divided by the count, rounded half away from zero.

    Padding that the count includes is the zero point.
    """
    op = next(op for op in kernel.body if isinstance(op, ReduceWindowOp))
    division = division_of(kernel)
    counts = None if division is None else counts_of(kernel, division)
    given = kernel.type_of(kernel.arguments[0])
    whole = prod(array_values(op.window_dimensions))
    dilated = any(step != 1 for step in array_values(op.base_dilations))
    if counts is None or not is_plain(kernel) or given != kernel.output_type or dilated:
        return summed(kernel)
    counted = counted_padding(op, counts)
    if counted is None:
        return summed(kernel)
    kernel.values[kernel.arguments[0]] = widened(kernel)
    total = _padded_sums(kernel, op, given.zero_point, counted) if any(map(any, counted)) else reduced(kernel)
    varies = bool((counts != whole).any())
    divisors = np.broadcast_to(counts, shape_of(total)) if varies else np.array(whole)
    count, half = (repeated(kernel, numbers, total) for numbers in (divisors, divisors // 2))
    mean_of = kernel.insert(DivideOp(away_from_zero(kernel, total, half), count), kernel.region).result
    if varies:
        # The runtime clamps, too. Means need no clamp, but range analysis has one bound on the sums for all positions.
        low, high = (repeated(kernel, bound, total) for bound in given.storage.range)
        mean_of = kernel.insert(ClampOp(low, mean_of, high), kernel.region).result
    narrow = ConvertOp(mean_of, with_element(mean_of, IntegerType(given.storage.type.width)))
    return expressed(kernel, kernel.insert(narrow, kernel.region).result)


def _padded_sums(kernel: MaterializedKernel, op: ReduceWindowOp, zero_point: int, counted: CountedPadding) -> SSAValue:
    value = kernel.values[kernel.arguments[0]]
    pairs = padding_values(op.padding, len(shape_of(value)))
    filled = kernel.constant(np.array(zero_point, np.int32))
    pad = PadOp(value, filled, [low for low, _ in counted], [high for _, high in counted])
    rest = [(low - a, high - b) for (low, high), (a, b) in zip(pairs, counted, strict=True)]
    properties = {**op.properties, "padding": padding_attribute(rest)}
    sums = ReduceWindowOp.create(
        operands=[kernel.insert(pad, op).result, kernel.constant(np.array(0, np.int32))],
        result_types=[with_element(op.results[0], i32)],
        properties=properties,
        regions=[binary_body(AddOp, i32)],
    )
    return kernel.insert(sums, op).results[0]


def function(kernel: MaterializedKernel) -> SSAValue:
    """A function of one value, as the runtime's own table."""
    given, wanted = element_of(kernel.values[kernel.arguments[0]]), kernel.output_type
    if not isinstance(given, UniformQuantizedType) or not is_plain(kernel):
        return encased(kernel)
    if given.storage.type.width == 16:
        return _function_of_words(kernel, given)
    named = _name(kernel) not in POWERS_OF_TWO
    entries = function_table(_name(kernel), given.affine, wanted.affine, value_at(kernel)) if named else None
    if entries is None or wanted.storage.type.width != 8:
        return encased(kernel)
    stored = stored_input(kernel)
    table = kernel.constant(entries.astype(np.int8))
    return expressed(kernel, kernel.insert(TableOp(stored, table, stored.type), kernel.region).result)


def _function_of_words(kernel: MaterializedKernel, given: UniformQuantizedType) -> SSAValue:
    """A function of a 16-bit value. The runtime interpolates a table, or rounds every result in its own way."""
    wanted = kernel.output_type
    if given.zero_point or wanted.zero_point or wanted.storage != given.storage:
        return encased(kernel)
    scales = float(given.scale), float(wanted.scale)
    points = interpolation_table(_name(kernel), *scales, value_at(kernel))
    entries = whole_table(_name(kernel), *scales, value_at(kernel)) if points is None else points
    if entries is None:
        return encased(kernel)
    stored = stored_input(kernel)
    table = kernel.constant(entries.astype(np.int16))
    made = TableOp(stored, table, stored.type) if points is None else InterpolateOp(stored, table, stored.type)
    return expressed(kernel, kernel.insert(made, kernel.region).results[0])


def clamp(low: float, high: float) -> Callable[[MaterializedKernel], SSAValue]:
    """A clamp that changes the scale. The runtime divides the two scales in f32."""

    def made(kernel: MaterializedKernel) -> SSAValue:
        given, wanted = element_of(kernel.values[kernel.arguments[0]]), kernel.output_type
        if not isinstance(given, UniformQuantizedType) or given == wanted or not is_plain(kernel):
            return clamped(low, high)(kernel)
        ratio = ratio_of_scales(given.scale, wanted.scale, in_f32=True)
        multiplier = Multiplier.of(ratio, RequantizeBehaviour.FIXED32_DOUBLE, wanted.storage.type.width)
        moved = expressed(kernel, requantized(kernel, centred(kernel), multiplier))
        return kernel.bounded(moved, Bounds(low, high), kernel.region)

    return made


SCALES = "LiteRT's kernel refuses operands whose scale is so much larger than that of the result"


def add(kernel: MaterializedKernel) -> SSAValue:
    """A sum or difference. For scales that the runtime's kernel refuses, it stays float, as the exporter writes it."""
    op = next(op for op in kernel.body if isinstance(op, AddOp | SubtractOp))
    kinds = [_source_type(kernel, operand) for operand in op.operands]
    held = any(not kind.is_per_layer for kind in kinds) or litert_adds(
        [kind.affine for kind in kinds], kernel.output_type.affine
    )
    return binary(kernel) if held else encased(kernel, SCALES)


def divide(kernel: MaterializedKernel) -> SSAValue:
    """A quotient of 8-bit values, as a table of the runtime's 65,536 quotients at 256 a + b + 128; of 16-bit values, in
    fixed point.

    For scales that the runtime refuses, the quotient is a float division, as the exporter writes it.
    """
    op = next(op for op in kernel.body if isinstance(op, DivideOp))
    kinds = [*(_source_type(kernel, operand) for operand in op.operands), kernel.output_type]
    widths = {kind.storage.type.width for kind in kinds}
    if any(not kind.is_per_layer or not kind.storage.type.signed for kind in kinds) or widths not in ({8}, {16}):
        return binary(kernel)
    affine = [kind.affine for kind in kinds]
    if not divides(*affine):
        return binary(kernel)
    bounds = Bounds()
    for each in kernel.body:
        if isinstance(each, BroadcastInDimOp) and each.operand in kernel.values:
            kernel.retyped(each, kernel.type_of(each.operand))
        elif each is not op:
            bounds.then(each, kernel.weights)
    found = _byte_quotient(kernel, op, affine) if widths == {8} else _word_quotient(kernel, op, affine)
    return kernel.bounded(found, bounds, kernel.region)


def _byte_quotient(kernel: MaterializedKernel, op: DivideOp, kinds: Sequence[AffineParameters]) -> SSAValue:
    entries = quotient_table(*kinds)
    assert entries is not None
    index = _pair(kernel, kernel.values[op.lhs], kernel.values[op.rhs])
    found = kernel.insert(TableOp(index, kernel.constant(entries.astype(np.int8)), with_element(index, i8)), op).result
    return expressed(kernel, found)


def _word_quotient(kernel: MaterializedKernel, op: DivideOp, kinds: Sequence[AffineParameters]) -> SSAValue:
    run, (first, second, wanted) = Words(kernel), kinds
    sides = [
        run.subtract(run.stored(operand), int(kind.zero_point))
        for operand, kind in zip(op.operands, (first, second), strict=True)
    ]
    steps = word_quotient(run, sides[0], sides[1], quotient_multiplier(first, second, wanted))
    stored = run.clamped(run.add(steps, int(wanted.zero_point)), wanted.storage_min, wanted.storage_max)
    return run.quantized(stored)


def _source_type(kernel: MaterializedKernel, value: SSAValue) -> UniformQuantizedType:
    """The type of an operand, through a broadcast."""
    op = value.owner
    return kernel.type_of(op.operand if isinstance(op, BroadcastInDimOp) else value)


def _pair(kernel: MaterializedKernel, first: SSAValue, second: SSAValue) -> SSAValue:
    """256 a + b + 128 of two 8-bit values, in i16, where it cannot overflow."""
    a, b = (
        kernel.insert(StorageCastOp(value, with_element(value, i8)), kernel.region).result for value in (first, second)
    )
    a, b = (kernel.insert(ConvertOp(value, with_element(value, i16)), kernel.region).result for value in (a, b))
    high = kernel.insert(MultiplyOp(a, repeated(kernel, 256, a)), kernel.region).result
    low = kernel.insert(AddOp(b, repeated(kernel, 128, b)), kernel.region).result
    return kernel.insert(AddOp(high, low), kernel.region).result


def _name(kernel: MaterializedKernel) -> str:
    return kernel.region.logical_kernel.data


def value_at(kernel: MaterializedKernel) -> Callable[[float], float]:
    """The function that the kernel's body computes, on one float."""
    returned = kernel.region.body.block.last_op
    assert isinstance(returned, Operation)

    def at(point: float) -> float:
        points = np.array([point], np.float32)
        return float(evaluate_chain(returned.operands[0], kernel.arguments[0], points, kernel.weights)[0])

    return at


POWERS_OF_TWO = ("logistic", "tanh")
"""Functions whose 8-bit results have power-of-two scales. The runtime multiplies by the reciprocal of the scale, which
is exact, so its tables equal StableHLO's."""
KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {
    **{name: clamp(*bounds) for name, bounds in CLAMPS.items()},
    "abs": function,
    "add": add,
    "average_pool": average_pool,
    "divide": divide,
    "elu": function,
    "exp": function,
    "gelu": function,
    "hard_swish": function,
    "leaky_relu": function,
    "linear_resize": litert_resize.litert,
    "log": function,
    "log_softmax": log_softmax,
    "logistic": function,
    "mean": mean,
    "rsqrt": function,
    "softmax": softmax,
    "sqrt": function,
    "squared_difference": squared_difference,
    "subtract": add,
    "tanh": function,
}
"""By logical kernel. Other kernels are those of `materialize.KERNELS`."""
