"""Pools, reductions, unary functions, elementwise ops and data movement as LiteRT operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert import indexing
from zeropoint.export.litert.broadcasts import broadcast
from zeropoint.export.litert.builder import OperatorOptions
from zeropoint.export.litert.contractions import activation
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.litert.padding import pad
from zeropoint.export.litert.pools import pool
from zeropoint.export.litert.resizes import linear_resize
from zeropoint.export.litert.sums import reduction as reduced
from zeropoint.export.litert.sums import sum_
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ConcatenateOp,
    DivideOp,
    GatherOp,
    MultiplyOp,
    ReduceOp,
    ReverseOp,
    SelectOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.numerics.elementwise import litert_adds
from zeropoint.numerics.litert import is_tanh_gelu
from zeropoint.numerics.litert_division import divides

LitertConverter = Callable[[ExportKernel, LitertEmission], None]
OUTPUT_TYPES: Mapping[Attribute, int] = {i32: 2, i64: 4}
"""The schema's numbers for the types of positions."""


def _source(kernel: ExportKernel, emit: LitertEmission, port: int = 0) -> int:
    return emit.operand(kernel.region.inputs[port], kernel.specs[port])


def _result(kernel: ExportKernel, emit: LitertEmission) -> int:
    return emit.declare(kernel.region.outputs[0], kernel.output_spec)


def reduction(op_name: str, version: int) -> LitertConverter:
    """MEAN, SUM, REDUCE_MAX or REDUCE_MIN over constant axes."""

    def convert(kernel: ExportKernel, emit: LitertEmission) -> None:
        _check_count(kernel, kernel.first(ReduceOp))
        reduced(kernel, emit, op_name, version)

    return convert


def position(op_name: str, options: str) -> LitertConverter:
    """ARG_MAX or ARG_MIN: the first position of the maximum or minimum along one dimension."""

    def convert(kernel: ExportKernel, emit: LitertEmission) -> None:
        fields = {"outputType": OUTPUT_TYPES[element_of(kernel.region.outputs[0])]}
        inputs = [_source(kernel, emit), emit.integers(array_values(kernel.first(ReduceOp).dimensions), "axis")]
        emit.operator(op_name, inputs, [_result(kernel, emit)], (options, fields), 2)

    return convert


def _check_count(kernel: ExportKernel, op: ReduceOp) -> None:
    """Raise ExportError for a mean whose divisor is not the number of its terms."""
    if any(isinstance(other, DivideOp | MultiplyOp) for other in kernel.ops) and not kernel.divides_by_terms:
        terms = prod(shape_of(op.inputs[0])[axis] for axis in array_values(op.dimensions))
        raise ExportError(f"found a sum with another divisor, expected the number of its terms, {terms}", kernel.region)


def function(op_name: str, options: OperatorOptions | None = None, version: int = 1) -> LitertConverter:
    """The converter for a unary function that has its own operator."""

    def convert(kernel: ExportKernel, emit: LitertEmission) -> None:
        emit.operator(op_name, [_source(kernel, emit)], [_result(kernel, emit)], options, version)

    return convert


def _value_at(kernel: ExportKernel, emit: LitertEmission, point: float) -> float:
    """The value of a kernel's function at a point."""
    block = kernel.region.body.block
    returned = block.last_op
    assert returned is not None
    points = np.array([point], np.float32)
    return float(evaluate_chain(returned.operands[0], block.args[0], points, emit.weights)[0])


def leaky_relu(kernel: ExportKernel, emit: LitertEmission) -> None:
    """LEAKY_RELU. Its slope is minus the function's value at -1."""
    options = ("LeakyReluOptions", {"alpha": -_value_at(kernel, emit, -1.0)})
    emit.operator("LEAKY_RELU", [_source(kernel, emit)], [_result(kernel, emit)], options, 2)


def gelu(kernel: ExportKernel, emit: LitertEmission) -> None:
    """GELU, exact or approximated by tanh."""
    options = ("GeluOptions", {"approximate": is_tanh_gelu(_value_at(kernel, emit, 2.0))})
    emit.operator("GELU", [_source(kernel, emit)], [_result(kernel, emit)], options, 2)


