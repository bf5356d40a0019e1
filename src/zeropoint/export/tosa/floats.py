"""Float ops as TOSA operators of the floating-point profile: ops outside of kernels, and of kernels that stay float.

TOSA has no division and no square root of floats. A division becomes a multiplication by RECIPROCAL, and a square root
a power of 1/2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.missing import missing_in_float
from zeropoint.export.running_sums import running_sum
from zeropoint.export.scatters import replaced_rows
from zeropoint.export.spread_constants import before_broadcasts
from zeropoint.export.tosa.arithmetic import filled, multiplied, zero
from zeropoint.export.tosa.builder import TosaValue
from zeropoint.export.tosa.contractions import dot_general, window_of_ones
from zeropoint.export.tosa.emission import TosaEmission, element_text
from zeropoint.export.tosa.moves import (
    concatenated,
    reduced,
    repeated,
    reshaped,
    reversed_along,
    transposed,
)
from zeropoint.export.tosa.rows import gathered, padded_by, strided
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.chlo import ErfOp
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp
from zeropoint.ir.stablehlo import ComparisonDirection
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

TosaFloatConverter = Callable[[Any, TosaEmission], None]

UNARY: Mapping[type[Operation], str] = {
    hlo.AbsOp: "abs",
    hlo.CeilOp: "ceil",
    hlo.CosineOp: "cos",
    ErfOp: "erf",
    hlo.ExponentialOp: "exp",
    hlo.FloorOp: "floor",
    hlo.LogOp: "log",
    hlo.LogisticOp: "sigmoid",
    hlo.RsqrtOp: "rsqrt",
    hlo.SineOp: "sin",
    hlo.TanhOp: "tanh",
}
BINARY: Mapping[type[Operation], str] = {
    hlo.AddOp: "add",
    hlo.MaximumOp: "maximum",
    hlo.MinimumOp: "minimum",
    hlo.PowerOp: "pow",
    hlo.SubtractOp: "sub",
}
LOGICAL: Mapping[type[Operation], tuple[str, str]] = {
    hlo.AndOp: ("logical_and", "bitwise_and"),
    hlo.NotOp: ("logical_not", "bitwise_not"),
    hlo.OrOp: ("logical_or", "bitwise_or"),
    hlo.XorOp: ("logical_xor", "bitwise_xor"),
}
"""The operators on booleans and on the bits of integers."""
COMPARISONS: Mapping[ComparisonDirection, tuple[str, bool, bool]] = {
    ComparisonDirection.EQ: ("equal", False, False),
    ComparisonDirection.GE: ("greater_equal", False, False),
    ComparisonDirection.GT: ("greater", False, False),
    ComparisonDirection.LE: ("greater_equal", True, False),
    ComparisonDirection.LT: ("greater", True, False),
    ComparisonDirection.NE: ("equal", False, True),
}
"""The operator, whether its operands are exchanged, and whether its result is negated."""
REDUCTIONS: Mapping[type[Operation], tuple[str, float]] = {
    hlo.AddOp: ("reduce_sum", 0.0),
    hlo.MaximumOp: ("reduce_max", -np.inf),
    hlo.MinimumOp: ("reduce_min", np.inf),
    hlo.MultiplyOp: ("reduce_product", 1.0),
}
"""The operator, and its identity element, by the op of the reduction's body."""


def _source(emit: TosaEmission, value: SSAValue) -> TosaValue:
    return emit.operand(value, element_of(value))


def _loose(emit: TosaEmission, op: Operation) -> list[TosaValue]:
    """The operands of an op that broadcasts dimensions of size 1. Constants are as small as in the program."""
    return [
        _source(emit, value) if array is None else emit.constant(array, element_of(value))
        for value, array in zip(op.operands, before_broadcasts(op, emit.array), strict=True)
    ]


def _finish(emit: TosaEmission, op: Operation, value: TosaValue) -> None:
    emit.define(op.results[0], element_of(op.results[0]), value)


def _plain(op: Operation, emit: TosaEmission, name: str, *operands: TosaValue, element: str | None = None) -> TosaValue:
    """An operator whose result has the shape of the op's result."""
    kind = element_text(element_of(op.results[0]), op) if element is None else element
    return emit.f.op(name, operands, shape_of(op.results[0]), kind)


