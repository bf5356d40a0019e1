"""A budget of quality, size and latency, and the figures of a program that are compared with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from zeropoint.errors import Error
from zeropoint.report.counts import size_text

BYTES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
MILLISECONDS = {"": 1.0, "us": 1e-3, "ms": 1.0, "s": 1e3}


class BudgetError(Error, ValueError):
    """A malformed budget, or one that no choice of widths can meet."""


@dataclass(frozen=True)
class Budget:
    """The least SQNR of every output in dB, the most bytes of constants, the most milliseconds of a run on one thread.

    None where there is no limit. Without `floats`, kernels are widened to the target's wider storage only. With
    `nibbles`, kernels that the target has with 4-bit weights start with these.
    """

    quality: float | None = None
    size: float | None = None
    latency: float | None = None
    floats: bool = True
    nibbles: bool = False

    @staticmethod
    def parse(text: str) -> Budget:
        """Read `quality=20,size=4MB,latency=5ms`, any of the three. Raises BudgetError."""
        units: Mapping[str, Mapping[str, float]] = {
            "quality": {"": 1.0, "dB": 1.0},
            "size": BYTES,
            "latency": MILLISECONDS,
        }
        found: dict[str, float] = {}
        for part in text.split(","):
            matched = re.fullmatch(r"\s*(\w+)\s*=\s*([-+.\deE]*\d\.?)\s*([a-zA-Z]*)\s*", part)
            name, number, unit = matched.groups() if matched else (part, "", "")
            if name not in units or name in found or unit not in units[name]:
                raise BudgetError(
                    f"found budget '{part.strip()}', expected one or more of quality=DB, size=BYTES (kB, MB), "
                    f"latency=MS (us, ms, s), by commas"
                )
            found[name] = _number(part, number) * units[name][unit]
        return Budget(found.get("quality"), found.get("size"), found.get("latency"))

    def allows(self, figures: Figures) -> bool:
        """Whether size and latency are within the limits."""
        pairs = ((figures.size, self.size), (figures.latency, self.latency))
        return all(limit is None or (found is not None and found <= limit) for found, limit in pairs)

    def __str__(self) -> str:
        if not self.floats:
            return f"least_sqnr={self.quality:g}dB"
        parts = (("quality", self.quality, "dB"), ("size", self.size, "B"), ("latency", self.latency, "ms"))
        return ",".join(f"{name}={number:g}{unit}" for name, number, unit in parts if number is not None)


def _number(part: str, number: str) -> float:
    try:
        found = float(number)
    except ValueError:
        found = float("nan")
    if not isfinite(found):
        raise BudgetError(f"found budget '{part.strip()}', expected a number after '='")
    return found


@dataclass(frozen=True)
class Figures:
    """The cost of a program: least SQNR of an output in dB, bytes of constants, milliseconds if they were measured.

    `verified` is the SQNR on all samples, None if it was not measured; `quality` is that on the samples of the search.
    Other samples may have up to `margin` dB less than the ones measured (`bit_widths.SqnrEstimate`).
    """

    quality: float
    size: int
    latency: float | None = None
    verified: float | None = None
    margin: float = 0.0

    @property
    def reached(self) -> float:
        """The SQNR on all samples if it is known, else on those of the search."""
        return self.quality if self.verified is None else self.verified

    @property
    def sure(self) -> float:
        """The SQNR less its margin."""
        return self.reached - self.margin

    def __str__(self) -> str:
        took = "" if self.latency is None else f", {self.latency:.2f} ms"
        margin = f" ({self.sure:.1f} less its margin)" if self.margin else ""
        return f"{self.reached:.1f} dB{margin}, {size_text(self.size)} of constants{took}"
