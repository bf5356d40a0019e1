"""Casts between stored integers and quantized values at the inputs and outputs of a .tflite file."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from zeropoint.export.litert.builder import TYPES
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.missing import missing_in_float
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.litert_schema import schema


def cast_storage(argument: SSAValue) -> UniformQuantizedType | None:
    """The one quantized type that casts give the integers of an input (`simplify/cast_ports.py`); None without one."""
    kinds: set[UniformQuantizedType] = set()
    for use in argument.uses:
        op = use.operation
        casts = [inner.operation for inner in op.result.uses] if isinstance(op, hlo.BitcastConvertOp) else [op]
        for cast in casts:
            kind = element_of(cast.result) if isinstance(cast, StorageCastOp) else None
            if not isinstance(kind, UniformQuantizedType) or kind.storage.dtype != element_dtype(element_of(argument)):
                return None
            kinds.add(kind)
    return kinds.pop() if len(kinds) == 1 else None


def port_cast(op: StorageCastOp | hlo.BitcastConvertOp, emit: LitertEmission) -> None:
    """No operator, between stored integers and a quantized value: a tensor has its integers and their parameters.

    An input whose integers are read in several ways has no parameters (`_quantized`). Raises ExportError for a bit cast
    elsewhere, and for a result of the other sign.
    """
    given, result = op.operands[0], op.results[0]
    held, kind = emit.made.get(given), element_of(result)
    if held is None:
        raise missing_in_float(op, "LiteRT")
    index = emit.tensors[given, held]
    tensor = emit.builder.tensors[index]
    named = getattr(schema().TensorType, TYPES[element_dtype(kind).name])
    if tensor.quantization is None and isinstance(op, StorageCastOp) and isinstance(kind, UniformQuantizedType):
        if tensor.type != named:
            raise missing_in_float(op, "LiteRT")
        _quantized(index, result, kind, emit)
        return
    returned = any(isinstance(use.operation, ReturnOp) for use in result.uses)
    cast_next = all(isinstance(use.operation, StorageCastOp) for use in result.uses)
    if (tensor.quantization is None and not cast_next) or (returned and tensor.type != named):
        raise missing_in_float(op, "LiteRT")
    emit.alias(result, kind, index)


def _quantized(stored: int, result: SSAValue, kind: UniformQuantizedType, emit: LitertEmission) -> None:
    """CAST, SUB, MUL and QUANTIZE: integers of a tensor without parameters as those of a quantized value.

    The integers stay as they are, because f32 has all numbers of 16 bits.
    """
    name, shape = emit.name(result), shape_of(result)
    number = emit.temporary(name, shape, f32)
    emit.operator("CAST", [stored], [number], ("CastOptions", {}))
    for operator, options, other in (("SUB", "SubOptions", kind.zero_point), ("MUL", "MulOptions", kind.scale)):
        made = emit.temporary(name, shape, f32)
        emit.operator(operator, [number, emit.builder.part("cast", np.array(other, np.float32))], [made], (options, {}))
        number = made
    emit.operator("QUANTIZE", [number], [emit.declare(result, kind)])
