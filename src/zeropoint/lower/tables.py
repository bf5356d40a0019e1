"""Lower a function of one 8-bit value to a table of 256 entries.

```mlir
%1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.1>>) -> tensor<4xf32>
%2 = stablehlo.logistic %1 : tensor<4xf32>
%3 = stablehlo.uniform_quantize %2 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>>
```
becomes `fxpmath.table` with a constant: the results of these three ops for the 256 stored values. So does a function
directly on quantized types, which means the same.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.constants import splat_value
from zeropoint.ir.functions import evaluate_chain, is_function
from zeropoint.ir.fxpmath import TableOp
from zeropoint.ir.quant import UniformQuantizedType, dequantize, quantize
from zeropoint.ir.stablehlo import UnaryOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import Array, with_element
from zeropoint.lower.context import Lowering, quantized_element, signed_integers, storage_element, stored_element
from zeropoint.lower.float_islands import lower_in_float
from zeropoint.numerics import functions


def function_source(op: UniformQuantizeOp, lowering: Lowering) -> UniformDequantizeOp | None:
    """The dequantization of the only 8-bit value that the elementwise float chain before `op` depends on, or None."""
    sources: set[UniformDequantizeOp] = set()
    pending: list[SSAValue] = [op.operand]
    seen: set[Operation] = set()
    while pending:
        value = pending.pop()
        if splat_value(value, lowering.weights) is not None:
            continue
        producer = value.op if isinstance(value, OpResult) else None
        if isinstance(producer, UniformDequantizeOp):
            sources.add(producer)
        elif is_function(producer) and FLOAT_REASON not in producer.attributes:
            if producer not in seen:
                seen.add(producer)
                pending += producer.operands
        else:  # includes ops kept float by a recipe or the target
            return None
    if len(sources) != 1:
        return None
    source = sources.pop()
    element = quantized_element(source.operand)
    fits = element is not None and not element.is_per_channel and element.storage.type.width == 8
    return source if fits else None


def lower_table(lowering: Lowering, op: UniformQuantizeOp, source: UniformDequantizeOp) -> SSAValue:
    """`fxpmath.table` for the float chain between `source` and `op`."""
    given, result = quantized_element(source.operand), stored_element(op.result)
    assert given is not None and result is not None
    stored = np.arange(given.storage.type.min, given.storage.type.max + 1, dtype=np.int32)
    domain = dequantize(stored, given)
    image = evaluate_chain(op.operand, source.result, domain, lowering.weights)
    return _looked_up(lowering, source.operand, image, result)


def _looked_up(lowering: Lowering, operand: SSAValue, image: Array, result: UniformQuantizedType) -> SSAValue:
    """`fxpmath.table` with the real values `image`, one per stored value of `operand`, quantized to `result`."""
    entries = quantize(image, result, lowering.profile.name)
    table = lowering.constant(signed_integers(entries))
    value = lowering.stored(operand)
    return lowering.insert(TableOp(value, table, with_element(value, storage_element(result)))).result


def lower_function(lowering: Lowering, op: UnaryOp) -> SSAValue:
    """A function of a quantized value: a table for 8-bit per-layer types, otherwise the op in float."""
    given, result = quantized_element(op.operand), stored_element(op.result)
    assert given is not None and result is not None
    if given.storage.type.width > 8 or given.is_per_channel or result.is_per_channel:
        return lower_in_float(lowering, op, "only functions of one 8-bit value per layer have a table")
    stored = np.arange(given.storage.type.min, given.storage.type.max + 1, dtype=np.int32)
    domain = dequantize(stored, given)
    with np.errstate(all="ignore"):
        image = functions.UNARY[op.name.removeprefix("stablehlo.")](domain)
    return _looked_up(lowering, op.operand, image, result)
