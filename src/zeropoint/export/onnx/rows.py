"""Reductions, unary functions, elementwise ops and data movement as ONNX operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.onnx.constant_operands import in_columns, joined_operand
from zeropoint.export.onnx.contractions import batch_matmul
from zeropoint.export.onnx.emission import CLIP, OnnxEmission, Tensor
from zeropoint.export.onnx.graph import STORED, element_type
from zeropoint.export.onnx.indexing import backwards, gathered
from zeropoint.export.onnx.kernel_bounds import clamped
from zeropoint.export.onnx.pools import average_pool, max_pool
from zeropoint.export.onnx.qoperators import check_mean
from zeropoint.export.onnx.reductions import rows
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.named_functions import hard_sigmoid_line
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ConcatenateOp,
    DivideOp,
    GatherOp,
    MultiplyOp,
    PadOp,
    ReduceOp,
    ReverseOp,
    SelectOp,
    SliceOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics.onnxruntime import line_operands

OnnxConverter = Callable[[ExportKernel, OnnxEmission], None]
AXES_OPSET = 18
"""The first opset in which ReduceMax and ReduceMin take axes as an input."""
HARD_SWISH_OPSET = 14


def _source(kernel: ExportKernel, emit: OnnxEmission, port: int = 0) -> Tensor:
    return emit.operand(kernel.region.inputs[port], kernel.specs[port])


def _name(kernel: ExportKernel, emit: OnnxEmission) -> str:
    return emit.name(kernel.region.outputs[0])


def _put(kernel: ExportKernel, emit: OnnxEmission, tensor: Tensor) -> None:
    emit.put(kernel.region.outputs[0], tensor)


def function(op_name: str) -> OnnxConverter:
    """The converter for a unary function that has its own operator."""

    def convert(kernel: ExportKernel, emit: OnnxEmission) -> None:
        made = emit.apply(
            op_name, [_source(kernel, emit)], kernel.output_spec, kernel.output_shape, _name(kernel, emit)
        )
        _put(kernel, emit, made)

    return convert


def leaky_relu(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """LeakyRelu. Its slope is minus the function's value at -1."""
    block = kernel.region.body.block
    assert block.last_op is not None
    at = evaluate_chain(block.last_op.operands[0], block.args[0], np.array([-1.0], np.float32), emit.weights)
    attributes = {"alpha": -float(at[0])}
    name = _name(kernel, emit)
    made = emit.apply("LeakyRelu", [_source(kernel, emit)], kernel.output_spec, kernel.output_shape, name, attributes)
    _put(kernel, emit, made)


