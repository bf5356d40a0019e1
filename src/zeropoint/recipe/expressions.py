"""Regular expressions over names, matched by RE2 in time linear in the name.

`re` tries every way to match: `((a|[a-z])+)+!` takes hours on a name of 30 letters. RE2 has no lookaround and no back
references, which cannot be matched in linear time. `\\w`, `\\d` and `\\s` stand for ASCII.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, cast

import re2  # pyright: ignore[reportMissingTypeStubs] (it has none)

from zeropoint.errors import Error

_MOST_MEMORY = 8 << 20
"""Bytes of a compiled expression."""


class InvalidExpression(Error, ValueError):
    """A text that is not a valid RE2 expression; the message says why."""


@functools.cache
def _compiled(text: str) -> Any:
    library = cast("Any", re2)
    options = library.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        return library.compile(_encodable(text), options)
    except library.error as error:
        (reason,) = error.args
        raise InvalidExpression(
            reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        ) from error


def _encodable(text: str) -> str:
    """The text with a `?` for what UTF-8 does not have."""
    return text.encode(errors="replace").decode()


@dataclass(frozen=True)
class NamePattern:
    """A regular expression. Raises InvalidExpression if the text is not one."""

    text: str

    def __post_init__(self) -> None:
        _compiled(self.text)

    def __str__(self) -> str:
        return self.text

    def matches(self, name: str) -> bool:
        """Whether it matches the whole name."""
        return _compiled(self.text).fullmatch(_encodable(name)) is not None
