"""The cache of compiled code on disk, private to this user.

The folder is `$ZEROPOINT_CACHE`, or `zeropoint` in the user's cache folder; it is created with mode 0700. Its contents
are executed, so a folder or file that others own or can write is ignored. Files have a checksum and are written under a
temporary name and renamed, so that a reader finds a complete entry or none; a damaged entry is compiled again. The
least recently used files are removed when the folder exceeds `LIMIT`. A process looks at the folder when it first
writes, and again after each `LIMIT / TRIMMED` bytes, because the folder may have many thousand files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import tempfile
import time
from pathlib import Path

LIMIT = 256 << 20
"""Maximum size of the cache on disk, in bytes."""
TRIMMED = 16
"""A process may exceed the limit by 1/TRIMMED before it looks at the folder again."""
_written: dict[Path, int] = {}
"""The bytes that this process has written to a folder since it looked at the folder."""
_PREFIX, _SUFFIX = ".zeropoint-", ".tmp"
_OURS = re.compile(rf"[0-9a-f]{{64}}\.o|{re.escape(_PREFIX)}\w+{re.escape(_SUFFIX)}")
_ABANDONED = 600.0
"""Age in seconds after which a temporary file counts as abandoned."""


def cache_folder() -> Path | None:
    """The cache folder; None if `$ZEROPOINT_CACHE` is empty, which turns the cache off, or there is no home folder.

    A home folder has an absolute path.
    """
    named = os.environ.get("ZEROPOINT_CACHE")
    if named is not None:
        return Path(named) if named else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "zeropoint"
    except RuntimeError:  # neither $HOME nor an entry of this user
        return None
    # A relative $HOME would name a folder wherever a process runs, an empty one `/.cache`.
    return folder if folder.is_absolute() and (os.path.isabs(base) or os.environ.get("HOME") != "") else None


def _is_private(found: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user and no one else can write it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class Cache:
    """Entries by key in a folder. With None, or a folder that is not private to this user, there is no cache.

    Disk errors never propagate: an unreadable entry is missing, and an entry that cannot be written is not kept.
    """

    def __init__(self, folder: Path | None):
        self._folder = folder if folder is not None and _prepared(folder) else None

    def read(self, key: str) -> bytes | None:
        """The entry of that key; None if it is missing, damaged, or writable by others."""
        if self._folder is None:
            return None
        path = self._folder / f"{key}.o"
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a pipe is not waited for
                found = os.fstat(file.fileno())
                data = file.read() if stat.S_ISREG(found.st_mode) and _is_private(found) else b""
        except OSError:
            return None
        digest, body = data[:32], data[32:]
        if _checksum(key, body) != digest:
            return None
        with contextlib.suppress(OSError):  # another process removed it; what was read stays good
            os.utime(path)
        return body

    def write(self, key: str, data: bytes) -> None:
        """Store an entry."""
        if self._folder is None:
            return
        name = None
        try:
            descriptor, name = tempfile.mkstemp(_SUFFIX, _PREFIX, self._folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_checksum(key, data) + data)
            os.replace(name, self._folder / f"{key}.o")
            _written[self._folder] = _written.get(self._folder, LIMIT) + len(data)
        except OSError:
            if name is not None:
                with contextlib.suppress(OSError):
                    Path(name).unlink()

    def trim(self) -> None:
        """Remove the least recently used entries beyond the limit, and temporary files of killed processes.

        Nothing is done before this process has written much. Other files in the folder stay: a user may name any
        folder.
        """
        if self._folder is None or _written.get(self._folder, LIMIT) * TRIMMED < LIMIT:
            return
        _written[self._folder] = 0
        try:
            ours = [entry for entry in os.scandir(self._folder) if _OURS.fullmatch(entry.name)]
            found = [(entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in ours]
        except OSError:
            return
        excess = sum(size for _, size, _ in found) - LIMIT
        for changed, size, path in sorted(found):
            abandoned = path.endswith(_SUFFIX) and changed < time.time() - _ABANDONED
            if excess > 0 or abandoned:
                excess -= size
                with contextlib.suppress(OSError):  # another process removed it, or we may not
                    Path(path).unlink()


def _prepared(folder: Path) -> bool:
    """Whether the folder exists or could be created, and is private to this user."""
    try:
        for path in (*reversed(folder.parents), folder):  # `parents=True` would give the umask's rights
            path.mkdir(mode=0o700, exist_ok=True) if not path.exists() else None
        return _is_private(folder.stat())
    except OSError:
        return False


def _checksum(key: str, data: bytes) -> bytes:
    """The checksum of key and data. It also detects an entry under another key's name."""
    return hashlib.sha256(key.encode() + data).digest()
