"""Float ops as ONNX operators: ops outside of kernels, and ops of kernels that stay float."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, f32, i64
from xdsl.ir import Attribute, Operation, SSAValue, Use

from zeropoint.export.errors import ExportError
from zeropoint.export.onnx.clamps import repeated_bounds
from zeropoint.export.onnx.constants import iota
from zeropoint.export.onnx.contractions import channels_first, conv_attributes, matmul
from zeropoint.export.onnx.differences import difference, is_fused_difference
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.export.onnx.graph import Attributes, element_type
from zeropoint.export.onnx.indexing import backwards, gathered, scattered
from zeropoint.export.onnx.integer_convolutions import integer_convolution
from zeropoint.export.onnx.log_sigmoid import log_of_sigmoid
from zeropoint.export.onnx.positions import scattered_at_computed
from zeropoint.export.onnx.reductions import reduction
from zeropoint.export.onnx.running_sums import windowed
from zeropoint.export.onnx.spread import spread
from zeropoint.export.onnx.storage_casts import bit_cast, storage_cast
from zeropoint.export.scatters import combination
from zeropoint.export.sorts import sorted_axis
from zeropoint.ir import chlo
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.constants import splat_value
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizeRegionOp,
    StorageCastOp,
    UniformQuantizedType,
)
from zeropoint.ir.stablehlo import ComparisonDirection
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

OnnxFloatConverter = Callable[[Any, OnnxEmission], None]

UNARY: Mapping[type[Operation], str] = {
    hlo.AbsOp: "Abs",
    hlo.CeilOp: "Ceil",
    hlo.CosineOp: "Cos",
    chlo.AcosOp: "Acos",
    chlo.AcoshOp: "Acosh",
    chlo.AsinOp: "Asin",
    chlo.AsinhOp: "Asinh",
    chlo.AtanOp: "Atan",
    chlo.AtanhOp: "Atanh",
    chlo.CoshOp: "Cosh",
    chlo.ErfOp: "Erf",
    chlo.SinhOp: "Sinh",
    hlo.TanOp: "Tan",
    hlo.ExponentialOp: "Exp",
    hlo.FloorOp: "Floor",
    hlo.LogOp: "Log",
    hlo.LogisticOp: "Sigmoid",
    hlo.NegateOp: "Neg",
    hlo.NotOp: "Not",
    hlo.RoundNearestEvenOp: "Round",
    hlo.SignOp: "Sign",
    hlo.SineOp: "Sin",
    hlo.SqrtOp: "Sqrt",
    hlo.TanhOp: "Tanh",
}
BINARY: Mapping[type[Operation], str] = {
    hlo.AddOp: "Add",
    hlo.AndOp: "And",
    hlo.DivideOp: "Div",
    hlo.MaximumOp: "Max",
    hlo.MinimumOp: "Min",
    hlo.MultiplyOp: "Mul",
    hlo.OrOp: "Or",
    hlo.PowerOp: "Pow",
    hlo.SubtractOp: "Sub",
    hlo.XorOp: "Xor",
}
COMPARISONS: Mapping[ComparisonDirection, str] = {
    ComparisonDirection.EQ: "Equal",
    ComparisonDirection.GE: "GreaterOrEqual",
    ComparisonDirection.GT: "Greater",
    ComparisonDirection.LE: "LessOrEqual",
    ComparisonDirection.LT: "Less",
}
BITWISE = frozenset({"And", "Not", "Or", "Xor"})
"""The operators on booleans, whose forms for integers have `Bitwise` before the name."""
BITWISE_OPSET = 18
"""The first opset with `BitwiseAnd` and the like."""
REDUCTIONS: Mapping[type[Operation], tuple[str, float, int]] = {
    hlo.AddOp: ("ReduceSum", 0.0, 13),
    hlo.MaximumOp: ("ReduceMax", -np.inf, 18),
    hlo.MinimumOp: ("ReduceMin", np.inf, 18),
    hlo.MultiplyOp: ("ReduceProd", 1.0, 18),
}
"""The operator, its identity element and the first opset that takes axes as an input, by the op of the body."""


def _loose(emit: OnnxEmission, value: SSAValue) -> Tensor:
    """An operand of an op that broadcasts its operands, without its explicit broadcasts."""
    op = value.owner
    if isinstance(op, hlo.BroadcastInDimOp) and (value, element_of(value)) not in emit.tensors:
        array = emit.array(op.operand)
        shape = op.aligned_shape
        if array is not None:
            return emit.constant(array.reshape(shape), element_of(value), emit.name(op.operand))
        return emit.reshaped(emit.operand(op.operand, element_of(value)), shape, emit.name(value))
    return emit.operand(value, element_of(value))


def _exact(emit: OnnxEmission, value: SSAValue) -> Tensor:
    """An operand in its full shape, with its broadcasts."""
    op = value.owner
    if isinstance(op, hlo.BroadcastInDimOp) and (value, element_of(value)) not in emit.tensors:
        made = emit.repeated(_loose(emit, value), shape_of(value), emit.name(value))
        emit.put(value, made)
    return emit.operand(value, element_of(value))


def _finish(
    emit: OnnxEmission,
    op: Operation,
    name: str,
    inputs: list[Tensor],
    attributes: Attributes | None = None,
    extra: list[str] | None = None,
) -> None:
    result = op.results[0]
    made = emit.apply(name, inputs, element_of(result), shape_of(result), emit.name(result), attributes, extra or [])
    emit.put(result, emit.repeated(made, shape_of(result), emit.name(result)))


def _elementwise(op: Operation, emit: OnnxEmission, name: str) -> None:
    """Emit an elementwise op. At least one operand has the shape of the result, so that broadcasting yields it."""
    result = op.results[0]
    if name in BITWISE and str(element_of(result)) != "i1":
        emit.builder.needs(BITWISE_OPSET)
        name = f"Bitwise{name}"
    inputs = [_loose(emit, value) for value in op.operands]
    if all(tensor.shape != shape_of(result) for tensor in inputs):
        inputs[0] = _exact(emit, op.operands[0])
    if name == "Sub" and is_fused_difference(op, emit):
        difference(op, inputs, emit)
    else:
        _finish(emit, op, name, inputs)


def function(op: Operation, emit: OnnxEmission) -> None:
    """A function of one value, or an arithmetic op on two."""
    if not log_of_sigmoid(op, emit):
        _elementwise(op, emit, UNARY.get(type(op)) or BINARY[type(op)])


def compare(op: hlo.CompareOp, emit: OnnxEmission) -> None:
    """Equal, Less and so on."""
    direction = op.comparison_direction.data
    if direction is ComparisonDirection.NE:
        name = f"{emit.name(op.result)}/equal"
        inputs = [_exact(emit, op.lhs), _loose(emit, op.rhs)]
        equal = emit.apply("Equal", inputs, element_of(op.result), shape_of(op.result), name)
        _finish(emit, op, "Not", [equal])
    else:
        _elementwise(op, emit, COMPARISONS[direction])


def remainder(op: hlo.RemainderOp, emit: OnnxEmission) -> None:
    """Mod with the sign of the dividend."""
    result = op.result
    inputs = [_exact(emit, value) for value in op.operands]
    made = emit.apply("Mod", inputs, element_of(result), shape_of(result), emit.name(result), {"fmod": 1})
    emit.put(result, made)


def select(op: hlo.SelectOp, emit: OnnxEmission) -> None:
    """Where."""
    _elementwise(op, emit, "Where")


def clamp(op: hlo.ClampOp, emit: OnnxEmission) -> None:
    """Clip for scalar bounds, Max and Min for tensor bounds."""
    low, value, high = (_exact(emit, operand) for operand in (op.min, op.operand, op.max))
    low, high = repeated_bounds(op, value, emit) or (low, high)
    if not low.shape and not high.shape:
        _finish(emit, op, "Clip", [value], None, [low.name, high.name])
        return
    bounded = emit.apply("Max", [value, low], value.kind, value.shape, f"{emit.name(op.result)}/max")
    _finish(emit, op, "Min", [bounded, high])


def rsqrt(op: hlo.RsqrtOp, emit: OnnxEmission) -> None:
    """Reciprocal of Sqrt."""
    value = _exact(emit, op.operand)
    root = emit.apply("Sqrt", [value], value.kind, value.shape, f"{emit.name(op.result)}/sqrt")
    _finish(emit, op, "Reciprocal", [root])


def divide(op: hlo.DivideOp, emit: OnnxEmission) -> None:
    """Div, or Reciprocal for 1 divided by a value, except in OpenVINO, where it is a power."""
    if splat_value(op.lhs, emit.weights) == 1 and element_of(op.result) == f32 and not emit.for_openvino:
        _finish(emit, op, "Reciprocal", [_exact(emit, op.rhs)])
    else:
        function(op, emit)


def convert(op: hlo.ConvertOp, emit: OnnxEmission) -> None:
    """Cast."""
    dtype = element_dtype(element_of(op.result))
    _finish(emit, op, "Cast", [_exact(emit, op.operand)], {"to": element_type(dtype)})


def reshape(op: hlo.ReshapeOp, emit: OnnxEmission) -> None:
    """Reshape."""
    _finish(emit, op, "Reshape", [_exact(emit, op.operand)], None, [emit.integers(shape_of(op.result))])


def transpose(op: hlo.TransposeOp, emit: OnnxEmission) -> None:
    """Transpose."""
    _finish(emit, op, "Transpose", [_exact(emit, op.operand)], {"perm": array_values(op.permutation)})


def concatenate(op: hlo.ConcatenateOp, emit: OnnxEmission) -> None:
    """Concat."""
    inputs = [_exact(emit, value) for value in op.inputs]
    _finish(emit, op, "Concat", inputs, {"axis": op.dimension.value.data})


def slice_(op: hlo.SliceOp, emit: OnnxEmission) -> None:
    """Slice."""
    starts, limits, strides = (array_values(a) for a in (op.start_indices, op.limit_indices, op.strides))
    extra = [emit.integers(values, "slice") for values in (starts, limits, range(len(starts)), strides)]
    _finish(emit, op, "Slice", [_exact(emit, op.operand)], None, extra)


def reverse(op: hlo.ReverseOp, emit: OnnxEmission) -> None:
    """Slice with steps of -1."""
    _finish(emit, op, "Slice", [_exact(emit, op.operand)], None, backwards(op, emit))


def pad(op: hlo.PadOp, emit: OnnxEmission) -> None:
    """Pad; negative padding crops. For OpenVINO, positive padding along one dimension is concatenated."""
    low, high, inside = (array_values(a) for a in (op.edge_padding_low, op.edge_padding_high, op.interior_padding))
    source = spread(_exact(emit, op.operand), inside, _exact(emit, op.padding_value), emit.name(op.result), emit)
    pairs, fill = list(zip(low, high, strict=True)), emit.array(op.padding_value)
    is_along_one = sum(map(any, pairs)) == 1 and min(*low, *high) >= 0
    if emit.for_openvino and is_along_one and fill is not None and fill.dtype == np.float32:
        emit.put(op.result, emit.padded(source, pairs, emit.name(op.result), fill.item()))
        return
    extra = [emit.integers([*low, *high], "pads"), _exact(emit, op.padding_value).name]
    _finish(emit, op, "Pad", [source], None, extra)


def reduce(op: hlo.ReduceOp, emit: OnnxEmission) -> None:
    """ReduceSum, ReduceMax, ReduceMin or ReduceProd. Initial values other than the identity are combined afterwards."""
    kind = body_op(op.body) if len(op.inputs) == 1 else None
    if kind is None or kind not in REDUCTIONS:
        raise ExportError("found a reduction with another body, expected a sum, a product, a maximum or a minimum", op)
    name, neutral, opset = REDUCTIONS[kind]
    emit.builder.needs(opset)
    result, initial = op.results[0], emit.array(op.init_values[0])
    element, shape = element_of(result), shape_of(result)
    made = reduction(emit, name, _exact(emit, op.inputs[0]), array_values(op.dimensions), emit.name(result))
    if initial is None or initial.reshape(-1)[0] != neutral:
        made = emit.apply(BINARY[kind], [made, _exact(emit, op.init_values[0])], element, shape, emit.name(result))
    emit.put(result, made)


def shifted(before: bool, name: str, number: float) -> OnnxFloatConverter:
    """A function with a constant added before or after it: log(x + 1), exp(x) - 1."""

    def convert(op: Operation, emit: OnnxEmission) -> None:
        result = op.results[0]
        kind, shape, label = element_of(result), shape_of(result), emit.name(result)
        # Of the rank of the operand, as the importer has it, so that a second export writes the same constant.
        constant = emit.constant(np.full([1] * len(shape), number, element_dtype(kind)), kind, "shift")
        made = _exact(emit, op.operands[0])
        for operator in ("Add", name) if before else (name, "Add"):
            made = emit.apply(operator, [made, constant] if operator == "Add" else [made], kind, shape, label)
        emit.put(result, made)

    return convert


def sort(op: hlo.SortOp, emit: OnnxEmission) -> None:
    """TopK of all elements: values and positions. For a kernel's result, the stored integers are sorted."""
    axis, greatest = sorted_axis(op)
    value, shape, label = op.inputs[0], shape_of(op.inputs[0]), emit.name(op.results_[0])
    kind = emit.made.get(value, element_of(value))
    names = [emit.builder.unique(f"{label}/{part}") for part in ("values", "positions")]
    stored = emit.operand(value, kind) if isinstance(kind, UniformQuantizedType) else _exact(emit, value)
    inputs = [stored.name, emit.integers([shape[axis]], "k")]
    emit.builder.node("TopK", inputs, names, label, {"axis": axis, "largest": int(greatest), "sorted": 1})
    values = Tensor(names[0], kind, shape)
    # The result is a float, so that readers of another type quantize the real values, as the program does.
    emit.put(op.results_[0], Tensor(emit.real(values), element_of(value), shape))
    positions = Tensor(names[1], i64, shape)
    wanted = element_of(op.results_[1])
    if wanted != i64:
        cast = {"to": int(element_type(element_dtype(wanted)))}
        positions = emit.apply("Cast", [positions], wanted, shape, f"{label}/cast", cast)
    emit.put(op.results_[1], positions)


