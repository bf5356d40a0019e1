"""Known differences between a runtime's kernels and their profile, with their causes."""

from __future__ import annotations

from collections.abc import Mapping

from zeropoint.check_target.models import width_of
from zeropoint.targets import KernelRow

CAUSES: Mapping[tuple[str, str, int], str] = {}
"""Cause by package, logical kernel and width of the result in bits (`width_of`). No difference is known at present."""


def cause_of(package: str, row: KernelRow) -> str:
    """The known cause of differences in a row; empty if there is none."""
    return CAUSES.get((package, row.kernel, width_of(row)), "")
