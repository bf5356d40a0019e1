"""Export a program whose regions have types as text of the TOSA dialect.

Source: TOSA 1.0; the RFC on quantization transformations, section "Export": every region becomes the operators that it
represents, and its ports have the parameters assigned by propagation.
"""

from __future__ import annotations

from zeropoint.expand import expand_functions
from zeropoint.export.errors import ExportError
from zeropoint.export.exact_contractions import contract_in_float
from zeropoint.export.kernel_rules import KernelRules
from zeropoint.export.kernels import ExportKernel, read_storage
from zeropoint.export.layout import image_layout
from zeropoint.export.port_orders import port_orders
from zeropoint.export.ports import stated_parameters
from zeropoint.export.tosa import contractions, rows
from zeropoint.export.tosa.builder import FunctionBuilder
from zeropoint.export.tosa.emission import TosaEmission, unsigned_text
from zeropoint.export.tosa.floats import OPERATORS
from zeropoint.ir.annotations import TARGET
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import element_of
from zeropoint.numerics.profile import profile as named_profile
from zeropoint.progress import Progress, silent

PROFILE = "tosa-double"
KERNELS = KernelRules(
    "TOSA",
    "TOSA",
    {**contractions.KERNELS, **rows.KERNELS},
    in_float_too={*contractions.KERNELS, "average_pool", "max_pool"},
    float_rules=OPERATORS,
    stands_for=TosaEmission.stands_for,
)


def tosa_text(
    program: Program, *, integer_io: bool = False, channels_last: bool = True, progress: Progress = silent
) -> str:
    """The text of a module with one function, @main.

    With `integer_io`, inputs and outputs are storage integers. With `channels_last`, images at inputs and outputs may
    be [batch, height, width, channels]. Raises ExportError for a program of another profile, and for an op that TOSA
    has no operator for.
    """
    if program.profile != PROFILE:
        raise ExportError(f"found profile '{program.profile}', expected '{PROFILE}', whose arithmetic TOSA has")
    program = expand_functions(image_layout(contract_in_float(program), ports=channels_last, by_heads=False), OPERATORS)
    emit = TosaEmission(FunctionBuilder(), program.weights, named_profile(PROFILE))
    stored: dict[str, object] = {}
    for port, argument in zip(program.inputs, program.entry.args, strict=True):
        kind = read_storage(argument) if integer_io else element_of(argument)
        stored.update(stated_parameters(port.name, kind))
        emit.argument(port.name, argument, kind)
    for op in progress(list(program.entry.ops)[:-1], "export"):
        emit.at(op)
        if isinstance(op, QuantizeRegionOp):
            KERNELS.emit(ExportKernel(op, program.weights), emit)
        elif not isinstance(op, ConstantOp):
            KERNELS.float_op(op, emit)
    terminator = program.entry.last_op
    assert terminator is not None
    emit.f.location = None
    for port, value in zip(program.outputs, terminator.operands, strict=True):
        kind = emit.made.get(value, element_of(value)) if integer_io else element_of(value)
        stored.update(stated_parameters(port.name, kind))
        emit.result(port.name, value, kind)
    target = program.module.attributes.get(TARGET)
    ports, values = (*program.inputs, *program.outputs), (*program.entry.args, *terminator.operands)
    kinds = zip(ports, map(element_of, values), strict=True)
    unsigned = [port.name for port, kind in kinds if unsigned_text(kind) is not None]
    header = {
        "target": getattr(target, "data", None),
        "profile": PROFILE,
        "inputs": [port.name for port in program.inputs],
        "outputs": [port.name for port in program.outputs],
        "orders": port_orders(program),
        "quantization": stored,
        "unsigned": unsigned,
    }
    return emit.f.text(header)
