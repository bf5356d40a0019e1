"""Atomic file output: a file is written completely or not at all, also after an error, a signal or a full disk.

Every file is written under a temporary name beside its own, flushed to disk, and renamed. The temporary name,
`.NAME.HOST.PID.XXXX.tmp`, identifies its process. The next run that writes into the same folder removes leftovers of
killed processes of this machine. Processes of other machines and containers are not visible. HOST distinguishes them,
and their files are kept.

Two renames together are not atomic: between them, a text would stand beside the weights of another program. So the old
version of the file that is renamed last is moved away before the first rename. An error or Ctrl-C in between restores
the old files. kill -9 within those microseconds leaves no text, but never a text and weights of different programs.

Pipes, terminals and devices such as `/dev/null` are written directly, because a rename would replace them.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from zeropoint.errors import Error, check_name

Write = Callable[[Path], object]
"""Writes the file at the given path."""
_SUFFIX = ".tmp"
_MACHINE, _PROCESSES = Path("/etc/machine-id"), Path("/proc/self/ns/pid")
"""The id of this machine, and a link that names the PID namespace of this process."""


class OutputError(Error, OSError):
    """An output cannot be written, for example because its folder does not exist or its path is a folder."""


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a character device, or a name of an open file: `/dev/stdout`, `/dev/fd/3`."""
    if descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def descriptor(path: Path) -> int | None:
    """The open file that a path names: 1 for `/dev/stdout`; None for other paths."""
    text = os.path.abspath(path)  # not Path.resolve: it follows the link to the file that the descriptor has open
    found = _DESCRIPTOR.fullmatch(text)
    return _STANDARD.get(text) if found is None else int(found[1])


_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


def check_folder(path: Path) -> None:
    """Raise OutputError if the folder of a file does not exist, or the path is a folder, a pipe or a device."""
    check_parent(path)
    if path.is_dir():
        raise OutputError(f"{path}: found a folder, expected the name of a file")
    if path.exists() and not path.is_file():  # a rename would replace even /dev/null
        raise OutputError(f"{path}: found a pipe or a device, expected the name of a file")


def check_parent(path: Path) -> None:
    """Raise OutputError if the parent folder of a path does not exist or is not writable."""
    check_name(path, OutputError)
    if not path.parent.is_dir():
        raise OutputError(f"{path}: found no folder '{path.parent}', expected one to write into; make it first")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path}: found a folder '{path.parent}' that may not be written, expected another one")


def made_folder(path: Path) -> Path:
    """Make the folder at a path, if it does not exist, and return the path. Raises OutputError if that fails."""
    check_name(path, OutputError)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: found no folder that can be made ({error.strerror}), expected one") from error
    return path


def write_atomically(path: Path, write: Write) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it. On failure, no file is left behind.

    For a stream (`is_stream`), the content of the temporary file is copied into the stream.
    """
    write_together({path: write})


def write_together(files: Mapping[Path, Write]) -> None:
    """`write_atomically` for several files. All are written before the first is renamed, in the order given.

    Raises OutputError, OSError, and the exceptions of `write`.
    """
    if len(files) == 1 and is_stream(only := next(iter(files))):
        _write_into(only, files[only])
        return
    for path in files:
        check_folder(path)
    for folder in {path.parent for path in files}:
        remove_leftovers(folder)
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


def _write_into(stream: Path, write: Write) -> None:
    with temporary_folder() as folder:
        made = Path(folder) / "output"
        write(made)
        number = descriptor(stream)
        try:
            # Write to the open descriptor, which keeps its position. Opening the file by name would begin at its start.
            with open(stream if number is None else os.dup(number), "wb") as target, made.open("rb") as source:
                shutil.copyfileobj(source, target)
        except BrokenPipeError:
            raise  # the reader closed the pipe, which is no error of a file
        except OSError as error:
            raise _of(stream, error) from error


def _give_names(temporaries: Mapping[Path, Path]) -> None:
    """Rename every temporary file to its path."""
    if len(temporaries) == 1:
        ((path, temporary),) = temporaries.items()
        os.replace(temporary, path)
        return
    # This also keeps the renames quick: the space of an old file is freed afterwards, which takes milliseconds.
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
            elif kept:  # there was no old file
                path.unlink(missing_ok=True)
        raise
    finally:
        for aside in asides.values():
            aside.unlink(missing_ok=True)


def _link(path: Path, aside: Path) -> None:
    """Hard-link a file, if it exists, to another name."""
    try:
        os.link(path, aside)
    except FileNotFoundError:
        pass
    except OSError:  # a file system without hard links: move the file instead
        os.replace(path, aside)


@contextmanager
def workspace(path: Path) -> Generator[Path]:
    """A temporary folder beside `path` for intermediate files; leftovers of a killed process are removed as above."""
    with tempfile.TemporaryDirectory(prefix=_prefix(path), suffix=_SUFFIX, dir=path.parent) as folder:
        yield Path(folder)


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A context: a folder in the system's temporary folder, after leftovers of killed processes there are removed."""
    remove_leftovers(Path(tempfile.gettempdir()))
    return tempfile.TemporaryDirectory(prefix=_prefix(Path("zeropoint")), suffix=_SUFFIX)


def _of(path: Path, error: OSError) -> OSError:
    """The error with the name of the final file instead of the temporary one."""
    return OSError(error.errno, error.strerror, str(path)) if error.errno is not None else error


@contextmanager
def _temporaries(paths: list[Path]) -> Generator[list[Path]]:
    made: list[Path] = []
    try:
        for path in paths:
            try:
                descriptor, name = tempfile.mkstemp(prefix=_prefix(path), suffix=_SUFFIX, dir=path.parent)
            except OSError as error:
                raise _of(path, error) from error
            made.append(Path(name))
            os.close(descriptor)
        yield made
    finally:
        for temporary in made:
            temporary.unlink(missing_ok=True)


@cache
def _host() -> str:
    """The name of this machine, and a hash of its id and its PID namespace.

    Machines of the same name may write into one folder, and each container numbers its processes from 1.
    """
    found = [platform.node()]
    for read in (lambda: _MACHINE.read_text(), lambda: os.readlink(_PROCESSES)):
        with suppress(OSError):  # this system has no such file
            found.append(read())
    name = re.sub(r"\W", "-", found[0]) or "host"
    return f"{name}-{hashlib.sha256(repr(found).encode()).hexdigest()[:8]}"


def _prefix(path: Path) -> str:
    return f".{path.name}.{_host()}.{os.getpid()}."


def _finish(temporary: Path, path: Path) -> None:
    """Give a file the permissions of the file it replaces, or those of a new file, and flush it to disk."""
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


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files in a folder that dead processes of this machine left."""
    pattern = re.compile(rf"\..+\.{re.escape(_host())}\.(\d+)\.\w+{re.escape(_SUFFIX)}")
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except OSError:  # writing reports the reason
        return
    for name in names:
        match = pattern.fullmatch(name)
        if match is not None and not _is_alive(int(match[1])):
            left = folder / name
            with suppress(OSError):  # removed by another process, or not permitted
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (OverflowError, ProcessLookupError):
        return False
    except PermissionError:  # the file of another user
        return True
    return True
