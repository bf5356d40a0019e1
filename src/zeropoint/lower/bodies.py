"""Lowers reductions of any body and any number of operands, by lowering the ops of the body.

```mlir
%0 = stablehlo.reduce(%x init: %i) across dimensions = [1] : operands and result i8 at 0.5:3
   reducer(%a, %b) { %r = multiply %a, %b; %s = maximum %r, %b; return %s : i8 at 0.5:3 }
```
becomes
```mlir
%0 = stablehlo.reduce(%x init: %i) across dimensions = [1] : tensor<4x6xi8>
   reducer(%a, %b) { %p = multiply (convert %a) - 3, (convert %b) - 3 : i32; %r = "fxpmath.requantize"(%p, ...) : i8
                     %s = maximum %r, %b : i8; return %s : i8 }
```
Operands are requantized to the body's type before, and results from it after. A body that rounds is not associative, so
the order of the elements matters. It is the schedule that `interp/reduction.py` defines, for quantized and for integer
bodies.

An op of the body without an integer form is computed in float, and the reduction carries its reason.

Source: the RFC "StableHLO quantization for reduction ops".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from zeropoint.ir.annotations import FLOAT_REASON, carry
from zeropoint.ir.stablehlo import AllReduceOp, ReduceOp, ReduceScatterOp, ReduceWindowOp, SelectAndScatterOp
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.lower.arithmetic import requantized
from zeropoint.lower.context import Lowering, quantized_element, storage_element

ReductionOp = ReduceOp | ReduceWindowOp | SelectAndScatterOp | AllReduceOp | ReduceScatterOp

PER_CHANNEL = "its result has a scale per channel: only results with one scale have an integer form"

PARTS: dict[type[Operation], Callable[[Any], tuple[Sequence[SSAValue], Sequence[Region]]]] = {
    AllReduceOp: lambda op: (op.inputs, op.regions),
    ReduceOp: lambda op: (op.operands, op.regions),
    ReduceScatterOp: lambda op: (op.operands, op.regions),
    ReduceWindowOp: lambda op: (op.operands, op.regions),
    SelectAndScatterOp: lambda op: (op.operands[1:], op.regions),
}
"""The values that each kind of reduction combines, and its regions; the last region is the combining body."""


def lower_by_body(lowering: Lowering, op: ReductionOp) -> Sequence[SSAValue] | None:
    """The results, as integers where they are quantized. None, with the reason on the op, if a type is per channel."""
    values, regions = PARTS[type(op)](op)
    arguments, returned = regions[-1].block.args, _returned(regions[-1])
    kinds = [quantized_element(value) for value in (*op.results, *arguments, *returned)]
    if any(kind is not None and kind.is_per_channel for kind in kinds):
        op.attributes.setdefault(FLOAT_REASON, StringAttr(PER_CHANNEL))
        return None
    words = [_word(op, argument) for argument in arguments]
    operands = [
        _inside(lowering, op, value, arguments[n % len(arguments)], words[n % len(words)])
        for n, value in enumerate(values)
    ]
    if isinstance(op, SelectAndScatterOp):
        operands.insert(0, _inside(lowering, op, op.operand, op.select.block.args[0], words[0]))
    bodies = [lowered_body(lowering, region, words) for region in regions]
    made = type(op).create(
        operands=operands,
        result_types=[
            result.type if word is None else with_element(result, word)
            for result, word in zip(op.results, words * len(op.results), strict=False)
        ],
        properties=dict(op.properties),
        attributes={name: found for name, found in op.attributes.items() if name != FLOAT_REASON},
        regions=bodies,
    )
    for inner in made.walk():
        carry(inner, made, FLOAT_REASON)
    results = lowering.insert(made).results
    return [
        _outside(lowering, op, value, returned[n % len(returned)], op.results[n]) for n, value in enumerate(results)
    ]


def _returned(region: Region) -> Sequence[SSAValue]:
    terminator = region.block.last_op
    assert terminator is not None
    return terminator.operands


def _word(op: ReductionOp, argument: SSAValue) -> IntegerType | None:
    """The integer type of a body's argument: its storage type. None if it is not quantized.

    `select_and_scatter` has one integer type for both bodies, the wider one.
    """
    kind = quantized_element(argument)
    if kind is None:
        return None
    other = quantized_element(op.operand) if isinstance(op, SelectAndScatterOp) else None
    # `select` reads the operand, `scatter` combines the source: one type holds both.
    return IntegerType(max(found.storage.type.width for found in (kind, other) if found is not None))


def _inside(
    lowering: Lowering, op: ReductionOp, value: SSAValue, argument: SSAValue, word: IntegerType | None
) -> SSAValue:
    """An operand as the integers of a body's argument. A value that is not quantized stays as it is."""
    source, body = quantized_element(value), quantized_element(argument)
    if source is None or body is None or word is None:
        return value
    return lowering.converted(requantized(lowering, op, lowering.stored(value), source, body), word)


def _outside(lowering: Lowering, op: ReductionOp, value: SSAValue, returned: SSAValue, result: SSAValue) -> SSAValue:
    """A result of the body as the integers of the op's result."""
    body, kind = quantized_element(returned), quantized_element(result)
    if body is None or kind is None:
        return value
    # `requantized` reads integers in the storage of their type.
    return requantized(lowering, op, lowering.converted(value, storage_element(body)), body, kind)


def lowered_body(lowering: Lowering, region: Region, words: Sequence[IntegerType | None]) -> Region:
    """A copy of a body on integers. `words` are the element types of its quantized arguments, if any, and results.

    A word wider than the storage is narrowed at the start of the body and widened at its end.
    """
    made, outside = region.clone(), (lowering.builder, lowering.location, lowering.profile)
    block = made.block
    given = [argument for argument in block.args if quantized_element(argument) is not None]
    for argument, word in zip(list(block.args), words, strict=bool(block.args)):
        if word is not None:
            lowering.builder = Builder(InsertPoint.at_start(block))
            new = block.insert_arg(with_element(argument, word), argument.index)
            lowering.values[argument] = _narrowed(lowering, new, argument)
    # Read the types now, because the lowering replaces the quantized values.
    widened = [quantized_element(value) is not None for value in _returned(made)]
    lowering.lower_ops(lowering, block)
    terminator = block.last_op
    assert terminator is not None
    lowering.builder = Builder(InsertPoint.before(terminator))
    for n in (n for n, is_quantized in enumerate(widened) if is_quantized):
        word = words[n]
        assert word is not None
        terminator.operands[n] = lowering.converted(terminator.operands[n], word)
    for argument in given:
        block.erase_arg(argument)
    lowering.builder, lowering.location, lowering.profile = outside
    return made


def _narrowed(lowering: Lowering, wide: SSAValue, argument: SSAValue) -> SSAValue:
    """Narrow integers to the storage of a body's argument. They are in range, because they were requantized to it."""
    kind = quantized_element(argument)
    assert kind is not None
    element = storage_element(kind)
    if element_of(wide) == element:
        return wide
    return lowering.clamped(wide, kind.storage.minimum, kind.storage.maximum, element)
