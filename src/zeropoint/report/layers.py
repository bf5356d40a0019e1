"""Expose the intermediate values of a program as real numbers, under the names of the original model."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Block, Operation, SSAValue

from zeropoint.ir.annotations import EXPRESSED
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsRefOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConstantOp, UniformDequantizeOp
from zeropoint.ir.tensors import element_of, with_element


def observed_layers(program: Program) -> Program:
    """A copy with a `quant.stats_ref` after every named value, so that an observer sees them in a run.

    A value is observed under the name of its op; of several ops with one name, the last counts. Quantized values are
    dequantized; integer values too, by the type that the lowering recorded. Float values are observed only if no
    quantized value has the name, because floats between two casts are steps of a function that becomes one table.
    """
    program = program.clone()
    last: dict[str, SSAValue] = {}
    for op in program.entry.ops:
        name = location_text(op.location)
        if name is None or len(op.results) != 1 or isinstance(op, ConstantOp) or not _observable(op):
            continue
        if name not in last or not _is_real(op) or _is_real(last[name].owner):
            last[name] = op.results[0]
    for name, value in last.items():
        _observe(value, name)
    return program


def _observable(op: Operation) -> bool:
    result = op.results[0]
    if not isinstance(result.type, TensorType):
        return False
    return EXPRESSED in op.attributes or isinstance(element_of(result), AnyFloat | UniformQuantizedType)


def _is_real(op: Operation | Block) -> bool:
    """Whether the op produces floats."""
    return isinstance(op, Operation) and isinstance(element_of(op.results[0]), AnyFloat)


def _observe(value: SSAValue, name: str) -> None:
    """Insert a `stats_ref` after a value, with casts in between that convert it to real numbers."""
    op = value.owner
    assert isinstance(op, Operation)
    made: list[Operation] = []
    expressed = op.attributes.get(EXPRESSED)
    if isinstance(expressed, UniformQuantizedType):
        made.append(StorageCastOp(value, with_element(value, expressed)))
        value = made[-1].results[0]
    if isinstance(element_of(value), UniformQuantizedType):
        made.append(UniformDequantizeOp(value))
        value = made[-1].results[0]
    made.append(StatisticsRefOp(value, name))
    assert op.parent is not None
    op.parent.insert_ops_after(made, op)
