"""The journal of a calibration: its progress on disk, so that a killed run can resume.

The first line of the file is the SHA-256 of the rest. The rest has arrays in the format of `numpy.savez`, which are
loaded without pickle: the identity of the calibration, the numbers and digests of the chunks of samples seen, and the
states of the observers (`zeropoint.calibrate.states`). The file is always replaced as a whole. Nothing is written in
the first `SECONDS`, because such a short run needs no journal.
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
from zeropoint.errors import Error, check_regular
from zeropoint.ir.outputs import write_atomically
from zeropoint.ir.tensors import Array

SECONDS = 10.0
"""The minimum time between two records in seconds, which is about the maximum time of lost work."""
SHARE = 20
"""Writing takes at most 1/SHARE of the time."""
_FIRST_LINE = b"zeropoint calibration journal 1\n"
_DIGEST_BYTES = 32
_OURS = ("what", "chunks", "digests")


class JournalError(Error, ValueError):
    """A journal that does not belong to this calibration."""


class CalibrationJournal:
    """The journal of one calibration. `what` returns its identity, a digest of program, weights and observers.

    `seen` maps the number of each chunk seen to its digest. If `path` is None, nothing is written.
    """

    def __init__(self, path: Path | None, what: Callable[[], bytes]):
        self._path, self._what = path, what
        self._due = time.monotonic() + SECONDS
        self.seen: dict[int, bytes] = {}
        self.is_begun = False

    def resume(self, states: Mapping[str, Observer]) -> Packed | None:
        """The observers' states from the journal; None if there is no journal.

        Raises JournalError if the journal is damaged or belongs to another model or other observers. Raises OSError.
        """
        if self._path is None or not self._path.exists():
            return None
        arrays = _read(self._path)
        ours = [arrays.pop(name, np.zeros(0)) for name in _OURS]
        what, chunks, digests = ours
        if what.tobytes() != self._what() or not fits(states, arrays) or digests.shape != (len(chunks), _DIGEST_BYTES):
            raise JournalError(
                f"{self._path}: found the journal of another model or another observer, or a damaged one, expected "
                f"that of this calibration; run without resume (--resume) to start over"
            )
        self.seen = {int(chunk): digest.tobytes() for chunk, digest in zip(chunks, digests, strict=True)}
        self.is_begun = True
        return arrays

    def is_due(self) -> bool:
        """Whether the next record is due."""
        return self._path is not None and time.monotonic() >= self._due

    def write(self, packed: Packed) -> None:
        """Replace the journal with the current state, atomically and flushed to disk. Raises OSError."""
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
    """The arrays of a journal; empty if the file is damaged or not a journal."""
    check_regular(path, JournalError)
    found = path.read_bytes()
    start = len(_FIRST_LINE) + _DIGEST_BYTES
    if not found.startswith(_FIRST_LINE) or hashlib.sha256(found[start:]).digest() != found[len(_FIRST_LINE) : start]:
        return {}
    with np.load(io.BytesIO(found[start:]), allow_pickle=False) as arrays:
        return dict(arrays)