def dot_general(op: hlo.DotGeneralOp, emit: OnnxEmission) -> None:
    """MatMul."""
    sides = [_exact(emit, value) for value in (op.lhs, op.rhs)]
    emit.put(op.result, matmul(op, sides, element_of(op.result), emit, emit.name(op.result)))


def convolution(op: hlo.ConvolutionOp, emit: OnnxEmission) -> None:
    """Conv with computed weights. Convolutions with constant ones are kernels."""
    if isinstance(element_of(op.result), IntegerType):
        return integer_convolution(op, emit)
    numbers, name = op.dimension_numbers.data, emit.name(op.result)
    rank = len(numbers.input_spatial_dimensions)
    is_dilated = any(step != 1 for step in array_values(op.lhs_dilation, (1,) * rank))
    if is_dilated or any(array_values(op.window_reversal, (False,) * rank)) or op.batch_group_count.value.data != 1:
        found = "found computed weights of a convolution with a dilated input, a reversed window or batch groups"
        raise ExportError(f"{found}, expected constant weights", op)
    orders = channels_first(numbers)
    source, weights = (
        emit.transposed(_exact(emit, value), order, f"{name}/{part}")
        for value, order, part in zip((op.lhs, op.rhs), orders, ("images", "weights"), strict=False)
    )
    attributes = conv_attributes(op, weights.shape[2:], op)
    shape = [shape_of(op.result)[axis] for axis in orders[2]]
    made = emit.apply("Conv", [source, weights], element_of(op.result), shape, name, attributes)
    emit.put(op.result, emit.transposed(made, [orders[2].index(axis) for axis in range(len(shape))], f"{name}/back"))


