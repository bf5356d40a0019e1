"""Known differences between a runtime's kernels and their profile, with their causes."""

from __future__ import annotations

from collections.abc import Mapping

from zeropoint.targets import KernelRow

LITERT = "ai-edge-litert"
TABLE = "it interpolates between the 513 points of a table; we compute in f32 and round once"
FIXED = "it multiplies in fixed point; we round the real number once"
BY_TABLE = ("exp", "gelu", "log", "logistic", "rsqrt", "softmax", "sqrt", "tanh")
CAUSES: Mapping[tuple[str, str, int], str] = {
    **{(LITERT, kernel, 16): TABLE for kernel in BY_TABLE},
    (LITERT, "abs", 16): FIXED,
    (LITERT, "leaky_relu", 16): FIXED,
    (LITERT, "leaky_relu", 8): FIXED,
}
"""By package, logical kernel and width of the result."""


def cause_of(package: str, row: KernelRow) -> str:
    """The known cause of different results in a row; empty if unknown."""
    return CAUSES.get((package, row.kernel, row.output.storage.type.width), "")
