"""The parser of programs: xDSL's, extended by syntax that C++ MLIR prints and xDSL 0.74 does not read or misreads.

Unknown ops and types are rejected with C++ MLIR's messages. Ops without a location get their position in the text.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    FixedBitwidthType,
    IndexType,
    IntegerType,
    LocationAttr,
    ModuleOp,
    TensorType,
    UnregisteredAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.parser import Parser, ParserState
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind, StringLiteral

from zeropoint.errors import Error
from zeropoint.ir.dense import DenseElement, with_bits
from zeropoint.ir.locations import TextPosition, is_given, text_location
from zeropoint.limits import LimitExceeded, afford

_LOCATION_ALIAS = re.compile(r"^#\w+ = loc\(.*\)$", re.MULTILINE)
_UNKNOWN_QUANTIZED_TYPE = re.compile(r"'quant\.(\w+)' is not registered")
_UNKNOWN_DIALECT = (
    "operation being parsed with an unregistered dialect. If this is intended, please use -allow-unregistered-dialect "
    "with the MLIR tool used"
)


class InvalidText(Error, ParseError):
    """A text does not parse: the message and the position in the text."""


class InvalidAttribute(Error, VerifyException):
    """A type or attribute in a text that breaks a rule of its dialect."""


class _Lexer(MLIRLexer):
    """Lexes strings without backtracking. xDSL takes exponential time in the length of an unterminated string.

    Escaped bytes that are UTF-8, such as `"\\C3\\A9"`, are a string; in xDSL, only ASCII is.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> Token[MLIRTokenKind]:
        token = super()._lex_string_literal(start_pos)
        if token.kind != MLIRTokenKind.BYTES_LIT:
            return token
        try:
            StringLiteral.from_span(token.span).bytes_contents.decode()
        except UnicodeDecodeError:
            return token
        return Token(MLIRTokenKind.STRING_LIT, token.span)


_TENSOR_TYPE = re.compile(r'tensor<[^<>"/]*(?:<[^<>"/]*>[^<>"/]*)?>')
"""A tensor type without comments or strings, and with at most one pair of brackets inside, as of a quantized type."""
_ONLY_NUMBERS = re.compile(r"(_\d+)*")
"""The part of a name that xDSL strips, once or with several copies."""
_NUMBERS = (IntegerType, IndexType, AnyFloat, ComplexType)

MOST_PARTS = 100_000
"""The maximum number of parts of an alias after expansion. Forty lines of aliases can expand to 2^40 parts."""
_ALIAS_USE = re.compile(r"[#!][A-Za-z_$][\w$.]*")


class _LocationParser(Parser):
    """Reads locations that xDSL does not read, and limits the size of nested aliases."""

    _parts: dict[str, int]

    def _parse_alias_def(self) -> None:
        """Parse an alias definition. Raises LimitExceeded if it stands for more than `MOST_PARTS` parts."""
        if not hasattr(self, "_parts"):
            self._parts = {}
        alias, start = self._current_token.text, self.pos
        super()._parse_alias_def()
        uses = _ALIAS_USE.findall(self._parser_state.lexer.input.content, start + len(alias), self.pos)
        self._parts[alias] = 1 + sum(self._parts.get(use, 1) for use in uses)
        if self._parts[alias] > MOST_PARTS:
            raise LimitExceeded(f"alias '{alias}' stands for more than {MOST_PARTS} parts, expected fewer")

    def parse_dimension_list(self) -> list[int]:
        """Parse dimensions with `x` between them. An `x` after the last dimension is not consumed.

        Spaces are allowed around an `x`, as in `tensor<5 x 1 x f32>`. xDSL steps back one character and misses it.
        """
        dims: list[int] = []
        kinds = (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.QUESTION)
        delimiter: int | None = None
        while self._current_token.kind in kinds:
            dims.append(self.parse_shape_dimension())
            delimiter = self._current_token.span.start
            if self._parse_optional_shape_delimiter() is None:
                return dims
        if delimiter is not None:
            self._resume_from(delimiter)
        return dims

    def _parse_location(self) -> LocationAttr:
        """Parse a location. Only the start of a range, `"file":3:34 to 5:10` or `to :53`, is kept."""
        found = super()._parse_location()
        if isinstance(found, FileLineColLoc) and self.parse_optional_keyword("to") is not None:
            self.parse_optional_integer(allow_boolean=False, allow_negative=False)
            self.parse_punctuation(":")
            self.parse_integer(allow_boolean=False, allow_negative=False)
        return found


