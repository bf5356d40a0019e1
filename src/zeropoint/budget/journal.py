"""The journal of a search: a line of JSON for every measurement, so that an interrupted search can resume.

The first line has the digest of the calibrated program and of the options. A last line that is not whole is ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast

import numpy as np

from zeropoint.budget.budget import BudgetError, Figures
from zeropoint.budget.steps import WideningStep
from zeropoint.errors import check_regular, json_object
from zeropoint.ir.mapped import one_by_one
from zeropoint.ir.program import Program
from zeropoint.ir.text import print_program, resource_arrays


class SearchJournal:
    """Figures by the steps that were taken. With `path` None nothing is written.

    `options` is a text that is equal for equal options. Without `resume`, an existing file is replaced. Raises
    BudgetError if the file belongs to another program or other options.
    """

    def __init__(self, path: Path | None, program: Program, options: str, *, resume: bool):
        self._path = path
        self._found: dict[tuple[str, ...], Figures] = {}
        if path is None:
            return
        what = hashlib.sha256(f"{print_program(program)}\n{options}\n".encode())
        for handle, array in one_by_one(sorted(resource_arrays(program).items())):
            what.update(handle.encode())
            what.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        if resume and path.exists():
            self._read(path, what.hexdigest())
        else:
            path.write_text(json.dumps({"what": what.hexdigest()}) + "\n", encoding="utf-8")

    def _read(self, path: Path, what: str) -> None:
        check_regular(path, BudgetError)
        try:
            text = path.read_bytes().decode()
            records = [record for line in text.splitlines() if (record := json_object(line))]
            if not records or records[0].get("what") != what:
                raise _Damage
            self._found = dict(map(_measurement, records[1:]))
        except (_Damage, UnicodeDecodeError) as error:
            raise BudgetError(
                f"{path}: found the journal of another model or other options, or a damaged one, expected that of this "
                f"search; run without resume (--resume), which begins anew"
            ) from error
        whole = "".join(f"{json.dumps(record)}\n" for record in (records[0], *map(_record, self._found.items())))
        path.write_text(whole, encoding="utf-8")  # without a torn line, which the next one would be added to

    def get(self, steps: Sequence[WideningStep]) -> Figures | None:
        """The figures of these steps, if they were measured."""
        return self._found.get(_names(steps))

    def add(self, steps: Sequence[WideningStep], figures: Figures) -> None:
        """Write a measurement. Raises OSError."""
        self._found[_names(steps)] = figures
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(_record((_names(steps), figures))) + "\n")

    def remove(self) -> None:
        """Remove the file, at the end of the search."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _names(steps: Sequence[WideningStep]) -> tuple[str, ...]:
    return tuple(f"{step.name} {','.join(map(str, step.regions))} {step.width}" for step in steps)


class _Damage(Exception):
    """A record that is no measurement of this search."""


def _measurement(record: dict[str, Any]) -> tuple[tuple[str, ...], Figures]:
    """The steps and the figures of a record. Raises _Damage for one that `_record` does not write."""
    steps: Any = record.get("steps")
    figures = {name: value for name, value in record.items() if name != "steps"}
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in cast("list[object]", steps)):
        raise _Damage
    if not {"quality", "size"} <= figures.keys() <= {field.name for field in fields(Figures)}:
        raise _Damage
    for name, value in figures.items():
        kinds = int if name == "size" else int | float | None if name in ("latency", "verified") else int | float
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise _Damage
    return tuple(cast("list[str]", steps)), Figures(**figures)


def _record(entry: tuple[Sequence[str], Figures]) -> dict[str, Any]:
    steps, figures = entry
    return {"steps": list(steps), **asdict(figures)}
