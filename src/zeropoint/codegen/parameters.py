"""The block of memory with the parameters of all kernels: packed weights, biases, multipliers, tables.

The block of a large network is as large as its weights, so it is never copied. Equal parameters are stored once, for
example if several products read a weight, or for one network with several shapes.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import sys

import numpy as np

from zeropoint.ir.tensors import Array

ALIGNMENT = 64
"""Alignment in bytes of every buffer and block of parameters: a cache line, and the widest vector."""

LARGE = 4 << 20
"""The least size in bytes of a block for which large pages are asked for."""
HUGE_PAGE, COLLAPSE = 14, 25
"""Advice of Linux: use large pages, and do so now for what is there (since Linux 6.1)."""


class ParameterBlock:
    """Parameters in order, each at a multiple of `ALIGNMENT`. Nothing can be appended after `array` was read."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._known: dict[bytes, int] = {}
        self._array: Array | None = None

    def __len__(self) -> int:
        return len(self._bytes) if self._array is None else len(self._array)

    def append(self, data: bytes | memoryview) -> int:
        """The offset of parameters. They are appended if the block has no equal ones.

        Raises BufferError after `array` was read.
        """
        digest = hashlib.sha256(data).digest()
        if digest not in self._known:
            self._bytes.extend(bytes(-len(self._bytes) % ALIGNMENT))
            self._known[digest] = len(self._bytes)
            self._bytes.extend(data)
        return self._known[digest]

    @property
    def array(self) -> Array:
        """All parameters as u8, at an address that is a multiple of `ALIGNMENT`. Not a copy."""
        if self._array is None:
            size = len(self._bytes)
            self._bytes.extend(bytes(ALIGNMENT))
            whole = np.frombuffer(self._bytes, np.uint8)
            start = -whole.ctypes.data % ALIGNMENT
            ctypes.memmove(whole.ctypes.data + start, whole.ctypes.data, size)
            self._array = whole[start : start + size]
        return self._array

    def in_large_pages(self) -> None:
        """Ask Linux to keep a large block in pages of 2 MB. Without them, it is read as before.

        Weights of a hundred megabytes are read once in a call, and with pages of 4 KB a part of the time is that of
        finding their addresses.
        """
        block = self.array
        if sys.platform != "linux" or len(block) < LARGE:
            return
        page = mmap.PAGESIZE
        begin = -(-block.ctypes.data // page) * page
        size = (block.ctypes.data + len(block) - begin) // page * page
        advise = ctypes.CDLL(None).madvise
        for advice in (HUGE_PAGE, COLLAPSE):
            advise(ctypes.c_void_p(begin), ctypes.c_size_t(size), advice)
