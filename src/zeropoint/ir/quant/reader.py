"""Parses the text of a type with upstream MLIR's error messages, reported at the same positions as upstream."""

from __future__ import annotations

import struct
from typing import NoReturn

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind, PunctuationSpelling

from zeropoint.numerics.storage import half_range

MAX_INTEGER_WIDTH = (1 << 24) - 1
_WIDTH_LIMIT = f"integer bitwidth is limited to {MAX_INTEGER_WIDTH} bits"
_CLOSERS = {">": "<", ")": "(", "]": "[", "}": "{"}
_NEWLINES_AND_SPACES = " \t\r\n"


def _integer_width(found: Attribute | None) -> int:
    return found.bitwidth if isinstance(found, IntegerType) else 0


class TypeReader:
    """Parses the text that follows the name of a type."""

    def __init__(self, parser: AttrParser):
        self._parser = parser
        self._start = parser.pos
        # `!quant<uniform<...>>` has one more bracket, before the name.
        before_name = self._name_start() - 1
        self._outermost = before_name if self._content[before_name] == "<" else self._start

    @property
    def _content(self) -> str:
        return self._parser.lexer.input.content

    @property
    def position(self) -> int:
        """The position of the next token."""
        return self._parser.pos

    def error(self, message: str, position: int | None = None) -> NoReturn:
        """Raise a ParseError at `position`, by default at the next token."""
        self._check_balanced()
        self._parser.raise_error(message, self.position if position is None else position)

    def type_error(self, error: VerifyException) -> NoReturn:
        """Raise a ParseError, at the name of the type, for a type that parses but does not verify."""
        self._parser.raise_error(str(error), self._name_start())

    def _name_start(self) -> int:
        name_end = len(self._content[: self._start].rstrip(_NEWLINES_AND_SPACES))
        return max(self._content.rfind(mark, 0, name_end) for mark in "!.<") + 1

    def accept(self, punctuation: PunctuationSpelling) -> bool:
        """Consume a punctuation if it comes next; returns whether it did."""
        return self._parser.parse_optional_punctuation(punctuation) is not None

    def expect(self, punctuation: PunctuationSpelling) -> None:
        """Consume a punctuation. If it is missing, raise a ParseError at the end of the previous token."""
        if not self.accept(punctuation):
            self.error(f"expected '{punctuation}'", self._previous_end())

    def _previous_end(self) -> int:
        position = min(self.position, len(self._content) - 1)
        return len(self._content[:position].rstrip(_NEWLINES_AND_SPACES))

    def until(self, end: str) -> str:
        """The text from the next token to the first `end` inclusive; empty if there is none."""
        content, start = self._content, self.position
        return content[start : content.find(end, start) + len(end)]

    def skip(self, length: int) -> None:
        """Continue `length` characters after the start of the next token."""
        self._parser._resume_from(self.position + length)  # pyright: ignore[reportPrivateUsage] (types are read by character)

    def integer(self, bits: int) -> int:
        """A signed integer of `bits` bits, decimal or hexadecimal."""
        parser, start = self._parser, self.position
        negative = self.accept("-")
        if parser._current_token.kind is not MLIRTokenKind.INTEGER_LIT:  # pyright: ignore[reportPrivateUsage] (types are read by character)
            self.error("expected integer value", self._previous_end() if negative else None)
        value = parser.parse_integer(allow_boolean=False, allow_negative=False)
        value = -value if negative else value
        if not -half_range(bits) <= value < half_range(bits):
            self.error("integer value too large", start)
        return value

    def floating(self) -> float:
        """An f64: a decimal number with a point, or its bits in hexadecimal."""
        parser = self._parser
        negative, position = self.accept("-"), self.position
        token = parser._current_token  # pyright: ignore[reportPrivateUsage] (types are read by character)
        if token.kind is MLIRTokenKind.FLOAT_LIT:
            value = parser.parse_float(allow_negative=False)
            return -value if negative else value
        if token.kind is not MLIRTokenKind.INTEGER_LIT:
            self.error("expected floating point literal")
        if not token.text.startswith("0x"):
            self.error("unexpected decimal integer literal for a floating point value", position)
        if negative:
            self.error("hexadecimal float literal should not have a leading minus", position)
        bits = parser.parse_integer(allow_boolean=False)
        if bits >> 64:
            self.error("hexadecimal float constant out of range for type", position)
        return struct.unpack(">d", bits.to_bytes(8, "big"))[0]

    def optional_type(self) -> Attribute | None:
        """A type if one comes next, else None. Errors inside a builtin type are xDSL's."""
        position = self.position
        try:
            found = self._parser.parse_optional_type()
        except ParseError as error:
            self._check_balanced()
            raise error
        width = _integer_width(found)
        if width > MAX_INTEGER_WIDTH:
            self.error("invalid integer width" if width >> 32 else _WIDTH_LIMIT, position)
        return found

    def type(self) -> Attribute:
        """A type."""
        found = self.optional_type()
        if found is None:
            self.error("expected non-function type")
        return found

    def keyword(self) -> str:
        """A bare identifier."""
        position = self.position
        word = self._parser.parse_optional_identifier()
        if word is None:
            self.error("expected valid keyword", position)
        return word

    def _check_balanced(self) -> None:
        """Raise a ParseError for unbalanced brackets. Upstream checks them before it parses the type."""
        unbalanced = self._unbalanced()
        if unbalanced is not None:
            self._parser.raise_error(f"unbalanced '{unbalanced}' character in pretty dialect name", self._outermost)

    def _unbalanced(self) -> str | None:
        """The bracket of the type's text that is never closed."""
        content, position, nesting = self._content, self._outermost, ""
        if not content.startswith("<", position):
            return None
        while position < len(content):
            char = content[position]
            position += 1
            if char in "<([{":
                nesting += char
            elif char == "-" and content.startswith(">", position):
                position += 1
            elif char in _CLOSERS:
                if nesting[-1] != _CLOSERS[char]:
                    return nesting[-1]
                nesting = nesting[:-1]
                if not nesting:
                    return None
            elif char == '"':
                position = content.find('"', position) + 1 or len(content)
        return nesting[-1]
