"""The observations of a calibration, point by point, and warnings about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zeropoint.calibrate.distribution import Distribution
from zeropoint.calibrate.observers import Counted, Observer

PARTS = 64
"""The number of equal-count bins of an observation. One bin has about 2 % of the values."""
MOST_NAMES = 6
"""Maximum number of values that a warning names."""


@dataclass(frozen=True)
class Observation:
    """The observation at one point: the range to represent, and the counts of finite values, NaN and infinities.

    `minimum` and `maximum` are f32 values; both are 0 if no value was seen. `count` is the number of finite values. NaN
    and infinities are counted separately and do not affect the range.
    """

    minimum: float
    maximum: float
    count: int
    nan_count: int = 0
    infinite_count: int = 0
    quantiles: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """The medians of `PARTS` equal-count bins; empty if the observer does not keep the distribution."""
    extremes: tuple[float, float] | None = field(default=None, compare=False, repr=False)
    """The minimum and maximum value if the range leaves some values out; None otherwise."""
    hides: bool = field(default=False, compare=False)
    """Whether the infinities come from a mask or another constant of the model, so that they are intended."""
    constant: bool = field(default=False, compare=False)
    """Whether no input of the model has an effect on the values, so that zeros are intended."""

    @staticmethod
    def of(observer: Observer) -> Observation:
        """The observation from an observer's state."""
        minimum, maximum = observer.range() if observer.count else (0.0, 0.0)
        quantiles = observer.quantiles(PARTS) if observer.count else ()
        counts = (observer.count, observer.nan_count, observer.infinite_count)
        kept = observer.counted.range() if isinstance(observer, Counted) and observer.count else (minimum, maximum)
        extremes = None if kept == (minimum, maximum) else kept
        return Observation(minimum, maximum, *counts, quantiles, extremes)

    @property
    def not_finite(self) -> int:
        """The number of NaN and infinities."""
        return self.nan_count + self.infinite_count

    @property
    def has_only_zeros(self) -> bool:
        """Whether all values are 0, so that any scale represents them, although inputs have an effect on them."""
        return self.count > 0 and self.minimum == self.maximum == 0 and not self.constant

    def warnings(self, key: str) -> list[str]:
        """One line for each suspicious finding, except for zeros, which `Report` lists."""
        lines: list[str] = []
        if self.not_finite and not (self.hides and not self.nan_count):
            total = self.count + self.not_finite
            kinds = f"{self.nan_count} NaN and {self.infinite_count} infinities"
            lines.append(f"'{key}': found {kinds} among {total} values; they are left out of the range")
        if not self.count:
            lines.append(f"'{key}': found no values: it is empty or never computed; its range is assumed to be 0 to 0")
        elif self.minimum == self.maximum != 0:
            lines.append(f"'{key}': found only the number {self.minimum:g} in {self.count} values")
        return lines


def _listed(keys: Sequence[str]) -> str:
    names = [f"'{key}'" for key in keys[:MOST_NAMES]]
    return ", ".join([*names, f"and {len(keys) - len(names)} more"] if len(keys) > len(names) else names)


@dataclass(frozen=True)
class Report:
    """The observations of a calibration run by statistics key, in program order."""

    observations: Mapping[str, Observation]
    samples: int
    distributions: Mapping[str, Distribution] = field(
        default_factory=dict[str, Distribution], compare=False, repr=False
    )
    """The distribution of the values at each point whose observer keeps a histogram, for reports."""

    @property
    def warnings(self) -> list[str]:
        """All warnings: one about the values that are only zeros, and the others in program order."""
        if not self.observations:
            return ["found no quant.stats_ref, so nothing was observed; instrument the program first"]
        found = self.observations.items()
        zeros = [key for key, seen in found if seen.has_only_zeros]
        if len(zeros) == 1:
            only = f"'{zeros[0]}': found only zeros in {self.observations[zeros[0]].count} values"
            lines = [f"{only}; its scale is arbitrary"]
        else:
            lines = [f"found only zeros in {_listed(zeros)}; their scales are arbitrary"] if zeros else []
        return [*lines, *(line for key, seen in found for line in seen.warnings(key))]
