"""The measured parts of a report, as records that `zeropoint.measure` fills."""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.report.agreement import Agreement


@dataclass(frozen=True)
class Header:
    """The subject of the report. `data` describes the samples of the comparison, `calibration` those of calibration."""

    model: str
    version: str
    target: str
    profile: str
    calibration: str | None = None
    data: str | None = None
    outputs: tuple[Agreement, ...] = ()
    parts: tuple[Agreement, ...] = ()
    float_bytes: int | None = None
    arena_bytes: int | None = None
    processor: str | None = None
    seconds: float | None = None
    peak: float | None = None
    """The measured peak of the processor in integer operations per second. A multiply-add counts as two operations."""


@dataclass(frozen=True)
class SectionNote:
    """A section that is missing, and the option or data that it needs."""

    section: str
    needs: str


@dataclass(frozen=True)
class Histogram:
    """Counts of values in bins of equal width from `low` to `high`."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class NodeValues:
    """The float values of a node: their histogram, and the ranges that observers would choose.

    `source` names the data they were observed on. `clipped` is the share of values outside the range of the value's
    type; None without a type.
    """

    source: str
    count: int
    minimum: float
    maximum: float
    histogram: Histogram
    ranges: dict[str, tuple[float, float]]
    clipped: float | None


@dataclass(frozen=True)
class Noise:
    """Noise of a node's result relative to its signal: in total, inherited from the inputs, and added by the node."""

    total: float
    inherited: float
    added: float


@dataclass(frozen=True)
class Time:
    """The time of a node in native code on one thread, its operations, and the bytes that it reads and writes."""

    seconds: float
    operations: int
    moved: int
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class RuleTrial:
    """A recipe rule that was tried alone, and the worst output SQNR in dB without and with it.

    `why_not` says why the rule could not be applied; both figures are then None.
    """

    rule: str
    before: float | None
    after: float | None
    why_not: str = ""


@dataclass(frozen=True)
class Worst:
    """A kernel that adds much noise, and the rules tried for it, best first."""

    node: str
    trials: tuple[RuleTrial, ...]
