"""Casts between stored integers and quantized values, which are one tensor in a file: of constants and at ports."""

from __future__ import annotations

from xdsl.ir import SSAValue, Use

from zeropoint.export.missing import missing_in_float
from zeropoint.export.onnx.emission import OnnxEmission, Tensor, file_dtype
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import BitcastConvertOp
from zeropoint.ir.tensors import element_dtype, element_of


def storage_cast(op: StorageCastOp, emit: OnnxEmission) -> None:
    """A constant, or no node: the tensor that has the integers.

    The program has signless integers, and a file those of the storage type: unsigned ones are behind a bit cast.
    """
    kind, before = element_of(op.result), element_of(op.input)
    if isinstance(before, UniformQuantizedType):
        if file_dtype(before) != element_dtype(kind) and not all(map(_is_bit_cast, op.result.uses)):
            raise missing_in_float(op, "ONNX")
        _pass_on(op.input, op.result, emit)
        return
    assert isinstance(kind, UniformQuantizedType)
    stored = emit.array(op.input)
    if stored is not None:
        # The name of the result would be reserved for a node.
        name = emit.builder.constant(emit.name(op.input), stored.astype(file_dtype(kind)))
        emit.put(op.result, Tensor(name, kind, stored.shape))
        return
    cast = op.input.owner
    given = cast.operand if isinstance(cast, BitcastConvertOp) else op.input
    if given not in emit.made or element_dtype(element_of(given)) != file_dtype(kind):
        raise missing_in_float(op, "ONNX")
    _pass_on(given, op.result, emit)


def bit_cast(op: BitcastConvertOp, emit: OnnxEmission) -> None:
    """No node, between a port and a cast of stored integers. Raises ExportError for other bit casts."""
    cast, kind = op.operand.owner, element_of(op.result)
    stored = element_of(cast.input) if isinstance(cast, StorageCastOp) else None
    if isinstance(stored, UniformQuantizedType) and file_dtype(stored) == element_dtype(kind):
        _pass_on(op.operand, op.result, emit)
    elif not all(isinstance(use.operation, StorageCastOp) for use in op.result.uses):
        raise missing_in_float(op, "ONNX")


def _is_bit_cast(use: Use) -> bool:
    return isinstance(use.operation, BitcastConvertOp)


def _pass_on(given: SSAValue, result: SSAValue, emit: OnnxEmission) -> None:
    """Record the tensor of a value as that of another one."""
    source = emit.tensors[given, emit.made[given]]
    emit.put(result, Tensor(source.name, element_of(result), source.shape))
