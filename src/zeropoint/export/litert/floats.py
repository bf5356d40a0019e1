"""Float ops as LiteRT operators: ops outside of kernels, and ops of kernels that stay float.

Constants, and computed operands of arithmetic, are broadcast by the operators that read them. Other broadcasts are
explicit: RESHAPE and BROADCAST_TO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f32, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.litert import indexing
from zeropoint.export.litert.broadcasts import MOST_DIMENSIONS, is_repeated_in_arithmetic, repeated
from zeropoint.export.litert.builder import OperatorOptions
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.litert.padding import padded_by
from zeropoint.export.litert.port_casts import port_cast
from zeropoint.export.litert.products import matmul
from zeropoint.export.litert.scatters import scatter
from zeropoint.export.litert.words import bits, shift
from zeropoint.export.missing import missing_in_float
from zeropoint.export.region_types import is_read_as
from zeropoint.export.running_sums import running_sum
from zeropoint.export.sorts import first_taken, sorted_axis
from zeropoint.export.spread_constants import before_broadcasts
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from zeropoint.ir.stablehlo import ComparisonDirection
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

LitertFloatConverter = Callable[[Any, LitertEmission], None]

UNARY: Mapping[type[Operation], str] = {
    hlo.AbsOp: "ABS",
    hlo.CeilOp: "CEIL",
    hlo.CosineOp: "COS",
    hlo.ExponentialOp: "EXP",
    hlo.FloorOp: "FLOOR",
    hlo.LogOp: "LOG",
    hlo.LogisticOp: "LOGISTIC",
    hlo.NegateOp: "NEG",
    hlo.RoundNearestEvenOp: "ROUND",
    hlo.RsqrtOp: "RSQRT",
    hlo.SignOp: "SIGN",
    hlo.SineOp: "SIN",
    hlo.SqrtOp: "SQRT",
    hlo.TanhOp: "TANH",
    DequantizeCastOp: "DEQUANTIZE",
    QuantizeCastOp: "QUANTIZE",
}
BINARY: Mapping[type[Operation], tuple[str, str]] = {
    hlo.AddOp: ("ADD", "AddOptions"),
    hlo.DivideOp: ("DIV", "DivOptions"),
    hlo.MaximumOp: ("MAXIMUM", "MaximumMinimumOptions"),
    hlo.MinimumOp: ("MINIMUM", "MaximumMinimumOptions"),
    hlo.MultiplyOp: ("MUL", "MulOptions"),
    hlo.PowerOp: ("POW", "PowOptions"),
    hlo.SubtractOp: ("SUB", "SubOptions"),
}
COMPARISONS: Mapping[ComparisonDirection, tuple[str, str]] = {
    ComparisonDirection.EQ: ("EQUAL", "EqualOptions"),
    ComparisonDirection.GE: ("GREATER_EQUAL", "GreaterEqualOptions"),
    ComparisonDirection.GT: ("GREATER", "GreaterOptions"),
    ComparisonDirection.LE: ("LESS_EQUAL", "LessEqualOptions"),
    ComparisonDirection.LT: ("LESS", "LessOptions"),
    ComparisonDirection.NE: ("NOT_EQUAL", "NotEqualOptions"),
}
LOGICAL: Mapping[type[Operation], tuple[str, OperatorOptions]] = {
    hlo.AndOp: ("LOGICAL_AND", ("LogicalAndOptions", {})),
    hlo.NotOp: ("LOGICAL_NOT", ("LogicalNotOptions", {})),
    hlo.OrOp: ("LOGICAL_OR", ("LogicalOrOptions", {})),
    hlo.XorOp: ("NOT_EQUAL", ("NotEqualOptions", {})),
}
"""The operators on booleans."""
REDUCTIONS: Mapping[type[Operation], tuple[str, float]] = {
    hlo.AddOp: ("SUM", 0.0),
    hlo.MaximumOp: ("REDUCE_MAX", -np.inf),
    hlo.MinimumOp: ("REDUCE_MIN", np.inf),
    hlo.MultiplyOp: ("REDUCE_PROD", 1.0),
}
"""The operator, and its identity element, by the op of the reduction's body."""
CLIPS: Mapping[tuple[float, float], str] = {
    (0.0, np.inf): "RELU",
    (0.0, 1.0): "RELU_0_TO_1",
    (0.0, 6.0): "RELU6",
    (-1.0, 1.0): "RELU_N1_TO_1",
}
"""The operator by its bounds."""
XNNPACK_DIMENSIONS = 6
"""The most dimensions of XNNPACK's tensors."""
SUMMED = frozenset(map(np.dtype, ("float32", "int32", "int64")))
"""The types of LiteRT's CUMSUM."""


