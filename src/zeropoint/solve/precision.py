"""The scale that each node of the port graph needs. It is what readers require, propagated back to the defining kernel.

A rescale to a finer scale does not recover what was rounded away. So a reader constrains every node that its value
passes through, back to the kernel that computes it: none of them may be much coarser than the reader requires.

A reader is a float op, the caller, or a kernel that does not pass the scale of its operand on. Ideally, a reader would
get the scale of its value's own range. But it cannot get a finer scale than any node on the path has alone. Tied ports
and coupled values have the union of their ranges. A kernel or a pin may fix a type, and a kernel may require a zero
point. The coarsest of these is the scale that the reader would get if every edge of the graph were rescaled. This is
the best possible scale, so it is what the reader requires.

```
add [-3, 4] ──▶ transpose ──▶ convolution        requires 7/255, also of 'add'
     └────────▶ concatenate [-900, 900] ──▶ ...  so that the rescale goes here
```
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from math import inf

from zeropoint.ir.quant import Storage
from zeropoint.numerics.ranges import least_scale
from zeropoint.solve.nodes import PortNode

TOLERANCE = 2**0.5
"""How many times coarser than the best possible scale the scale of a reader may be: half a bit.

A rescale is not exact: it adds the noise of the finer scale s to the value of the wide reader. Let the shared scale be
r times s. With one type, both readers have the noise r^2 s^2 / 12. With a rescale, the narrow reader has s^2 / 12, and
the wide one (1 + r^2) s^2 / 12. So the rescale removes more noise than it adds if r^2 > 2.
"""
_ROUNDING = 1 + 1e-9


def coarser(scale: float, wanted: float) -> bool:
    """Whether a scale costs a reader that requires `wanted` more than half a bit."""
    return scale > TOLERANCE * wanted * _ROUNDING


def step_of(minimum: float | None, maximum: float | None, storage: Storage, zero_point: int | None) -> float:
    """The scale of a range with the given zero point, or with the best one for None; 0 for an unknown range."""
    low, high = min(minimum or 0.0, 0.0), max(maximum or 0.0, 0.0)
    if zero_point is None:
        return (high - low) / (storage.maximum - storage.minimum)
    if zero_point == storage.type.middle:  # same as `numerics.ranges.symmetric`
        return max(-low, high) / (storage.maximum - zero_point)
    return least_scale(zero_point, low, high, storage.minimum, storage.maximum)


def own_step(node: PortNode) -> float:
    """The scale that a node has alone, from its fixed type or its range."""
    return node.fixed.scale if node.fixed else step_of(node.minimum, node.maximum, node.storage, node.zero_point)


def needs(
    steps: Sequence[float], flows: Iterable[tuple[int, int]], read: Container[int]
) -> tuple[list[float], list[float]]:
    """For each node, the finest scale that it can have, and the scale that its readers require (inf without readers).

    `steps` has the scale of each node alone, 0 if unknown or irrelevant. `flows` has the (from, to) pairs of the
    dataflow. `read` has the nodes that have a reader.
    """
    ahead: list[list[int]] = [[] for _ in steps]
    behind: list[list[int]] = [[] for _ in steps]
    for first, second in flows:
        ahead[first].append(second)
        behind[second].append(first)
    # The largest step before a node is the smallest of the negated steps.
    coarsest = [-step for step in _least_before([-step for step in steps], ahead)]
    wants = [step if number in read and step > 0 else inf for number, step in enumerate(coarsest)]
    return coarsest, _least_before(wants, behind)


def _least_before(numbers: Sequence[float], next_to: Sequence[Sequence[int]]) -> list[float]:
    """For each node, the smallest number of all nodes that reach it, including itself."""
    least = list(numbers)
    pending = deque(range(len(least)))
    while pending:
        node = pending.popleft()
        for other in next_to[node]:
            if least[node] < least[other]:
                least[other] = least[node]
                pending.append(other)
    return least
