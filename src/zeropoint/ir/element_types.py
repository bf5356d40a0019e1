"""Converts model constraints, written as element types of float ops, to pairs of casts.

```mlir
%0 = stablehlo.tanh %x : tensor<4x!quant.calibrated<f32<-1.0:1.0>>>
```
becomes
```mlir
%a = quant.dcast %x : tensor<4x!quant.calibrated<f32<-1.0:1.0>>> to tensor<4xf32>
%b = stablehlo.tanh %a : tensor<4xf32>
%0 = quant.qcast %b : tensor<4xf32> to tensor<4x!quant.calibrated<f32<-1.0:1.0>>>
```
StableHLO's verifier rejects such element types. It accepts `!quant.uniform` if all values of an op have it; that op is
already quantized and stays as it is. Next to float values, `!quant.uniform` is a constraint like the others. Ops that
are defined on both (`uniform_quantize`, a contraction of floats with quantized weights) are exempt.

Source: the RFC on quantization transformations, "Model Constraints": set by replacing the tensor element type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import AnyFloat, FunctionType, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.calls import CallOp
from zeropoint.ir.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    CoupledRefOp,
    DequantizeCastOp,
    NoQuantizedType,
    QuantizeCastOp,
    QuantizedType,
    StatisticsOp,
    StatisticsRefOp,
    UniformQuantizedType,
)
from zeropoint.ir.quant.containers import ranked_shape
from zeropoint.ir.tensors import element_of, with_element

OPEN = (AnyQuantizedType, CalibratedQuantizedType, NoQuantizedType)
"""Types that no op can compute with, because they have no quantization parameters."""
OF_BOTH = ("uniform_quantize", "uniform_dequantize", "custom_call", "composite", "optimization_barrier", "return")
"""StableHLO ops that are defined on a mix of float and quantized values."""
CONTRACTIONS = ("dot_general", "convolution", "dynamic_conv")
"""StableHLO ops that are defined on float activations with quantized weights, and on no other mix."""


_SAYS = (CallOp, CoupledRefOp, StatisticsOp, StatisticsRefOp)
"""Ops of other dialects whose values may have such element types."""


def take_element_types(module: ModuleOp) -> None:
    """Put casts around the ops of `module`'s functions whose element types are constraints. Changes the module.

    Arguments and results of functions with such elements become floats. Inside the regions of an op, only
    `!quant.uniform` next to floats becomes a cast; values of the other types become floats, and their constraints are
    dropped.
    """
    for function in module.ops:
        if isinstance(function, FuncOp) and function.body.blocks:
            block = function.body.block
            for op in list(block.ops):
                for region in op.regions:
                    _forget(region)
                    _take_inside(region)
                if op.dialect_name() == "stablehlo" or isinstance(op, _SAYS):
                    _take(op)
            _take_edges(block)
            declared = function.function_type
            ends = [[_float_of(found) for found in types] for types in (declared.inputs, declared.outputs)]
            function.function_type = FunctionType.from_lists(*ends)


def _element(value: SSAValue) -> Attribute | None:
    return element_of(value) if isinstance(value.type, TensorType) else None


def _take(op: Operation) -> None:
    elements = [_element(value) for value in (*op.operands, *op.results)]
    is_open = any(isinstance(e, OPEN) for e in elements)
    if isinstance(op, CallOp):
        stated = OPEN  # the callee declares a quantized argument, so it stays one
    elif is_open or _is_mixed(op, elements):
        stated = (*OPEN, UniformQuantizedType)
    else:
        return
    _take_operands(op, stated)
    for result in list(op.results):
        if isinstance(_element(result), stated):
            _take_made(result, op, InsertPoint.after(op))


def _is_mixed(op: Operation, elements: Sequence[Attribute | None]) -> bool:
    """Whether an op has both float and quantized values, where StableHLO defines it on only one kind."""
    name = op.name.partition(".")[2]
    quantized = [isinstance(element, UniformQuantizedType) for element in elements]
    if name in OF_BOTH or not any(quantized) or not any(isinstance(element, AnyFloat) for element in elements):
        return False
    if name in CONTRACTIONS:
        return quantized[:2] != [False, True] or quantized[-1]
    return not any(isinstance(_element(value), UniformQuantizedType) for value in _inner_values(op))


def _take_inside(region: Region) -> None:
    """Put casts around the ops in a region that mix floats and quantized values."""
    for op in list(region.walk()):
        if op.dialect_name() == "stablehlo":
            _take(op)


def _inner_values(op: Operation) -> Iterator[SSAValue]:
    """The values that the regions of an op define or read."""
    for region in op.regions:
        for block in region.blocks:
            yield from block.args
        for inner in region.walk():
            yield from inner.operands
            yield from inner.results


def _take_operands(op: Operation, stated: tuple[type[QuantizedType], ...]) -> None:
    for index, operand in enumerate(op.operands):
        element = _element(operand)
        if isinstance(element, stated):
            made = DequantizeCastOp(operand, with_element(operand, _expressed(element)))
            op.operands[index] = _beside(made, op, InsertPoint.before(op))


def _take_made(value: SSAValue, op: Operation, point: InsertPoint) -> None:
    """Change a value to float and cast it back to its element type for its users."""
    element = element_of(value)
    assert isinstance(element, QuantizedType)
    real = Rewriter.replace_value_with_new_type(value, with_element(value, _expressed(element)))
    uses = list(real.uses)
    if not uses:
        return
    again = _beside(QuantizeCastOp(real, with_element(real, element)), op, point)
    for use in uses:
        use.operation.operands[use.index] = again


def _take_edges(block: Block) -> None:
    """Change arguments and results of a function to float: callers pass and receive floats."""
    first, last = block.first_op, block.last_op
    assert first is not None and last is not None
    _take_operands(last, OPEN)
    for argument in list(block.args):
        if isinstance(_element(argument), OPEN):
            _take_made(argument, first, InsertPoint.at_start(block))


def _forget(region: Region) -> None:
    for op in region.walk():
        for value in (*op.results, *(argument for inner in op.regions for argument in inner.block.args)):
            _make_float(value)
    for block in region.blocks:
        for argument in list(block.args):
            _make_float(argument)


def _float_of(made: Attribute) -> Attribute:
    """The type that the function declares: its element type becomes a float if it is open."""
    element = None if ranked_shape(made) is None else element_of(made)
    return with_element(made, _expressed(element)) if isinstance(element, OPEN) else made


def _make_float(value: SSAValue) -> None:
    element = _element(value)
    if isinstance(element, OPEN):
        Rewriter.replace_value_with_new_type(value, with_element(value, _expressed(element)))


def _expressed(element: QuantizedType) -> AnyFloat:
    """The expressed type of a quantized type; f32 if unspecified."""
    return cast("AnyFloat", element.expressed_type or f32)


def _beside(made: DequantizeCastOp | QuantizeCastOp, op: Operation, point: InsertPoint) -> SSAValue:
    made.location = op.location
    Rewriter.insert_op(made, point)
    return made.results[0]
