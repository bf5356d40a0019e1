"""The journal of corrections: a line of JSON for every corrected kernel, so that an interrupted run can resume.

```
{"what": "5c0a...", "sum": "91ab..."}                     digest of the program, the samples and the options
{"method": "closed_form", "samples": 48, "kernel": 7, "text": "least squares, ...", "bias": "AACA...",
 "weight": "/wA...", "dtype": "|i1", "scales": [0.25], "points": [0], "sum": "07f3..."}
```
Arrays are in base64. `kernel` is the number of the region. A kernel without `weight` keeps its weight, and one whose
`text` is null was tried and left as it was. `sum` is a digest of the line without it. An incomplete last line is
ignored. Nothing is written in the first `SECONDS`, because such short corrections need no journal.

A resumed walk runs both networks again up to the first kernel that is not in the journal, and gives the kernels before
it what they had. Solving and learning take most of the time of corrections, and are not repeated.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from zeropoint.calibrate import JournalError, Work
from zeropoint.correct.contractions import ContractionKernel
from zeropoint.correct.sample_parts import SampleParts
from zeropoint.errors import check_regular, json_object
from zeropoint.ir.digest import array_bytes, program_digest
from zeropoint.ir.outputs import write_atomically
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import Array
from zeropoint.numerics.storage import smallest_dtype
from zeropoint.version import __version__

SECONDS = 10.0
"""The time after which corrections are recorded, in seconds."""
_OF_KERNELS, _OF_WEIGHTS = {"method", "samples", "kernel", "text", "bias"}, {"weight", "dtype", "scales", "points"}
_Place = tuple[str, int, int]
"""The method, the number of samples it was fitted to, and the number of the region."""


class CorrectionJournal:
    """What corrections have set in kernels. `what` returns a digest of everything that they depend on.

    Without `resume`, an existing file is replaced by the first record. Raises JournalError if the file belongs to
    another model, other data or other options, or is damaged. Raises OSError.
    """

    def __init__(self, path: Path, what: Callable[[], bytes], *, resume: bool):
        self._path, self._what = path, what
        self._due = time.monotonic() + SECONDS
        self._known: dict[_Place, dict[str, Any]] = {}
        self._is_begun = False
        if resume and path.exists():
            self._read()

    def _read(self) -> None:
        check_regular(self._path, JournalError)
        *lines, last = self._path.read_bytes().split(b"\n")
        records = list(map(_record, lines))
        if not records or records[0] != {"what": self._what().hex()}:
            raise self._foreign()
        for record in records[1:]:
            if record.keys() not in (_OF_KERNELS, _OF_KERNELS | _OF_WEIGHTS):
                raise self._foreign()
            self._known[record["method"], record["samples"], record["kernel"]] = record
        if last:  # the next record would be appended to the incomplete line
            whole = b"".join(line + b"\n" for line in lines)
            write_atomically(self._path, lambda temporary: temporary.write_bytes(whole))
        self._is_begun = True

    def _foreign(self) -> JournalError:
        return JournalError(
            f"{self._path}: found the journal of another model, other data or other options, or a damaged one, "
            f"expected that of these corrections; run without resume (--resume) to start over"
        )

    def get(self, place: _Place) -> Mapping[str, Any] | None:
        """The record of a kernel, if there is one."""
        return self._known.get(place)

    @property
    def is_due(self) -> bool:
        """Whether corrections have taken long enough to be recorded."""
        return self._is_begun or time.monotonic() >= self._due

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a record, flushed to disk. Raises OSError."""
        if not self._is_begun:
            first = _line({"what": self._what().hex()})
            write_atomically(self._path, lambda temporary: temporary.write_bytes(first))
            self._is_begun = True
        with self._path.open("ab") as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())


def _text_of(options: str, parts: SampleParts) -> str:
    """A text that is equal for equal options, samples and versions."""
    digest = hashlib.sha256()
    for sample in (*parts.fitted, *parts.held):
        for name in sorted(sample):
            digest.update(name.encode() + b"\0")
            digest.update(array_bytes(np.asarray(sample[name])))
    return f"{__version__} {len(parts.fitted)} {len(parts.held)} {digest.hexdigest()} {options}"


def corrections_path(work: Work | None) -> Path | None:
    """The journal of corrections: a file next to the journal of the calibration; None without one."""
    return None if work is None else work.part("corrections").journal


