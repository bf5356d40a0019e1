"""The journal of a search: a line of JSON for every measurement, so that an interrupted search can resume.

```
{"what": "5c0a..."}                                                    digest of the calibrated program and the options
{"steps": [], "noise": [["conv1", "convolution", 0.01], ...]}          noise of the kernels: op, kernel, noise/signal
{"steps": ["conv1 0 i16"], "quality": 31.5, "size": 1200, ...}         the figures of a program
{"steps": ["conv1 0 i16"], "verified": 31.2, "margin": 0.4}            its SQNR on all samples
```
An incomplete last line is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from zeropoint.budget.budget import BudgetError, Figures
from zeropoint.budget.steps import KernelNoise, WideningStep
from zeropoint.errors import check_regular, json_object
from zeropoint.ir.digest import program_digest
from zeropoint.ir.outputs import write_atomically
from zeropoint.ir.program import Program

_Steps = tuple[str, ...]


@dataclass(frozen=True)
class RecordedNoise:
    """The noise/signal at the outputs that a kernel adds, from a journal."""

    op: str
    kernel: str
    at_outputs: float


@dataclass(frozen=True)
class Verified:
    """The SQNR of the worst output on all samples, in dB, and its margin."""

    least: float
    margin: float


class SearchJournal:
    """Figures, noise and verified figures by the steps taken. If `path` is None, nothing is written.

    `options` is a text that is equal for equal options. Without `resume`, an existing file is replaced. Raises
    BudgetError if the file belongs to another program or other options.
    """

    def __init__(self, path: Path | None, program: Program, options: str, *, resume: bool):
        self._path = path
        self._figures: dict[_Steps, Figures] = {}
        self._noise: dict[_Steps, Sequence[KernelNoise]] = {}
        self._verified: dict[_Steps, Verified] = {}
        if path is None:
            return
        what = program_digest(program, options).hex()
        if resume and path.exists():
            self._read(path, what)
        else:
            _replace(path, [{"what": what}])

    def _read(self, path: Path, what: str) -> None:
        check_regular(path, BudgetError)
        try:
            text = path.read_bytes().decode()
            records = [record for line in text.splitlines() if (record := json_object(line))]
            if not records or records[0].get("what") != what:
                raise _Damage
            for record in records[1:]:
                self._keep(record)
        except (_Damage, UnicodeDecodeError) as error:
            raise BudgetError(
                f"{path}: found the journal of another model or other options, or a damaged one, expected that of this "
                f"search; run without resume (--resume) to start over"
            ) from error
        if not text.endswith("\n"):
            _replace(path, records)  # without the incomplete line, to which the next record would be appended

    def _keep(self, record: dict[str, Any]) -> None:
        """Keep a record by its kind. Raises _Damage for a record that this module does not write."""
        steps: Any = record.get("steps")
        if not isinstance(steps, list) or not all(isinstance(step, str) for step in cast("list[object]", steps)):
            raise _Damage
        names, rest = (
            tuple(cast("list[str]", steps)),
            {name: value for name, value in record.items() if name != "steps"},
        )
        if rest.keys() == {"noise"}:
            self._noise[names] = _noise(rest["noise"])
        elif rest.keys() == {"verified", "margin"}:
            self._verified[names] = Verified(*(_number(rest[name]) for name in ("verified", "margin")))
        else:
            self._figures[names] = _figures(rest)

    def get(self, steps: Sequence[WideningStep]) -> Figures | None:
        """The figures with these steps, if they were measured."""
        return self._figures.get(_names(steps))

    def noise(self, steps: Sequence[WideningStep]) -> Sequence[KernelNoise] | None:
        """The noise of the kernels with these steps, if it was measured."""
        return self._noise.get(_names(steps))

    def verified(self, steps: Sequence[WideningStep]) -> Verified | None:
        """The SQNR on all samples with these steps, if it was measured."""
        return self._verified.get(_names(steps))

    def add(self, steps: Sequence[WideningStep], figures: Figures) -> None:
        """Write a measurement. Raises OSError."""
        self._figures[_names(steps)] = figures
        self._write(steps, asdict(figures))

    def add_noise(self, steps: Sequence[WideningStep], noise: Sequence[KernelNoise]) -> None:
        """Write the noise of the kernels. Raises OSError."""
        self._noise[_names(steps)] = noise
        self._write(steps, {"noise": [[one.op, one.kernel, one.at_outputs] for one in noise]})

    def add_verified(self, steps: Sequence[WideningStep], found: Verified) -> None:
        """Write an SQNR on all samples. Raises OSError."""
        self._verified[_names(steps)] = found
        self._write(steps, {"verified": found.least, "margin": found.margin})

    def _write(self, steps: Sequence[WideningStep], record: Mapping[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"steps": list(_names(steps)), **record}) + "\n")


def _names(steps: Sequence[WideningStep]) -> _Steps:
    return tuple(f"{step.name} {','.join(map(str, step.regions))} {step.width}" for step in steps)


class _Damage(Exception):
    """A record that is not a measurement of this search."""


def _replace(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Rewrite a journal. If the process is killed meanwhile, the old file stays."""
    text = "".join(f"{json.dumps(record)}\n" for record in records)
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _figures(figures: dict[str, Any]) -> Figures:
    """The figures of a record. Raises _Damage for anything that `add` does not write."""
    if not {"quality", "size"} <= figures.keys() <= {field.name for field in fields(Figures)}:
        raise _Damage
    for name, value in figures.items():
        kinds = int if name == "size" else int | float | None if name in ("latency", "verified") else int | float
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise _Damage
    return Figures(**figures)


def _number(value: object) -> float:
    """A number. Raises _Damage for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Damage
    return value


def _noise(found: object) -> Sequence[RecordedNoise]:
    """The noise of the kernels of a record. Raises _Damage for anything that `add_noise` does not write."""
    rows = cast("list[object]", found) if isinstance(found, list) else [None]
    return [_kernel_noise(cast("list[object]", row) if isinstance(row, list) else []) for row in rows]


def _kernel_noise(row: Sequence[object]) -> RecordedNoise:
    match row:
        case [str(op), str(kernel), value] if not _number(value) < 0:
            return RecordedNoise(op, kernel, _number(value))
        case _:
            raise _Damage
