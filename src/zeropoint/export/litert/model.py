"""Export a program whose regions have types as a .tflite model.

Source: the RFC on quantization transformations, section "Export" (targets with fixed kernels): every region becomes the
operator that it represents, and its ports have the parameters assigned by propagation.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.func import ReturnOp
from xdsl.ir import OpResult

from zeropoint.expand import expand_functions
from zeropoint.export.exact_contractions import contract_in_float
from zeropoint.export.kernel_rules import KernelRules
from zeropoint.export.kernels import ExportKernel, read_storage
from zeropoint.export.layout import image_layout
from zeropoint.export.litert import contractions, rows
from zeropoint.export.litert.builder import ModelBuilder
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.litert.floats import OPERATORS
from zeropoint.export.litert.port_casts import cast_storage
from zeropoint.export.port_orders import port_orders
from zeropoint.ir.annotations import TARGET
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import element_of
from zeropoint.progress import Progress, silent

KERNELS = KernelRules(
    "LiteRT",
    "LiteRT",
    {**contractions.KERNELS, **rows.KERNELS},
    in_float_too={
        *contractions.KERNELS,
        *("average_pool", "elu", "gelu", "hard_swish", "leaky_relu", "linear_resize", "log_softmax", "max_pool"),
        *("mean", "softmax"),
    },
    float_rules=OPERATORS,
    stands_for=LitertEmission.stands_for,
)


def litert_model(
    program: Program, *, integer_io: bool = False, channels_last: bool = True, progress: Progress = silent
) -> bytes:
    """The bytes of a .tflite file.

    With `integer_io`, inputs and outputs are storage integers. With `channels_last`, images at inputs and outputs may
    be [batch, height, width, channels]. Raises ExportError for an op that LiteRT has no operator for.
    """
    # LiteRT's convolutions and pools support only channels-last images.
    program = KERNELS.flat(image_layout(contract_in_float(program), ports=channels_last, by_heads=True))
    program = expand_functions(program, OPERATORS)
    emit = LitertEmission(ModelBuilder(), program.weights)
    inputs: dict[str, int] = {}
    for port, argument in zip(program.inputs, program.entry.args, strict=True):
        kind = cast_storage(argument) or (read_storage(argument) if integer_io else element_of(argument))
        inputs[port.name] = emit.declare(argument, kind, port.name)
    terminator = program.entry.last_op
    assert isinstance(terminator, ReturnOp)
    for port, value in zip(program.outputs, terminator.operands, strict=True):
        computed = isinstance(value, OpResult) and not isinstance(value.op, QuantizeRegionOp | ConstantOp)
        if computed and value not in emit.returned and port.name not in inputs:
            emit.returned[value] = port.name
    for op in progress(list(program.entry.ops), "export"):
        if isinstance(op, QuantizeRegionOp):
            KERNELS.emit(ExportKernel(op, program.weights), emit)
        elif not isinstance(op, ConstantOp | ReturnOp):
            KERNELS.float_op(op, emit)
    outputs: dict[str, int] = {}
    for port, value in zip(program.outputs, terminator.operands, strict=True):
        kind = emit.made.get(value, element_of(value)) if integer_io else element_of(value)
        outputs[port.name] = index = emit.operand(value, kind)
        # Users look outputs up by name. The value's own name may be that of an inner op.
        emit.builder.tensors[index].name = port.name.encode()
    return emit.builder.finish(inputs, outputs, "made by zeropoint", _metadata(program))


def _metadata(program: Program) -> Mapping[str, object]:
    """The target of the program and the permutations of its ports."""
    target = program.module.attributes.get(TARGET)
    return {"target": getattr(target, "data", None), "profile": program.profile, "orders": port_orders(program)}