def _source(emit: LitertEmission, value: SSAValue) -> int:
    return emit.operand(value, element_of(value))


def _result(emit: LitertEmission, op: Operation) -> int:
    return emit.declare(op.results[0], element_of(op.results[0]))


def _loose(emit: LitertEmission, op: Operation) -> list[int]:
    """The operands of an op that broadcasts them. Constants are as small as in the program."""
    broadcasts = len(shape_of(op.results[0])) <= MOST_DIMENSIONS
    small = before_broadcasts(op, emit.array) if broadcasts else [None] * len(op.operands)
    return [
        _source(emit, value) if array is None else emit.held(value, array, element_of(value), op.results[0])
        for value, array in zip(op.operands, small, strict=True)
    ]


def _plain(emit: LitertEmission, op: Operation, name: str, options: OperatorOptions | None = None, *more: int) -> None:
    inputs = [_source(emit, value) for value in op.operands]
    emit.operator(name, [*inputs, *more], [_result(emit, op)], options)


def _elementwise(emit: LitertEmission, op: Operation, name: str, options: OperatorOptions | None = None) -> None:
    emit.operator(name, _loose(emit, op), [_result(emit, op)], options)


def unary(op: Operation, emit: LitertEmission) -> None:
    """A unary function."""
    _plain(emit, op, UNARY[type(op)])


def square_root(op: hlo.SqrtOp, emit: LitertEmission) -> None:
    """SQRT in a rank that XNNPACK does not take: its square roots are approximations, LiteRT's own are IEEE 754's."""
    kind, shape = element_of(op.result), shape_of(op.result)
    if len(shape) > XNNPACK_DIMENSIONS:
        return unary(op, emit)
    long = [*[1] * (XNNPACK_DIMENSIONS + 1 - len(shape)), *shape]
    source = emit.reshaped(_source(emit, op.operand), long, kind)
    root = emit.temporary(f"{emit.name(op.result)}/root", long, kind)
    emit.operator("SQRT", [source], [root])
    return emit.reshape(root, _result(emit, op))


def binary(op: Operation, emit: LitertEmission) -> None:
    """A binary arithmetic op."""
    name, options = BINARY[type(op)]
    _elementwise(emit, op, name, (options, {}))


def remainder(op: hlo.RemainderOp, emit: LitertEmission) -> None:
    """FLOOR_MOD of absolute values, which is exact, times the sign of the dividend."""
    kind, shape, name = element_of(op.result), shape_of(op.result), emit.name(op.result)
    dividend, divisor = (_source(emit, value) for value in op.operands)
    made = [emit.temporary(f"{name}/{part}", shape, kind) for part in ("dividend", "divisor", "rest", "sign")]
    emit.operator("ABS", [dividend], [made[0]])
    emit.operator("ABS", [divisor], [made[1]])
    emit.operator("FLOOR_MOD", made[:2], [made[2]])
    emit.operator("SIGN", [dividend], [made[3]])
    emit.operator("MUL", made[2:], [_result(emit, op)], ("MulOptions", {}))


def logical(op: Operation, emit: LitertEmission) -> None:
    """An op on booleans, or on the bits of integers."""
    if element_of(op.results[0]) == i1:
        _elementwise(emit, op, *LOGICAL[type(op)])
    else:
        bits(op, emit)


