"""The standard streams of the process.

Failures of standard output are errors with its name. Those of standard error are dropped, because there is nobody to
tell.

A stream that is closed (`>&-`) gets a descriptor that fails, so that no file that is opened later takes its number.
"""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from contextlib import suppress
from typing import TextIO


class _Output(io.FileIO):
    """Standard output. An OSError has its name."""

    def write(self, data: object, /) -> int | None:
        try:
            return super().write(data)  # pyright: ignore[reportArgumentType] (a buffer)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from error


class _Messages(io.FileIO):
    """Standard error. Text that cannot be written is dropped."""

    def write(self, data: object, /) -> int | None:
        try:
            return super().write(data)  # pyright: ignore[reportArgumentType] (a buffer)
        except OSError:
            return memoryview(data).nbytes  # pyright: ignore[reportArgumentType] (a buffer)


class _Terminal(io.TextIOWrapper):
    """A terminal. Names in files are printed to it: control characters, which it would obey, are escaped."""

    def write(self, text: str, /) -> int:
        super().write(_CONTROL.sub(lambda match: ascii(match[0])[1:-1], text))
        return len(text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters other than tabs and ends of lines."""


def prepare() -> None:
    """Replace the process's own streams; those that a caller has put in their place stay.

    Warnings of libraries are meant for programmers; they
    are printed only with Python's option `-W`.
    """
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):  # the first two so that their use fails
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, flags), number)
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] (it was closed)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (open as long as the process)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
            os.environ["PYTHONWARNINGS"] = "ignore"  # for workers
        sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, was: TextIO | None) -> io.TextIOWrapper:
    """A text stream as Python opens it, that writes characters which its encoding does not have as escapes."""
    encoding = getattr(was, "encoding", None) or "utf-8"
    line_by_line = raw.fileno() == 2 or raw.isatty()
    kind = _Terminal if raw.fileno() == 1 and raw.isatty() else io.TextIOWrapper  # progress is drawn on the other
    return kind(
        io.BufferedWriter(raw), encoding, errors="backslashreplace", line_buffering=line_by_line, write_through=False
    )


def flush() -> None:
    """Write out what standard output still holds. After an OSError, which is raised, it holds nothing."""
    try:
        sys.stdout.flush()
    except OSError:
        if isinstance(getattr(getattr(sys.stdout, "buffer", None), "raw", None), _Output):
            _discard()
        raise


def _discard() -> None:
    """Send what standard output holds nowhere; Python tries to write it again when it ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout.flush()
