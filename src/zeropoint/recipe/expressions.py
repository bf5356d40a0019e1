"""Regular expressions over names, which RE2 matches in linear time.

Python's `re` backtracks: `((a|[a-z])+)+!` takes hours on a name of 30 letters. RE2 has no lookaround and no back
references, because these cannot be matched in linear time. `\\w`, `\\d` and `\\s` stand for ASCII.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, cast

import re2  # pyright: ignore[reportMissingTypeStubs] (it has none)

from zeropoint.errors import Error

_MOST_MEMORY = 8 << 20
"""Maximum size in bytes of a compiled expression."""


class InvalidExpression(Error, ValueError):
    """A text is not a valid RE2 expression. The message gives RE2's reason."""


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
    """The text with `?` for characters that UTF-8 cannot encode, such as lone surrogates."""
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
        """Whether the expression matches the whole name."""
        return _compiled(self.text).fullmatch(_encodable(name)) is not None
