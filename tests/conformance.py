"""The public StableHLO conformance programs, run from a folder outside of the project: `make conformance`.

Prints, for each file, how many of its programs passed, failed, or are out of scope; then the failures. The exit status
is 1 where a program fails that is not listed as out of scope, and where one that is listed passes.

`interpret/` and `quantized/` are run: their programs end in checks. Quantized ones are run again after `lower`, under
StableHLO's own profile and under `float32-rne`, and have to compute the same. `ops_stablehlo_quantized.mlir` says what
is accepted and refused.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass, fields
from io import StringIO
from pathlib import Path

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts
from xdsl.dialects.builtin import StringAttr
from xdsl.utils.exceptions import ParseError, VerifyException

from zeropoint.interp import CheckFailed, ExecutionError, execute
from zeropoint.interp.execute import entries
from zeropoint.ir.annotations import PROFILE
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, split_input
from zeropoint.ir.values import parse_values, value_text
from zeropoint.ir.verification import verify
from zeropoint.lower import LoweringError, lower
from zeropoint.numerics.profile import DEFAULT_PROFILE

BESIDE = Path(__file__).parents[1] / ".." / "shared" / "conformance"
FOLDER = Path(os.environ.get("ZEROPOINT_CONFORMANCE", BESIDE)).resolve() / "stablehlo"

_ZERO_POINT = (
    "a zero point outside of its storage type is refused by the type already, in its own sentence; the C++ parser lets "
    "it through (docs/upstream-differences.md)"
)
OUT_OF_SCOPE: dict[str, str] = {
    "ops_stablehlo_quantized.mlir#33": _ZERO_POINT,
    "ops_stablehlo_quantized.mlir#117": _ZERO_POINT,
    "ops_stablehlo_quantized.mlir#118": _ZERO_POINT,
}
"""Files, or programs of files (`interpret/convert.mlir#3`), that are not to pass, and why."""

_ARGUMENTS = re.compile(r'// RUN: stablehlo-translate .*--args="(?P<text>[^"]*)"')
_EXPECTED = re.compile(r"//\s*expected-error(?P<pattern>-re)?@\+1 \{\{(?P<text>.*)\}\}")
_FILECHECK = re.compile(r"// RUN: .*\| FileCheck %s$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One program of a file."""

    path: str
    index: int
    text: str
    arguments: str | None
    is_printed: bool
    """Whether CHECK lines say what it prints."""

    @property
    def name(self) -> str:
        return f"{self.path}#{self.index}"

    @property
    def reason(self) -> str | None:
        """Why it is out of scope, None where it is not."""
        return OUT_OF_SCOPE.get(self.name, OUT_OF_SCOPE.get(self.path))


def cases(path: Path) -> Iterator[Case]:
    """The programs of a file; parts without a function are none."""
    text = path.read_text()
    found = _ARGUMENTS.search(text)
    for index, part in enumerate(split_input(text, True)):
        if "func.func" in part:
            arguments, is_printed = None if found is None else found["text"], _FILECHECK.search(text) is not None
            yield Case(str(path.relative_to(FOLDER)), index, part, arguments, is_printed)


def programs() -> list[Path]:
    """The files whose programs are run."""
    return [*sorted((FOLDER / "interpret").rglob("*.mlir")), *sorted((FOLDER / "quantized").glob("*.mlir"))]


VERIFIED = FOLDER / "ops_stablehlo_quantized.mlir"


def failure(case: Case) -> str | None:
    """What goes wrong when a program is run, None where nothing does."""
    try:
        program = parse_program(case.text, case.path)
        arguments = None if case.arguments is None else parse_values(case.arguments)
        printed = StringIO()
        for outcome in execute(program, arguments, printed.write):
            for value, found in zip(outcome.values, outcome.types, strict=True):
                printed.write(value_text(value, found) + "\n")
    except ParseError as error:
        return error.msg
    except (CheckFailed, ExecutionError, VerifyException, ValueError) as error:
        return " ".join(str(error).split())
    return _unprinted(case, printed.getvalue()) if case.is_printed else None


def _outcome(program: Program) -> list[str]:
    """What a program returns, or the check that fails."""
    try:
        return [value_text(*pair) for o in execute(program) for pair in zip(o.values, o.types, strict=True)]
    except CheckFailed as error:
        return [str(error)]