def unary(op: Operation, emit: TosaEmission) -> None:
    """A function of one value."""
    _finish(emit, op, _plain(op, emit, UNARY[type(op)], _source(emit, op.operands[0])))


def binary(op: Operation, emit: TosaEmission) -> None:
    """A binary arithmetic op."""
    _finish(emit, op, _plain(op, emit, BINARY[type(op)], *_loose(emit, op)))


def logical(op: Operation, emit: TosaEmission) -> None:
    """An op on booleans or on the bits of integers."""
    of_booleans, of_integers = LOGICAL[type(op)]
    name = of_booleans if str(element_of(op.results[0])) == "i1" else of_integers
    _finish(emit, op, _plain(op, emit, name, *_loose(emit, op)))


def remainder(op: hlo.RemainderOp, emit: TosaEmission) -> None:
    """The dividend minus INTDIV times the divisor. TOSA has no remainder of floats."""
    dividend, divisor = (_source(emit, value) for value in op.operands)
    if dividend.element != "i32":
        raise ExportError(f"found a remainder of {dividend.element}, expected i32, which TOSA divides exactly", op)
    quotient = _plain(op, emit, "intdiv", dividend, divisor)
    product = multiplied(emit.f, quotient, divisor, shape_of(op.result))
    _finish(emit, op, _plain(op, emit, "sub", dividend, product))


def multiply(op: hlo.MultiplyOp, emit: TosaEmission) -> None:
    """MUL."""
    lhs, rhs = _loose(emit, op)
    _finish(emit, op, multiplied(emit.f, lhs, rhs, shape_of(op.result)))


def divide(op: hlo.DivideOp, emit: TosaEmission) -> None:
    """MUL by RECIPROCAL."""
    dividend, divisor = _loose(emit, op)
    if divisor.element != "f32":
        raise ExportError(f"found a division of {divisor.element}, expected f32", op)
    inverse = emit.f.op("reciprocal", [divisor], divisor.shape, divisor.element)
    _finish(emit, op, multiplied(emit.f, dividend, inverse, shape_of(op.result)))


def sqrt(op: hlo.SqrtOp, emit: TosaEmission) -> None:
    """POW by 1/2."""
    value = _source(emit, op.operand)
    half = emit.f.constant(filled(len(value.shape), 0.5, np.float32))
    _finish(emit, op, _plain(op, emit, "pow", value, half))


def negate(op: hlo.NegateOp, emit: TosaEmission) -> None:
    """NEGATE, whose zero points are 0."""
    value = _source(emit, op.operand)
    zeros = [zero(emit.f, value.element)] * 2
    _finish(emit, op, _plain(op, emit, "negate", value, *zeros))


def compare(op: hlo.CompareOp, emit: TosaEmission) -> None:
    """EQUAL, GREATER or GREATER_EQUAL. Other comparisons exchange the operands or negate the result."""
    name, exchanged, negated = COMPARISONS[op.comparison_direction.data]
    sides = _loose(emit, op)
    made = _plain(op, emit, name, *(sides[::-1] if exchanged else sides))
    _finish(emit, op, _plain(op, emit, "logical_not", made) if negated else made)


def select(op: hlo.SelectOp, emit: TosaEmission) -> None:
    """SELECT, which broadcasts a scalar condition."""
    condition, *sides = _loose(emit, op)
    if not condition.shape:
        condition = reshaped(emit.f, condition, (1,) * len(shape_of(op.result)))
    _finish(emit, op, _plain(op, emit, "select", condition, *sides))


def clamp(op: hlo.ClampOp, emit: TosaEmission) -> None:
    """MAXIMUM and MINIMUM."""
    value = _source(emit, op.operand)
    for name, bound in (("maximum", op.min), ("minimum", op.max)):
        limit = _source(emit, bound)
        value = _plain(op, emit, name, value, reshaped(emit.f, limit, limit.shape or (1,) * len(value.shape)))
    _finish(emit, op, value)


