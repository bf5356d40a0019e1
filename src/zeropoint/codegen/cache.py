"""Compiled code on disk, for this user alone.

The folder is `$ZEROPOINT_CACHE`, or `zeropoint` in the user's cache folder; it is made with the rights 0700. What lies
in it is run, so a folder or a file that others own or may write is as good as none. Files are written under another
name and renamed, with a checksum in front, so that a reader finds a whole entry or none; a wrong or truncated one is
made again. The least recently used files go when the folder grows past `LIMIT`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from pathlib import Path

LIMIT = 256 << 20
"""Bytes of the cache on disk."""
_SUFFIX = ".tmp"
_ABANDONED = 600.0
"""Seconds after which nobody writes a temporary file any more."""


def cache_folder() -> Path | None:
    """Where compiled code is kept; None where `$ZEROPOINT_CACHE` is empty, which turns the cache off, or no home is."""
    named = os.environ.get("ZEROPOINT_CACHE")
    if named is not None:
        return Path(named) if named else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "zeropoint"
    except RuntimeError:  # neither $HOME nor an entry of this user
        return None


def _is_private(found: os.stat_result) -> bool:
    """Whether something belongs to this user, and nobody else may write it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class Cache:
    """Entries by key in a folder; None, or one that is not this user's alone, keeps nothing.

    No fault of the disk is one of the cache: what cannot be read is missing, what cannot be written is not kept.
    """

    def __init__(self, folder: Path | None):
        self._folder = folder if folder is not None and _prepared(folder) else None

    def read(self, key: str) -> bytes | None:
        """The entry of that key, None where there is none, it is damaged, or others may have written it."""
        if self._folder is None:
            return None
        path = self._folder / f"{key}.o"
        try:
            with path.open("rb") as file:
                data = file.read() if _is_private(os.fstat(file.fileno())) else b""
        except OSError:
            return None
        digest, body = data[:32], data[32:]
        if _checksum(key, body) != digest:
            return None
        with contextlib.suppress(OSError):  # another process removed it; what was read stays good
            os.utime(path)
        return body

    def write(self, key: str, data: bytes) -> None:
        """Keep an entry."""
        if self._folder is None:
            return
        name = None
        try:
            descriptor, name = tempfile.mkstemp(dir=self._folder, suffix=_SUFFIX)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_checksum(key, data) + data)
            os.replace(name, self._folder / f"{key}.o")
        except OSError:
            if name is not None:
                with contextlib.suppress(OSError):
                    Path(name).unlink()

    def trim(self) -> None:
        """Remove the least recently used entries past the limit, and what killed processes left half written."""
        if self._folder is None:
            return
        try:
            found = [(entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(self._folder)]
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
    """Whether the folder is there, or could be made, and is this user's alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _is_private(folder.stat())
    except OSError:
        return False


def _checksum(key: str, data: bytes) -> bytes:
    """Of an entry and what it is the entry of: one under another's name is as wrong as a truncated one."""
    return hashlib.sha256(key.encode() + data).digest()
