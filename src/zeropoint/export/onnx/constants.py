"""Constants that ops make: positions, and stored integers of a quantized type."""

from __future__ import annotations

import numpy as np

from zeropoint.export.missing import missing_in_float
from zeropoint.export.onnx.emission import OnnxEmission, Tensor, file_dtype
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import IotaOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of


def iota(op: IotaOp, emit: OnnxEmission) -> None:
    """A constant."""
    shape, axis = shape_of(op.results[0]), op.iota_dimension.value.data
    kind = element_of(op.results[0])
    counts = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    emit.put(op.results[0], emit.constant(np.broadcast_to(counts, shape).astype(element_dtype(kind)), kind, "iota"))


def stored_constant(op: StorageCastOp, emit: OnnxEmission) -> None:
    """A constant of a quantized type, as stored integers."""
    result = op.results[0]
    kind, stored = element_of(result), emit.array(op.operands[0])
    if stored is None or not isinstance(kind, UniformQuantizedType):
        raise missing_in_float(op, "ONNX")
    # The name of the result would be reserved for a node.
    name = emit.builder.constant(emit.name(op.operands[0]), stored.astype(file_dtype(kind)))
    emit.put(result, Tensor(name, kind, stored.shape))
