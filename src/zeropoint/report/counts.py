"""How much of a program is integer arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, StringAttr, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON, RESCALE, facts_of
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.stablehlo import ConstantOp, ConvolutionOp, DotGeneralOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of, shape_of

UNCOVERED = "no kernel covers it"
"""The reason of a float op that carries none."""
EDGES = (StorageCastOp, UniformDequantizeOp, UniformQuantizeOp)


@dataclass(frozen=True)
class Counts:
    """Ops of the entry function, constants and the return apart.

    `edges` convert between float and integer; `float_inside` compute in float between two such edges, `float_outside`
    before the first or after the last; `rescales` only change parameters.
    """

    integer: int
    float_inside: int
    float_outside: int
    edges: int
    rescales: int


def is_float(op: Operation) -> bool:
    """Whether an op makes a tensor of floats."""
    return any(isinstance(r.type, TensorType) and isinstance(element_of(r), AnyFloat) for r in op.results)


def _is_not_integer(op: Operation) -> bool:
    """Whether an op makes floats, or says why it is no integer one (it works on quantized values)."""
    return (is_float(op) or FLOAT_REASON in op.attributes) and not isinstance(op, EDGES)


def _computing(program: Program) -> list[Operation]:
    return [op for op in program.entry.ops if not isinstance(op, ConstantOp | ReturnOp)]


def why_float(op: Operation) -> str:
    """Why an op is float: the reason that it carries, the kernel whose table it is part of, or that nothing has it."""
    reason = op.attributes.get(FLOAT_REASON)
    if isinstance(reason, StringAttr):
        return reason.data
    kernel = _kernel_around(op)
    return UNCOVERED if kernel is None else f"kernel '{kernel}' covers it; lowered, its 8-bit values are a table"


def _kernel_around(op: Operation) -> str | None:
    """The kernel whose float form an op is part of, `dequantize, ops, quantize`: the quantize op names it."""
    seen: set[Operation] = set()
    pending = [op]
    while pending:
        found = pending.pop()
        if isinstance(found, UniformQuantizeOp):
            return next((fact.value for fact in facts_of(found) if fact.name == "kernel"), None)
        if found not in seen and is_float(found) and not isinstance(found, EDGES):
            seen.add(found)
            pending += [use.operation for result in found.results for use in result.uses]
    return None


def float_ops(program: Program) -> list[tuple[str, str]]:
    """Each float op with its place, and why it is float."""
    return [(describe(op), why_float(op)) for op in _computing(program) if _is_not_integer(op)]


def _reaches(start: list[Operation], forward: bool) -> set[Operation]:
    """The ops that depend on `start` (forward), or that it depends on."""
    seen: set[Operation] = set()
    pending = list(start)
    while pending:
        op = pending.pop()
        if forward:
            neighbours = {use.operation for result in op.results for use in result.uses}
        else:
            neighbours = {value.owner for value in op.operands if isinstance(value.owner, Operation)}
        pending += neighbours - seen
        seen |= neighbours
    return seen


def count_ops(program: Program) -> Counts:
    """The counts of a program."""
    ops = _computing(program)
    edges = [op for op in ops if isinstance(op, EDGES)]
    floats = {op for op in ops if _is_not_integer(op)}
    after = _reaches([op for op in edges if isinstance(op, UniformDequantizeOp)], forward=True)
    before = _reaches([op for op in edges if isinstance(op, UniformQuantizeOp)], forward=False)
    inside = floats & after & before
    return Counts(
        integer=len(ops) - len(edges) - len(floats),
        float_inside=len(inside),
        float_outside=len(floats) - len(inside),
        edges=len(edges),
        rescales=sum(isinstance(op, RequantizeOp) and RESCALE in op.attributes for op in ops),
    )


def constant_bytes(program: Program) -> int:
    """The bytes of the constants that the program refers to; one that occurs twice counts once."""
    sizes: dict[object, int] = {}
    for op in program.module.walk():
        if isinstance(op, ConstantOp):
            sizes[op.value] = program.weights.array(op.value).nbytes
    return sum(sizes.values())


def multiplications(program: Program) -> int:
    """Multiplications of the convolutions and products of a run; a dynamic dimension counts as one."""
    return sum(
        _elements(op.results[0]) * _summed(op)
        for op in program.module.walk()
        if isinstance(op, ConvolutionOp | DotGeneralOp)
    )


def _elements(value: SSAValue) -> int:
    return math.prod(max(1, size) for size in shape_of(value))


def _summed(op: ConvolutionOp | DotGeneralOp) -> int:
    """Products that one element of the result is the sum of."""
    if isinstance(op, ConvolutionOp):
        outputs = shape_of(op.rhs)[op.dimension_numbers.data.kernel_output_feature_dimension]
        return _elements(op.rhs) // max(1, outputs)
    sizes = shape_of(op.lhs)
    return math.prod(max(1, sizes[d]) for d in op.dot_dimension_numbers.data.lhs_contracting_dimensions)
