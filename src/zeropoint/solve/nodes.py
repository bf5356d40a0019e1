"""The nodes of the port graph: ports and values that have one type whatever happens, and what they demand."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from zeropoint.ir.annotations import Fact, Salience
from zeropoint.ir.quant import Storage, UniformQuantizedType


@dataclass(eq=False)
class Node:
    """Ports and values that have one type whatever happens.

    `position` is that of the first of them in the program, `reader` a kernel that has or reads it. `exposed` values are
    read by something that takes any parameters. `need` is the scale that the readers of what goes through here want
    (`precision.py`).
    """

    position: int
    storage: Storage
    name: str
    reader: str
    minimum: float | None = None
    maximum: float | None = None
    fixed: UniformQuantizedType | None = None
    fixed_by: str = ""
    zero_point: int | None = None
    zero_point_by: str = ""
    exposed: bool = False
    need: float = inf
    facts: list[Fact] = field(default_factory=list[Fact])

    def widen(self, minimum: float | None, maximum: float | None, facts: list[Fact]) -> None:
        """Take in a range; the facts of the nodes that decide an end are kept."""
        if minimum is None or maximum is None:
            return
        if self.minimum is None or self.maximum is None:
            self.minimum, self.maximum, self.facts = minimum, maximum, [*self.facts, *facts]
            return
        if minimum < self.minimum or maximum > self.maximum:
            self.facts = [*self.facts[:FACTS_KEPT], *facts]
        self.minimum, self.maximum = min(self.minimum, minimum), max(self.maximum, maximum)

    def fix(self, fixed: UniformQuantizedType, by: str, salience: Salience) -> None:
        """Demand parameters."""
        self.fixed, self.fixed_by = fixed, by
        self.facts.append(Fact("parameters", str(fixed), salience, by))


FACTS_KEPT = 8
"""Facts of a node before those of a wider range: a class of many members lists the ones that count."""
