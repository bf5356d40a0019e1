"""What a calibration has seen so far, on disk: a run that was killed goes on from there.

The file is a first line, the SHA-256 of what follows, and arrays as `numpy.savez` writes them (nothing in it is run):
what is calibrated, the numbers and digests of the chunks of samples that were seen, and what the observers keep of them
(`zeropoint.calibrate.states`). It is replaced as a whole. Nothing is written before `SECONDS` have passed: who is done
by then needs no journal.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from zeropoint.calibrate.observers import Observer
from zeropoint.calibrate.states import Packed, fits
from zeropoint.errors import Error
from zeropoint.ir.outputs import write_atomically
from zeropoint.ir.tensors import Array

SECONDS = 10.0
"""Between two records: so much work is lost at most."""
SHARE = 20
"""Writing takes one part in so many of the time at most."""
_FIRST_LINE = b"zeropoint calibration journal 1\n"
_DIGEST_BYTES = 32
_OURS = ("what", "chunks", "digests")


class JournalError(Error, ValueError):
    """A journal of something else than what is calibrated."""


class Journal:
    """The journal of one calibration; `what` tells it from any other: the program, its weights, the observers.

    `seen` has the digest of every chunk that was seen, by its number. None as the path keeps nothing.
    """

    def __init__(self, path: Path | None, what: Callable[[], bytes]):
        self._path, self._what = path, what
        self._due = time.monotonic() + SECONDS
        self.seen: dict[int, bytes] = {}
        self.is_begun = False

    def resume(self, states: Mapping[str, Observer]) -> Packed | None:
        """What the observers have seen according to the journal; None where there is none.

        Raises JournalError where it is damaged, or of another model or other observers; OSError.
        """
        if self._path is None or not self._path.exists():
            return None
        arrays = _read(self._path)
        ours = [arrays.pop(name, np.zeros(0)) for name in _OURS]
        what, chunks, digests = ours
        if what.tobytes() != self._what() or not fits(states, arrays) or digests.shape != (len(chunks), _DIGEST_BYTES):
            raise JournalError(
                f"{self._path}: found the journal of another model or another observer, or a damaged one, expected "
                f"that of this calibration; run without --resume, which begins anew"
            )
        self.seen = {int(chunk): digest.tobytes() for chunk, digest in zip(chunks, digests, strict=True)}
        self.is_begun = True
        return arrays

    def is_due(self) -> bool:
        """Whether it is time for a record."""
        return self._path is not None and time.monotonic() >= self._due

    def write(self, packed: Packed) -> None:
        """Replace the journal by what is seen now, and see that the disk has it. Raises OSError."""
        assert self._path is not None
        began = time.monotonic()
        digests = np.frombuffer(b"".join(self.seen.values()), np.uint8).reshape(-1, _DIGEST_BYTES)
        ours = {"what": np.frombuffer(self._what(), np.uint8), "chunks": np.array(list(self.seen)), "digests": digests}
        body = io.BytesIO()
        np.savez(body, allow_pickle=False, **ours, **packed)
        data = body.getvalue()
        whole = _FIRST_LINE + hashlib.sha256(data).digest() + data
        write_atomically(self._path, lambda temporary: temporary.write_bytes(whole))
        ended = time.monotonic()
        self._due = ended + max(SECONDS, SHARE * (ended - began))
        self.is_begun = True


def _read(path: Path) -> dict[str, Array]:
    """The arrays of a journal; none of a file that is damaged or something else."""
    found = path.read_bytes()
    start = len(_FIRST_LINE) + _DIGEST_BYTES
    if not found.startswith(_FIRST_LINE) or hashlib.sha256(found[start:]).digest() != found[len(_FIRST_LINE) : start]:
        return {}
    with np.load(io.BytesIO(found[start:]), allow_pickle=False) as arrays:
        return dict(arrays)
