"""Programs that hand out the values in the middle, in real numbers, by the names of the original model."""

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
    """The program with a `quant.stats_ref` after every named value; running it with an observer hands them out.

    A value is observed under the name of its op, the last of that name: a quantized one, or an integer one after it is
    dequantized by the type that the lowering noted; a float one where nothing quantized has the name, because between
    two casts floats are steps of a function that is one table in the end.
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
    """Whether the op makes floats."""
    return isinstance(op, Operation) and isinstance(element_of(op.results[0]), AnyFloat)


def _observe(value: SSAValue, name: str) -> None:
    """Put `stats_ref` after a value, and what makes it real in between."""
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