def misslowered(case: Case) -> str | None:
    """What goes wrong after `lower`, None where nothing does or the program has no quantized types.

    Under StableHLO's own profile the integer program has to pass the same checks; under `float32-rne`, where NaN is
    stored as something else, it has to compute what the quantized program computes.
    """
    if "!quant.uniform" not in case.text or len(entries(parse_program(case.text))) != 1:
        return None
    for profile in (DEFAULT_PROFILE, "float32-rne"):
        program = parse_program(case.text, case.path)
        program.module.attributes[PROFILE] = StringAttr(profile)
        try:
            integers = lower(program, profile)
            verify(integers.module)
        except (LoweringError, VerifyException) as error:
            return f"lower under {profile}: {error}"
        found, expected = _outcome(integers), _outcome(program)
        if found != expected:
            return f"lowered under {profile}: {found}; expected {expected}"
    return None


def _unprinted(case: Case, printed: str) -> str | None:
    """What the CHECK lines of a program miss in what it printed."""
    options = Options(match_filename=case.path)
    matcher = Matcher(
        options, FInput(case.path, printed), Parser(options, StringIO(case.text), *pattern_for_opts(options))
    )
    with redirect_stderr(StringIO()) as complaint:
        status = matcher.run()
    return None if status == 0 else f"CHECK lines do not match what was printed: {complaint.getvalue()[:300]}"


def misjudged(case: Case) -> str | None:
    """What is wrong with our judgement of a program that has to be accepted, or refused with a sentence."""
    expected = _EXPECTED.search(case.text)
    sentence = None
    try:
        parse_program(case.text, case.path, allow_unregistered=True)
    except ParseError as error:
        sentence = error.msg
    except (VerifyException, ValueError) as error:
        sentence = str(error)
    if expected is None:
        return None if sentence is None else f"refused: {sentence}"
    if sentence is None:
        return f"accepted; expected the error: {expected['text']}"
    pattern = re.escape(expected["text"].strip())
    if expected["pattern"]:
        pattern = re.sub(r"\\\{\\\{(.*?)\\\}\\\}", ".*", pattern)
    pattern = pattern.removeprefix("op\\ ")
    return None if re.search(pattern, sentence) else f"refused with: {sentence}; expected: {expected['text']}"


@dataclass
class Tally:
    """The results of one file."""

    passed: int = 0
    failed: int = 0
    out_of_scope: int = 0


def examine(path: Path) -> tuple[Tally, list[str]]:
    """The results of a file, and what is wrong."""
    tally, problems = Tally(), []
    for case in cases(path):
        problem = misjudged(case) if path == VERIFIED else failure(case) or misslowered(case)
        if problem is None and case.reason is not None:
            tally.failed += 1
            problems.append(f"{case.name}: passes; it is listed as out of scope ({case.reason}): take it off the list")
        elif problem is None:
            tally.passed += 1
        elif case.reason is not None:
            tally.out_of_scope += 1
        else:
            tally.failed += 1
            problems.append(f"{case.name}: {problem}")
    return tally, problems


def problems(path: Path) -> list[str]:
    """What is wrong with a file's programs."""
    return examine(path)[1]


def main() -> int:
    """Run everything; the exit status."""
    if not FOLDER.is_dir():
        print(f"found no {FOLDER}; set ZEROPOINT_CONFORMANCE to the folder that holds stablehlo/")
        return 1
    total, wrong = Tally(), list[str]()
    print(f"{'file':60s} passed failed out of scope")
    for path in [*programs(), VERIFIED]:
        tally, found = examine(path)
        wrong += found
        total = Tally(*(getattr(total, f.name) + getattr(tally, f.name) for f in fields(Tally)))
        name = str(path.relative_to(FOLDER))
        print(f"{name[:60]:60s} {tally.passed:6d} {tally.failed:6d} {tally.out_of_scope:6d}")
    print(f"{'all':60s} {total.passed:6d} {total.failed:6d} {total.out_of_scope:6d}")
    for problem in wrong:
        print(problem)
    for name, reason in OUT_OF_SCOPE.items():
        print(f"out of scope: {name}: {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        sys.exit(main())