def gather(op: hlo.GatherOp, emit: OnnxEmission) -> None:
    """Gather."""
    source, indices = _exact(emit, op.operand), _exact(emit, op.start_indices)
    emit.put(op.results[0], gathered(op, source, indices, source.kind, emit, emit.name(op.results[0])))


def scatter(op: hlo.ScatterOp, emit: OnnxEmission) -> None:
    """ScatterND."""
    source, updates = (_exact(emit, value) for value in (op.inputs[0], op.updates[0]))
    if emit.array(op.scatter_indices) is None and combination(op) is None:
        made = scattered_at_computed(op, source, _exact(emit, op.scatter_indices), updates, emit)
    else:
        made = scattered(op, source, updates, emit)
    emit.put(op.results_[0], made)


def window(op: hlo.ReduceWindowOp, emit: OnnxEmission) -> None:
    """CumSum, or MaxPool with positions. Other windows are kernels."""
    windowed(op, _exact(emit, op.inputs[0]), emit)


def broadcast(op: hlo.BroadcastInDimOp, emit: OnnxEmission) -> None:
    """Emit nothing. Ops broadcast their operands, or request an Expand."""


def cast(op: QuantizeCastOp | DequantizeCastOp, emit: OnnxEmission) -> None:
    """QuantizeLinear or DequantizeLinear, for casts of the model that are in no kernel."""
    kind, value = element_of(op.results[0]), op.operands[0]
    if isinstance(op, DequantizeCastOp) and all(_reads_integers(use, element_of(value)) for use in op.result.uses):
        return
    source = emit.operand(value, emit.made.get(value, element_of(value)))
    emit.put(op.results[0], emit.cast(source, kind, emit.name(op.results[0])))


