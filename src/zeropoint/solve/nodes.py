"""The nodes of the port graph: ports and values that always share one type, and their constraints."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from zeropoint.ir.annotations import Fact, Salience
from zeropoint.ir.quant import Storage, UniformQuantizedType


@dataclass(eq=False)
class PortNode:
    """Ports and values that always share one type.

    `position` is the first position of its members in the canonical order. `reader` is a kernel that has or reads a
    member. `range_of` names the value that last extended the range. A node is `exposed` if a reader of it accepts any
    parameters. `need` is the scale that the readers of the data passing through the node require (`precision.py`).
    """

    position: int
    storage: Storage
    name: str
    reader: str
    minimum: float | None = None
    maximum: float | None = None
    range_of: str = ""
    fixed: UniformQuantizedType | None = None
    fixed_by: str = ""
    zero_point: int | None = None
    zero_point_by: str = ""
    exposed: bool = False
    need: float = inf
    facts: list[Fact] = field(default_factory=list[Fact])

    def widen(self, minimum: float | None, maximum: float | None, facts: list[Fact], name: str) -> None:
        """Extend the range by that of the value `name`. Keeps the facts of the ranges that determine an end."""
        if minimum is None or maximum is None:
            return
        if self.minimum is None or self.maximum is None:
            self.minimum, self.maximum, self.facts = minimum, maximum, [*self.facts, *facts]
            self.range_of = name
            return
        if minimum < self.minimum or maximum > self.maximum:
            self.facts = [*self.facts[:FACTS_KEPT], *facts]
            self.range_of = name
        self.minimum, self.maximum = min(self.minimum, minimum), max(self.maximum, maximum)

    def fix(self, fixed: UniformQuantizedType, by: str, salience: Salience) -> None:
        """Require the type `fixed`. `by` names the source of the requirement."""
        self.fixed, self.fixed_by = fixed, by
        self.facts.append(Fact("parameters", str(fixed), salience, by))


FACTS_KEPT = 8
"""The number of facts that a node keeps when a wider range arrives. It limits the list for a class of many members."""
