"""Composites: named ops with a function that gives their decomposition.

```mlir
%0 = stablehlo.composite "aten.gelu" %x {decomposition = @gelu} : (tensor<4xf32>) -> tensor<4xf32>
```
becomes a region of the kernel `gelu` with the ops of `@gelu`. So does a composite named by a row of the target's table
(`composites = ["my.gate"]`), which may have several results. Any other composite is replaced by its decomposition,
which the patterns then match.

Source: the StableHLO specification, "composite": it means the same as its decomposition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.fuse.elementwise import function_match
from zeropoint.fuse.match import FloatGraph, RegionMatch
from zeropoint.ir.functions import is_function
from zeropoint.ir.inlining import check_calls, copy_body
from zeropoint.ir.program import Program
from zeropoint.ir.quant.statements import unstated
from zeropoint.ir.stablehlo import CompositeOp

KERNELS: Mapping[str, str] = {
    "gelu": "gelu",
    "hard_sigmoid": "hard_sigmoid",
    "hard_swish": "hard_swish",
    "hardsigmoid": "hard_sigmoid",
    "hardswish": "hard_swish",
    "layer_norm": "layer_norm",
    "leaky_relu": "leaky_relu",
    "log_softmax": "log_softmax",
    "logistic": "logistic",
    "sigmoid": "logistic",
    "silu": "silu",
    "softmax": "softmax",
    "swish": "silu",
    "tanh": "tanh",
}
"""Maps a part of composite names to kernels: the part between namespace and variant, `gelu` in `aten.gelu.default`."""


def composite_kernel(op: CompositeOp, own: Mapping[str, str]) -> str | None:
    """The logical kernel that a composite names; None without one.

    `own` maps full names in the target's table to kernels.
    """
    if op.composite_name.data in own:
        return own[op.composite_name.data]
    parts = op.composite_name.data.lower().split(".")
    return next((KERNELS[part] for part in reversed(parts[1:]) if part in KERNELS), None)


@dataclass(frozen=True)
class Expanded:
    """An expanded composite: the kernel that it names, its operands, its results, and the ops of its decomposition.

    `own` is set if a row of the target's table names the composite. Its ops are then not analyzed.
    """

    kernel: str
    own: bool
    inputs: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    ops: frozenset[Operation]


def composite_match(composite: Expanded, graph: FloatGraph) -> RegionMatch | None:
    """The match of a composite's ops: their function of one value if they compute one, else the kernel that the name
    gives.

    None if a result is not computed by the ops, such as a result that is an operand.
    """
    ops: set[Operation] = set()
    pending = [result.owner for result in composite.results]
    while pending:
        op = pending.pop()
        if op in composite.ops and isinstance(op, Operation) and op not in ops:
            ops.add(op)
            pending += [operand.owner for operand in op.operands]
    covered = graph.in_order(ops)
    if not covered or not all(result.owner in ops for result in composite.results):
        return None
    if composite.own:
        return RegionMatch(composite.kernel, covered, composite.inputs, results=composite.results)
    if tuple(covered[-1].results) != composite.results:
        return None
    source = composite.inputs[0]
    if len(composite.inputs) == 1 and all(is_function(op) or graph.splat(op.results[0]) is not None for op in covered):
        return function_match(covered, source, graph)
    return RegionMatch(composite.kernel, covered, composite.inputs)


def expand_composites(program: Program, own: Mapping[str, str]) -> list[Expanded]:
    """Replace every composite by its decomposition, in place. Returns those that name a kernel.

    `own` maps composites that the target's table names to kernels. Composites inside decompositions are expanded, too,
    as parts of the outermost one.

    Raises RecursionInProgram for a decomposition that contains itself.
    """
    if any(isinstance(op, CompositeOp) for op in program.entry.ops):
        check_calls(program)
    functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
    named: list[Expanded] = []
    for op in list(program.entry.ops):
        if isinstance(op, CompositeOp):
            # Annotation ops are still in place, because they are lifted after composites are expanded. Look through
            # them.
            kernel, inputs = composite_kernel(op, own), tuple(dict.fromkeys(map(unstated, op.inputs)))
            ops, results = _expand(op, functions)
            by_row = op.composite_name.data in own
            if kernel is not None and (by_row or len(results) == 1) and inputs:
                named.append(Expanded(kernel, by_row, inputs, tuple(map(unstated, results)), frozenset(ops)))
    return named


def _expand(op: CompositeOp, functions: Mapping[str, FuncOp]) -> tuple[tuple[Operation, ...], tuple[SSAValue, ...]]:
    """Replace a composite by copies of its decomposition's ops, at its location. Returns (ops, results)."""
    block = functions[op.decomposition.root_reference.data].body.block
    copies, results = copy_body(block, op.inputs, op)
    made: list[Operation] = []
    expanded: dict[SSAValue, SSAValue] = {}
    for copy in copies:
        for part in copy.walk():
            part.location = op.location
        if isinstance(copy, CompositeOp):
            old = tuple(copy.results)
            inside, given = _expand(copy, functions)
            made += inside
            expanded.update(zip(old, given, strict=True))
        else:
            made.append(copy)
    results = [expanded.get(value, value) for value in results]
    Rewriter.replace_op(op, [], results)
    return tuple(made), tuple(results)
