"""Messages for text that does not parse: the parser's sentence, what is at the place, what was expected, the fix.

Sentences of xDSL name what they expect or what they do not know, seldom both, and never a fix.
"""

from __future__ import annotations

from xdsl.utils.exceptions import ParseError

MOST_SHOWN = 30
"""How many characters of the text at the place are shown."""
FIX = "correct the text here, or write the file again if it was cut"
_BROKEN = "{first_char}"
"""What xDSL prints in place of a character, because a sentence lacks its `f`."""


def syntax_message(error: ParseError) -> str:
    """The message of an error of the parser, without its place. Complete sentences stay as they are."""
    message = error.msg
    if "found" in message and "expected" in message:
        return message
    shown = _shown(error)
    message = message.rstrip(".").replace(_BROKEN, shown)
    given = f"{message}, found {shown}" if "xpected" in message else f"{message}: found {shown}, expected valid MLIR"
    return f"{given}; {FIX}"


def _shown(error: ParseError) -> str:
    """The text at the place of an error, in quotes."""
    text, start = error.span.input.content, error.span.start
    text = text if isinstance(text, str) else text.decode("utf-8", "replace")
    end = max(error.span.end, start + 1)
    found = " ".join(text[start:end].split())
    if start >= len(text):
        return "the end of the text"
    if not found:
        return "the end of a line" if "\n" in text[start:end] else "a space"
    return f"'{found}'" if len(found) <= MOST_SHOWN else f"'{found[:MOST_SHOWN]}...'"
