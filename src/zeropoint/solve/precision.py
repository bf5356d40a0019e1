"""How fine each node of the port graph has to be: what its readers want, handed back to whoever makes the value.

A rescale to a finer scale does not bring back what was rounded away. So a reader asks something of every node that its
value comes through, as far back as the kernel that computes it: none of them may be much coarser than what the reader
wants.

A reader is a kernel that does not hand the scale of its operand on, a float op, or the caller. It wants the scale of
its value's own range. It cannot have a finer one than any node that its value comes through has by itself: ports that
a kernel ties and values that are coupled have the range of all of them, a kernel or a pin may fix a type, a kernel may
want a zero point. The coarsest of these is what the reader would get if every edge of the graph were rescaled: it is
the only way, and it is what the reader wants.

```
add [-3, 4] ──▶ transpose ──▶ convolution        wants 7/255, of 'add' too
     └────────▶ concatenate [-900, 900] ──▶ ...  so that the rescale goes here
```
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from math import inf

from zeropoint.ir.quant import Storage
from zeropoint.numerics.ranges import least_scale
from zeropoint.solve.classes import middle
from zeropoint.solve.nodes import Node

TOLERANCE = 2.0
"""A reader takes a scale that is at most twice as coarse as it could have: one bit."""
_ROUNDING = 1 + 1e-9


def coarser(scale: float, wanted: float) -> bool:
    """Whether a scale costs somebody more than a bit."""
    return scale > TOLERANCE * wanted * _ROUNDING


def step_of(minimum: float | None, maximum: float | None, storage: Storage, zero_point: int | None) -> float:
    """The scale of a range that is stored with a zero point, or with the best one; 0 where nothing is known."""
    low, high = min(minimum or 0.0, 0.0), max(maximum or 0.0, 0.0)
    if zero_point is None:
        return (high - low) / (storage.maximum - storage.minimum)
    if zero_point == middle(storage):  # as `numerics.ranges.symmetric` has it
        return max(-low, high) / (storage.maximum - zero_point)
    return least_scale(zero_point, low, high, storage.minimum, storage.maximum)


def own_step(node: Node) -> float:
    """The scale of a node by itself."""
    return node.fixed.scale if node.fixed else step_of(node.minimum, node.maximum, node.storage, node.zero_point)


def needs(
    steps: Sequence[float], flows: Iterable[tuple[int, int]], read: Container[int]
) -> tuple[list[float], list[float]]:
    """The finest scale that each node can have; and the one that the readers behind it want, infinite without any.

    `steps` has the scale of each node by itself, 0 where it is not known or does not matter; `flows` says from where
    to where data goes, and `read` where somebody reads it.
    """
    ahead: list[list[int]] = [[] for _ in steps]
    behind: list[list[int]] = [[] for _ in steps]
    for first, second in flows:
        ahead[first].append(second)
        behind[second].append(first)
    coarsest = [-step for step in _least_before([-step for step in steps], ahead)]
    wants = [step if number in read and step > 0 else inf for number, step in enumerate(coarsest)]
    return coarsest, _least_before(wants, behind)


def _least_before(numbers: Sequence[float], next_to: Sequence[Sequence[int]]) -> list[float]:
    """For each node the least number of all nodes from which it is reached, its own included."""
    least = list(numbers)
    pending = deque(range(len(least)))
    while pending:
        node = pending.popleft()
        for other in next_to[node]:
            if least[node] < least[other]:
                least[other] = least[node]
                pending.append(other)
    return least
