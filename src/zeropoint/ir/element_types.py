"""Model constraints that are set as element types of float ops, as pairs of casts.

```mlir
%0 = stablehlo.tanh %x : tensor<4x!quant.calibrated<f32<-1.0:1.0>>>
```
becomes
```mlir
%a = quant.dcast %x : tensor<4x!quant.calibrated<f32<-1.0:1.0>>> to tensor<4xf32>
%b = stablehlo.tanh %a : tensor<4xf32>
%0 = quant.qcast %b : tensor<4xf32> to tensor<4x!quant.calibrated<f32<-1.0:1.0>>>
```
StableHLO's verifier takes no such element. It takes `!quant.uniform` where all values of an op have it: that op is
quantized already and stays. Beside floats it is a constraint like the others, except in ops that are defined on both
(`uniform_quantize`, a contraction by quantized weights).

Source: the RFC on quantization transformations, "Model Constraints": set by replacing the tensor element type.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import AnyFloat, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    DequantizeCastOp,
    NoQuantizedType,
    QuantizeCastOp,
    QuantizedType,
    UniformQuantizedType,
)
from zeropoint.ir.tensors import element_of, with_element

OPEN = (AnyQuantizedType, CalibratedQuantizedType, NoQuantizedType)
"""Types that no op computes with."""
OF_BOTH = ("uniform_quantize", "uniform_dequantize", "dot_general", "convolution", "dynamic_conv", "custom_call")
"""Ops of StableHLO that are defined on floats beside quantized values."""


def take_element_types(module: ModuleOp) -> None:
    """Put casts around the ops of `module`'s functions whose element types are constraints. Changes the module."""
    for function in module.ops:
        if isinstance(function, FuncOp) and function.body.blocks:
            for op in list(function.body.block.ops):
                if op.dialect_name() == "stablehlo" and not op.regions:
                    _take(op)


def _element(value: SSAValue) -> Attribute | None:
    return element_of(value) if isinstance(value.type, TensorType) else None


def _take(op: Operation) -> None:
    elements = [_element(value) for value in (*op.operands, *op.results)]
    mixed = any(isinstance(e, AnyFloat) for e in elements) and op.name.partition(".")[2] not in OF_BOTH
    stated = (*OPEN, UniformQuantizedType) if mixed or any(isinstance(e, OPEN) for e in elements) else ()
    if not stated:
        return
    for index, operand in enumerate(op.operands):
        element = _element(operand)
        if isinstance(element, stated):
            made = DequantizeCastOp(operand, with_element(operand, _expressed(element)))
            op.operands[index] = _beside(made, op, InsertPoint.before(op))
    for result in list(op.results):
        element = _element(result)
        if isinstance(element, stated):
            real = Rewriter.replace_value_with_new_type(result, with_element(result, _expressed(element)))
            uses = list(real.uses)
            again = _beside(QuantizeCastOp(real, with_element(real, element)), op, InsertPoint.after(op))
            for use in uses:
                use.operation.operands[use.index] = again


def _expressed(element: QuantizedType) -> AnyFloat:
    """The float type that a type expresses; f32 where it leaves that open."""
    return cast("AnyFloat", element.expressed_type or f32)


def _beside(made: DequantizeCastOp | QuantizeCastOp, op: Operation, place: InsertPoint) -> SSAValue:
    made.location = op.location
    Rewriter.insert_op(made, place)
    return made.results[0]