def atan2(op: hlo.Atan2Op, emit: LitertEmission) -> None:
    """ATAN2, which does not broadcast."""
    _plain(emit, op, "ATAN2")


def compare(op: hlo.CompareOp, emit: LitertEmission) -> None:
    """EQUAL, LESS and so on."""
    name, options = COMPARISONS[op.comparison_direction.data]
    _elementwise(emit, op, name, (options, {}))


def select(op: hlo.SelectOp, emit: LitertEmission) -> None:
    """SELECT_V2, which broadcasts a scalar condition."""
    _elementwise(emit, op, "SELECT_V2", ("SelectV2Options", {}))


def clipped(op: Operation, emit: LitertEmission) -> bool:
    """RELU, RELU6 and so on, if the op clamps floats to the bounds of one; else False."""
    bounds, name = Bounds(), None
    if element_of(op.results[0]) == f32 and bounds.then(op, emit.weights):
        name = CLIPS.get((bounds.low, bounds.high))
    if name is None:
        return False
    [value] = [operand for operand in op.operands if emit.array(operand) is None]
    emit.operator(name, [_source(emit, value)], [_result(emit, op)])
    return True


def maximum(op: hlo.MaximumOp, emit: LitertEmission) -> None:
    """RELU for the bound 0, else MAXIMUM."""
    if not clipped(op, emit):
        binary(op, emit)


def clamp(op: hlo.ClampOp, emit: LitertEmission) -> None:
    """RELU, RELU6 and so on, or MAXIMUM and MINIMUM."""
    if clipped(op, emit):
        return
    low, value, high = (_source(emit, operand) for operand in (op.min, op.operand, op.max))
    kind = element_of(op.operand)
    bounded = emit.temporary(emit.name(op.result), shape_of(op.result), kind)
    emit.operator("MAXIMUM", [value, low], [bounded], ("MaximumMinimumOptions", {}))
    emit.operator("MINIMUM", [bounded, high], [_result(emit, op)], ("MaximumMinimumOptions", {}))


def convert(op: hlo.ConvertOp, emit: LitertEmission) -> None:
    """CAST."""
    _plain(emit, op, "CAST", ("CastOptions", {}))


def reshape(op: hlo.ReshapeOp, emit: LitertEmission) -> None:
    """RESHAPE."""
    emit.reshape(_source(emit, op.operand), _result(emit, op))


def broadcast(op: hlo.BroadcastInDimOp, emit: LitertEmission) -> None:
    """RESHAPE to the rank of the result, and BROADCAST_TO unless every reader repeats its operand.

    Emits nothing for a constant, which is broadcast at its uses.
    """
    if emit.array(op.result) is not None:
        return
    kind = element_of(op.operand)
    source = emit.reshaped(_source(emit, op.operand), op.aligned_shape, kind)
    if kind == f32 and all(is_repeated_in_arithmetic(use, BINARY) for use in op.result.uses):
        emit.alias(op.result, kind, source)
        return
    repeated(emit, source, _result(emit, op), kind)


def transpose(op: hlo.TransposeOp, emit: LitertEmission) -> None:
    """TRANSPOSE."""
    _plain(emit, op, "TRANSPOSE", ("TransposeOptions", {}), emit.integers(array_values(op.permutation), "permutation"))


def concatenate(op: hlo.ConcatenateOp, emit: LitertEmission) -> None:
    """CONCATENATION."""
    _plain(emit, op, "CONCATENATION", ("ConcatenationOptions", {"axis": op.dimension.value.data}))


def slice_(op: hlo.SliceOp, emit: LitertEmission) -> None:
    """STRIDED_SLICE."""
    indexing.strided_slice(op, _source(emit, op.operand), op.result, element_of(op.result), emit)


