"""The standard streams of the process.

A failed write to standard output raises an OSError that names it. A failed write to standard error is dropped, because
there is no other place to report it.

A closed stream (`>&-`) is reopened on a descriptor that fails. Otherwise the next file opened would get its number, and
output for the stream would go to that file.
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
    """Standard output. Its OSErrors have the file name "standard output"."""

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
    """Standard output on a terminal. Control characters, which names in files may contain, are escaped."""

    def write(self, text: str, /) -> int:
        super().write(_CONTROL.sub(lambda match: ascii(match[0])[1:-1], text))
        return len(text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters other than tab and line feed."""


def prepare() -> None:
    """Replace the standard streams of the process. Streams that a caller has substituted stay.

    Warnings of libraries are hidden, because they are meant for programmers. Python's option `-W` shows them.
    """
    # A write-only standard input and a read-only standard output, so that their use fails.
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
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
    """A text stream as Python opens it, except that characters which it cannot encode are written as escapes."""
    encoding = getattr(was, "encoding", None) or "utf-8"
    line_by_line = raw.fileno() == 2 or raw.isatty()
    # Standard error stays as it is: progress bars on it use control characters, and `tell` escapes those of messages.
    kind = _Terminal if raw.fileno() == 1 and raw.isatty() else io.TextIOWrapper
    return kind(
        io.BufferedWriter(raw), encoding, errors="backslashreplace", line_buffering=line_by_line, write_through=False
    )


def flush() -> None:
    """Flush standard output. If this fails, the buffer is discarded and the OSError raised."""
    try:
        sys.stdout.flush()
    except OSError:
        if isinstance(getattr(getattr(sys.stdout, "buffer", None), "raw", None), _Output):
            _discard()
        raise


def _discard() -> None:
    """Discard the buffer of standard output, which Python would try to write again at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout.flush()
