"""`Error`, which all errors that input can cause derive from, and the guard around the parsers of files.

Every package may import this module, and it imports none of them.
"""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parent


class Error(Exception):
    """What input can cause: a file, data, a target, an option or a program that cannot be used as asked.

    Its text is for the user: what was found, what was expected, and the fix. Anything else that is raised, apart from
    OSError and the ValueError of an option that does not exist, is a fault in zeropoint.
    """

    place: object = None
    """Where in a text, `file:line:column`, where the error itself does not say it."""


class UnreadableFile(Error):
    """A file that its parser did not refuse but failed on: what happened, and where in the file or in the parser."""


def origin(error: BaseException) -> str:
    """The deepest place in zeropoint that an error went through, `frontend/onnx/pooling.py:61`; empty for none."""
    frames = traceback.extract_tb(error.__traceback__)
    paths = [(Path(frame.filename), frame.lineno) for frame in frames]
    ours = [(path, line) for path, line in paths if path.is_relative_to(_ROOT) and path != Path(__file__)]
    return f"{ours[-1][0].relative_to(_ROOT).as_posix()}:{ours[-1][1]}" if ours else ""


def summary(error: BaseException) -> str:
    """An exception in a line: what happened, then its notes and the place in zeropoint."""
    if isinstance(error, RecursionError):
        what = "nested too deeply"
    elif isinstance(error, MemoryError):
        what = "needs more memory than there is"
    else:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    places = [*getattr(error, "__notes__", ()), origin(error)]
    return ", ".join(" ".join(part.split()) for part in (what, *places) if part)


@contextmanager
def reading(source: object, kind: type[Error] = UnreadableFile) -> Generator[None]:
    """Around the parser of a file: an exception that it did not foresee becomes `unreadable FILE (what, where)`.

    `source` is what to call the file, `kind` the error that callers of this parser expect. Its own refusals (`Error`)
    and OSError pass. A note on the exception (`add_note`) says where in the file; the place in zeropoint follows it.
    """
    try:
        yield
    except UnreadableFile as error:
        if isinstance(error, kind):
            raise
        raise kind(str(error)) from error
    except (Error, OSError):
        raise
    except Exception as error:
        raise kind(f"unreadable {source} ({summary(error)})") from error
