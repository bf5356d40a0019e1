"""Calibration statistics as a JSON file that can be read and edited. `state-statistics` puts it into a program.

```json
{"format": "zeropoint statistics 1", "observer": "mse", "samples": 200,
 "values": {"stem.act": {"minimum": 0.0, "maximum": 5.98, "count": 627200, "quantiles": [0.0, 0.01]}}}
```
The names are the keys of `quant.stats_ref`. `minimum` and `maximum` are required, and the other fields are optional.
"""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Any, cast

from zeropoint.calibrate.report import Observation, Report
from zeropoint.errors import Error, reading

FORMAT = "zeropoint statistics 1"


class StatisticsError(Error, ValueError):
    """A statistics file that cannot be read, or that lacks a value of the program."""


def statistics_text(report: Report, observer: str) -> str:
    """The text of the file: JSON with one line per value."""
    values: list[str] = []
    for key, seen in report.observations.items():
        entry: dict[str, Any] = {"minimum": seen.minimum, "maximum": seen.maximum, "count": seen.count}
        if seen.not_finite:
            entry |= {"nan_count": seen.nan_count, "infinite_count": seen.infinite_count, "hides": seen.hides}
        if seen.quantiles:
            entry["quantiles"] = list(seen.quantiles)
        if seen.extremes is not None:
            entry["extremes"] = list(seen.extremes)
        values.append(f"  {json.dumps(key)}: {json.dumps(entry)}")
    head = json.dumps({"format": FORMAT, "observer": observer, "samples": report.samples})
    listed = ",\n".join(values)
    return f'{head[:-1]},\n "values": {{\n{listed}\n}}}}\n'


def read_statistics(path: Path | str) -> Report:
    """The report in a file.

    Raises StatisticsError for a missing file. Raises it also for a file of another format, naming the value and the
    key. Passes on OSError.
    """
    if Path(path).is_dir() or not Path(path).exists():
        found = "found a directory" if Path(path).is_dir() else "no such file"
        raise StatisticsError(f"{path}: {found}, expected statistics of `zeropoint calibrate`")
    with reading(Path(path), StatisticsError):
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise StatisticsError(f"{path}: found bytes that are not text, expected JSON") from error
        except json.JSONDecodeError as error:
            raise StatisticsError(f"{path}:{error.lineno}: found no valid JSON: {error.msg}") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:  # pyright: ignore[reportUnknownMemberType] (what JSON gave)
            raise StatisticsError(f'{path}: found no statistics, expected JSON with "format": "{FORMAT}"')
        content = cast("dict[str, Any]", found)
        values = content.get("values")
        if not isinstance(values, dict):
            raise StatisticsError(f'{path}: found no "values", expected an object with an entry for each value')
        entries = cast("dict[str, Any]", values)
        seen = {key: _observation(f"{path}: value '{key}'", entry) for key, entry in entries.items()}
        samples = content.get("samples", 0)
        return Report(seen, samples if isinstance(samples, int) else 0)


def _observation(where: str, entry: Any) -> Observation:
    if not isinstance(entry, dict):
        raise StatisticsError(f"{where}: found {entry!r}, expected an object with minimum and maximum")
    given = cast("dict[str, Any]", entry)
    low, high = (_number(where, given, key) for key in ("minimum", "maximum"))
    if low > high:
        raise StatisticsError(f"{where}: found minimum {low} above maximum {high}")
    counts = (given.get("count", 1), given.get("nan_count", 0), given.get("infinite_count", 0))
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise StatisticsError(f"{where}: found counts {list(counts)}, expected integers of 0 or more")
    numbers, extremes = (_numbers(where, given, key) for key in ("quantiles", "extremes"))
    if extremes and not (len(extremes) == 2 and extremes[0] <= extremes[1]):
        raise StatisticsError(f"{where}: found extremes {list(extremes)}, expected the least and the greatest value")
    found = (extremes[0], extremes[1]) if extremes else None
    return Observation(low, high, counts[0], counts[1], counts[2], numbers, found, given.get("hides") is True)


def _numbers(where: str, entry: dict[str, Any], key: str) -> tuple[float, ...]:
    """The numbers of an optional list."""
    found = entry.get(key, [])
    if not isinstance(found, list):
        raise StatisticsError(f"{where}: found {key} {found!r}, expected a list of numbers")
    return tuple(_number(where, {key: number}, key) for number in cast("list[Any]", found))


def _number(where: str, entry: dict[str, Any], key: str) -> float:
    found = entry.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
        raise StatisticsError(f"{where}: key '{key}': found {found!r}, expected a finite number")
    return float(found)
