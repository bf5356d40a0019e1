"""Quantized ops without an integer form: computes them in the expressed type, between dequantize and quantize.

```mlir
%0 = stablehlo.divide %a, %b : tensor<4x!quant.uniform<i8:f32, 0.5>>
```
becomes
```mlir
%0 = quant.scast %a : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 0.5>>
%1 = stablehlo.uniform_dequantize %0 : ... -> tensor<4xf32>
%4 = stablehlo.divide %1, %3 {zeropoint.float_reason = "..."} : tensor<4xf32>
%5 = stablehlo.uniform_quantize %4 : ... -> tensor<4x!quant.uniform<i8:f32, 0.5>>
%6 = quant.scast %5 : ... to tensor<4xi8>
```
Source: the StableHLO specification, `dequantize_op_quantize`, which defines the op's meaning.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON, PROFILE, carry
from zeropoint.ir.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import with_element
from zeropoint.lower.context import Lowering, quantized_element, stored_element


def lower_in_float(lowering: Lowering, op: Operation, reason: str) -> SSAValue:
    """The result integers of dequantize_op_quantize. The float op carries `reason`."""
    (result,) = lower_several_in_float(lowering, op, reason)
    return result


def lower_several_in_float(lowering: Lowering, op: Operation, reason: str) -> list[SSAValue]:
    """`lower_in_float` for an op with one or more results, which are quantized or boolean."""
    # Quantize to the declared type, so that unsigned storage rounds and saturates as declared. Then make integers
    # signed.
    kinds = [stored_element(result) for result in op.results]
    made = type(op).create(
        operands=[_dequantized(lowering, operand) for operand in op.operands],
        result_types=[
            result.type if kind is None else with_element(result, kind.expressed_type)
            for result, kind in zip(op.results, kinds, strict=True)
        ],
        # The clamp of a real math op follows on the integers. `upstream` wraps, so the order matters.
        properties={name: held for name, held in op.properties.items() if name not in ("clamp_min", "clamp_max")},
        attributes={**op.attributes, FLOAT_REASON: StringAttr(reason)},
    )
    reals = lowering.insert(made).results
    return [_quantized(lowering, op, real, result) for real, result in zip(reals, op.results, strict=True)]


def _quantized(lowering: Lowering, op: Operation, real: SSAValue, result: SSAValue) -> SSAValue:
    """The integers of a float result, rounded by the profile of `op`.

    A comparison's booleans are returned unchanged.
    """
    if quantized_element(result) is None:
        return real
    made = UniformQuantizeOp(real, result.type)
    # The kernel's own profile rounds, not the program's.
    carry(op, made, PROFILE)
    return lowering.cast(lowering.insert(made).result)


def _dequantized(lowering: Lowering, operand: SSAValue) -> SSAValue:
    quantized = quantized_element(operand)
    # An i1 or an index beside quantized operands is passed on as it is.
    if quantized is None:
        return operand
    again = lowering.quantized_again(lowering.stored(operand), quantized)
    return lowering.insert(UniformDequantizeOp(again)).result


def lower_binary_function(lowering: Lowering, op: Operation) -> SSAValue:
    """A function of two quantized values."""
    return lower_in_float(lowering, op, "a function of two quantized values has no integer form")