def hard_sigmoid(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """HardSigmoid, clamp(slope * x + offset), as an Add, because no runtime has an integer kernel for it.

    The integers are read with the scale slope * s_x and added to the offset. The storage of the result clamps the sum.
    """
    block, source, name = kernel.region.body.block, _source(kernel, emit), _name(kernel, emit)
    kind, returned = source.quantized, block.last_op
    assert kind is not None
    assert returned is not None
    slope, offset = hard_sigmoid_line(
        lambda points: evaluate_chain(returned.operands[0], block.args[0], points, emit.weights)
    )
    read, one = (
        UniformQuantizedType.per_layer(
            kind.storage, float(each.scale), int(each.zero_point), expressed_type=kind.expressed_type
        )
        for each in line_operands(kind.affine, slope, offset)
    )
    # With slope 1, the importer reads the sum of a constant, which is exported in the rank of the result.
    array = np.full([1] * len(source.shape), one.scale, np.float32)
    constant = emit.constant(array, one, f"{name}/offset")
    operands = [replace(source, kind=read), constant]
    made = emit.apply("Add", operands, kernel.output_spec, kernel.output_shape, name)
    _put(kernel, emit, clamped(kernel, made, emit, f"{name}{CLIP}"))


def hard_swish(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """HardSwish, of the float result of a convolution if the runtime computes both in one kernel."""
    emit.builder.needs(HARD_SWISH_OPSET)
    value, name = kernel.region.inputs[0], _name(kernel, emit)
    source = emit.operand(value, element_of(value)) if emit.is_real(value) else _source(kernel, emit)
    _put(kernel, emit, emit.apply("HardSwish", [source], kernel.output_spec, kernel.output_shape, name))


def softmax(node: str) -> OnnxConverter:
    """Softmax or LogSoftmax over one dimension. Several dimensions are one between transposes and reshapes."""

    def convert(kernel: ExportKernel, emit: OnnxEmission) -> None:
        axes, shape, name = array_values(kernel.first(ReduceOp).dimensions), kernel.output_shape, _name(kernel, emit)
        source = _source(kernel, emit)
        if len(axes) == 1:
            _put(kernel, emit, emit.apply(node, [source], kernel.output_spec, shape, name, {"axis": axes[0]}))
            return
        order = [*(axis for axis in range(len(shape)) if axis not in axes), *axes]
        moved = emit.transposed(source, order, name)
        flat = (*moved.shape[: -len(axes)], prod(moved.shape[-len(axes) :]))
        made = emit.apply(
            node, [emit.reshaped(moved, flat, name)], kernel.output_spec, flat, name, {"axis": len(flat) - 1}
        )
        made = emit.reshaped(made, moved.shape, name)
        _put(kernel, emit, emit.transposed(made, [order.index(axis) for axis in range(len(order))], name))

    return convert


def _divisors(kernel: ExportKernel, emit: OnnxEmission) -> Array | None:
    """The divisors of the body's sums; None if there is no division."""
    division = next((op for op in kernel.ops if isinstance(op, DivideOp | MultiplyOp)), None)
    if division is None:
        return None
    numbers = emit.array(division.operands[1])
    if numbers is None:
        raise ExportError("found a computed divisor, expected a constant", kernel.region)
    return numbers.astype(np.float64) if isinstance(division, DivideOp) else 1 / numbers.astype(np.float64)


def mean(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """GlobalAveragePool, for which runtimes have integer kernels. Reduced dimensions are moved to the end first."""
    op, name = kernel.first(ReduceOp), _name(kernel, emit)
    shape, summed = shape_of(op.inputs[0]), array_values(op.dimensions)
    terms = prod(shape[axis] for axis in summed)
    counts = _divisors(kernel, emit)
    if counts is None or not np.allclose(counts, terms, rtol=1e-6):
        raise ExportError(f"found a sum with another divisor, expected the number of its terms, {terms}", kernel.region)
    source = _source(kernel, emit)
    # OpenVINO 2026.4.1 computes means along one dimension wrong if there are more batches than channels.
    least = 4 if emit.for_openvino and shape[0] != 1 else 3
    image = (*summed,) == tuple(range(2, len(shape))) and len(shape) >= least
    if not image:
        source = rows(emit, source, summed, name)
    means = (*source.shape[:2], *(1 for _ in source.shape[2:]))
    if not emit.for_openvino:
        check_mean(kernel.region, source.kind, kernel.output_spec, terms)
    made = emit.apply("GlobalAveragePool", [source], kernel.output_spec, means, name)
    _put(kernel, emit, emit.reshaped(made, kernel.output_shape, name))


def extreme(op_name: str) -> OnnxConverter:
    """ReduceMax or ReduceMin."""

    def convert(kernel: ExportKernel, emit: OnnxEmission) -> None:
        op, name = kernel.first(ReduceOp), _name(kernel, emit)
        emit.builder.needs(AXES_OPSET)
        axes = emit.integers(array_values(op.dimensions), "axes")
        shape = shape_of(op.results[0])
        source = _source(kernel, emit)
        made = emit.apply(op_name, [source], kernel.output_spec, shape, name, {"keepdims": 0}, [axes])
        _put(kernel, emit, emit.reshaped(made, kernel.output_shape, name))

    return convert


def position(op_name: str) -> OnnxConverter:
    """ArgMax or ArgMin of the integers: the first position of the maximum or minimum along one dimension."""

    def convert(kernel: ExportKernel, emit: OnnxEmission) -> None:
        name, result = _name(kernel, emit), kernel.region.outputs[0]
        (axis,) = array_values(kernel.first(ReduceOp).dimensions)
        made = emit.direct(op_name, [_source(kernel, emit)], i64, shape_of(result), name, {"axis": axis, "keepdims": 0})
        if element_of(result) != i64:
            to = {"to": int(element_type(element_dtype(element_of(result))))}
            made = emit.direct("Cast", [made], element_of(result), made.shape, f"{name}/cast", to)
        _put(kernel, emit, made)

    return convert


def binary(op_name: str) -> OnnxConverter:
    """The converter for a sum or product of two tensors, with ONNX's broadcasting, followed by a clamp."""

    def convert(kernel: ExportKernel, emit: OnnxEmission) -> None:
        op = kernel.first(BinaryOp)
        name = emit.name(op.results[0])
        inputs = [side(kernel, emit, value) for value in op.operands]
        if np.broadcast_shapes(*(tensor.shape for tensor in inputs)) != kernel.output_shape:
            inputs[0] = emit.repeated(inputs[0], kernel.output_shape, name)
        made = emit.apply(op_name, inputs, kernel.output_spec, kernel.output_shape, name)
        _put(kernel, emit, clamped(kernel, made, emit, f"{name}{CLIP}"))

    return convert


def side(kernel: ExportKernel, emit: OnnxEmission, value: SSAValue) -> Tensor:
    """An operand of an elementwise op: a port, or the operand of a broadcast, reshaped to the rank of the result."""
    arguments = kernel.region.body.block.args
    op = value.owner
    if isinstance(op, BroadcastInDimOp) and op.operand in arguments:
        port, shape = kernel.port(op.operand), op.aligned_shape
        array = emit.array(kernel.region.inputs[port])
        if array is not None:
            spread = in_columns(kernel, emit, array.reshape(shape))
            return emit.constant(spread, kernel.specs[port], emit.name(kernel.region.inputs[port]))
        return emit.reshaped(_source(kernel, emit, port), shape, _name(kernel, emit))
    if value in arguments:
        port = kernel.port(value)
        loose = emit.loose.get(kernel.region.inputs[port])
        if loose is not None and loose.kind == kernel.specs[port]:
            return loose
        return _source(kernel, emit, port)
    array = emit.array(value)
    if array is None:
        raise ExportError("found an operand that the body computes, expected one of its ports", kernel.region)
    return emit.constant(array, kernel.output_spec, emit.name(value))


def select(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Where."""
    op, name = kernel.first(SelectOp), _name(kernel, emit)
    inputs = [side(kernel, emit, value) for value in (op.pred, op.on_true, op.on_false)]
    if np.broadcast_shapes(*(tensor.shape for tensor in inputs)) != kernel.output_shape:
        inputs[1] = emit.repeated(inputs[1], kernel.output_shape, name)
    _put(kernel, emit, emit.apply("Where", inputs, kernel.output_spec, kernel.output_shape, name))


def reshape(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Reshape."""
    made = emit.apply(
        "Reshape",
        [_source(kernel, emit)],
        kernel.output_spec,
        kernel.output_shape,
        _name(kernel, emit),
        extra=[emit.integers(kernel.output_shape)],
    )
    _put(kernel, emit, made)


def transpose(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Transpose."""
    order = array_values(kernel.first(TransposeOp).permutation)
    name = _name(kernel, emit)
    made = emit.apply(
        "Transpose", [_source(kernel, emit)], kernel.output_spec, kernel.output_shape, name, {"perm": order}
    )
    _put(kernel, emit, made)


def concatenate(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Concat."""
    op, name = kernel.first(ConcatenateOp), _name(kernel, emit)
    kind, axis = kernel.output_spec, op.dimension.value.data
    parts = [emit.part(joined_operand(kernel, emit, kernel.port(value)), kind) for value in op.inputs]
    _put(kernel, emit, emit.joined(parts, kind, kernel.output_shape, name, axis))


def slice_(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Slice."""
    op, name = kernel.first(SliceOp), _name(kernel, emit)
    arrays = [array_values(array) for array in (op.start_indices, op.limit_indices, op.strides)]
    axes = range(len(arrays[0]))
    extra = [emit.integers(values, "slice") for values in (arrays[0], arrays[1], axes, arrays[2])]
    source = _source(kernel, emit)
    _put(kernel, emit, emit.apply("Slice", [source], kernel.output_spec, kernel.output_shape, name, extra=extra))


def reverse(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Slice with steps of -1."""
    extra, source = backwards(kernel.first(ReverseOp), emit), _source(kernel, emit)
    made = emit.apply("Slice", [source], kernel.output_spec, kernel.output_shape, _name(kernel, emit), extra=extra)
    _put(kernel, emit, made)


def broadcast(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Reshape to the rank of the result. An Expand follows only if an op needs it."""
    source = emit.cast(_source(kernel, emit), kernel.output_spec, _name(kernel, emit))
    shape = kernel.first(BroadcastInDimOp).aligned_shape
    emit.loose[kernel.region.outputs[0]] = emit.reshaped(source, shape, _name(kernel, emit))


def pad(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Pad of the integers, with the quantized padding value."""
    op, name = kernel.first(PadOp), _name(kernel, emit)
    low, high, inside = (array_values(a) for a in (op.edge_padding_low, op.edge_padding_high, op.interior_padding))
    number = emit.array(op.padding_value)
    kind = kernel.output_spec
    if any(inside) or number is None or not isinstance(kind, UniformQuantizedType):
        raise ExportError("found interior padding or a computed value, expected edges and a constant", kernel.region)
    filled = emit.constant(number, kind, "padding_value")
    extra = [emit.integers([*low, *high], "pads"), filled.name]
    source = _source(kernel, emit)
    if source.kind != kind:
        source = emit.cast(source, kind, name)
    _put(kernel, emit, emit.direct("Pad", [source], kind, kernel.output_shape, name, extra=extra))


def gather(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """Gather of clamped indices."""
    op, name = kernel.first(GatherOp), _name(kernel, emit)
    source, indices = (_source(kernel, emit, kernel.port(value)) for value in (op.operand, op.start_indices))
    _put(kernel, emit, gathered(op, source, indices, kernel.output_spec, emit, name))


def rescale(kernel: ExportKernel, emit: OnnxEmission) -> None:
    """DequantizeLinear, then QuantizeLinear.

    For OpenVINO, the name is that of the cast of an operand (`part`), which is such a kernel after an import.
    """

    def cast() -> Tensor:
        source = _source(kernel, emit)
        stem = source.name.removesuffix(STORED)
        name = emit.builder.result(stem) if emit.for_openvino else _name(kernel, emit)
        return emit.cast(source, kernel.output_spec, name)

    emit.put_cast(kernel.region.outputs[0], cast)


KERNELS: Mapping[str, OnnxConverter] = {
    "add": binary("Add"),
    "arg_max": position("ArgMax"),
    "arg_min": position("ArgMin"),
    "average_pool": average_pool,
    "batch_matmul": batch_matmul,
    "broadcast": broadcast,
    "concatenate": concatenate,
    "divide": binary("Div"),
    "gather": gather,
    "hard_sigmoid": hard_sigmoid,
    "elu": function("Elu"),
    "hard_swish": hard_swish,
    "leaky_relu": leaky_relu,
    "log_softmax": softmax("LogSoftmax"),
    "logistic": function("Sigmoid"),
    "max_pool": max_pool,
    "mean": mean,
    "multiply": binary("Mul"),
    "pad": pad,
    "reduce_max": extreme("ReduceMax"),
    "reduce_min": extreme("ReduceMin"),
    "rescale": rescale,
    "reshape": reshape,
    "select": select,
    "reverse": reverse,
    "slice": slice_,
    "softmax": softmax("Softmax"),
    "subtract": binary("Sub"),
    "tanh": function("Tanh"),
    "transpose": transpose,
}
"""The converter of each logical kernel."""
