"""`-v` and `-q`, options of `zeropoint` itself and of every command: what is printed besides results and errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zeropoint.ir.outputs import descriptor

if TYPE_CHECKING:
    from zeropoint.progress import Progress

_QUIET = "zeropoint.quiet"
_VERBOSE = "zeropoint.verbose"
_OUTPUT_ON_STDOUT = "zeropoint.output_on_stdout"

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class _Lines(logging.Handler):
    """Prints log records below WARNING on standard error; `_Warnings` prints the others."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING:
            click.echo(f"zeropoint: {record.getMessage()}", err=True)


class _Warnings(logging.Handler):
    """Prints warnings on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"zeropoint: warning: {record.getMessage()}", err=True)


@contextmanager
def warnings_shown() -> Generator[None]:
    """Print the warnings that are logged inside this context. `-q` does not hide them: they are about the input."""
    log, handler = logging.getLogger("zeropoint"), _Warnings(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _be_quiet(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_QUIET] = True  # `meta` is shared by the group and its commands
        _refuse_both(context)


def _be_verbose(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if not value or _VERBOSE in context.meta:
        return
    context.meta[_VERBOSE] = True
    _refuse_both(context)
    log, handler = logging.getLogger("zeropoint"), _Lines(logging.INFO)
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)

    def undo() -> None:
        log.removeHandler(handler)
        log.setLevel(before)

    context.find_root().call_on_close(undo)


def _refuse_both(context: click.Context) -> None:
    if _QUIET in context.meta and _VERBOSE in context.meta:
        raise click.UsageError("found --quiet with --verbose, expected one of them", context)


def verbosity_options(command: CommandT) -> CommandT:
    """Add `-v/--verbose` and `-q/--quiet` to a command or group."""
    quiet = click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=_be_quiet, help="No progress and no summary."
    )
    verbose = click.option(
        "-v", "--verbose", is_flag=True, expose_value=False, callback=_be_verbose, help="Show every pass and its time."
    )
    return verbose(quiet(command))


def say(text: str) -> None:
    """Print a line about what was done, unless `-q` is given. Commands print results with `click.echo`."""
    if _QUIET not in click.get_current_context().meta:
        from zeropoint.report.tables import folded

        click.echo(folded(text), err=_OUTPUT_ON_STDOUT in click.get_current_context().meta)


def summary_beside(output: Path) -> None:
    """Make `say` print to standard error if `output` is standard output."""
    if descriptor(output) == 1:
        click.get_current_context().meta[_OUTPUT_ON_STDOUT] = True


def progress() -> Progress:
    """The progress display: bars on a terminal, nothing with `-q`."""
    from zeropoint.progress import bar, silent

    return silent if _QUIET in click.get_current_context().meta else bar
