"""The exit status and message of failing commands: one line on standard error, never a bare traceback.

Status 2 means invalid input; the line has what was found, what was expected, and the fix. Status 70 (EX_SOFTWARE of
sysexits.h) means a bug in zeropoint; the line has how to report it. `--debug` prints the traceback before the line.
"""

from __future__ import annotations

import functools
import platform
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from zeropoint.cli.verbosity import progress, verbosity_options, warnings_shown
from zeropoint.errors import Error, is_out_of_memory, summary
from zeropoint.progress import showing

REFUSED = 2
OUR_FAULT = 70
_DEBUG = "zeropoint.debug"

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def tell(line: str) -> None:
    """Print a line on standard error. Control characters, which a terminal would interpret, are escaped."""
    shown = "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in line)
    click.echo(shown, err=True)


def fail(message: str) -> NoReturn:
    """Print an error about the input in one line, and exit with status 2."""
    tell(f"zeropoint: {' '.join(message.split())}")
    raise SystemExit(REFUSED)


def _remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_DEBUG] = True  # `meta` is shared by the group and its commands


debug_option = click.option(
    "--debug", is_flag=True, expose_value=False, callback=_remember, help="Show the traceback of an error."
)
"""`--debug`, an option of `zeropoint` itself and of every command."""


def reports_errors(command: CommandT) -> CommandT:
    """Decorate a command. Input errors become one line and status 2, other exceptions a bug report and status 70."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        try:
            with warnings_shown(), showing(progress()):
                return command(*arguments, **options)
        except (BrokenPipeError, click.ClickException, click.Abort, click.exceptions.Exit):
            raise  # reported by `entry.py`
        except Exception as error:
            _show_traceback()
            raise SystemExit(refused(error)) from error

    return debug_option(verbosity_options(wrapped))  # pyright: ignore[reportReturnType] (wraps keeps the signature)


def refused(error: Exception) -> int:
    """Print one line about an error, and return the exit status."""
    if isinstance(error, Error):
        line = _message(error)
    elif is_out_of_memory(error):
        line = f"found work that {summary(error)}, expected a smaller model or a machine with more"
    elif isinstance(error, OSError):
        line = f"{error.filename}: {error.strerror}" if error.filename is not None else str(error)
    else:
        tell(f"zeropoint: {_report(error)}")
        return OUR_FAULT
    tell(f"zeropoint: {' '.join(line.split())}")
    return REFUSED


def _show_traceback() -> None:
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_DEBUG):
        tell(traceback.format_exc().removesuffix("\n"))


def _report(error: Exception) -> str:
    """The line that says that this is a bug in zeropoint, and what to report."""
    from zeropoint.version import __version__

    versions = f"zeropoint {__version__}, Python {platform.python_version()}, {platform.machine()} {sys.platform}"
    return (
        f"internal error: {summary(error)}. This is a bug in zeropoint, not in your input. Please report it "
        f"with the output of the same command with --debug, the model if you can share it, and: {versions}"
    )


def _message(error: Error) -> str:
    """The message of an error, after its position in the program text if it has one."""
    from xdsl.utils.exceptions import ParseError

    if isinstance(error, ParseError):
        from zeropoint.ir.syntax_errors import syntax_message

        span = error.span
        text = span.input.content
        before = text[: span.start] if isinstance(text, str) else text[: span.start].decode("utf-8", "replace")
        column = len(before) - (before.rfind("\n") + 1) + 1
        return f"{span.input.name}:{before.count(chr(10)) + 1}:{column}: {syntax_message(error)}"
    from zeropoint.diagnostics import position_of

    position = position_of(error) or error.position
    text = str(error)
    return text if position is None or text.startswith(str(position)) else f"{position}: {text}"
