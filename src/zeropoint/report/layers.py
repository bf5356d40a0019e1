"""Expose the intermediate values of a program as real numbers, under the names of the original model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from zeropoint.ir.locations import location_text, value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsRefOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConstantOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.report.expressed import expressed_type


def observed_layers(program: Program) -> Program:
    """A copy with a `quant.stats_ref` after every named value, so that an observer sees the values in a run.

    A value is observed under the name of its op. If several ops have one name, the last one is observed. Quantized
    values are dequantized, and integers as well, by the type that lowering recorded. A float value is observed only if
    no quantized value has its name, because floats between two casts are inside a function that becomes one table. A
    quantized input is observed under the name of the input.
    """
    program = program.clone()
    last: dict[str, SSAValue] = {}
    for op in program.entry.ops:
        name = location_text(op.location) or _quantized_input(op)
        if name is None or len(op.results) != 1 or isinstance(op, ConstantOp) or not _observable(op):
            continue
        if name not in last or not _is_real(op) or _is_real(last[name].owner):
            last[name] = op.results[0]
    for name, value in last.items():
        _observe(value, name)
    return program


def observed_at(program: Program, keys: Mapping[Operation, str]) -> Program:
    """A copy with a `quant.stats_ref` after the ops of `keys`, which observes their results as real numbers.

    Ops whose results have no real value are left out. Quantized inputs are observed under the names of the inputs.
    """
    copy = program.clone()
    for op, twin in list(zip(program.entry.ops, copy.entry.ops, strict=True)):
        key = keys.get(op) or _quantized_input(op)
        if key is not None and len(op.results) == 1 and _observable(op):
            _observe(twin.results[0], key)
    return copy


def _quantized_input(op: Operation) -> str | None:
    """The name of the input that an op quantizes; None for other ops."""
    if isinstance(op, UniformQuantizeOp) and isinstance(op.operand, BlockArgument):
        return value_name(cast("SSAValue", op.operand))
    return None


def _observable(op: Operation) -> bool:
    result = op.results[0]
    if not isinstance(result.type, TensorType):
        return False
    element = element_of(result)
    if isinstance(element, AnyFloat | UniformQuantizedType):
        return True
    return isinstance(element, IntegerType) and expressed_type(op) is not None


def _is_real(op: Operation | Block) -> bool:
    """Whether the op produces floats."""
    return isinstance(op, Operation) and isinstance(element_of(op.results[0]), AnyFloat)


def _observe(value: SSAValue, name: str) -> None:
    """Insert a `stats_ref` after a value, and before it the casts that convert the value to real numbers."""
    op = value.owner
    assert isinstance(op, Operation)
    made: list[Operation] = []
    expressed = expressed_type(op) if isinstance(element_of(value), IntegerType) else None
    if expressed is not None:
        made.append(StorageCastOp(value, with_element(value, expressed)))
        value = made[-1].results[0]
    if isinstance(element_of(value), UniformQuantizedType):
        made.append(UniformDequantizeOp(value))
        value = made[-1].results[0]
    made.append(StatisticsRefOp(value, name))
    assert op.parent is not None
    op.parent.insert_ops_after(made, op)
