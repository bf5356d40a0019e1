"""Replaces ops without a native kernel by ops that have one. The results are bit-identical.

```mlir
%y = "stablehlo.all_reduce"(%x) ...                       in one process: %x
%y = "stablehlo.batch_norm_inference"(%x, ...) ...        subtract, divide, multiply, add
%y = stablehlo.convert %four_bits : tensor<..xi4>         a constant of bytes
%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] ...       transpose, then contract the last dimension
%y = stablehlo.pad %x, %computed ...                      pad with zeros, then select
%y = stablehlo.pad %x, %v, low = [-9] ...                 %v alone, if nothing of %x is left
%y = "stablehlo.reduce_window"(%x, %v) ...               convert and pad, then windows without padding
%y = "stablehlo.select_and_scatter"(%x, ...) ...          one slice, comparison and pad for each position of the window
```
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.expand.batch_norm import batch_norm_grad, batch_norm_inference, batch_norm_training
from zeropoint.expand.collectives import alone, first_id, permuted
from zeropoint.expand.emission import Emission
from zeropoint.expand.mapping import mapped
from zeropoint.expand.narrow_constants import converted, is_narrow
from zeropoint.expand.padding import is_padding_expanded, pad
from zeropoint.expand.pooling_gradient import select_and_scatter
from zeropoint.expand.products import has_terms_apart, with_adjacent_terms
from zeropoint.expand.reductions import is_converting, reduction, window
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.program import Program

Expansion = Callable[[Emission, Any], Sequence[SSAValue] | None]
"""Emits the results of an op; None if the op stays."""
EXPANSIONS: Mapping[type[Operation], Expansion] = {
    hlo.AllGatherOp: alone,
    hlo.AllReduceOp: alone,
    hlo.AllToAllOp: alone,
    hlo.BatchNormGradOp: batch_norm_grad,
    hlo.BatchNormInferenceOp: batch_norm_inference,
    hlo.BatchNormTrainingOp: batch_norm_training,
    hlo.CollectiveBroadcastOp: alone,
    hlo.CollectivePermuteOp: permuted,
    hlo.CollectiveReduceOp: alone,
    hlo.ConvertOp: converted,
    hlo.DotGeneralOp: with_adjacent_terms,
    hlo.MapOp: mapped,
    hlo.PadOp: pad,
    hlo.PartitionIdOp: first_id,
    hlo.ReduceScatterOp: alone,
    hlo.ReduceOp: reduction,
    hlo.ReduceWindowOp: window,
    hlo.ReplicaIdOp: first_id,
    hlo.SelectAndScatterOp: select_and_scatter,
}


NO_RULES: Mapping[type[Operation], Expansion] = {}
APPLIES: Mapping[type[Operation], Callable[[Any], bool]] = {
    hlo.ConvertOp: is_narrow,
    hlo.DotGeneralOp: has_terms_apart,
    hlo.PadOp: is_padding_expanded,
    hlo.ReduceOp: is_converting,
}
"""For some ops of `EXPANSIONS`, whether one has to be expanded. Others always are, unless their rule returns None."""


def _is_expanded(op: Operation) -> bool:
    return type(op) in EXPANSIONS and (type(op) not in APPLIES or APPLIES[type(op)](op))


def _ops(program: Program) -> Iterator[Operation]:
    """The ops of all functions, and of the loops and branches in them."""
    pending = [op.body for op in program.module.ops if isinstance(op, FuncOp)]
    for region in pending:
        for block in region.blocks:
            for op in block.ops:
                yield op
                if isinstance(op, hlo.CaseOp | hlo.IfOp | hlo.WhileOp):
                    pending += op.regions


def expand(
    program: Program, kept: Collection[type[Operation]] = (), rules: Mapping[type[Operation], Expansion] = NO_RULES
) -> Program:
    """A copy in which the ops of `EXPANSIONS` are expanded, except those `kept`; the program itself if there are none.

    `rules` replace the expansions of their ops, and also apply to ops that are kept.

    Raises ExpansionError for an op that communicates with other processes, and for a `select_and_scatter` whose windows
    are too large or whose bodies are not elementwise.
    """

    def is_expanded(op: Operation) -> bool:
        return type(op) in rules or (type(op) not in kept and _is_expanded(op))

    if not any(map(is_expanded, _ops(program))):
        return program
    program = program.clone()
    for op in filter(is_expanded, list(_ops(program))):
        rule = rules.get(type(op)) or EXPANSIONS[type(op)]
        made = rule(Emission(Builder(InsertPoint.before(op)), program.weights, op.location), op)
        if made is not None:
            Rewriter.replace_op(op, [], list(made))
    return program
