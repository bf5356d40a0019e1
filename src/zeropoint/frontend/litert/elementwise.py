"""Arithmetic, unary functions, comparisons, reductions.

Source: the LiteRT schema; the parameters of TensorFlow's operators of these names.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from onnx import helper
from xdsl.dialects.builtin import AnyFloat, i1
from xdsl.ir import Operation, SSAValue

from zeropoint.frontend.errors import NodeError
from zeropoint.frontend.litert.call import Call
from zeropoint.frontend.litert.spectra import is_complex, part_of
from zeropoint.frontend.onnx.node import axis_of
from zeropoint.frontend.onnx.ordering import sorted_first
from zeropoint.frontend.onnx.tensors import element_of_dtype
from zeropoint.ir.stablehlo import (
    AddOp,
    BinaryOp,
    ComparisonDirection,
    DivideOp,
    MinimumOp,
    MultiplyOp,
    RealOp,
    RsqrtOp,
    SignOp,
    SubtractOp,
    TransposeOp,
    XorOp,
)
from zeropoint.ir.tensors import Array, element_of, shape_of

CallConverter = Callable[[Call], "SSAValue | tuple[SSAValue, ...]"]


def same(op: str, **attributes: int) -> CallConverter:
    """A converter to an ONNX operator on all operands, followed by the fused activation function."""

    def convert(call: Call) -> SSAValue:
        return call.bounded(call.onnx(op, *call.operands(), **attributes))

    return convert


def clipped(low: float, high: float) -> CallConverter:
    """A converter for a function that only clamps."""
    return lambda call: call.clipped(call.operand(0), low, high)


def applied(op: Callable[[SSAValue], Operation]) -> CallConverter:
    """A converter to a unary StableHLO op."""
    return lambda call: call.build.insert(op(call.operand(0)))


def identity(call: Call) -> SSAValue:
    """QUANTIZE and DEQUANTIZE, whose casts follow from the types at both ends, and DENSIFY, whose operand is dense."""
    if not call.is_real:
        raise NodeError(f"found a result of type {call.result().type_name}, expected real numbers")
    return call.exact(0) if call.operator.name == "DEQUANTIZE" else call.operand(0)


def leaky_relu(call: Call) -> SSAValue:
    """LEAKY_RELU."""
    return call.onnx("LeakyRelu", call.operand(0), alpha=float(call.option("alpha", 0.0)))


def gelu(call: Call) -> SSAValue:
    """GELU, exact or by tanh."""
    way = "tanh" if call.option("approximate", False) else "none"
    return call.onnx("Gelu", call.operand(0), approximate=way)


def prelu(call: Call) -> SSAValue:
    """PRELU. The slopes broadcast like any operand."""
    return call.onnx("PRelu", call.operand(0), call.operand(1))


def softmax(call: Call) -> SSAValue:
    """SOFTMAX of beta times the operand, over the last dimension."""
    value, beta = call.operand(0), float(call.option("beta", 1.0))
    if beta != 1.0:
        value = call.build.apply(MultiplyOp, value, call.build.splat(beta, value))
    return call.onnx("Softmax", value, axis=-1)


def squared(call: Call) -> SSAValue:
    """SQUARE."""
    value = call.operand(0)
    return call.build.apply(MultiplyOp, value, value)


def squared_difference(call: Call) -> SSAValue:
    """SQUARED_DIFFERENCE."""
    difference = call.onnx("Sub", *call.operands())
    return call.build.apply(MultiplyOp, difference, difference)


def not_equal(call: Call) -> SSAValue:
    """NOT_EQUAL of numbers, or of booleans."""
    lhs, rhs = _wide(call)
    is_boolean = element_of(lhs) == i1
    return call.build.apply(XorOp, lhs, rhs) if is_boolean else call.build.compare(ComparisonDirection.NE, lhs, rhs)


def _wide(call: Call) -> list[SSAValue]:
    """The operands, repeated to one shape."""
    operands = call.operands()
    shape = np.broadcast_shapes(*map(shape_of, operands))
    return [v if shape_of(v) == shape else call.onnx("Expand", v, np.asarray(shape, np.int64)) for v in operands]


def paired(op: type[BinaryOp]) -> CallConverter:
    """A converter to a StableHLO op on two operands, one of which may be repeated."""
    return lambda call: call.build.apply(op, *_wide(call))


def floor_mod(call: Call) -> SSAValue:
    """FLOOR_MOD: the remainder with the sign of the divisor."""
    value, divisor = call.operands()
    rest = call.onnx("Mod", value, divisor, fmod=1)
    zero = call.build.splat(0, rest)
    differ = call.onnx("Xor", call.onnx("Less", rest, zero), call.onnx("Less", divisor, zero))
    moves = call.onnx("And", differ, call.onnx("Not", call.onnx("Equal", rest, zero)))
    return call.onnx("Where", moves, call.onnx("Add", rest, divisor), rest)


def floor_div(call: Call) -> SSAValue:
    """FLOOR_DIV: the quotient, rounded down, as LiteRT finds it in f64 for f32."""
    lhs, rhs = _wide(call)
    rest = call.onnx("Mod", lhs, rhs, fmod=1)
    quotient = call.build.apply(DivideOp, call.build.apply(SubtractOp, lhs, rest), rhs)
    if isinstance(element_of(quotient), AnyFloat):
        quotient = call.onnx("Round", quotient)
    signs = [call.build.apply(SignOp, one) for one in (rest, rhs)]
    # -1 where the signs of the rest and the divisor differ, and 0 elsewhere, also without a rest.
    less = call.build.apply(MinimumOp, call.build.apply(MultiplyOp, *signs), call.build.splat(0, quotient))
    return call.build.apply(AddOp, quotient, less)


def cast(call: Call) -> SSAValue:
    """CAST to the result's type. Of a complex number, the real part."""
    value = call.operand(0)
    if is_complex(value) and call.result().dtype.kind != "c":
        value = part_of(value, RealOp, call.build)
    return call.onnx("Cast", value, to=helper.np_dtype_to_tensor_dtype(call.result().dtype))


