"""The cache of compiled code on disk, private to this user.

The folder is `$ZEROPOINT_CACHE`, or `zeropoint` in the user's cache folder. It is created with mode 0700. Its contents
are executed, so a folder or file that others own or can write to is ignored. Files are written under a temporary name
and renamed, so that a reader finds a complete entry or none. They have a checksum, and a damaged entry is compiled
again. If the folder exceeds `LIMIT`, the least recently used files are removed. A process scans the folder when it
first writes, and again after each `LIMIT / TRIMMED` bytes, because the folder may have many thousand files.
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
"""A process may exceed the limit by 1/TRIMMED before it scans the folder again."""
_written: dict[Path, int] = {}
"""The number of bytes that this process has written to a folder since it scanned the folder."""
_PREFIX, _SUFFIX = ".zeropoint-", ".tmp"
_OURS = re.compile(rf"[0-9a-f]{{64}}\.o|{re.escape(_PREFIX)}\w+{re.escape(_SUFFIX)}")
_ABANDONED = 600.0
"""The age in seconds after which a temporary file counts as abandoned."""


def cache_folder() -> Path | None:
    """The cache folder; None if `$ZEROPOINT_CACHE` is empty, which turns the cache off, or if there is no home folder.

    A home folder that is not an absolute path is ignored.
    """
    named = os.environ.get("ZEROPOINT_CACHE")
    if named is not None:
        return Path(named) if named else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "zeropoint"
    except RuntimeError:  # neither $HOME nor an entry of this user
        return None
    # A relative $HOME would mean a folder in the current folder of each process, and an empty one `/.cache`.
    return folder if folder.is_absolute() and (os.path.isabs(base) or os.environ.get("HOME") != "") else None


def _is_private(found: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, and no other user can write to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class Cache:
    """Entries by key in a folder. Without a folder that is private to this user, nothing is read or written.

    Disk errors are not raised: an unreadable entry counts as missing, and an entry that cannot be written is dropped.
    """

    def __init__(self, folder: Path | None):
        self._folder = folder if folder is not None and _prepared(folder) else None

    def read(self, key: str) -> bytes | None:
        """The entry of that key; None if it is missing, damaged, or writable by others."""
        if self._folder is None:
            return None
        path = self._folder / f"{key}.o"
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # do not wait for a pipe
                found = os.fstat(file.fileno())
                data = file.read() if stat.S_ISREG(found.st_mode) and _is_private(found) else b""
        except OSError:
            return None
        digest, body = data[:32], data[32:]
        if _checksum(key, body) != digest:
            return None
        with contextlib.suppress(OSError):  # another process removed it; the data that was read is still valid
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

        Does nothing until this process has written much. Other files in the folder stay, because the user may have
        chosen any folder.
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
                with contextlib.suppress(OSError):  # another process removed it, or we may not remove it
                    Path(path).unlink()


def _prepared(folder: Path) -> bool:
    """Whether the folder exists, or could be created, and is private to this user."""
    try:
        for path in (*reversed(folder.parents), folder):  # `parents=True` would give the umask's rights
            path.mkdir(mode=0o700, exist_ok=True) if not path.exists() else None
        return _is_private(folder.stat())
    except OSError:
        return False


def _checksum(key: str, data: bytes) -> bytes:
    """The checksum of key and data. It also detects an entry that has the file name of another key."""
    return hashlib.sha256(key.encode() + data).digest()
