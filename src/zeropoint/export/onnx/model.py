"""Export a program whose regions have types as an ONNX model.

Source: the RFC on quantization transformations, section "Export" (targets with fixed kernels): every region becomes the
operator that it represents, and its ports have the parameters assigned by propagation.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import ModelProto
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from zeropoint.expand import expand_functions
from zeropoint.export.errors import ExportError
from zeropoint.export.kernel_rules import KernelRules
from zeropoint.export.kernels import ExportKernel, read_storage
from zeropoint.export.onnx import contractions, joined_functions, rows
from zeropoint.export.onnx.casts_by_channel import keep_floats
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.export.onnx.floats import OPERATORS, settled
from zeropoint.export.onnx.graph import GraphBuilder
from zeropoint.export.onnx.origins import OPENVINO
from zeropoint.export.onnx.weight_forms import chosen_form
from zeropoint.export.ports import stated_parameters
from zeropoint.ir.annotations import TARGET
from zeropoint.ir.program import Port, Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConstantOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.progress import Progress, silent


def _stands_for(emit: OnnxEmission, value: SSAValue, other: SSAValue) -> None:
    if isinstance(other.owner, BroadcastInDimOp) and emit.array(other) is None:
        settled(emit, other)
    emit.put(value, emit.operand(other, element_of(other)))


KERNELS = KernelRules(
    "ONNX",
    "onnxruntime",
    {
        **contractions.KERNELS,
        **rows.KERNELS,
        **joined_functions.KERNELS,
    },
    in_float_too={*contractions.KERNELS, "average_pool", "elu", "log_softmax", "max_pool", "mean", "softmax"},
    float_rules=OPERATORS,
    stands_for=_stands_for,
)


def _check_names(inputs: Iterable[tuple[Port, SSAValue]], outputs: Iterable[tuple[Port, SSAValue]]) -> None:
    """Raise ExportError for an output that has the name of an input but is another value."""
    named = {port.name: value for port, value in inputs}
    for port, value in outputs:
        if named.get(port.name, value) is not value:
            raise ExportError(
                f"found '{port.name}' as an input and as an output, expected names of their own, which ONNX needs; "
                f"rename one in the model"
            )


def onnx_model(
    program: Program,
    *,
    integer_io: bool = False,
    qoperators: bool = False,
    weight_form: str = "auto",
    progress: Progress = silent,
) -> ModelProto:
    """The model, as QDQ or with QOperators; `weight_form` is one of `WEIGHT_FORMS`.

    With `integer_io`, inputs and outputs are storage integers. Raises ExportError for an op that ONNX has no operator
    for.
    """
    program = expand_functions(KERNELS.flat(program), OPERATORS)
    target = getattr(program.module.attributes.get(TARGET), "data", None)
    emit = OnnxEmission(
        GraphBuilder(), program.weights, qoperators, chosen_form(weight_form, target), target in OPENVINO
    )
    ports = list(zip(program.inputs, program.entry.args, strict=True))
    terminator = program.entry.last_op
    assert isinstance(terminator, ReturnOp)
    _check_names(ports, zip(program.outputs, terminator.operands, strict=True))
    for output in program.outputs:
        emit.builder.promised.add(emit.builder.taken.keep(output.name))
    stored: dict[str, object] = {}
    for port, argument in ports:
        kind = read_storage(argument) if integer_io else element_of(argument)
        dtype = element_dtype(kind)
        emit.builder.input(port.name, shape_of(argument), dtype)
        stored.update(stated_parameters(port.name, kind))
        emit.put(argument, Tensor(port.name, kind, shape_of(argument)))
    for op in progress(list(program.entry.ops), "export"):
        emit.begin(op)
        if isinstance(op, QuantizeRegionOp):
            for value in op.inputs:
                if isinstance(value.owner, BroadcastInDimOp) and emit.array(value) is None:
                    settled(emit, value)
            KERNELS.emit(ExportKernel(op, program.weights), emit)
        elif not isinstance(op, ConstantOp | ReturnOp):
            KERNELS.float_op(op, emit)
    for port, value in zip(program.outputs, terminator.operands, strict=True):
        if isinstance(value.owner, BroadcastInDimOp):
            settled(emit, value)
        kind = emit.made[value] if integer_io and value in emit.made else element_of(value)
        tensor = emit.operand(value, kind)
        emit.builder.output(port.name, tensor.name, tensor.shape, element_dtype(kind))
        stored.update(stated_parameters(port.name, kind))
    keep_floats(emit)
    integers = {"quantization": stored} if stored else {}
    return emit.builder.finish("main", {"target": target, "profile": program.profile, **integers})
