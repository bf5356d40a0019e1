"""Kernel tables of targets, and the list of them."""

from zeropoint.targets.cpu import CPU
from zeropoint.targets.kernels import (
    FixedScale,
    Free,
    KernelRow,
    MultiplierAccumulatorScale,
    PortRule,
    Role,
    SameScale,
    Target,
)

__all__ = [
    "TARGETS",
    "FixedScale",
    "Free",
    "KernelRow",
    "MultiplierAccumulatorScale",
    "PortRule",
    "Role",
    "SameScale",
    "Target",
    "target",
]

TARGETS = {row.name: row for row in (CPU,)}


def target(name: str) -> Target:
    """The target of that name.

    Raises ValueError, naming the targets there are.
    """
    if name not in TARGETS:
        raise ValueError(f"found target '{name}', expected one of: {', '.join(TARGETS)}")
    return TARGETS[name]
