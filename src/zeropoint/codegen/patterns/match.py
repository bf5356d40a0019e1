"""What a pattern says: a match, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, SSAValue


@dataclass(frozen=True)
class Match:
    """One kernel: it computes `results` of `inputs` by the ops between them."""

    kind: str
    results: tuple[SSAValue, ...]
    inputs: tuple[SSAValue, ...]
    row: int | None = None
    """The dimension of the result that rows run along, of a kernel of rows."""
    found: object = None
    """What the pattern knows of the ops, for `layout` and `schedule`."""


@dataclass(frozen=True)
class Declined:
    """Why a pattern does not match; `reason` is None where nobody would expect it to."""

    reason: str | None = None

    def __bool__(self) -> bool:
        return False


Found = dict[Block, object]
"""What patterns know of the ops of a kernel, by its body; for bodies that were read from a text it is found again."""
