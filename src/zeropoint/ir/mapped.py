"""Memory-mapped weights: pages that were read are given back to the system.

A pass reads each weight once, but the pages of a mapped file stay in the process's memory until the system needs them.
So of the arrays that were read, only the last `RECENT` bytes stay. Giving pages back is always safe: later reads of the
array read them again from the file, which the system usually still has in its cache.

A mapping follows a file that is written where it is, by `cp` or an exporter: weights would be those of two models, and
a read past the new end is a signal that ends the process. So each read of weights looks first whether the file is still
the one that was mapped. One that was replaced by a rename is: the mapping keeps the old file.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from zeropoint.errors import Error
from zeropoint.ir.tensors import Array

RECENT = 64 << 20
"""Bytes of mapped arrays whose pages may stay in memory after they were read."""


_Map = np.memmap[Any, np.dtype[Any]]


class ChangedFile(Error):
    """A file was written where it is after it was mapped."""


class MappedFile(_Map):
    """The bytes of a file, which knows whether the file was changed since."""

    before: os.stat_result

    def check(self) -> None:
        """Raise ChangedFile if the file was changed in its place; one that was removed or replaced is as it was."""
        try:
            now = os.stat(str(self.filename))
        except OSError:
            return
        same = (now.st_dev, now.st_ino) == (self.before.st_dev, self.before.st_ino)
        if same and (now.st_size, now.st_mtime_ns) != (self.before.st_size, self.before.st_mtime_ns):
            raise ChangedFile(
                f"{self.filename}: found {now.st_size} bytes that were written after it was loaded, expected the "
                f"{self.before.st_size} that were; load it again"
            )


def map_file(path: Path) -> MappedFile:
    """The bytes of a file, read-only. Raises OSError, and ValueError for an empty file."""
    before = path.stat()
    mapped = cast("MappedFile", MappedFile(path, np.uint8, mode="r"))
    mapped.before = before
    return mapped


def mapping(array: Array) -> _Map | None:
    """The read-only mapping of a file that an array is a view of; None if there is none."""
    found: object = array
    outer: _Map | None = None
    while isinstance(found, np.ndarray):
        if isinstance(found, np.memmap):
            outer = cast("_Map", found)
        found = cast("object", found.base)
    return outer if outer is not None and outer.mode == "r" else None


class RecentPages:
    """The mapped arrays that were read last, at most `most` bytes of them. Calls are thread-safe."""

    def __init__(self, most: int = RECENT):
        self._most = most
        self._held = 0
        self._lock = threading.Lock()
        self._pages: OrderedDict[tuple[int, int], tuple[weakref.ref[_Map], int]] = OrderedDict()
        """The mapping and the size in bytes, by the address of the mapping's first byte and the offset in it."""
        self._files: dict[int, weakref.ref[_Map]] = {}

    def read(self, array: Array) -> None:
        """Note that an array is about to be read, or was. Has no effect on an array that is not mapped.

        Raises ChangedFile.
        """
        whole = mapping(array)
        if whole is None or not array.nbytes:
            return
        if isinstance(whole, MappedFile):
            whole.check()
        first = _address(whole)
        key = first, _address(array) - first
        with self._lock:
            _, before = self._pages.pop(key, (None, 0))
            self._pages[key] = weakref.ref(whole), array.nbytes
            self._files[first] = self._pages[key][0]
            self._held += array.nbytes - before
            while self._held > self._most and len(self._pages) > 1:
                (_, offset), (oldest, size) = self._pages.popitem(last=False)
                self._held -= size
                if (file := oldest()) is not None:
                    _release(file, offset, size)

    def release(self) -> None:
        """Give back the pages of all mapped arrays that were ever noted, also those of arrays noted long ago."""
        with self._lock:
            self._pages.clear()
            self._held = 0
            for first, reference in list(self._files.items()):
                if (file := reference()) is None:
                    del self._files[first]
                else:
                    _release(file, 0, file.nbytes)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _release(whole: _Map, offset: int, size: int) -> None:
    """Give back the pages of a part of a mapping, which starts at a page. Has no effect on systems without madvise."""
    held: object = whole.base
    if isinstance(held, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        start = offset - offset % mmap.PAGESIZE
        held.madvise(mmap.MADV_DONTNEED, start, offset + size - start)


RECENT_PAGES = RecentPages()
"""Those of this process."""


def result_of(function: Callable[[Array], Array], array: Array) -> Array:
    """What a function makes of an array, whose pages are given back when others have been read."""
    RECENT_PAGES.read(array)
    return function(array)


def one_by_one(arrays: Iterable[tuple[str, Array]]) -> Iterator[tuple[str, Array]]:
    """Named arrays, of which each is read before the next: the pages of mapped ones are given back behind them.

    Arrays that are listed first and read later would all stay in memory.
    """
    for name, array in arrays:
        RECENT_PAGES.read(array)
        yield name, array
