"""Which patterns each target fuses by, in the order in which they get their chance.

A pattern is a small function from an op to a match. The kernels that they name come from the target's table: a function
of one value is named `gelu` where the target has that kernel, and `elementwise_unary` where it makes a table of any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from zeropoint.fuse import contraction, elementwise, movement, normalization, pooling
from zeropoint.fuse.match import Pattern

FORWARD, BACKWARD = 1, -1


@dataclass(frozen=True)
class FusionList:
    """Walks over the program, each with a direction and patterns; the bounds that sums and products take in.

    `bounds` None means all: where the kernel clamps the integers that it makes, any two of them do.
    """

    phases: tuple[tuple[int, tuple[Pattern, ...]], ...]
    bounds: frozenset[tuple[float, float]] | None = None


PHASES = (
    # Whole idioms before the kernels that their parts would be.
    (FORWARD, normalization.PATTERNS),
    (FORWARD, (*contraction.PATTERNS, *pooling.PATTERNS)),
    # From the last op to the first, so that a function of many ops is found from its end.
    (BACKWARD, elementwise.PATTERNS),
    (FORWARD, movement.PATTERNS),
)
# LiteRT's fused activation functions: RELU, RELU6, RELU_N1_TO_1.
ACTIVATIONS = frozenset({(0.0, inf), (0.0, 6.0), (-1.0, 1.0)})

GENERATED = FusionList(PHASES)
"""Of targets whose kernels are made to measure."""

LISTS: Mapping[str, FusionList] = {
    "cpu": GENERATED,
    "litert": FusionList(PHASES, ACTIVATIONS),
    "litert-16x8": FusionList(PHASES, ACTIVATIONS),
    # A clip behind a quantized kernel is dropped where its bounds are those of the storage; so that any may go in.
    "onnxruntime": GENERATED,
    "stablehlo": GENERATED,
    "tosa": GENERATED,
}
"""By the name of the target; a user's own target fuses as `cpu` does."""


def fusion_list(target: str) -> FusionList:
    """The list of a target."""
    return LISTS.get(target, GENERATED)