def correction_journal(
    work: Work | None, program: Program, options: str, parts: SampleParts
) -> CorrectionJournal | None:
    """The journal of the corrections of a propagated program; None without one. Raises JournalError and OSError."""
    path = corrections_path(work)
    if work is None or path is None:
        return None
    return CorrectionJournal(path, lambda: program_digest(program, _text_of(options, parts)), resume=work.resume)


@dataclass(frozen=True, eq=False)
class _Change:
    """A kernel that was corrected, its number, a description (None if nothing changed), and whether its weight is
    another one."""

    kernel: ContractionKernel
    number: int
    text: str | None
    has_weight: bool


@dataclass(eq=False)
class MethodRecords:
    """The records of one method, fitted to `samples` samples, for the kernels of a propagated program.

    Without a journal, no kernel is known and nothing is recorded.
    """

    journal: CorrectionJournal | None
    method: str
    samples: int
    program: Program
    _numbers: dict[QuantizeRegionOp, int] = field(default_factory=dict[QuantizeRegionOp, int])
    _waiting: list[_Change] = field(default_factory=list[_Change])
    """Corrected before the journal is due."""

    def __post_init__(self) -> None:
        if self.journal is not None:
            self._numbers = {region: number for number, region in enumerate(regions_of(self.program))}

    def _known(self, kernel: ContractionKernel) -> Mapping[str, Any] | None:
        if self.journal is None:
            return None
        return self.journal.get((self.method, self.samples, self._numbers[kernel.region]))

    def know(self, kernels: Iterable[ContractionKernel]) -> bool:
        """Whether all of these kernels are recorded."""
        return self.journal is not None and all(self._known(kernel) is not None for kernel in kernels)

    def corrected(self, kernel: ContractionKernel, correct: Callable[[], str]) -> str:
        """Give a kernel its recorded constants, or correct and record it. Returns the description."""
        if self._known(kernel) is not None:
            return self.restore(kernel) or ""
        before = kernel.region.inputs[1]
        text = correct()
        self.add(kernel, text, weight=kernel.region.inputs[1] is not before)
        return text

    def restore(self, kernel: ContractionKernel) -> str | None:
        """Give a kernel its recorded constants. Returns the description; None if it was left as it was."""
        record = self._known(kernel)
        assert record is not None
        if record["text"] is not None:
            weight = (_integers(record, kernel), _type(record, kernel)) if "weight" in record else None
            kernel.restore(np.frombuffer(b64decode(record["bias"]), np.float32), weight)
        return record["text"]

    def add(self, kernel: ContractionKernel, text: str | None, *, weight: bool = False) -> None:
        """Record a kernel whose bias, and maybe `weight`, was corrected; without a text, one that was left as it was.

        Raises OSError.
        """
        if self.journal is None or self._known(kernel) is not None:
            return
        self._waiting.append(_Change(kernel, self._numbers[kernel.region], text, weight))
        if self.journal.is_due:
            for change in self._waiting:
                self.journal.add(self._record(change))
            self._waiting.clear()

    def _record(self, change: _Change) -> dict[str, Any]:
        kernel = change.kernel
        made = {"method": self.method, "samples": self.samples, "kernel": change.number, "text": change.text}
        made["bias"] = _text(kernel.given_bias)
        if change.has_weight:
            integers, kind = kernel.integers(), kernel.weight_type.data
            stored = integers.astype(smallest_dtype(int(integers.min(initial=0)), int(integers.max(initial=0))))
            made |= {"weight": _text(stored), "dtype": stored.dtype.str}
            made |= {"scales": list(kind.scales), "points": list(kind.zero_points)}
        return made


def _integers(record: Mapping[str, Any], kernel: ContractionKernel) -> Array:
    """The recorded weight, (groups, outputs, terms), as corrections make it, f64."""
    flat = np.frombuffer(b64decode(record["weight"]), np.dtype(record["dtype"]))
    return flat.reshape(kernel.shape).astype(np.float64)


def _type(record: Mapping[str, Any], kernel: ContractionKernel) -> UniformQuantizedType:
    """The type of the recorded weight."""
    before = kernel.weight_type.data
    return UniformQuantizedType(replace(before, scales=tuple(record["scales"]), zero_points=tuple(record["points"])))


def _text(array: Array) -> str:
    return b64encode(array_bytes(array)).decode()


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps({**record, "sum": _sum(record)}) + "\n").encode()


def _record(line: bytes) -> dict[str, Any]:
    """The record of a line without its sum; an empty one if the sum is another one."""
    record = json_object(line)
    return record if record.pop("sum", None) == _sum(record) else {}


def _sum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()[:16]