def softmax(op_name: str, options: OperatorOptions) -> LitertConverter:
    """SOFTMAX or LOG_SOFTMAX over the last dimension. For another dimension, TRANSPOSE before and after it."""

    def convert(kernel: ExportKernel, emit: LitertEmission) -> None:
        op = kernel.first(ReduceOp)
        shape, over = shape_of(op.inputs[0]), array_values(op.dimensions)
        if len(over) != 1:
            raise ExportError(f"found a softmax over {len(over)} dimensions, expected one", kernel.region)
        source, result = _source(kernel, emit), _result(kernel, emit)
        order = [*(d for d in range(len(shape)) if d not in over), *over]
        if order == sorted(order):
            emit.operator(op_name, [source], [result], options, 2)
            return
        source = emit.transposed(source, order, kernel.specs[0])
        made = emit.temporary(emit.name(kernel.region.outputs[0]), [shape[d] for d in order], kernel.output_spec)
        emit.operator(op_name, [source], [made], options, 2)
        back = emit.integers([order.index(d) for d in range(len(shape))], "permutation")
        emit.operator("TRANSPOSE", [made, back], [result], ("TransposeOptions", {}), 4)

    return convert


def binary(op_name: str, table: str | None, version: int, *, fuses: bool = True) -> LitertConverter:
    """The converter for a sum, product, maximum or minimum of two tensors, with a fused activation function."""

    def convert(kernel: ExportKernel, emit: LitertEmission) -> None:
        op = kernel.first(BinaryOp)
        inputs = [_side(kernel, emit, value) for value in op.operands]
        fields = {"fusedActivationFunction": activation(kernel)} if fuses else {}
        options = None if table is None else (table, fields)
        emit.operator(op_name, inputs, [_result(kernel, emit)], options, version)

    return convert


def add(op_name: str, table: str) -> LitertConverter:
    """The converter for a sum or difference. If LiteRT rejects the scales: DEQUANTIZE, the op in float, QUANTIZE."""

    def convert(kernel: ExportKernel, emit: LitertEmission) -> None:
        op, fields = kernel.first(BinaryOp), {"fusedActivationFunction": activation(kernel)}
        kinds = [*(_side_type(kernel, value) for value in op.operands), kernel.output_spec]
        found = [kind.affine for kind in kinds if isinstance(kind, UniformQuantizedType)]
        if len(found) == len(kinds) and not litert_adds(found[:-1], found[-1]):
            _in_float(kernel, emit, op_name, (table, fields))
            return
        # Else a kernel of 16 bits whose scales are powers of two shifts, and refuses operands that both need a shift.
        options = (table, {**fields, "potScaleInt16": False})
        emit.operator(
            op_name, [_side(kernel, emit, value) for value in op.operands], [_result(kernel, emit)], options, 2
        )

    return convert


def divide(kernel: ExportKernel, emit: LitertEmission) -> None:
    """DIV of stored integers. If LiteRT rejects the scales: DEQUANTIZE, DIV in float, QUANTIZE."""
    op = kernel.first(DivideOp)
    options = ("DivOptions", {"fusedActivationFunction": activation(kernel)})
    kinds = [*(_side_type(kernel, value) for value in op.operands), kernel.output_spec]
    if divides(*(kind.affine for kind in kinds if isinstance(kind, UniformQuantizedType))):
        emit.operator("DIV", [_side(kernel, emit, value) for value in op.operands], [_result(kernel, emit)], options, 2)
    else:
        _in_float(kernel, emit, "DIV", options)


def squared_difference(kernel: ExportKernel, emit: LitertEmission) -> None:
    """SQUARED_DIFFERENCE of stored integers."""
    sides = list[int]()
    for value in kernel.first(SubtractOp).operands:
        op = value.owner
        if isinstance(op, BroadcastInDimOp) and op.operand in kernel.region.body.block.args:
            port = kernel.port(op.operand)
            sides.append(emit.reshaped(_source(kernel, emit, port), op.aligned_shape, kernel.specs[port]))
        else:
            sides.append(_side(kernel, emit, value))
    emit.operator("SQUARED_DIFFERENCE", sides, [_result(kernel, emit)], ("SquaredDifferenceOptions", {}), 2)


