"""Replaces quantized types in function signatures by their storage types.

```mlir
func.func @f(%x: tensor<2x!quant.uniform<i8:f32, 2.0>>) -> tensor<2xf32> {
  %0 = quant.dcast %x : tensor<2x!quant.uniform<i8:f32, 2.0>> to tensor<2xf32>
```
becomes
```mlir
func.func @f(%x: tensor<2xi8>) -> tensor<2xf32> {
  %q = quant.scast %x : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32, 2.0>>
  %0 = quant.dcast %q : tensor<2x!quant.uniform<i8:f32, 2.0>> to tensor<2xf32>
```

Source: upstream MLIR's pass `strip-func-quant-types`; `func.return` and `func.call` are also converted.
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.calls import CallOp
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizedType, StorageCastOp
from zeropoint.ir.quant.casts import is_signless
from zeropoint.ir.quant.containers import element_or_self, with_scalar
from zeropoint.quant_passes.errors import LoweringError

_CONVERTED = (ReturnOp, CallOp)


def stripped_type(found: Attribute, op: Operation) -> Attribute:
    """The storage type of a quantized type; any other type itself.

    Raises LoweringError for a quantized type that is not stored as signless integers.
    """
    scalar = element_or_self(found)
    if not isinstance(scalar, QuantizedType):
        return found
    if scalar.storage is None or not is_signless(scalar.storage.mlir_type):
        raise LoweringError(f"{describe(op)}: found type {scalar}, which quant.scast cannot make integers of", op)
    return with_scalar(found, scalar.storage.mlir_type)


def _strip_source(value: SSAValue, op: Operation, point: InsertPoint) -> None:
    """Change an argument or call result to its storage type, and cast it back for its users."""
    quantized = value.type
    found = stripped_type(quantized, op)
    if found == quantized:
        return
    value = Rewriter.replace_value_with_new_type(value, found)
    users = [use for use in value.uses if not isinstance(use.operation, _CONVERTED)]
    if not users:
        return
    cast = Builder(point).insert(StorageCastOp(value, quantized))
    cast.location = op.location
    for use in users:
        use.operation.operands[use.index] = cast.result


def _strip_sinks(op: Operation) -> None:
    """Cast the operands of a return or call to storage integers. A repeated operand is cast once."""
    stored: dict[SSAValue, SSAValue] = {}
    for index, value in enumerate(op.operands):
        found = stripped_type(value.type, op)
        if found == value.type:
            continue
        if value not in stored:
            cast = Builder(InsertPoint.before(op)).insert(StorageCastOp(value, found))
            cast.location = op.location
            stored[value] = cast.result
        op.operands[index] = stored[value]


def _strip_function(function: FuncOp) -> None:
    signature = function.function_type
    function.function_type = FunctionType.from_lists(
        [stripped_type(found, function) for found in signature.inputs],
        [stripped_type(found, function) for found in signature.outputs],
    )
    for block in function.body.blocks:
        point = InsertPoint.at_start(block)
        for argument in reversed(block.args):  # reversed, so that the casts are in upstream's order
            _strip_source(argument, function, point)
    for op in list(function.walk()):
        if isinstance(op, CallOp):
            for result in op.results:
                _strip_source(result, op, InsertPoint.after(op))
    for op in list(function.walk()):
        if isinstance(op, _CONVERTED):
            _strip_sinks(op)


def strip_func_quant_types(program: Program) -> Program:
    """Strip the signatures of all functions, with their calls and returns.

    Raises LoweringError for a quantized type that is not stored as signless integers.
    """
    program = program.clone()
    for op in program.module.ops:
        if isinstance(op, FuncOp):
            _strip_function(op)
    return program
