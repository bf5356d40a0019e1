"""A budget of quality, size and latency, and the figures of a program that are compared with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan

from zeropoint.errors import Error
from zeropoint.report.counts import size_text

BYTES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
MILLISECONDS = {"": 1.0, "us": 1e-3, "ms": 1.0, "s": 1e3}
UNITS: Mapping[str, Mapping[str, float]] = {"quality": {"": 1.0, "dB": 1.0}, "size": BYTES, "latency": MILLISECONDS}
_LIMIT = re.compile(r"\s*(\w+)\s*=\s*([-+]?(?:nan|inf(?:inity)?|[-+.\deE]*\d\.?)|)\s*([a-zA-Z]*)\s*", re.IGNORECASE)


class BudgetError(Error, ValueError):
    """A malformed budget, or one that no choice of widths can meet."""


@dataclass(frozen=True)
class Budget:
    """The minimum SQNR of every output in dB, and the maximum bytes of constants and milliseconds on one thread.

    None means no limit. Without `floats`, kernels are only widened to the target's wider storage. With `nibbles`,
    kernels that the target has with 4-bit weights start with these.
    """

    quality: float | None = None
    size: float | None = None
    latency: float | None = None
    floats: bool = True
    nibbles: bool = False

    @staticmethod
    def parse(text: str) -> Budget:
        """Parse `quality=20,size=4MB,latency=5ms`, with any of the three. Raises BudgetError."""
        found: dict[str, float] = {}
        for part in text.split(","):
            matched = _LIMIT.fullmatch(part)
            name, number, unit = matched.groups() if matched else (part, "", "")
            if name not in UNITS or unit not in UNITS[name]:
                raise BudgetError(
                    f"found budget '{part.strip()}', expected one or more of quality=DB, size=BYTES (kB, MB), "
                    f"latency=MS (us, ms, s), separated by commas"
                )
            if name in found:
                raise BudgetError(f"found budget '{part.strip()}', expected {name} once")
            found[name] = _limit(part, name, number) * UNITS[name][unit]
            if not isfinite(found[name]):
                raise BudgetError(f"found budget '{part.strip()}', expected {_expected(name)}")
        return Budget(found.get("quality"), found.get("size"), found.get("latency"))

    def allows(self, figures: Figures) -> bool:
        """Whether size and latency are within the limits."""
        return not self._exceeded(figures)

    def relaxed(self, figures: Figures) -> str:
        """Advice for a budget that even the best figures do not meet: which limits to change, and how."""
        limits = {"size": self.size, "latency": self.latency}
        raised = self._exceeded(figures) or [name for name, limit in limits.items() if limit is not None]
        lowered = ["lower quality"] if self.quality is not None else []
        return " or ".join([*(f"raise {name}" for name in raised), *lowered])

    def _exceeded(self, figures: Figures) -> list[str]:
        """The limits of size and latency that the figures exceed, by name."""
        rows = (("size", figures.size, self.size), ("latency", figures.latency, self.latency))
        return [name for name, found, most in rows if most is not None and (found is None or found > most)]

    def __str__(self) -> str:
        if not self.floats:
            return f"least_sqnr={self.quality:g}dB"
        parts = (("quality", self.quality, "dB"), ("size", self.size, "B"), ("latency", self.latency, "ms"))
        return ",".join(f"{name}={number:g}{unit}" for name, number, unit in parts if number is not None)


def _limit(part: str, name: str, number: str) -> float:
    """The number of a limit. 0 bytes and 0 ms are refused as mistakes, because no program is that small or fast."""
    try:
        found = float(number)
    except ValueError:
        found = nan
    if isfinite(found) and (found > 0 or (found == 0 and name == "quality")):
        return found
    raise BudgetError(f"found budget '{part.strip()}', expected {_expected(name)}")


def _expected(name: str) -> str:
    unit = {"quality": "dB, 0 or more", "size": "bytes, above 0", "latency": "milliseconds, above 0"}[name]
    return f"a number of {unit}"


@dataclass(frozen=True)
class Figures:
    """The SQNR of a program's worst output in dB, the bytes of its constants, and milliseconds if they were measured.

    `verified` is the SQNR on all samples; None if it was not measured. `quality` is that on the samples of the search.
    On other samples, the SQNR may be up to `margin` dB lower (`bit_widths.SqnrEstimate`).
    """

    quality: float
    size: int
    latency: float | None = None
    verified: float | None = None
    margin: float = 0.0

    @property
    def reached(self) -> float:
        """The SQNR on all samples if it is known, else that on the samples of the search."""
        return self.quality if self.verified is None else self.verified

    @property
    def sure(self) -> float:
        """The SQNR minus its margin."""
        return self.reached - self.margin

    def __str__(self) -> str:
        took = "" if self.latency is None else f", {self.latency:.2f} ms"
        margin = f" ({self.sure:.1f} after subtracting the margin)" if self.margin else ""
        return f"{self.reached:.1f} dB{margin}, {size_text(self.size)} of constants{took}"