def _in_float(kernel: ExportKernel, emit: LitertEmission, op_name: str, options: OperatorOptions) -> None:
    inputs = [_side(kernel, emit, value) for value in kernel.first(BinaryOp).operands]
    reals = [emit.dequantized(tensor) for tensor in inputs]
    made = emit.temporary(emit.name(kernel.region.outputs[0]), kernel.output_shape, f32)
    emit.operator(op_name, reals, [made], options)
    emit.operator("QUANTIZE", [made], [_result(kernel, emit)])


def _side_type(kernel: ExportKernel, value: SSAValue) -> Attribute:
    """The type in which `_side` reads an operand."""
    arguments, owner = kernel.region.body.block.args, value.owner
    source = owner.operands[0] if isinstance(owner, BroadcastInDimOp) else value
    return kernel.specs[kernel.port(source)] if source in arguments else kernel.output_spec


def _side(kernel: ExportKernel, emit: LitertEmission, value: SSAValue) -> int:
    """An operand of an elementwise op: a constant, or a port without its broadcast, because the operator broadcasts."""
    block, owner = kernel.region.body.block, value.owner
    if isinstance(owner, Operation) and owner.parent is block:
        array = kernel.array(value)
        if array is not None:
            port = next((kernel.port(operand) for operand in owner.operands if operand in block.args), None)
            kind = kernel.output_spec if port is None else kernel.specs[port]
            held = value if port is None else kernel.region.inputs[port]
            return emit.held(held, array, kind, kernel.region.outputs[0])
    return _source(kernel, emit, kernel.port(value))


def reshape(kernel: ExportKernel, emit: LitertEmission) -> None:
    """RESHAPE; no operator if the shape stays."""
    shape = shape_of(kernel.region.outputs[0])
    if shape == kernel.input_shape and kernel.specs[0] == kernel.output_spec:
        emit.alias(kernel.region.outputs[0], kernel.output_spec, _source(kernel, emit))
        return
    inputs = [_source(kernel, emit), emit.integers(shape)]
    emit.operator("RESHAPE", inputs, [_result(kernel, emit)], ("ReshapeOptions", {"newShape": list(shape)}))


def transpose(kernel: ExportKernel, emit: LitertEmission) -> None:
    """TRANSPOSE."""
    order = array_values(kernel.first(TransposeOp).permutation)
    inputs = [_source(kernel, emit), emit.integers(order, "permutation")]
    emit.operator("TRANSPOSE", inputs, [_result(kernel, emit)], ("TransposeOptions", {}), 4)


def concatenate(kernel: ExportKernel, emit: LitertEmission) -> None:
    """CONCATENATION."""
    op = kernel.first(ConcatenateOp)
    inputs = [_source(kernel, emit, kernel.port(value)) for value in op.inputs]
    fields = {"axis": op.dimension.value.data, "fusedActivationFunction": 0}
    emit.operator("CONCATENATION", inputs, [_result(kernel, emit)], ("ConcatenationOptions", fields), 2)


def slice_(kernel: ExportKernel, emit: LitertEmission) -> None:
    """STRIDED_SLICE."""
    op, spec = kernel.first(SliceOp), kernel.output_spec
    indexing.strided_slice(op, _source(kernel, emit), kernel.region.outputs[0], spec, emit)


def reverse(kernel: ExportKernel, emit: LitertEmission) -> None:
    """REVERSE_V2."""
    op, spec = kernel.first(ReverseOp), kernel.output_spec
    indexing.reverse(op, _source(kernel, emit), _result(kernel, emit), spec, emit)


