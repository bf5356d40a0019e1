"""MLIR of each node before and after: the float ops of the fused region, and the integer ops that replace them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import FACTS, FLOAT_REASON, KERNEL
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.text import print_ops
from zeropoint.report.document.graph import ReportGraph, occurrences

SHOWN = 4
"""Number of elements of a constant that are shown."""
MOST_LINES = 120
"""Maximum number of lines of one text. The text of a large float island is truncated."""
_NUMBER = r"-?\d[\w.+-]*(?::-?\d+)?"
_LIST = re.compile(rf"([\[{{])((?:{_NUMBER}, ?){{{SHOWN}}}){_NUMBER}(?:, ?{_NUMBER})*([\]}}])")
"""A list of more than `SHOWN` numbers: the elements of a constant, or the scales of a type."""


@dataclass(frozen=True)
class Text:
    """The float ops of a kernel as text (None if the float program is not known), and the ops that replace them."""

    before: str | None
    after: str


def texts(program: Program, fused: Program | None, graph: ReportGraph) -> dict[str, Text]:
    """The texts of every node with ops. `fused` is the float program with its regions."""
    regions = {} if fused is None else occurrences(fused)
    before = {
        node.id: regions[occurrence] for occurrence, node in graph.by_occurrence().items() if occurrence in regions
    }
    return {
        node: Text(_text([before[node]]) if node in before else None, _text(_with_constants(node, graph)))
        for node in graph.ops
    }


def _with_constants(node: str, graph: ReportGraph) -> list[Operation]:
    """The ops of a node. Each constant stands before the first op that reads it."""
    ops: list[Operation] = []
    for op in graph.ops[node]:
        for operand in op.operands:
            if isinstance(operand.owner, ConstantOp) and operand.owner not in ops:
                ops.append(operand.owner)
        ops.append(op)
    return ops


def _text(ops: Iterable[Operation]) -> str:
    """The ops as text, without their facts, and with long lists shortened."""
    copies: list[Operation] = []
    values: dict[SSAValue, SSAValue] = {}
    for op in ops:
        copy = op.clone(values)
        for attribute in (FACTS, FLOAT_REASON, KERNEL):
            copy.attributes.pop(attribute, None)
        copies.append(copy)
    lines = _LIST.sub(r"\1\2...\3", print_ops(copies, names=True)).rstrip().splitlines()
    for copy in reversed(copies):  # they would stay uses of the program's values
        Rewriter.erase_op(copy)
    left = len(lines) - MOST_LINES
    return "\n".join([*lines[:MOST_LINES], f"// {left} more lines"] if left > 0 else lines)