def select(call: Call) -> SSAValue:
    """SELECT and SELECT_V2. The condition of SELECT may have one element per index of the first dimension."""
    condition, *values = call.operands()
    rank = len(shape_of(values[0]))
    if len(shape_of(condition)) == 1 and rank > 1 and call.operator.name == "SELECT":
        condition = call.build.reshape(condition, [shape_of(condition)[0], *(1 for _ in range(rank - 1))])
    return call.onnx("Where", condition, *values)


def chosen(call: Call) -> SSAValue:
    """A result of an IF both of whose branches are computed: the operands are the condition and both values."""
    condition, *values = call.operands()
    shapes = [list(shape_of(value)) for value in values]
    if call.tensor(0).type_name != "BOOL" or prod(shape_of(condition)) != 1:
        raise NodeError(
            f"found a condition of type {call.tensor(0).type_name} and shape {list(shape_of(condition))}, expected "
            "one element of type BOOL"
        )
    if shapes[0] != shapes[1]:
        raise NodeError(
            f"found branches with results {shapes[0]} and {shapes[1]}, expected one shape, because shapes are static"
        )
    if values[0] is values[1]:
        return values[0]
    return call.onnx("Where", call.build.reshape(condition, ()), *values)


def reduction(op: str) -> CallConverter:
    """MEAN, SUM, REDUCE_MAX and the like over constant axes."""

    def convert(call: Call) -> SSAValue:
        value = call.operand(0)
        axes = sorted({axis_of(axis, len(shape_of(value))) for axis in call.integers(1, "axes")})
        if not axes:
            return value
        return call.onnx(op, value, np.asarray(axes, np.int64), keepdims=int(call.option("keepDims", False)))

    return convert


