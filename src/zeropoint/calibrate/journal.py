"""What a calibration has seen so far, on disk: a run that was killed goes on from there.

The file is a first line, then records: length, SHA-256, and arrays as `numpy.savez` writes them (nothing in it is run).
The first record says what is calibrated; every other one has the numbers of chunks of samples, their digests, and what
the observers have seen in them (`zeropoint.calibrate.states`). A record that was cut off, and what follows it, is left
out. Nothing is written before `SECONDS` have passed: who is done by then needs no journal.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np

from zeropoint.calibrate.observers import Observer
from zeropoint.calibrate.states import Packed, fits
from zeropoint.errors import Error
from zeropoint.ir.tensors import Array

SECONDS = 10.0
"""Between two records: so much work is lost at most."""
_FIRST_LINE = b"zeropoint calibration journal 1\n"
_LENGTH_BYTES, _DIGEST_BYTES = 8, 32
_OURS = ("chunks", "digests")


class JournalError(Error, ValueError):
    """A journal of something else than what is calibrated."""


class Journal:
    """The journal of one calibration; `what` tells it from any other: the program, its weights, the observers.

    `done` has the digest of every chunk that needs not be run again, by its number. None as the path keeps nothing.
    """

    def __init__(self, path: Path | None, what: bytes):
        self._path, self._what = path, what
        self._file: IO[bytes] | None = None
        self._written = time.monotonic()
        self.done: dict[int, bytes] = {}

    def resume(self, states: Mapping[str, Observer]) -> list[Packed]:
        """What the observers had seen when the last record was written; nothing where there is no journal.

        Raises JournalError where it is of another model or other observers; OSError.
        """
        if self._path is None or not self._path.exists():
            return []
        records = list(_records(self._path))
        if not records or records[0].get("what", np.zeros(0, np.uint8)).tobytes() != self._what:
            raise JournalError(
                f"{self._path}: found the journal of another model or another observer, expected that of this one; "
                f"run without --resume, which begins anew"
            )
        found: list[Packed] = []
        for record in records[1:]:
            packed = {name: array for name, array in record.items() if name not in _OURS}
            chunks, digests = (record.get(name, np.zeros(0)) for name in _OURS)
            if not fits(states, packed) or digests.shape != (len(chunks), _DIGEST_BYTES):
                break
            self.done.update((int(chunk), digest.tobytes()) for chunk, digest in zip(chunks, digests, strict=True))
            found.append(packed)
        self._file = self._path.open("r+b")
        self._file.truncate(_length(self._path, 1 + len(found)))
        self._file.seek(0, os.SEEK_END)
        return found

    def is_due(self) -> bool:
        """Whether it is time for a record."""
        return self._path is not None and time.monotonic() - self._written >= SECONDS

    def write(self, chunks: Mapping[int, bytes], packed: Packed) -> None:
        """Append a record, and see that the disk has it. Raises OSError."""
        assert self._path is not None
        if self._file is None:
            self._file = self._path.open("wb")
            self._file.write(_FIRST_LINE)
            self._append({"what": np.frombuffer(self._what, np.uint8)})
        digests = np.frombuffer(b"".join(chunks.values()), np.uint8).reshape(-1, _DIGEST_BYTES)
        self._append({"chunks": np.array(list(chunks), np.int64), "digests": digests, **packed})
        self._file.flush()
        os.fsync(self._file.fileno())
        self._written = time.monotonic()

    def _append(self, arrays: Mapping[str, Array]) -> None:
        assert self._file is not None
        body = io.BytesIO()
        np.savez(body, allow_pickle=False, **arrays)
        data = body.getvalue()
        self._file.write(len(data).to_bytes(_LENGTH_BYTES, "little") + hashlib.sha256(data).digest() + data)

    @property
    def is_begun(self) -> bool:
        """Whether anything was written in this run, or read by it."""
        return self._file is not None

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()


def _bodies(path: Path) -> Iterator[tuple[bytes, int]]:
    """The records that are whole, and where each ends."""
    with path.open("rb") as file:
        if file.read(len(_FIRST_LINE)) != _FIRST_LINE:
            return
        left = path.stat().st_size - len(_FIRST_LINE)
        while len(head := file.read(_LENGTH_BYTES + _DIGEST_BYTES)) == _LENGTH_BYTES + _DIGEST_BYTES:
            length = int.from_bytes(head[:_LENGTH_BYTES], "little")
            body = file.read(length) if length <= left else b""
            if hashlib.sha256(body).digest() != head[_LENGTH_BYTES:]:
                return
            yield body, file.tell()


def _records(path: Path) -> Iterator[dict[str, Array]]:
    for body, _ in _bodies(path):
        try:
            with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
                yield dict(arrays)
        except (OSError, ValueError):
            return


def _length(path: Path, count: int) -> int:
    """Bytes of the first records."""
    ends = [end for _, end in _bodies(path)]
    return ends[count - 1]
