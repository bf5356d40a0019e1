"""Files that are written as a whole or not at all, whatever ends the process: an error, a signal, a full disk.

Every file is written under another name beside its own, flushed to the disk, and renamed. The other name says whose it
is, `.NAME.HOST.PID.XXXX.tmp`; what a process left that was killed goes when the same file is written again.

Two renames are not one: between them a text would stand beside the weights of another program. So the file that is
named last is taken away before the first is named. An error or Ctrl-C there brings the old files back; kill -9 within
those microseconds leaves no text, but never a pair that does not belong together.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

Write = Callable[[Path], object]
"""Fills the file of the name that it is given."""
_SUFFIX = ".tmp"


def write_atomically(path: Path, write: Write) -> None:
    """Let `write` fill a temporary file beside `path`, then give it its name; on failure nothing is left behind."""
    write_together({path: write})


def write_together(files: Mapping[Path, Write]) -> None:
    """The same for several files: none gets its name before all are written. They are named in the order given.

    Raises OSError, and what a `write` raises.
    """
    for path in files:
        remove_leftovers(path)
    with _temporaries(list(files)) as temporaries:
        for (path, write), temporary in zip(files.items(), temporaries, strict=True):
            try:
                write(temporary)
                _finish(temporary, path)
            except OSError as error:
                raise _of(path, error) from error
        _give_names(dict(zip(files, temporaries, strict=True)))
        for folder in {path.parent for path in files}:
            with suppress(OSError):  # the files are there; some systems cannot flush a folder
                _flush(folder)


def _give_names(temporaries: Mapping[Path, Path]) -> None:
    """Rename every temporary file to its path."""
    if len(temporaries) == 1:
        ((path, temporary),) = temporaries.items()
        os.replace(temporary, path)
        return
    # Also keeps the renames quick: the space of an old file is given back after them, which takes milliseconds.
    asides = {path: temporary.with_name(f"{temporary.stem}old{_SUFFIX}") for path, temporary in temporaries.items()}
    kept = False
    try:
        for path, aside in asides.items():
            _link(path, aside)
        kept, [*_, last] = True, temporaries
        last.unlink(missing_ok=True)
        for path, temporary in temporaries.items():
            os.replace(temporary, path)
    except BaseException:
        for path, aside in asides.items():
            if aside.exists():
                os.replace(aside, path)
            elif kept:  # there was no file
                path.unlink(missing_ok=True)
        raise
    finally:
        for aside in asides.values():
            aside.unlink(missing_ok=True)


def _link(path: Path, aside: Path) -> None:
    """Give a file, if there is one, another name too."""
    try:
        os.link(path, aside)
    except FileNotFoundError:
        pass
    except OSError:  # a file system without links
        os.replace(path, aside)


@contextmanager
def workspace(path: Path) -> Generator[Path]:
    """A folder beside `path` for what is made on the way to it; if the process is killed, it goes as files do."""
    with tempfile.TemporaryDirectory(prefix=_prefix(path), suffix=_SUFFIX, dir=path.parent) as folder:
        yield Path(folder)


def _of(path: Path, error: OSError) -> OSError:
    """The error with the name that the file was to have."""
    return OSError(error.errno, error.strerror, str(path)) if error.errno is not None else error


@contextmanager
def _temporaries(paths: list[Path]) -> Generator[list[Path]]:
    made: list[Path] = []
    try:
        for path in paths:
            descriptor, name = tempfile.mkstemp(prefix=_prefix(path), suffix=_SUFFIX, dir=path.parent)
            made.append(Path(name))
            os.close(descriptor)
        yield made
    finally:
        for temporary in made:
            temporary.unlink(missing_ok=True)


def _host() -> str:
    return re.sub(r"\W", "-", platform.node()) or "host"


def _prefix(path: Path) -> str:
    return f".{path.name}.{_host()}.{os.getpid()}."


def _finish(temporary: Path, path: Path) -> None:
    """Give a file the rights of the one that it replaces, or of a new one, and see that the disk has it."""
    try:
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    os.chmod(temporary, mode)
    _flush(temporary)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(path: Path) -> None:
    """Remove what processes of this machine that are gone left of a file."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.{re.escape(_host())}\.(\d+)\.\w+{re.escape(_SUFFIX)}")
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:  # writing says why
        return
    for name in names:
        match = pattern.fullmatch(name)
        if match is not None and not _is_alive(int(match[1])):
            left = path.parent / name
            with suppress(OSError):  # another process was quicker, or we may not
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (OverflowError, ProcessLookupError):
        return False
    except PermissionError:  # someone else's
        return True
    return True
