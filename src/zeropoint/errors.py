"""`Error`, the base class of all errors that input can cause, and the guard around file parsers.

Every package may import this module; it imports none of them.
"""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
import re
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

_ROOT = Path(__file__).parent
_NO_MEMORY = re.compile(f"{re.escape(os.strerror(errno.ENOMEM))}|failed to map segment", re.IGNORECASE)
"""Messages of the system and its loader if memory is short."""
_POINTS = 1 << 16
"""Zero points of ports, which have 16 bits at most, are smaller."""
_LEAST = 16 << 20
"""Memory is short if an allocation of this many bytes fails."""


class Error(Exception):
    """An error caused by input: a file, data, a target, an option or a program that cannot be used as requested.

    The text is for the user: what was found, what was expected, and the fix. Any other exception, apart from an OSError
    of a failing disk or network, is a bug in zeropoint.
    """

    position: object = None
    """The position in a text, `file:line:column`, if the message does not contain it."""

    def __reduce__(self) -> tuple[Any, ...]:
        """The error for another process: its message, its position and its attributes, but without ops."""
        # An op is pickled with its whole program, which is too deep for the recursion limit.
        location = getattr(getattr(self, "op", None), "location", None)
        held = {name: _OF_A_PROGRAM.get(name, value) for name, value in vars(self).items()}
        # Only a position in a text has `data`; it is `position_of` this error.
        return _restored, (
            type(self),
            self.args,
            {**held, "position": self.position or getattr(location, "data", None)},
        )


_OF_A_PROGRAM: Mapping[str, object] = {"op": None, "note": None, "others": ()}
"""Attributes that hold ops of a program, and their values in another process."""


def _restored(kind: type[Error], arguments: tuple[Any, ...], held: Mapping[str, object]) -> Error:
    """An error in another process. Constructors are left out, because many compose their message."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(held)
    return error


class OptionError(Error, ValueError):
    """An option has an invalid value, or has no effect here."""


class UnreadableFile(Error):
    """A parser failed on a file with an unexpected exception. The message says what happened and where."""


def origin(error: BaseException) -> str:
    """The innermost line of zeropoint in an error's traceback, `frontend/onnx/pooling.py:61`; empty if there is
    none."""
    frames = traceback.extract_tb(error.__traceback__)
    paths = [(Path(frame.filename), frame.lineno) for frame in frames]
    ours = [(path, line) for path, line in paths if path.is_relative_to(_ROOT) and path != Path(__file__)]
    return f"{ours[-1][0].relative_to(_ROOT).as_posix()}:{ours[-1][1]}" if ours else ""


WHOLE = ", expected a whole file; write it again if it was cut or edited"


def summary(error: BaseException) -> str:
    """An exception in one line: what happened, its notes, and the line of zeropoint."""
    if isinstance(error, RecursionError):
        what = "nested too deeply"
    elif is_out_of_memory(error):
        what = "needs more memory than is available"
    else:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    positions = [*getattr(error, "__notes__", ()), origin(error)]
    return ", ".join(" ".join(part.split()) for part in (what, *positions) if part)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: this exception or one of its causes says so, or no memory is left.

    A library that could not be loaded for lack of memory may be reported as missing, or not at all.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, MemoryError) or _NO_MEMORY.search(str(found)):
            return True
        found = found.__cause__ or found.__context__
    try:
        mmap.mmap(-1, _LEAST).close()
    except OSError:
        return True
    return False


@contextmanager
def running_foreign(fail: Callable[[str], Error]) -> Generator[None]:
    """A context for running a user's Python code. Everything that it raises, including `SystemExit`, becomes
    `fail(message)`.

    Only Ctrl-C passes.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise fail(_shown(error)) from error


def _shown(error: BaseException) -> str:
    """The type and the text of an exception, whose own `__str__` may fail."""
    try:
        text = str(error)
    except Exception as failure:
        text = f"no text ({type(failure).__name__})"
    return f"{type(error).__name__}: {text}"


def check_name(path: Path, kind: type[Error] = UnreadableFile) -> None:
    """Raise an error for an invalid path: with a NUL character, too long, or with a cycle of symbolic links."""
    try:
        os.stat(path)
    except ValueError as error:
        why = "it has a NUL character" if "\0" in str(path) else "it is not text"
        raise kind(f"{_shortened(path)}: found an invalid file name ({why}), expected another one") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise kind(f"{_shortened(path)}: found a cycle of symbolic links, expected a regular file") from error
        if error.errno == errno.ENAMETOOLONG:
            raise kind(f"{_shortened(path)}: found a file name that is too long, expected a shorter one") from error


def _shortened(path: Path) -> str:
    """A path without control characters, and at most 60 characters of it."""
    text = repr(str(path))[1:-1]
    return text if len(text) <= 60 else f"{text[:28]}...{text[-28:]}"


def check_regular(path: Path, kind: type[Error] = UnreadableFile) -> None:
    """Raise an error for an invalid path, and for a pipe, a socket or a device, which may never end.

    Folders and absent files pass.
    """
    check_name(path, kind)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise kind(f"{path}: found a pipe or a device, expected a regular file")


@contextmanager
def reading(source: object, kind: type[Error] = UnreadableFile) -> Generator[None]:
    """A context for parsing a file: an unexpected exception of the parser becomes `unreadable FILE (what, where)`.

    `source` names the file in messages, and `kind` is the error that callers of this parser expect. The parser's own
    errors (`Error`) and OSError pass through. A note on the exception (`add_note`) may give the position in the file.
    The line in zeropoint follows it. A `source` that is a path must be a regular file.
    """
    if isinstance(source, Path):
        check_regular(source, kind)
    try:
        yield
    except UnreadableFile as error:
        if isinstance(error, kind):
            raise
        raise kind(str(error)) from error
    except (Error, OSError):
        raise
    except Exception as error:
        wanted = "" if isinstance(error, RecursionError) or is_out_of_memory(error) else WHOLE
        raise kind(f"unreadable {source} ({summary(error)}){wanted}") from error


def json_object(text: str | bytes) -> dict[str, Any]:
    """The object that a JSON text represents; an empty one for any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def port_order(metadata: Mapping[str, Any], kind: str, name: str, rank: int) -> list[int]:
    """The permutation of a port's dimensions in the metadata of an exported file; the identity if it states none.

    `kind` is `inputs` or `outputs`. The metadata may have been edited, so nothing is assumed about it.
    """
    found: Any = metadata.get("orders")
    for key in (kind, name):
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    order = cast("list[Any]", found) if isinstance(found, list) else []
    dimensions = [dimension for dimension in order if type(dimension) is int]
    return dimensions if len(dimensions) == len(order) and sorted(dimensions) == list(range(rank)) else [*range(rank)]


def port_parameters(metadata: Mapping[str, Any]) -> dict[str, tuple[float, int]]:
    """The scale and zero point of each port of storage integers in the metadata of an exported file.

    The metadata may have been edited, so nothing is assumed about it.
    """
    parts: Any = metadata.get("quantization")
    found: dict[str, tuple[float, int]] = {}
    for name, part in cast("dict[str, Any]", parts).items() if isinstance(parts, dict) else ():
        held = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        scale, point = held.get("scale"), held.get("zero_point")
        if isinstance(scale, float) and 0 < scale < math.inf and type(point) is int and abs(point) < _POINTS:
            found[name] = scale, point
    return found