def reduce(op: hlo.ReduceOp, emit: LitertEmission) -> None:
    """SUM, REDUCE_MAX, REDUCE_MIN or REDUCE_PROD. An initial value other than the identity is combined afterwards."""
    kind = body_op(op.body) if len(op.inputs) == 1 else None
    if kind is None or kind not in REDUCTIONS:
        raise ExportError("found a reduction with another body, expected a sum, a product, a maximum or a minimum", op)
    name, neutral = REDUCTIONS[kind]
    initial, result = emit.array(op.init_values[0]), _result(emit, op)
    alone = initial is not None and initial.reshape(-1)[0] == neutral
    made = (
        result
        if alone
        else emit.temporary(emit.name(op.results[0]), shape_of(op.results[0]), element_of(op.results[0]))
    )
    inputs = [_source(emit, op.inputs[0]), emit.integers(array_values(op.dimensions), "axes")]
    emit.operator(name, inputs, [made], ("ReducerOptions", {"keepDims": False}))
    if not alone:
        combine, options = BINARY[kind]
        emit.operator(combine, [made, _source(emit, op.init_values[0])], [result], (options, {}))


def shifted(before: bool, name: str, number: float) -> LitertFloatConverter:
    """A function with a constant added before or after it: log(x + 1), exp(x) - 1."""

    def convert(op: Operation, emit: LitertEmission) -> None:
        kind, shape = element_of(op.results[0]), shape_of(op.results[0])
        # Of the rank of the operand, as the importer has it, so that a second export writes the same constant.
        constant = emit.builder.part("shift", np.full([1] * len(shape), number, element_dtype(kind)))
        source, result = _source(emit, op.operands[0]), _result(emit, op)
        between = emit.temporary(emit.name(op.results[0]), shape, kind)
        for index, operator in enumerate(("ADD", name) if before else (name, "ADD")):
            given, made = (between, result) if index else (source, between)
            if operator == "ADD":
                emit.operator(operator, [given, constant], [made], ("AddOptions", {}))
            else:
                emit.operator(operator, [given], [made])

    return convert


def sort(op: hlo.SortOp, emit: LitertEmission) -> None:
    """TOPK_V2 of the elements that readers take, along the last dimension: values and positions, if they are read.

    An ascending sort negates the values. A descending sort of a kernel's result sorts its stored integers, and
    dequantizes them afterwards.
    """
    axis, greatest = sorted_axis(op)
    kind, shape = element_of(op.inputs[0]), shape_of(op.inputs[0])
    if greatest:  # an ascending sort needs NEG, which LiteRT has only for floats
        kind = emit.made.get(op.inputs[0], kind)
    order = [*(d for d in range(len(shape)) if d != axis), axis]
    source, taken = emit.operand(op.inputs[0], kind), first_taken(op, axis)
    name = emit.name(op.results_[0])
    if not greatest:
        negated = emit.temporary(f"{name}/negated", shape, kind)
        emit.operator("NEG", [source], [negated])
        source = negated
    source, last = emit.transposed(source, order, kind), [*(shape[d] for d in order[:-1]), taken]
    count = emit.builder.part("k", np.array(taken, np.int32))
    values, indices = emit.temporary(f"{name}/values", last, kind), emit.temporary(f"{name}/indices", last, i32)
    emit.operator("TOPK_V2", [source, count], [values, indices], ("TopKV2Options", {}))
    back = [order.index(d) for d in range(len(shape))]
    for result, made, element in ((op.results_[0], values, kind), (op.results_[1], indices, i32)):
        if result.first_use is not None:
            _sorted(result, emit.transposed(made, back, element), element, emit, negated=not greatest)


def _sorted(result: SSAValue, moved: int, kind: Attribute, emit: LitertEmission, *, negated: bool) -> None:
    """Let a result of TOPK_V2, of type `kind`, stand for one of a sort. It may have only the first elements of that."""
    element = element_of(result)
    operator = "CAST" if kind is i32 else "NEG" if negated else "DEQUANTIZE"
    if operator != "NEG" and (kind == element or is_read_as(result, kind)):
        emit.alias(result, kind, moved)
        return
    wanted = emit.temporary(emit.name(result), emit.builder.tensors[moved].shape, element)
    emit.operator(operator, [moved], [wanted], ("CastOptions", {}) if kind is i32 else None)
    emit.alias(result, element, wanted)


