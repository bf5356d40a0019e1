"""Holds annotation ops during simplification, as attributes of the ops that define the annotated values.

```mlir
%0 = stablehlo.convolution(%x, %w) ...
%1 = "quant.stats"(%0) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : ...
%2 = stablehlo.multiply %1, %scale
```
becomes
```mlir
%0 = stablehlo.convolution(%x, %w) ... {zeropoint.stated = [{op = "quant.stats", ...}]}
%2 = stablehlo.multiply %0, %scale
```
and back. So an annotated program is simplified as it would be without annotations. An op that replaces another takes
over its attribute. Annotations of a value that no longer exists are dropped. Annotations of arguments stay ops.

Source: the RFC on quantization transformations, section "Quantization region": constraints on tensors inside are not
considered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, LocationAttr, StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriterListener, PatternRewriteWalker, RewritePattern
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp
from zeropoint.ir.quant.statements import STATES, range_readers, unstated

STATED = "zeropoint.stated"
"""On an op: the annotations of its results, in order."""
_OPS = {op.name: op for op in STATES}


def has_statements(program: Program) -> bool:
    """Whether the entry function has annotations of values that are not arguments."""
    return any(_stated_value(op) is not None for op in program.entry.ops)


def statements_to_attributes(program: Program) -> None:
    """Replace the annotation ops of computed values by attributes, in place."""
    for op in list(program.entry.ops):
        value = _stated_value(op)
        if value is None:
            continue
        _add(value.op, [_statement(op, value.index)])
        annotated = range_readers(op) if isinstance(op, QuantizeCastOp) else [op]
        for reader in annotated:
            reader.results[0].replace_all_uses_with(value)
            Rewriter.erase_op(reader)
        if isinstance(op, QuantizeCastOp):
            Rewriter.erase_op(op)


def attributes_to_statements(program: Program) -> None:
    """Reinsert the annotation ops after the ops that define the annotated values, in place."""
    for op in list(program.entry.ops):
        values: list[SSAValue] = list(op.results)
        for index, stated in _statements(op):
            values[index] = _restored(stated, values[index], op)
        without_statements(op)


def rewrite(program: Program, *patterns: RewritePattern, again: bool = False) -> None:
    """Apply each pattern in one walk, in place; `again` repeats a walk until nothing changes.

    Ops take over the annotations of those that they replace.
    """
    for pattern in patterns:
        listener = PatternRewriterListener(operation_replacement_handler=[_take_over])
        PatternRewriteWalker(pattern, apply_recursively=again, listener=listener).rewrite_module(program.module)


def without_statements(op: Operation) -> Operation:
    """Remove an op's annotations, in place: for a copy that computes other values."""
    op.attributes.pop(STATED, None)
    return op


def _stated_value(op: Operation) -> OpResult | None:
    """The value that an op annotates; None if it annotates none, or an argument."""
    if not isinstance(op, STATES) and not (isinstance(op, QuantizeCastOp) and range_readers(op)):
        return None
    value = op.operands[0]
    root = unstated(value)
    return value if isinstance(value, OpResult) and isinstance(root, OpResult) else None


def _statement(op: Operation, index: int) -> DictionaryAttr:
    hint = op.results[0].name_hint
    entries: dict[str, Attribute] = {
        "op": StringAttr(op.name),
        "type": op.results[0].type,
        "result": IntAttr(index),
        "attributes": DictionaryAttr(op.attributes),
        "location": op.location,
    }
    return DictionaryAttr(entries if hint is None else {**entries, "name": StringAttr(hint)})


def _restored(stated: DictionaryAttr, value: SSAValue, maker: Operation) -> SSAValue:
    """Insert one annotation of a value before its other users; returns the annotated value."""
    kind = _OPS.get(cast(StringAttr, stated.data["op"]).data)
    attributes = dict(cast(DictionaryAttr, stated.data["attributes"]).data)
    made: list[Operation]
    if kind is not None:
        made = [kind.build(operands=[value], result_types=[value.type], attributes=attributes)]
    else:
        quantized = QuantizeCastOp.build(operands=[value], result_types=[stated.data["type"]], attributes=attributes)
        made = [quantized, DequantizeCastOp.build(operands=[quantized.result], result_types=[value.type])]
    users = [use for use in value.uses if use.operation not in made]
    last = value.owner if isinstance(value.owner, Operation) else maker
    for op in made:
        op.location = cast(LocationAttr, stated.data["location"])
        Rewriter.insert_op(op, InsertPoint.after(last))
        last = op
    annotated = made[-1].results[0]
    if "name" in stated.data:
        annotated.name_hint = cast(StringAttr, stated.data["name"]).data
    for use in users:
        use.operation.operands[use.index] = annotated
    return annotated


def _add(op: Operation, statements: Sequence[DictionaryAttr]) -> None:
    op.attributes[STATED] = ArrayAttr([*(stated for _, stated in _statements(op)), *statements])


def _statements(op: Operation) -> Iterator[tuple[int, DictionaryAttr]]:
    """The annotations of an op's results, each with the index of its result."""
    found = op.attributes.get(STATED)
    if found is not None:
        for stated in cast(ArrayAttr[DictionaryAttr], found):
            yield cast(IntAttr, stated.data["result"]).data, stated


def _take_over(op: Operation, values: Sequence[SSAValue | None]) -> None:
    """Move the annotations of `op`'s results to the values that replace them, unless these are arguments."""
    for index, stated in _statements(op):
        value = values[index]
        if isinstance(value, OpResult):
            _add(value.op, [DictionaryAttr({**stated.data, "result": IntAttr(value.index)})])