def gather(kernel: ExportKernel, emit: LitertEmission) -> None:
    """GATHER. The indices are not quantized."""
    op = kernel.first(GatherOp)
    source = _source(kernel, emit, kernel.port(op.operand))
    indices = _source(kernel, emit, kernel.port(op.start_indices))
    indexing.gather(op, source, indices, _result(kernel, emit), emit, kernel.array(op.start_indices))


def select(kernel: ExportKernel, emit: LitertEmission) -> None:
    """SELECT_V2 of stored integers. The condition is not quantized."""
    op = kernel.first(SelectOp)
    inputs = [_side(kernel, emit, value) for value in op.operands]
    emit.operator("SELECT_V2", inputs, [_result(kernel, emit)], ("SelectV2Options", {}))


def prelu(kernel: ExportKernel, emit: LitertEmission) -> None:
    """PRELU. The operator broadcasts the slopes."""
    value = kernel.region.body.block.args[0]
    (slope,) = (operand for operand in kernel.first(MultiplyOp).operands if operand is not value)
    emit.operator("PRELU", [_source(kernel, emit), _side(kernel, emit, slope)], [_result(kernel, emit)])


def rescale(kernel: ExportKernel, emit: LitertEmission) -> None:
    """QUANTIZE from one type to another; no operator if they are one, because reading the operand rounds it."""
    if kernel.specs[0] == kernel.output_spec:
        emit.alias(kernel.region.outputs[0], kernel.output_spec, _source(kernel, emit))
        return
    source = _source(kernel, emit)
    # Named as a cast of an operand is, which it is after an import.
    result = emit.declare(kernel.region.outputs[0], kernel.output_spec, emit.builder.tensors[source].name.decode())
    emit.operator("QUANTIZE", [source], [result], ("QuantizeOptions", {}), 2)


KERNELS: Mapping[str, LitertConverter] = {
    "abs": function("ABS", ("AbsOptions", {}), 3),
    "add": add("ADD", "AddOptions"),
    "arg_max": position("ARG_MAX", "ArgMaxOptions"),
    "arg_min": position("ARG_MIN", "ArgMinOptions"),
    "average_pool": pool("AVERAGE_POOL_2D"),
    "broadcast": broadcast,
    "concatenate": concatenate,
    "divide": divide,
    "elu": function("ELU"),
    "exp": function("EXP", ("ExpOptions", {}), 2),
    "gather": gather,
    "gelu": gelu,
    "hard_swish": function("HARD_SWISH", ("HardSwishOptions", {})),
    "leaky_relu": leaky_relu,
    "linear_resize": linear_resize,
    "log": function("LOG", None, 2),
    "log_softmax": softmax("LOG_SOFTMAX", ("LogSoftmaxOptions", {})),
    "logistic": function("LOGISTIC", None, 2),
    "max_pool": pool("MAX_POOL_2D"),
    "maximum": binary("MAXIMUM", "MaximumMinimumOptions", 2, fuses=False),
    "mean": reduction("MEAN", 2),
    "minimum": binary("MINIMUM", "MaximumMinimumOptions", 2, fuses=False),
    "multiply": binary("MUL", "MulOptions", 2),
    "pad": pad,
    "prelu": prelu,
    "reduce_max": reduction("REDUCE_MAX", 2),
    "reduce_min": reduction("REDUCE_MIN", 2),
    "relu": function("RELU", None, 2),
    "relu6": function("RELU6", None, 2),
    "relu_0_to_1": function("RELU_0_TO_1"),
    "relu_n1_to_1": function("RELU_N1_TO_1"),
    "rescale": rescale,
    "reshape": reshape,
    "rsqrt": function("RSQRT", None, 2),
    "select": select,
    "reverse": reverse,
    "slice": slice_,
    "softmax": softmax("SOFTMAX", ("SoftmaxOptions", {"beta": 1.0})),
    "sqrt": function("SQRT"),
    "squared_difference": squared_difference,
    "subtract": add("SUB", "SubOptions"),
    "sum": sum_,
    "tanh": function("TANH", None, 2),
    "transpose": transpose,
}
"""The converter of each logical kernel."""
