"""The entry point. Every outcome has an exit status, and prints at most one line on standard error."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from zeropoint.cli import streams
from zeropoint.cli.refusals import REFUSED, refused, tell
from zeropoint.garbage_collection import seldom_collected

INTERRUPTED = 130
"""128 + SIGINT, as shells report a process that Ctrl-C ended."""
NO_READER = 141
"""128 + SIGPIPE: the reader of the output has closed the pipe."""


class _Interrupted(Exception):
    """Ctrl-C. click would print two lines for KeyboardInterrupt and exit with status 1."""


class _NoReader(Exception):
    """A broken pipe. click would exit with status 1 for BrokenPipeError."""


@contextmanager
def _past_click() -> Generator[None]:
    """Raise our own exceptions instead of those that click handles itself."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise _Interrupted from error
    except BrokenPipeError as error:
        raise _NoReader from error


class Entry(click.Group):
    """The group of all commands."""

    def make_context(self, *arguments: Any, **named: Any) -> click.Context:
        """Override of click's method that raises _Interrupted and _NoReader."""
        with _past_click():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: click.Context) -> Any:
        """Override of click's method that raises _Interrupted and _NoReader.

        Loading, writing and the imports of a command make as many objects as its passes.
        """
        with _past_click(), seldom_collected():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, *others: Any, standalone_mode: bool = True, **named: Any) -> Any:
        """Run a command and exit with its status. Without `standalone_mode`, exceptions pass through."""
        named["standalone_mode"] = False
        if not standalone_mode:
            return super().main(args, *others, **named)
        streams.prepare()
        status = _status(lambda: super(Entry, self).main(args, *others, **named))
        if status == 0:
            status = _status(streams.flush)
        with suppress(OSError):  # the line above has reported a failure already
            streams.flush()
        sys.exit(status)


def _status(step: Any) -> int:
    """Run a step and return its exit status. If it fails, print one line about the error."""
    try:
        result = step()
        return result if isinstance(result, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return REFUSED
    except click.ClickException as error:
        tell(_line(error))
        return REFUSED
    except (_Interrupted, KeyboardInterrupt, click.Abort):
        tell("zeropoint: interrupted")
        return INTERRUPTED
    except (_NoReader, BrokenPipeError):
        return NO_READER
    except Exception as error:
        return refused(error)


def _line(error: click.ClickException) -> str:
    """click's message in one line, with the command and a pointer to its `--help`."""
    message = " ".join(error.format_message().split()).removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return f"zeropoint: {message}"
    return f"{context.command_path}: {message}; see '{context.command_path} --help'"