def pad(op: hlo.PadOp, emit: LitertEmission) -> None:
    """PAD or PADV2."""
    fill = emit.array(op.padding_value)
    if fill is None:
        raise ExportError("found a computed padding value, expected a constant", op)
    padded_by(op, _source(emit, op.operand), _result(emit, op), element_of(op.operand), fill, emit)


def dot_general(op: hlo.DotGeneralOp, emit: LitertEmission) -> None:
    """BATCH_MATMUL of floats. Integers that floats hold are floats here (`exact_contractions.py`)."""
    if not isinstance(element_of(op.results[0]), AnyFloat):
        raise missing_in_float(op, "LiteRT")
    sides = [_source(emit, value) for value in op.operands]
    matmul(op, sides, [element_of(value) for value in (*op.operands, op.results[0])], _result(emit, op), emit)


def gather(op: hlo.GatherOp, emit: LitertEmission) -> None:
    """GATHER."""
    source, indices, array = _source(emit, op.operand), _source(emit, op.start_indices), emit.array(op.start_indices)
    indexing.gather(op, source, indices, _result(emit, op), emit, array)


def reverse(op: hlo.ReverseOp, emit: LitertEmission) -> None:
    """REVERSE_V2."""
    indexing.reverse(op, _source(emit, op.operand), _result(emit, op), element_of(op.result), emit)


def window(op: hlo.ReduceWindowOp, emit: LitertEmission) -> None:
    """CUMSUM. Other windows are kernels."""
    sums, dtype = running_sum(op, emit.array(op.init_values[0])), element_dtype(element_of(op.results_[0]))
    if sums is None or dtype not in SUMMED:
        raise missing_in_float(op, "LiteRT")
    axis = emit.builder.part("axis", np.array(sums.axis, np.int32))
    options: OperatorOptions = ("CumsumOptions", {"exclusive": False, "reverse": sums.reverse})
    emit.operator("CUMSUM", [_source(emit, op.inputs[0]), axis], [_result(emit, op)], options)


def iota(op: hlo.IotaOp, emit: LitertEmission) -> None:
    """A constant."""
    shape, axis = shape_of(op.results[0]), op.iota_dimension.value.data
    kind = element_of(op.results[0])
    counts = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    array = np.broadcast_to(counts, shape).astype(element_dtype(kind))
    emit.tensors[op.results[0], kind] = emit.builder.constant(emit.name(op.results[0]), array)
    emit.made[op.results[0]] = kind


OPERATORS: Mapping[type[Operation], LitertFloatConverter] = {
    hlo.BitcastConvertOp: port_cast,
    StorageCastOp: port_cast,
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(LOGICAL, logical),
    hlo.Atan2Op: atan2,
    hlo.BroadcastInDimOp: broadcast,
    hlo.ClampOp: clamp,
    hlo.CompareOp: compare,
    hlo.MaximumOp: maximum,
    hlo.ExponentialMinusOneOp: shifted(False, "EXP", -1.0),
    hlo.LogPlusOneOp: shifted(True, "LOG", 1.0),
    hlo.PadOp: pad,
    hlo.SortOp: sort,
    hlo.SqrtOp: square_root,
    hlo.ConcatenateOp: concatenate,
    hlo.ConvertOp: convert,
    hlo.DotGeneralOp: dot_general,
    hlo.GatherOp: gather,
    hlo.IotaOp: iota,
    hlo.ReduceOp: reduce,
    hlo.ReduceWindowOp: window,
    hlo.RemainderOp: remainder,
    hlo.ReshapeOp: reshape,
    hlo.ReverseOp: reverse,
    hlo.ScatterOp: scatter,
    hlo.SelectOp: select,
    hlo.ShiftLeftOp: shift,
    hlo.ShiftRightArithmeticOp: shift,
    hlo.ShiftRightLogicalOp: shift,
    hlo.SliceOp: slice_,
    hlo.TransposeOp: transpose,
}
"""The rule of each float op of StableHLO."""
