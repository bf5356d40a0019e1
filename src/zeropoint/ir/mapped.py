"""Memory-mapped weights: pages that were read are released to the system.

A pass reads each weight once, but the pages of a mapped file stay in the process's memory until the system needs them.
So only the last `RECENT` bytes of the arrays that were read are kept. Releasing pages is always safe: a later access
reads them again from the file, which is usually still in the system's cache.

If `cp` or an exporter overwrites a mapped file in place, the mapping shows the new bytes. Weights of two models would
be mixed, and an access past the new end raises a signal that ends the process. So each read of weights first checks
that the file was not overwritten. A file that was replaced by a rename passes, because the mapping keeps the old file.
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
"""Maximum bytes of mapped arrays whose pages stay in memory after they were read."""


_Map = np.memmap[Any, np.dtype[Any]]


class ChangedFile(Error):
    """A mapped file was overwritten in place."""


class MappedFile(_Map):
    """The bytes of a file, with the state of the file when it was mapped."""

    before: os.stat_result

    def check(self) -> None:
        """Raise ChangedFile if the file was overwritten in place, not if it was removed or replaced."""
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
        """Maps (address of a mapping, offset of an array in it) to the mapping and the array's size in bytes."""
        self._files: dict[int, weakref.ref[_Map]] = {}

    def read(self, array: Array) -> None:
        """Record that an array is read, and release the pages of older ones. No effect on an array that is not mapped.

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
        """Release the pages of all mappings that were ever recorded."""
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
    """Release the pages of a part of a mapping. No effect on systems without madvise."""
    held: object = whole.base
    if isinstance(held, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        start = offset - offset % mmap.PAGESIZE
        held.madvise(mmap.MADV_DONTNEED, start, offset + size - start)


RECENT_PAGES = RecentPages()
"""The recent pages of this process."""


def result_of(function: Callable[[Array], Array], array: Array) -> Array:
    """The result of a function of an array. The array's pages are released after others have been read."""
    RECENT_PAGES.read(array)
    return function(array)


def one_by_one(arrays: Iterable[tuple[str, Array]]) -> Iterator[tuple[str, Array]]:
    """Iterate over named arrays and release the pages of mapped ones behind the iteration.

    The caller has to read each array before it asks for the next one, or all of them stay in memory.
    """
    for name, array in arrays:
        RECENT_PAGES.read(array)
        yield name, array