def convert(op: hlo.ConvertOp, emit: TosaEmission) -> None:
    """CAST. A float that becomes an integer is truncated before, because TOSA rounds to the nearest."""
    given, wanted = element_dtype(element_of(op.operand)), element_dtype(element_of(op.result))
    value = _source(emit, op.operand)
    kind = element_text(element_of(op.result), op)
    if given.kind == "f" and wanted.kind in "iu":
        value = _truncated(op, value, emit)
    _finish(emit, op, value if kind == value.element else _plain(op, emit, "cast", value))


def _truncated(op: hlo.ConvertOp, value: TosaValue, emit: TosaEmission) -> TosaValue:
    """CEIL of negative numbers, FLOOR of others."""
    zeros = emit.f.constant(filled(len(value.shape), 0.0, np.float32))
    negative = _plain(op, emit, "greater", zeros, value, element="i1")
    sides = [_plain(op, emit, name, value, element=value.element) for name in ("ceil", "floor")]
    return _plain(op, emit, "select", negative, *sides, element=value.element)


def reshape(op: hlo.ReshapeOp, emit: TosaEmission) -> None:
    """RESHAPE."""
    _finish(emit, op, reshaped(emit.f, _source(emit, op.operand), shape_of(op.result)))


def broadcast(op: hlo.BroadcastInDimOp, emit: TosaEmission) -> None:
    """RESHAPE to the rank of the result, TILE. Emits nothing for a constant, which is broadcast at its uses."""
    if emit.array(op.result) is None:
        value = reshaped(emit.f, _source(emit, op.operand), op.aligned_shape)
        _finish(emit, op, repeated(emit.f, value, shape_of(op.result)))


def transpose(op: hlo.TransposeOp, emit: TosaEmission) -> None:
    """TRANSPOSE."""
    _finish(emit, op, transposed(emit.f, _source(emit, op.operand), array_values(op.permutation)))


def concatenate(op: hlo.ConcatenateOp, emit: TosaEmission) -> None:
    """CONCAT."""
    values = [_source(emit, value) for value in op.inputs]
    _finish(emit, op, concatenated(emit.f, values, op.dimension.value.data))


def slice_(op: hlo.SliceOp, emit: TosaEmission) -> None:
    """SLICE."""
    _finish(emit, op, strided(op, _source(emit, op.operand), emit))


def reverse(op: hlo.ReverseOp, emit: TosaEmission) -> None:
    """REVERSE."""
    _finish(emit, op, reversed_along(emit.f, _source(emit, op.operand), array_values(op.dimensions)))


def pad(op: hlo.PadOp, emit: TosaEmission) -> None:
    """PAD."""
    number = emit.array(op.padding_value)
    if number is None:
        raise ExportError("found a computed padding value, expected a constant", op)
    _finish(emit, op, padded_by(op, _source(emit, op.operand), number, emit))


def window(op: hlo.ReduceWindowOp, emit: TosaEmission) -> None:
    """A running sum as DEPTHWISE_CONV2D with weights of 1. Other windows are kernels."""
    sums, kind = running_sum(op, emit.array(op.init_values[0])), element_of(op.results_[0])
    source = _source(emit, op.inputs[0])
    if sums is None or source.element != "f32":
        raise missing_in_float(op, "TOSA")
    shape, axis = source.shape, sums.axis
    size = shape[axis]
    image = reshaped(emit.f, source, (prod(shape[:axis]), size, 1, prod(shape[axis + 1 :])))
    pads = [0, size - 1, 0, 0] if sums.reverse else [size - 1, 0, 0, 0]
    _finish(emit, op, reshaped(emit.f, window_of_ones(emit.f, image, (size, 1), (1, 1), pads, kind), shape))


