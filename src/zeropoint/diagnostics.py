"""Compare `expected-error` comments of a text with the errors that occur, like mlir-opt's `--verify-diagnostics`.

```mlir
%0 = quant.qcast %x : f32 to f32   // expected-error {{must be scalar or tensor of quantized type}}
// expected-error@+1 {{...}}       on the next line, -1: the one before; `@below` and `@above` skip such comments
// expected-error-re {{'{{.*}}' op result #0}}
// expected-error@unknown {{...}}  at no line of the text
```

Source: MLIR, "Diagnostic Infrastructure", section "SourceMgr Diagnostic Verifier Handler". There is one difference: a
comment on any line may expect an error that belongs to no line of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError

from zeropoint.ir.locations import TextPosition, location_text, text_position
from zeropoint.ir.verification import InvalidProgram

_ANNOUNCED = re.compile(
    r"expected-(?P<kind>error|warning|note|remark)(?P<pattern>-re)? *(@(?P<line>[+-]\d+|above|below|unknown))? *"
    r"\{\{(?P<text>.*)\}\}$"
)
_PATTERN_PART = re.compile(r"\{\{(.*?)\}\}")
_RESULTS = re.compile(r"[ \t]*(?:%\S+(?:, %\S+)* = )?")
_QUOTED = re.compile(r"'([^']+)'")


@dataclass(frozen=True)
class Diagnostic:
    """An error, or a note that belongs to one. `line` counts from 1, and is None if no line is at fault."""

    kind: str
    line: int | None
    text: str


@dataclass(frozen=True)
class Expectation:
    """The diagnostic that a comment expects. `line` is None for `@unknown`. `comment` is the comment's own line."""

    kind: str
    line: int | None
    text: str
    comment: int
    is_pattern: bool = False

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = _PATTERN_PART.split(self.text)  # literals and expressions alternate
        return re.compile("".join(f"({part})" if index % 2 else re.escape(part) for index, part in enumerate(parts)))

    def meets(self, found: Diagnostic) -> bool:
        """Whether the diagnostic matches this expectation."""
        if found.kind != self.kind or (found.line is not None and found.line != self.line):
            return False
        return self._pattern.search(found.text) is not None if self.is_pattern else self.text in found.text


def expectations(text: str) -> list[Expectation]:
    """The expectations in the comments of a text, at most one per line."""
    lines = text.split("\n")
    announced = {number: match for number, line in enumerate(lines, 1) if (match := _ANNOUNCED.search(line.rstrip()))}
    found: list[Expectation] = []
    for number, match in announced.items():
        line = _announced_line(number, match["line"] or "+0", announced)
        found.append(Expectation(match["kind"], line, match["text"], number, match["pattern"] is not None))
    return found


def _announced_line(number: int, position: str, announced: Iterable[int]) -> int | None:
    """The line that a comment on line `number` refers to."""
    if position == "unknown":
        return None
    if position not in ("above", "below"):
        return number + int(position)
    step = 1 if position == "below" else -1
    number += step
    while number in announced:
        number += step
    return number


def of_error(error: Exception) -> list[Diagnostic]:
    """The diagnostics of an error of the parser, the verifier or a pass, including its notes."""
    if isinstance(error, ParseError):
        content = error.span.input.content
        assert isinstance(content, str)
        return [Diagnostic("error", content.count("\n", 0, error.span.start) + 1, error.msg)]
    found = [Diagnostic("error", _line(position_of(error)), str(error))]
    if isinstance(error, InvalidProgram) and error.note is not None:
        op, sentence = error.note
        found.append(Diagnostic("note", _line(text_position(op)), sentence))
    if isinstance(error, InvalidProgram):
        found += [diagnostic for other in error.others for diagnostic in of_error(other)]
    return found


def position_of(error: BaseException | None) -> TextPosition | None:
    """The position of the op that an error, or one of its causes, has in its attribute `op`."""
    op = _op_of(error)
    return None if op is None else text_position(op)


def _op_of(error: BaseException | None) -> Operation | None:
    while error is not None:
        op = getattr(error, "op", None)
        if isinstance(op, Operation):
            return op
        error = error.__cause__
    return None


def nearest_position(error: BaseException, text: str, file: str) -> TextPosition:
    """The position in a program's text that best matches an error of a pass.

    It is the position of the error's op, or else of the first op whose name the error mentions (`loc("conv1")`), or
    else of the function.
    """
    op, position = _op_of(error), position_of(error)
    if position is not None:
        return position
    given = [] if op is None else [location_text(op.location) or ""]
    for name in (*given, *_QUOTED.findall(str(error))):
        stated = re.search(rf"""loc\("{re.escape(name)}"\)""", text) if name else None
        if stated is not None:
            return _at(text, _use(text, stated), file)
    function = text.find("func.func")
    return _at(text, max(function, 0), file)


def _use(text: str, stated: re.Match[str]) -> int:
    """The start of the op with a location. For an alias, `#loc1 = loc("conv1")`, the first op that uses it."""
    start = text.rfind("\n", 0, stated.start()) + 1
    alias = re.match(r"(#\w+) = ", text[start:])
    if alias is not None:
        used = re.search(rf"loc\({alias[1]}\)", text)
        start = start if used is None else text.rfind("\n", 0, used.start()) + 1
    found = _RESULTS.match(text, start)
    return start if found is None else found.end()


def _at(text: str, offset: int, file: str) -> TextPosition:
    before = text[:offset]
    return TextPosition(file, before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def _line(position: TextPosition | None) -> int | None:
    return None if position is None else position.line


def differences(name: str, expected: list[Expectation], found: list[Diagnostic]) -> Iterator[str]:
    """Expected diagnostics that did not occur, and unexpected ones that did, each as `file:line: ...`."""
    open_ = list(expected)
    surprises: list[Diagnostic] = []
    for diagnostic in found:
        met = next((expectation for expectation in open_ if expectation.meets(diagnostic)), None)
        if met is None:
            surprises.append(diagnostic)
        else:
            open_.remove(met)
    for missing in open_:
        occurred = "; ".join(surprise.text for surprise in surprises) or f"no {missing.kind}"
        yield f"{name}:{missing.comment}: expected {missing.kind} '{missing.text}' was not produced; found {occurred}"
    for surprise in surprises:
        where = name if surprise.line is None else f"{name}:{surprise.line}"
        yield f"{where}: unexpected {surprise.kind}: {surprise.text}"
