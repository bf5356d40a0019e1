"""Known differences between a runtime's kernels and their profile, with their causes."""

from __future__ import annotations

from collections.abc import Mapping

from zeropoint.targets import KernelRow

LITERT = "ai-edge-litert"
TABLE = "it interpolates between the 513 points of two tables; we compute in f32 and round once"
CAUSES: Mapping[tuple[str, str, int], str] = {(LITERT, "softmax", 16): TABLE}
"""By package, logical kernel and width of the result."""


def cause_of(package: str, row: KernelRow) -> str:
    """The known cause of different results in a row; empty if unknown."""
    return CAUSES.get((package, row.kernel, row.output.storage.type.width), "")
