"""`quant.scast` between quantized values and their storage integers as `stablehlo.bitcast_convert`."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.stablehlo import BitcastConvertOp
from zeropoint.ir.tensors import element_of
from zeropoint.quant_passes.reference_forms.rewriting import Rewrite, quantized


def write_storage_cast(rewrite: Rewrite, op: StorageCastOp) -> None:
    """Write a storage cast as a bit cast."""
    if _is_storage(op.operands[0], op.results[0]) or _is_storage(op.results[0], op.operands[0]):
        rewrite.replace(rewrite.add(BitcastConvertOp(op.operands[0], op.results[0].type)))


def read_storage_cast(rewrite: Rewrite, op: BitcastConvertOp) -> None:
    """Make a storage cast of a bit cast between quantized values and their storage integers."""
    if _is_storage(op.operand, op.result) or _is_storage(op.result, op.operand):
        rewrite.replace(rewrite.add(StorageCastOp(op.operand, op.result.type)))


def _is_storage(value: SSAValue, stored: SSAValue) -> bool:
    """Whether the second value has the storage type of the first."""
    kind = quantized(value)
    return kind is not None and isinstance(found := element_of(stored), IntegerType) and found == kind.storage.mlir_type
