"""The results of patterns: a match, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, SSAValue


@dataclass(frozen=True)
class Match:
    """One kernel, which computes `results` from `inputs` by the ops between them."""

    kind: str
    results: tuple[SSAValue, ...]
    inputs: tuple[SSAValue, ...]
    row: int | None = None
    """For a kernel of rows, the dimension of the result that rows run along."""
    found: object = None
    """The pattern's own data about the ops, for `layout` and `schedule`."""


@dataclass(frozen=True)
class Declined:
    """A pattern does not match. `reason` is None if it obviously does not apply."""

    reason: str | None = None

    def __bool__(self) -> bool:
        return False


Found = dict[Block, object]
"""The data of patterns by kernel body. For bodies parsed from text, the patterns are matched again."""
