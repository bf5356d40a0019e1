"""Collectives in a program that runs as one process. The group has one member, so the result is the operand.

Source: the StableHLO specification, "all_reduce" and the others; their groups are those of `interp.collectives`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.expand.emission import Emission, ExpansionError
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import CollectivePermuteOp, PartitionIdOp, ReplicaIdOp
from zeropoint.ir.stablehlo.channels import replica_groups
from zeropoint.ir.tensors import element_of


def _check(op: Any, what: str, found: list[list[int]], only: list[list[int]]) -> None:
    """Raise ExpansionError for groups or pairs of several processes."""
    if any(found) and found != only:
        sentence = f"found the {what} {found}, expected {only} or none"
        raise ExpansionError(
            f"{describe(op)}: {sentence}: native code runs one process; run it with the interpreter", op
        )


def alone(emit: Emission, op: Any) -> Sequence[SSAValue]:
    """The operands of a collective, converted to its result types. Raises ExpansionError for several processes."""
    _check(op, "groups", [list(group) for group in replica_groups(op.replica_groups)], [[0]])
    values = list(op.operands)[: len(op.results)]
    for region in op.regions:
        values = [
            emit.converted(value, element_of(argument))
            for value, argument in zip(values, region.block.args, strict=False)
        ]
    return [emit.converted(value, element_of(result)) for value, result in zip(values, op.results, strict=True)]


def permuted(emit: Emission, op: CollectivePermuteOp) -> Sequence[SSAValue]:
    """The operand, or zeros if the process receives no value. Raises ExpansionError for several processes."""
    pairs = [list(pair) for pair in replica_groups(op.source_target_pairs)]
    _check(op, "pairs", pairs, [[0, 0]])
    return [op.operand if any(pairs) else emit.splat(0, op.operand)]


def first_id(emit: Emission, op: PartitionIdOp | ReplicaIdOp) -> Sequence[SSAValue]:
    """The id of the only process: 0."""
    return [emit.constant(np.zeros((), np.uint32))]
