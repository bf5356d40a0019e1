"""Replaces the floats at the inputs and outputs of `@main` by storage integers.

```mlir
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.scast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xi8>
```
becomes
```mlir
func.func @main(%x: tensor<4xi8> {zeropoint.expressed = !quant.uniform<i8:f32, 0.5>}) -> ...
```
and likewise for results that are dequantized at the end. The integers are signed. `zeropoint.expressed` has their
quantized type, with signed storage even if the target stores them unsigned. Inputs and outputs that are no floats
(token ids, positions, masks of booleans) stay as they are.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, DictionaryAttr, FunctionType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import EXPRESSED
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConvertOp, UniformDequantizeOp, UniformQuantizeOp, XorOp
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.lower.context import LoweringError, quantized_element, storage_element, stored_element


def _has_floats(value: SSAValue) -> bool:
    return isinstance(element_of(value), AnyFloat)


def _integer_argument(argument: BlockArgument, name: str) -> UniformQuantizedType:
    """Let the users of an argument read integers. Returns its quantized type.

    Raises LoweringError unless all uses quantize it to one type.
    """
    users = [use.operation for value in _converted(argument) for use in value.uses]
    users = [user for user in users if not isinstance(user, ConvertOp)]
    quantizes = [user for user in users if isinstance(user, UniformQuantizeOp)]
    types = {quantized_element(user.result) for user in quantizes}
    # An input has one set of integers. With two types, the caller would have to pass the value twice.
    if len(quantizes) != len(users) or len(types) != 1:
        found = _other_reader(users) or f"{len(types)} quantized types on its float value"
        fix = "quantize with io integer, or keep io float (--io)" if len(types) > 1 else "keep io float (--io)"
        raise LoweringError(f"input '{name}': found {found}, expected one quantize; {fix}")
    (quantized,) = types
    assert quantized is not None
    for user in quantizes:
        for use in list(user.result.uses):
            if not isinstance(use.operation, StorageCastOp):
                found = f"float ops that read its rounded value ({use.operation.name})"
                raise LoweringError(f"input '{name}': found {found}, expected integer ops only; keep io float (--io)")
            for integers in _signed(use.operation):
                integers.replace_all_uses_with(argument)
    return quantized


def _converted(argument: BlockArgument) -> list[SSAValue]:
    """A float argument, and its conversions to other floats, such as f32, in which casts express values."""
    converts = [use.operation for use in argument.uses if isinstance(use.operation, ConvertOp)]
    return [argument, *(convert.result for convert in converts if isinstance(element_of(convert.result), AnyFloat))]


def _other_reader(users: list[Operation]) -> str | None:
    """A description of a user of an argument that is no quantize op, for a message; None if there is none."""
    if not users:
        return "nothing that reads it"
    other = next((user for user in users if not isinstance(user, UniformQuantizeOp)), None)
    if isinstance(other, ReturnOp):
        return "that it is also an output"
    return None if other is None else f"{other.name} on its float value"


def _signed(cast: StorageCastOp) -> list[SSAValue]:
    """The signed integers from a cast: its result, or for unsigned storage, its uses with the highest bit flipped."""
    kind = stored_element(cast.input)
    if kind is None or kind.storage.type.signed:
        return [cast.result]
    return [use.operation.results[0] for use in cast.result.uses if isinstance(use.operation, XorOp)]


def _integer_result(value: SSAValue, name: str) -> tuple[SSAValue, UniformQuantizedType]:
    dequantize = value.owner
    if isinstance(dequantize, ConvertOp):  # from f32 to the float type of the model
        dequantize = dequantize.operand.owner
    if isinstance(dequantize, UniformDequantizeOp) and isinstance(cast := dequantize.operand.owner, StorageCastOp):
        quantized = quantized_element(dequantize.operand)
        assert quantized is not None
        return cast.input, quantized
    maker = value.owner
    while isinstance(maker, UniformDequantizeOp | UniformQuantizeOp):  # the float op's result is rounded after it
        maker = maker.operand.owner
    made_by = maker.name if isinstance(maker, Operation) else "an input"
    raise LoweringError(f"output '{name}': found {made_by}, which computes in float; keep io float (--io)")


def _with_expressed(
    attributes: ArrayAttr[DictionaryAttr] | None, types: list[UniformQuantizedType | None]
) -> Attribute:
    known = [DictionaryAttr({})] * len(types) if attributes is None else attributes.data
    stated = [{} if quantized is None else {EXPRESSED: quantized} for quantized in types]
    return ArrayAttr([DictionaryAttr({**entry.data, **new}) for entry, new in zip(known, stated, strict=True)])


def integer_io(program: Program) -> Program:
    """A copy with integer inputs and outputs; their quantized types become attributes of the function.

    Raises LoweringError, with the name of the input or output, if a float op uses or produces it.
    """
    inputs, outputs = program.inputs, program.outputs
    program = program.clone()
    function, block = program.main, program.entry
    arguments = [
        _integer_argument(argument, port.name) if _has_floats(argument) else None
        for argument, port in zip(block.args, inputs, strict=True)
    ]
    for argument, quantized in zip(block.args, arguments, strict=True):
        if quantized is None:
            continue
        Rewriter.replace_value_with_new_type(argument, with_element(argument, storage_element(quantized)))
    terminator = block.last_op
    assert isinstance(terminator, ReturnOp)
    results: list[UniformQuantizedType | None] = []
    for index, (value, port) in enumerate(zip(terminator.operands, outputs, strict=True)):
        if not _has_floats(value):
            results.append(None)
            continue
        integers, quantized = _integer_result(value, port.name)
        terminator.operands[index] = integers
        results.append(quantized)
    remove_dead_ops(block)
    function.function_type = FunctionType.from_lists(
        [argument.type for argument in block.args], [value.type for value in terminator.operands]
    )
    function.properties["arg_attrs"] = _with_expressed(function.arg_attrs, arguments)
    function.properties["res_attrs"] = _with_expressed(function.res_attrs, results)
    return program