def reduce(op: hlo.ReduceOp, emit: TosaEmission) -> None:
    """REDUCE_SUM, REDUCE_MAX, REDUCE_MIN or REDUCE_PRODUCT.

    An initial value other than the identity is combined afterwards.
    """
    kind = body_op(op.body) if len(op.inputs) == 1 else None
    source = _source(emit, op.inputs[0])
    if kind is None or kind not in REDUCTIONS or (kind is hlo.MultiplyOp and source.element != "f32"):
        raise ExportError(
            "found a reduction with another body or element type, expected a sum, product, maximum or minimum of f32",
            op,
        )
    name, neutral = REDUCTIONS[kind]
    value = reduced(emit.f, name, source, array_values(op.dimensions))
    value, initial = reshaped(emit.f, value, shape_of(op.results[0])), emit.array(op.init_values[0])
    if initial is None or initial.reshape(-1)[0] != neutral:
        first = reshaped(emit.f, _source(emit, op.init_values[0]), (1,) * len(value.shape))
        product = kind is hlo.MultiplyOp
        value = (
            multiplied(emit.f, value, first, value.shape) if product else _plain(op, emit, BINARY[kind], value, first)
        )
    _finish(emit, op, value)


def shifted(before: bool, name: str, number: float) -> TosaFloatConverter:
    """A function with a constant added before or after it: log(x + 1), exp(x) - 1."""

    def convert(op: Operation, emit: TosaEmission) -> None:
        value = _source(emit, op.operands[0])
        constant = emit.f.constant(filled(len(value.shape), number, np.float32))
        for operator in ("add", name) if before else (name, "add"):
            value = _plain(op, emit, operator, value, *([constant] if operator == "add" else []))
        _finish(emit, op, value)

    return convert


def gather(op: hlo.GatherOp, emit: TosaEmission) -> None:
    """GATHER."""
    value = gathered(op, _source(emit, op.operand), _source(emit, op.start_indices), emit.array(op.start_indices), emit)
    _finish(emit, op, reshaped(emit.f, value, shape_of(op.result)))


def scatter(op: hlo.ScatterOp, emit: TosaEmission) -> None:
    """GATHER of rows from the CONCAT of the operand and the updates."""
    found = replaced_rows(op, emit.array(op.scatter_indices), "TOSA")
    sizes = ((op.inputs[0], found.count), (op.updates[0], len(found.updated)))
    parts = [reshaped(emit.f, _source(emit, value), (1, count, found.width)) for value, count in sizes]
    indices = emit.f.constant(found.source.reshape(1, -1))
    shape = (1, found.count, found.width)
    value = emit.f.op("gather", [concatenated(emit.f, parts, 1), indices], shape, parts[0].element)
    _finish(emit, op, reshaped(emit.f, value, shape_of(op.results_[0])))


def iota(op: hlo.IotaOp, emit: TosaEmission) -> None:
    """A constant."""
    shape, axis = shape_of(op.results[0]), op.iota_dimension.value.data
    kind = element_of(op.results[0])
    counts = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    _finish(emit, op, emit.constant(np.broadcast_to(counts, shape).astype(element_dtype(kind)), kind))


def cast(op: QuantizeCastOp | DequantizeCastOp, emit: TosaEmission) -> None:
    """A cast to storage integers, or from them."""
    _finish(emit, op, emit.operand(op.operands[0], element_of(op.results[0])))


OPERATORS: Mapping[type[Operation], TosaFloatConverter] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(LOGICAL, logical),
    DequantizeCastOp: cast,
    QuantizeCastOp: cast,
    hlo.BroadcastInDimOp: broadcast,
    hlo.ClampOp: clamp,
    hlo.CompareOp: compare,
    hlo.ConcatenateOp: concatenate,
    hlo.ConvertOp: convert,
    hlo.DivideOp: divide,
    hlo.DotGeneralOp: dot_general,
    hlo.ExponentialMinusOneOp: shifted(False, "exp", -1.0),
    hlo.LogPlusOneOp: shifted(True, "log", 1.0),
    hlo.GatherOp: gather,
    hlo.IotaOp: iota,
    hlo.MultiplyOp: multiply,
    hlo.NegateOp: negate,
    hlo.PadOp: pad,
    hlo.ReduceOp: reduce,
    hlo.ReduceWindowOp: window,
    hlo.RemainderOp: remainder,
    hlo.ReshapeOp: reshape,
    hlo.ReverseOp: reverse,
    hlo.ScatterOp: scatter,
    hlo.SelectOp: select,
    hlo.SliceOp: slice_,
    hlo.SqrtOp: sqrt,
    hlo.TransposeOp: transpose,
}
"""The rule of each float op of StableHLO."""
