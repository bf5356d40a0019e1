"""How a command refuses its input: one line that says found, expected, and the fix, and status 2."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def fail(message: str) -> NoReturn:
    """Say what is wrong with the input in one line, and leave with status 2."""
    click.echo(f"zeropoint: {' '.join(message.split())}", err=True)
    raise SystemExit(2)


def _input_errors() -> tuple[type[BaseException], ...]:
    """The errors that mean that the input is at fault."""
    from xdsl.utils.exceptions import VerifyException

    from zeropoint.bit_widths import BitWidthError
    from zeropoint.calibrate import CalibrationError, DataError
    from zeropoint.codegen.llvm.machine import CodegenError
    from zeropoint.export import ExportError
    from zeropoint.frontend import ModelError
    from zeropoint.interp import InputError, UnsupportedError
    from zeropoint.lower import LoweringError
    from zeropoint.opt import PipelineError
    from zeropoint.recipe import RecipeError
    from zeropoint.report.agreement import ComparisonError
    from zeropoint.report.explain import ExplanationError
    from zeropoint.solve import PropagationError

    return (
        BitWidthError,
        CalibrationError,
        CodegenError,
        ComparisonError,
        DataError,
        ExportError,
        ExplanationError,
        InputError,
        LoweringError,
        ModelError,
        OSError,
        PipelineError,
        PropagationError,
        RecipeError,
        UnsupportedError,
        VerifyException,
    )


def reports_input_errors(command: CommandT) -> CommandT:
    """Turn errors of the input into one line and status 2; anything else is ours, and keeps its traceback."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        from xdsl.utils.exceptions import ParseError

        try:
            return command(*arguments, **options)
        except ParseError as error:
            span = error.span
            text = span.input.content
            before = text.count("\n", 0, span.start) if isinstance(text, str) else text.count(b"\n", 0, span.start)
            fail(f"{span.input.name}:{before + 1}: {error.msg}")
        except _input_errors() as error:
            fail(_message(error))

    return wrapped  # pyright: ignore[reportReturnType] (wraps keeps the signature)


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    from zeropoint.diagnostics import place_of

    place = place_of(error)
    return str(error) if place is None else f"{place.file}:{place.line}: {error}"