def arg_extreme(op: str) -> CallConverter:
    """ARG_MAX and ARG_MIN: positions in the integer type of the result."""

    def convert(call: Call) -> SSAValue:
        value = call.operand(0)
        found = call.onnx(op, value, axis=call.axis(1, len(shape_of(value))), keepdims=0)
        return call.onnx("Cast", found, to=helper.np_dtype_to_tensor_dtype(call.result().dtype))

    return convert


def top_k(call: Call) -> tuple[SSAValue, ...]:
    """TOPK_V2: the k largest values along the last dimension, and their indices."""
    value, kind = call.operand(0), call.result(1).dtype
    if kind.kind != "i" or not shape_of(value):
        raise NodeError(f"found positions of type {kind} of {list(shape_of(value))}, expected integers of a list")
    index = element_of_dtype(kind)
    axis = len(shape_of(value)) - 1
    values, positions = sorted_first(value, axis, call.integers(1, "k"), index, call.build, largest=True)
    if call.result().quantized == call.tensor(0).quantized:
        call.values.exact[call.operator.outputs[0]] = values
    return values, positions


def cumsum(call: Call) -> SSAValue:
    """CUMSUM: running sums along a dimension."""
    options = {name: int(bool(call.option(name, False))) for name in ("exclusive", "reverse")}
    return call.onnx("CumSum", call.operand(0), np.asarray(call.integers(1, "axis"), np.int64).reshape(-1), **options)


def gather(call: Call) -> SSAValue:
    """GATHER along a dimension. With batch dimensions, each index vector is of one batch, as in ONNX's GatherND."""
    value, indices = call.operand(0), call.operand(1)
    rank, places = len(shape_of(value)), shape_of(indices)
    axis, batch = int(call.option("axis")), int(call.option("batchDims"))
    batch = batch + len(places) if batch < 0 else batch
    sizes = _gathered_sizes(call, axis) if not batch else None
    if sizes is not None:
        return call.build.constant(sizes)
    if not batch:
        return call.onnx("Gather", value, indices, axis=axis)
    axis = axis_of(axis, rank)
    if not batch <= min(axis, len(places)) or shape_of(value)[:batch] != places[:batch]:
        raise NodeError(
            f"found {batch} batch dimensions of {list(shape_of(value))} and indices {list(places)}, expected equal "
            f"sizes, and dimension {axis} behind them"
        )
    moved = [*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)]
    vectors = call.build.reshape(indices, [*places, 1])
    found = call.onnx("GatherND", call.build.insert(TransposeOp(value, moved)), vectors, batch_dims=batch)
    inner, kept = len(places) - batch, axis - batch
    ends = len(places) + kept, len(shape_of(found))
    order = [*range(batch), *range(len(places), ends[0]), *range(batch, batch + inner), *range(*ends)]
    return call.build.insert(TransposeOp(found, order))


def _gathered_sizes(call: Call, axis: int) -> Array | None:
    """The result if the table is computed from shapes and the indices are known; None otherwise."""
    table = call.known(0) if call.tensor(0).data is None else None
    indices = call.known(1) if table is not None else None
    if table is None or indices is None:
        return None
    size = table.shape[axis_of(axis, table.ndim)]
    return np.asarray(np.take(table, indices, axis)) if ((indices >= 0) & (indices < size)).all() else None


def gather_nd(call: Call) -> SSAValue:
    """GATHER_ND: slices at index vectors."""
    value, indices = call.operand(0), call.operand(1)
    if not shape_of(value) or not shape_of(indices):
        raise NodeError(
            f"found a table of {list(shape_of(value))} and indices {list(shape_of(indices))}, expected lists"
        )
    return call.onnx("GatherND", value, indices)


def embedding_lookup(call: Call) -> SSAValue:
    """EMBEDDING_LOOKUP: rows of a table."""
    return call.onnx("Gather", call.operand(1), call.operand(0), axis=0)


def l2_normalization(call: Call) -> SSAValue:
    """L2_NORMALIZATION along the last dimension."""
    return call.bounded(call.onnx("LpNormalization", call.operand(0), axis=-1, p=2))


RSQRT = applied(RsqrtOp)
