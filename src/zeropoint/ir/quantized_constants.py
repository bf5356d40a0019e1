"""Quantized constants, in every form in which programs write them.

```mlir
%0 = "stablehlo.constant"() {value = dense<[4, -2]> : tensor<2xi8>} : () -> tensor<2x!quant.uniform<i8:f32, 0.25>>
%1 = stablehlo.uniform_quantize %floats : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>  // or quant.qcast
%2 = quant.scast %integers : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32, 0.25>>  // or stablehlo.bitcast_convert
```
are the same quantized constant, if `%floats` and `%integers` are constants. Any of these values may be transposed,
reshaped, or broadcast from one number.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array, reinterpreted
from zeropoint.ir.quant import QuantizeCastOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import BitcastConvertOp, BroadcastInDimOp, ReshapeOp, TransposeOp, UniformQuantizeOp
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights

_QUANTIZE, _REINTERPRET = (QuantizeCastOp, UniformQuantizeOp), (BitcastConvertOp, StorageCastOp)
QuantizeArray = Callable[[Array, UniformQuantizedType], Array]
"""Quantizes the floats of a constant to storage integers."""


def quantized_constant(
    value: SSAValue, weights: Weights, quantize: QuantizeArray
) -> tuple[Array, UniformQuantizedType] | None:
    """The storage integers and the type of a quantized constant; None for other values."""
    element = element_of(value) if isinstance(value.type, TensorType) else None
    if not isinstance(element, UniformQuantizedType):
        return None

    def read(source: SSAValue) -> Array | None:
        found = quantized_constant(source, weights, quantize)
        return None if found is None else found[0]

    owner = value.owner
    stored = constant_array(value, weights)
    stored = _moved(value, read) if stored is None else stored
    if stored is None and isinstance(owner, (*_QUANTIZE, *_REINTERPRET)):
        stored = _made(owner, element, weights, quantize)
    return None if stored is None else (stored, element)


def _made(op: Operation, kind: UniformQuantizedType, weights: Weights, quantize: QuantizeArray) -> Array | None:
    """The storage integers that an op computes from a constant of floats or integers."""
    given, source = _array(op.operands[0], weights), element_of(op.operands[0])
    if given is None:
        return None
    if isinstance(op, _QUANTIZE):
        return quantize(given, kind) if isinstance(source, AnyFloat) else None
    is_same = isinstance(source, IntegerType) and source.bitwidth == kind.storage.type.width
    return reinterpreted(given, kind) if is_same and kind.storage.is_integer else None


def _array(value: SSAValue, weights: Weights) -> Array | None:
    """The array of a constant that is not quantized, also through ops of `_moved`; None for other values."""
    array = constant_array(value, weights)
    return _moved(value, lambda source: _array(source, weights)) if array is None else array


def _moved(value: SSAValue, read: Callable[[SSAValue], Array | None]) -> Array | None:
    """The array of a transposed or reshaped constant, or of a broadcast number; None for other values."""
    owner = value.owner
    if not isinstance(owner, BroadcastInDimOp | ReshapeOp | TransposeOp) or (array := read(owner.operand)) is None:
        return None
    if isinstance(owner, TransposeOp):
        return array.transpose(owner.permutation.get_values())
    if isinstance(owner, ReshapeOp):
        return array.reshape(shape_of(value))
    return np.broadcast_to(array.reshape(()), shape_of(value)) if array.size == 1 else None