def _reads_integers(use: Use, kind: Attribute) -> bool:
    """Whether a kernel reads a dequantized value in the type that it has, which `OnnxEmission.operand` looks up."""
    reader = use.operation
    return isinstance(reader, QuantizeRegionOp) and reader.input_specs.data[use.index] == kind


OPERATORS: Mapping[type[Operation], OnnxFloatConverter] = {
    **dict.fromkeys((*UNARY, *BINARY), function),
    hlo.BroadcastInDimOp: broadcast,
    hlo.ClampOp: clamp,
    hlo.CompareOp: compare,
    hlo.ExponentialMinusOneOp: shifted(False, "Exp", -1.0),
    hlo.LogPlusOneOp: shifted(True, "Log", 1.0),
    hlo.SortOp: sort,
    hlo.ConcatenateOp: concatenate,
    hlo.ConvertOp: convert,
    hlo.ConvolutionOp: convolution,
    hlo.DotGeneralOp: dot_general,
    hlo.GatherOp: gather,
    hlo.IotaOp: iota,
    hlo.PadOp: pad,
    hlo.ReduceOp: reduce,
    hlo.ReduceWindowOp: window,
    hlo.RemainderOp: remainder,
    hlo.ReshapeOp: reshape,
    hlo.ReverseOp: reverse,
    hlo.DivideOp: divide,
    hlo.RsqrtOp: rsqrt,
    hlo.ScatterOp: scatter,
    hlo.SelectOp: select,
    hlo.SliceOp: slice_,
    hlo.TransposeOp: transpose,
    DequantizeCastOp: cast,
    StorageCastOp: storage_cast,
    hlo.BitcastConvertOp: bit_cast,
    QuantizeCastOp: cast,
}
"""The rule of each float op of StableHLO."""


def settled(emit: OnnxEmission, value: SSAValue) -> None:
    """Emit a broadcast that is read by something other than a float op."""
    _exact(emit, value)
