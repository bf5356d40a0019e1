"""Constants that ops make: positions."""

from __future__ import annotations

import numpy as np

from zeropoint.export.onnx.emission import OnnxEmission
from zeropoint.ir.stablehlo import IotaOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of


def iota(op: IotaOp, emit: OnnxEmission) -> None:
    """A constant."""
    shape, axis = shape_of(op.results[0]), op.iota_dimension.value.data
    kind = element_of(op.results[0])
    counts = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    emit.put(op.results[0], emit.constant(np.broadcast_to(counts, shape).astype(element_dtype(kind)), kind, "iota"))
