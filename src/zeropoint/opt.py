"""Passes on program text, like mlir-opt: `zeropoint opt FILE.mlir -p 'simplify,fuse'`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, ParseError, VerifyException

from zeropoint.diagnostics import Diagnostic, differences, expectations, nearest_position, of_error
from zeropoint.errors import Error
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, print_program, split_input
from zeropoint.ir.verification import InvalidProgram, verify
from zeropoint.ir.weights import Weights
from zeropoint.targets import TargetError

_IN_PATH = r"(?:[^\s\"'{},=]|[ ](?![\w-]+=))*"
_PATH = re.compile(rf"=({_IN_PATH}[./\\]{_IN_PATH})")
"""An option value that is a file name, `target=tables/mine.toml`. The grammar of pipelines requires quotes for it."""


class PipelineError(Error, ValueError):
    """A pipeline has an unknown pass or option, or a pass rejects the program."""


_WHOLE = re.compile(r"\s*builtin\.module\((.*)\)\s*", re.DOTALL)
"""A pipeline in mlir-opt's syntax."""
_QUOTED, _OPTIONS, _KEY = re.compile(r'"[^"]*"'), re.compile(r"\{([^}]*)\}"), re.compile(r"([\w-]+)(?==)")
Shown = Callable[[str, Program], None]
"""Called after each pass with its name and the resulting program."""


@dataclass(frozen=True)
class Reading:
    """The options of parsing.

    They are the text's name in messages, whether `// -----` separates programs, and whether ops of unknown dialects are
    accepted.
    """

    name: str = "<stdin>"
    split: bool = False
    allow_unregistered: bool = False


def parse_passes(pipeline: str, after: Shown | None = None) -> list[Callable[[Program], Program]]:
    """The passes of a pipeline text in order: `a,b{option=value}`, optionally inside `builtin.module(...)`.

    `after` is called with each pass's name and result. Raises PipelineError, which lists the existing passes or
    options.
    """
    whole = _WHOLE.fullmatch(pipeline)
    text = pipeline if whole is None else whole[1]
    _check_idle(text)
    try:
        specs = list(parse_pipeline(_PATH.sub(r'="\1"', text)))
    except ArgSpecParseError as error:
        raise PipelineError(
            f"found pipeline '{pipeline}', expected 'a,b{{option=value}}'; a path with a comma, '=' or braces needs "
            'quotes: target="tables/a,b.toml"'
        ) from error
    return [_bound(spec.name, spec.normalize_parameter_names().parameters, after) for spec in specs]


def _check_idle(pipeline: str) -> None:
    """Raise PipelineError for a comma without a pass after it, and for an option that is given twice."""
    if pipeline.rstrip().endswith(","):
        raise PipelineError(f"found pipeline '{pipeline}' that ends in a comma, expected a pass after it")
    for options in _OPTIONS.findall(_QUOTED.sub("", pipeline)):
        names = _KEY.findall(options)
        if twice := next((name for number, name in enumerate(names) if name in names[:number]), None):
            raise PipelineError(f"found option '{twice}' twice in '{{{options}}}', expected it once")


def _settings(name: str, given: Mapping[str, tuple[Any, ...]], known: Collection[str]) -> dict[str, Any]:
    """The value of each option of a pass. Raises PipelineError for an unknown option, and for one with several
    values."""
    if unknown := set(given) - set(known):
        has = f"one of: {', '.join(known)}" if known else "none"
        raise PipelineError(f"found option '{min(unknown)}' of pass '{name}', expected {has}")
    if several := next((key for key, values in given.items() if len(values) > 1), None):
        listed = ",".join(map(str, given[several]))
        raise PipelineError(f"found '{several}={listed}' of pass '{name}', expected one value")
    return {key: values[0] if values else True for key, values in given.items()}


def _bound(name: str, given: Mapping[str, tuple[Any, ...]], after: Shown | None) -> Callable[[Program], Program]:
    from zeropoint.passes import PASSES  # all stages, a third of a second, which a text without passes does not need

    if name not in PASSES:
        raise PipelineError(f"found pass '{name}', expected one of: {', '.join(PASSES)}")
    entry = PASSES[name]
    settings = _settings(name, given, entry.options)

    def run(program: Program) -> Program:
        try:
            result = entry(program, settings)
            if after is not None:
                after(name, result)
            return result
        except InvalidProgram:
            raise
        except (ValueError, VerifyException) as error:
            raise PipelineError(f"pass '{name}': {error}") from error
        except KeyError as error:  # missing weights
            raise PipelineError(f"pass '{name}': {error.args[0]}") from error
        except (Error, OSError):
            raise
        except Exception as error:
            error.add_note(f"pass '{name}'")
            raise

    return run


def run_passes(program: Program, passes: list[Callable[[Program], Program]]) -> Program:
    """Run the passes in order, and verify the program after each pass.

    Raises InvalidProgram if a pass returns an invalid program, and the errors of the passes.
    """
    for step in passes:
        program = step(program)
        verify(program.module)
    return program


def optimized(
    text: str,
    passes: list[Callable[[Program], Program]],
    reading: Reading,
    weights: Weights | None = None,
) -> Iterator[Program]:
    """Yield every program of a text after the passes.

    Raises PipelineError, and the errors of the parser and the verifier.
    """
    for part in split_input(text, reading.split):
        try:
            program = parse_program(
                part, reading.name, weights, allow_unregistered=reading.allow_unregistered, annotated=bool(passes)
            )
        except ValueError as error:  # for a resource section that does not match its uses
            raise PipelineError(f"{reading.name}: {error}") from error
        try:
            program = run_passes(program, passes)
        except Error as error:
            if not isinstance(error.__cause__, TargetError):
                error.position = nearest_position(error, part, reading.name)
            raise
        yield program


def printed(programs: Iterable[Program], **printing: bool) -> str:
    """The text of programs, separated by `// -----`. Raises MissingWeights for a constant without an array."""
    return "\n// -----\n\n".join(print_program(program, **printing) for program in programs)


def verify_diagnostics(
    text: str,
    passes: list[Callable[[Program], Program]],
    reading: Reading,
) -> list[str]:
    """The differences between `expected-error` comments and the errors that occur, one per line."""
    problems: list[str] = []
    for part in split_input(text, reading.split):
        found: list[Diagnostic] = []
        try:
            run_passes(parse_program(part, reading.name, allow_unregistered=reading.allow_unregistered), passes)
        except (Error, ParseError, VerifyException, ValueError) as error:
            found = of_error(error)
        problems += differences(reading.name, expectations(part), found)
    return problems
