"""The parser of programs: xDSL's, with what C++ MLIR prints and xDSL 0.74 does not read, or reads as something else."""

from __future__ import annotations

import re
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute
from xdsl.parser import AttrParser, Parser
from xdsl.utils.mlir_lexer import MLIRTokenKind

_LOCATION_ALIAS = re.compile(r"^#\w+ = loc\(.*\)$", re.MULTILINE)


class _AliasParser(Parser):
    """Parses nothing but definitions of aliases."""

    def parse_aliases(self) -> dict[str, Attribute]:
        while self._current_token.kind != MLIRTokenKind.EOF:
            self._parse_alias_def()
        return self.attribute_aliases


class ProgramParser(Parser):
    """Reads hexadecimal floats in dense literals, and location aliases that are defined after their use."""

    class _TensorLiteralElement(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
        def to_type(self, parser: AttrParser, type: Any) -> Any:
            # xDSL takes 0x7F800000 for the number 2139095040.0; MLIR means the bits.
            if isinstance(type, AnyFloat) and self.span.text[:2] in ("0x", "0X"):
                assert isinstance(self.value, int)
                try:
                    raw = self.value.to_bytes(type.compile_time_size, "little")
                except OverflowError:
                    parser.raise_error("hexadecimal float constant out of range for type", self.span)
                return next(type.iter_unpack(raw))
            return super().to_type(parser, type)

    def __init__(self, context: Context, text: str, name: str):
        super().__init__(context, text, name)
        definitions = "\n".join(_LOCATION_ALIAS.findall(text))
        self._read_ahead = set[str]()
        if definitions:
            aliases = _AliasParser(context, definitions, name).parse_aliases()
            self._read_ahead = set(aliases)
            self.attribute_aliases.update(aliases)

    def _parse_alias_def(self) -> None:
        alias = self._current_token.text
        if alias in self._read_ahead:
            self._read_ahead.remove(alias)
            del self.attribute_aliases[alias]
        super()._parse_alias_def()
