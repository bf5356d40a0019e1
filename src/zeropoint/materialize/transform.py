"""Rewrites quantized StableHLO with the quant dialect: data movement on storage integers, casts at the edges.

```mlir
%0 = stablehlo.uniform_quantize %x : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
%1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x2x!quant...>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
%2 = stablehlo.tanh (uniform_dequantize %1) : tensor<2x2xf32>
```
becomes
```mlir
%0 = quant.qcast %x : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32, 0.5>>
%s = quant.scast %0 : tensor<2x2x!quant.uniform<i8:f32, 0.5>> to tensor<2x2xi8>
%t = stablehlo.transpose %s, dims = [1, 0] : (tensor<2x2xi8>) -> tensor<2x2xi8>
%1 = quant.scast %t : tensor<2x2xi8> to tensor<2x2x!quant.uniform<i8:f32, 0.5>>
%d = quant.dcast %1 : tensor<2x2x!quant.uniform<i8:f32, 0.5>> to tensor<2x2xf32>
%2 = stablehlo.tanh %d : tensor<2x2xf32>
```
A chain of movements has one `scast` at each end. A value is cast to a type at most once, for all its users. Ops that
compute keep the quantized type; float ops stay between `dcast` and `qcast`.

Source: "MLIR Quantization", section "Solver tools": transform, and simplify (as few casts as possible).
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ConcatenateOp,
    PadOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    TransposeOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.ir.weights import Weights

PASSES_THROUGH = (BroadcastInDimOp, ConcatenateOp, PadOp, ReshapeOp, ReverseOp, SliceOp, TransposeOp)
"""Ops without arithmetic: the same op is correct on storage integers."""


def _moves_storage(op: Operation) -> bool:
    """Whether an op only moves values with equal per-layer or per-channel parameters and signless storage."""
    if not isinstance(op, PASSES_THROUGH):
        return False
    kinds = {_parameters(element_of(value)) for value in (*op.operands, *op.results)}
    return len(kinds) == 1 and None not in kinds


def _parameters(element: Attribute) -> tuple[object, ...] | None:
    """The parameters that values must share to be moved as integers; None for other types. The axis is left out,
    because movement changes it.
    """
    if not isinstance(element, UniformQuantizedType) or element.storage.spelling is not None or element.blocks:
        return None
    return element.storage, element.expressed_type, element.data.scales, element.data.zero_points, element.is_per_layer


def _reads_float(op: UniformQuantizeOp) -> bool:
    """Whether an op quantizes a float value, rather than requantizing a quantized one."""
    return not isinstance(element_of(op.operand), UniformQuantizedType)


def _on_storage(op: Operation, stored: dict[SSAValue, SSAValue], weights: Weights) -> None:
    """Replace data movement on quantized values by the same op on their storage."""
    builder = Builder(InsertPoint.before(op))

    def insert(made: IRDLOperation) -> SSAValue:
        made.location = op.location
        return builder.insert(made).results[0]

    for operand in op.operands:
        if operand not in stored:
            element = element_of(operand)
            assert isinstance(element, UniformQuantizedType)
            array = constant_array(operand, weights)
            cast = StorageCastOp(operand, with_element(operand, element.storage.mlir_type))
            stored[operand] = insert(cast if array is None else constant_op(array, weights))
    result = op.results[0]
    element = element_of(result)
    assert isinstance(element, UniformQuantizedType)
    made = type(op).create(
        operands=[stored[operand] for operand in op.operands],
        result_types=[with_element(result, element.storage.mlir_type)],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    made.location = op.location
    builder.insert(made)
    quantized = insert(StorageCastOp(made.results[0], result.type))
    stored[quantized] = made.results[0]
    result.replace_all_uses_with(quantized)
    Rewriter.erase_op(op)


def _once(op: StorageCastOp, stored: dict[SSAValue, SSAValue]) -> None:
    """Record the integers of a storage cast that a kernel emitted. Drop the cast if they are already recorded."""
    if not isinstance(element_of(op.input), UniformQuantizedType):
        stored[op.result] = op.input
    elif op.input in stored:
        op.result.replace_all_uses_with(stored[op.input])
        Rewriter.erase_op(op)
    else:
        stored[op.input] = op.result


MadeValues = dict[tuple[SSAValue, Attribute], SSAValue]
"""Existing casts, by value and result type."""


def _as_cast(op: UniformQuantizeOp | UniformDequantizeOp, made: MadeValues) -> None:
    """Replace a conversion between float and quantized by a cast of the quant dialect, which all users share."""
    key = op.operands[0], op.results[0].type
    if key in made:
        op.results[0].replace_all_uses_with(made[key])
        Rewriter.erase_op(op)
        return
    kind = QuantizeCastOp if isinstance(op, UniformQuantizeOp) else DequantizeCastOp
    cast = kind(op.operands[0], op.results[0].type)
    cast.location = op.location
    cast.attributes.update(op.attributes)
    Rewriter.replace_op(op, cast)
    made[key] = cast.results[0]


def transform(program: Program) -> Program:
    """A copy of a materialized program with `qcast` and `dcast` around float ops, and data movement on integers."""
    program = program.clone()
    stored: dict[SSAValue, SSAValue] = {}
    made: MadeValues = {}
    for op in list(program.entry.ops):
        if _moves_storage(op):
            _on_storage(op, stored, program.weights)
        elif isinstance(op, UniformDequantizeOp) or (isinstance(op, UniformQuantizeOp) and _reads_float(op)):
            _as_cast(op, made)
        elif isinstance(op, StorageCastOp):
            _once(op, stored)
    remove_dead_ops(program.entry)
    return program
