"""Refuse regions whose body does not compute what the name of their kernel says (`targets/bodies.py`).

Before types are decided, only contractions are checked. All regions with types are checked after propagation, and again
where they are lowered.
"""

from __future__ import annotations

from zeropoint.ir.locations import named_kernel
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.regions import regions_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.errors import PropagationError
from zeropoint.targets.bodies import foreign_contraction, lacks, misfit
from zeropoint.targets.logical_kernels import CONTRACTIONS


def check_body(region: QuantizeRegionOp, weights: Weights) -> None:
    """Raise PropagationError if the body of a region does not fit its kernel."""
    if reason := misfit(region, weights):
        raise _refusal(region, reason)


def check_bodies(program: Program) -> None:
    """Raise PropagationError if the body of a region with types does not fit its kernel."""
    for region in regions_of(program):
        if region.is_quantized:
            check_body(region, program.weights)


def check_contractions(region: QuantizeRegionOp) -> None:
    """Raise PropagationError if a contraction is in a region of another kernel, or missing in a region of its own."""
    own = lacks(region) if region.logical_kernel.data in CONTRACTIONS else None
    if reason := own or foreign_contraction(region):
        raise _refusal(region, reason)


def _refusal(region: QuantizeRegionOp, reason: str) -> PropagationError:
    """The error for a region whose body does not fit."""
    return PropagationError(
        f"{named_kernel(region.logical_kernel.data, region.outputs[0])}: {reason}; name the kernel that computes its "
        f"ops, or unfuse it (pass 'unfuse')",
        region,
    )
