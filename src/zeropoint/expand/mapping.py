"""Expands `map`: applies its body to whole tensors.

Source: the StableHLO specification, "map".
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from zeropoint.expand.emission import Emission, ExpansionError
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import MapOp


def mapped(emit: Emission, op: MapOp) -> Sequence[SSAValue]:
    """The results of a `map`. Raises ExpansionError for a body with an op that is not elementwise."""
    made = emit.applied(op.regions[0].block, *op.operands)
    if made is None:
        raise ExpansionError(
            f"{describe(op)}: found a body with an op that is not elementwise; run it with the interpreter", op
        )
    return [made]