class _AliasParser(_LocationParser):
    """Parses only alias definitions."""

    def __init__(self, context: Context, text: str, name: str):
        super().__init__(context, "", name)
        self._parser_state = ParserState(_Lexer(Input(text, name)))

    def parse_aliases(self) -> dict[str, Attribute]:
        while self._current_token.kind != MLIRTokenKind.EOF:
            self._parse_alias_def()
        return self.attribute_aliases


class ProgramParser(_LocationParser):
    """Reads hexadecimal floats in dense literals, and location aliases that are defined after their use.

    A context may allow unregistered ops; unknown ops of its registered dialects are still rejected.
    """

    _TensorLiteralElement = DenseElement

    def __init__(self, context: Context, text: str, name: str):
        super().__init__(context, "", name)
        try:  # reads the first token
            self._parser_state = ParserState(_Lexer(Input(text, name)))
        except ParseError as error:
            raise InvalidText(error.span, error.msg) from error
        self._name = name
        self.dense_bits: list[bytes | None] = []
        self._is_splat = False
        self._repeated: TensorType[Any] | None = None
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._op_starts: list[int] = []
        self._result_names: dict[SSAValue, str] = {}
        self._tensor_types: dict[str, TypeAttribute] = {}
        definitions = "\n".join(_LOCATION_ALIAS.findall(text))
        self._read_ahead = set[str]()
        if definitions:
            try:
                aliases = _AliasParser(context, definitions, name).parse_aliases()
            except ParseError as error:
                raise InvalidText(error.span, error.msg) from error
            self._read_ahead = set(aliases)
            self.attribute_aliases.update(aliases)

    def parse_program(self) -> ModuleOp:
        """Parse the whole text; the enclosing module may be omitted.

        Raises InvalidText and InvalidAttribute. Any other exception of the parser gets a note with its line.
        """
        try:
            return self.parse_module()
        except Error:
            raise
        except ParseError as error:
            raise InvalidText(error.span, error.msg) from error
        except VerifyException as error:
            raise InvalidAttribute(*error.args) from error
        except Exception as error:
            error.add_note(f"line {self._text_position(self.pos).line}")
            raise

    def _parse_optional_complex(self) -> Any:
        """`(1.0, 0x7FC00000)`: a pair of elements, each of which may be given by its bits."""
        start = self._current_token.span
        if self.parse_optional_punctuation("(") is None:
            return None
        real = self._parse_tensor_literal_element()
        self.parse_punctuation(",")
        imaginary = self._parse_tensor_literal_element()
        end = self._current_token.span.end
        self.parse_punctuation(")")
        return (real, imaginary), Span(start.start, end, start.input)

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        """Parse `dense<...>`. A splat is parsed once, because xDSL makes a Python object of every element.

        Raises LimitExceeded if the elements exceed the memory limit.
        """
        self.dense_bits, self._is_splat, self._repeated = [], False, None
        found = with_bits(super().parse_dense_int_or_fp_elements_attr(type), self.dense_bits)
        if self._repeated is None:
            return found
        count = math.prod(self._repeated.get_shape())
        return DenseIntOrFPElementsAttr(self._repeated, BytesAttr(found.data.data * count))

    def _parse_tensor_literal(self) -> Any:
        values, shape = super()._parse_tensor_literal()
        self._is_splat = not shape
        return values, shape

    def parse_optional_type(self) -> TypeAttribute | None:
        """Parse a type if there is one. The same text of a tensor type gives the same object.

        Lexing, parsing and verifying a tensor type takes a fifth of the time of a program of small ops.
        """
        start = self._current_token.span.start
        text = _TENSOR_TYPE.match(self.lexer.input.content, start)
        if text is None:
            return super().parse_optional_type()
        known = self._tensor_types.get(text[0])
        if known is not None:
            self._resume_from(text.end())
            return known
        found = super().parse_optional_type()
        if found is not None:
            self._tensor_types[text[0]] = found
        return found

    def _parse_dense_literal_type(self) -> Any:
        # xDSL makes a constraint for each constant, which takes longer than the rest of a small one.
        start = self._current_token.span.start
        found: Any = self.parse_optional_type()
        if not isinstance(found, TensorType):
            self._resume_from(start)
            return super()._parse_dense_literal_type()
        tensor = cast("TensorType[Any]", found)
        element = tensor.get_element_type()
        if not (isinstance(element, _NUMBERS) and tensor.has_static_shape()):
            self._resume_from(start)
            return super()._parse_dense_literal_type()
        if isinstance(element, FixedBitwidthType):
            afford(tensor.get_shape(), element.compile_time_size, "a constant")
        if not self._is_splat:
            return tensor
        self._repeated = tensor
        return TensorType(element, [])

    def _parse_alias_def(self) -> None:
        alias = self._current_token.text
        if alias in self._read_ahead:
            self._read_ahead.remove(alias)
            del self.attribute_aliases[alias]
        super()._parse_alias_def()

    def parse_operation(self) -> Operation:
        """Parse an operation. If the text gives no location, its position in the text becomes the location."""
        op = super().parse_operation()
        start = self._op_starts.pop()
        if not is_given(op.location):
            op.location = text_location(replace(self._text_position(start), results=self._names_of(op)))
        return op

    def _names_of(self, op: Operation) -> tuple[str, ...]:
        """The names of an op's results in the text: `a` and `b` of `%a, %b`, `c` of `%c:2`."""
        return tuple(
            dict.fromkeys(self._result_names.pop(result) for result in op.results if result in self._result_names)
        )

    def _parse_op_result_list(self) -> list[tuple[Span, int]]:
        results = super()._parse_op_result_list()
        # An op's position is that of its name, which is the next token.
        self._op_starts.append(self._current_token.span.start)
        return results

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        for value in values:
            self._result_names[value] = name
            # xDSL strips a number from the end, and another one with each copy. `_363` and the copy of `_363_1` become
            # an empty name, which xDSL then refuses to copy.
            if value.name_hint is not None and _ONLY_NUMBERS.fullmatch(value.name_hint):
                value.name_hint = None

    def _text_position(self, position: int) -> TextPosition:
        line = bisect_right(self._line_starts, position)
        return TextPosition(self._name, line, position - self._line_starts[line - 1] + 1)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        try:
            found = super()._get_op_by_name(name)
        except ParseError:
            self._refuse_op(name)
        is_foreign = name.partition(".")[0] not in self.ctx.registered_dialect_names
        if issubclass(found, UnregisteredOp) and not (is_foreign and self._is_generic):
            self._refuse_op(name)
        return found

    @property
    def _is_generic(self) -> bool:
        """Whether the current op is in the generic form: its name is a string."""
        return self.lexer.input.content[self._op_starts[-1]] == '"'

    def _refuse_op(self, name: str) -> NoReturn:
        """Raise a ParseError for an unknown op."""
        start = self._op_starts[-1]
        dialect, dot, _ = name.partition(".")
        is_known = dialect in self.ctx.registered_dialect_names
        if not self._is_generic:
            tried = "" if dot else f" (tried '{self._parser_state.dialect_stack[-1]}.{name}' as well)"
            missing = f"Dialect `{dialect}' not found for custom op '{name}'"
            self.raise_error(missing if dot and not is_known else f"custom op '{name}' is unknown{tried}", start)
        if not is_known:
            self.raise_error(_UNKNOWN_DIALECT, start + len(name) + 2)
        self.raise_error(
            f"unregistered operation '{name}' found in dialect ('{dialect}') that does not allow unknown operations",
            start,
        )

    def _parse_dialect_type_or_attribute_body(self, *arguments: Any, **named: Any) -> Any:
        try:
            found = super()._parse_dialect_type_or_attribute_body(*arguments, **named)
        except ParseError as error:
            unknown = _UNKNOWN_QUANTIZED_TYPE.fullmatch(error.msg)
            if unknown is None:
                raise
            self._refuse_quantized_type(unknown[1])
        if isinstance(found, UnregisteredAttr) and found.attr_name.data.startswith("quant."):
            self._refuse_quantized_type(found.attr_name.data.removeprefix("quant."))
        return found

    def _refuse_quantized_type(self, name: str) -> NoReturn:
        start = self.lexer.input.content.rindex(name, 0, self.pos)
        self.raise_error(f"unknown quantized type {name}", start)
