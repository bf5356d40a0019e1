"""What corrections were tried, what each gained, and the one that was kept, in words and as facts of the program."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan

from zeropoint.correct.methods import EQUALIZE, PRODUCTS, REFINEMENTS
from zeropoint.ir.annotations import Fact

FAR = 20.0
"""If the SQNR of the outputs is below this, in dB, there is a warning."""


def _end(kept: bool, objection: str | None) -> str:
    """The end of a fact: whether a method was kept, and why not."""
    return "kept" if kept else f"undone: {objection}" if objection else "undone"


@dataclass(frozen=True)
class EffortFigures:
    """The SQNR of the worst output in dB, on all fitted samples and on the held-back ones."""

    calibration: float
    held: float


@dataclass(frozen=True)
class Attempt:
    """A method that was tried, and the SQNR of the worst output in dB on the held-back samples."""

    method: str
    held: float
    objection: str | None = None
    """Why it was undone; None if it was kept."""


@dataclass(frozen=True)
class Equalized:
    """The SQNR of the worst output on the held-back samples, in dB, without corrections, before and after
    equalization."""

    before: float
    after: float
    kept: bool
    provisional: bool = False
    """Whether `after` is with provisional ranges, because equalization was undone before a second calibration."""
    cut: float = 0.0
    """The share of the channels that clamps would cut. If not 0, equalization was undone at once; `after` is NaN."""
    fitted: float = nan
    """The SQNR on the fitted samples before equalization, if it was measured."""
    objection: str | None = None
    """Why it was undone; None if it was kept."""

    def __str__(self) -> str:
        if self.cut:
            return f"clamps would cut {100 * self.cut:.1f} % of the channels of other samples; undone"
        ranges = " with provisional ranges" if self.provisional else ""
        return f"{self.after:.2f} dB{ranges}, {self.before:.2f} dB without; {_end(self.kept, self.objection)}"


@dataclass(frozen=True)
class IntegerProducts:
    """The SQNR of the worst output on the held-back samples, in dB, without corrections: with `count` contractions in
    float before a function, and with integer operands for these."""

    count: int
    before: float
    after: float
    kept: bool
    fitted: float = nan
    """The SQNR on the fitted samples, with these contractions in float."""
    objection: str | None = None
    """Why it was undone; None if it was kept."""

    def __str__(self) -> str:
        those = "the contraction" if self.count == 1 else f"the {self.count} contractions"
        return f"{self.after:.2f} dB, {self.before:.2f} dB with {those} in float; {_end(self.kept, self.objection)}"


@dataclass(frozen=True)
class Corrections:
    """The result of an effort: the figures `before` and `after`, the `attempts` in order, and the method kept.

    `before` is what the attempts start from: after equalization and integer products, where these were kept.
    """

    effort: str
    judges: str
    before: EffortFigures | None = None
    after: EffortFigures | None = None
    attempts: tuple[Attempt, ...] = field(default=())
    kept: str | None = None
    equalized: Equalized | None = None
    """The result of equalization; None if it was not tried or changes nothing."""
    products: IntegerProducts | None = None
    """The result of integer operands for contractions that are float otherwise; None if there are none."""
    fitted: int = 0
    """The number of fitted samples; 0 if the same samples judge."""
    counted: bool = False
    """Whether the outputs are positions or classes. `held` is then the share of elements that differ, in dB."""
    refit: int = 0
    """The number of samples in the second fit of the kept method, which gave the program; 0 if the first fit did.

    All figures are those of the first fit.
    """
    refined: tuple[str, ...] = ()
    """The refinements that were kept."""

    @property
    def uncorrected(self) -> EffortFigures | None:
        """The figures without any correction: those before equalization or integer products, if one was kept."""
        if self.before is None:
            return None
        first = next((found for found in (self.equalized, self.products) if found is not None and found.kept), None)
        return self.before if first is None else EffortFigures(first.fitted, first.before)

    @property
    def all_kept(self) -> tuple[str, ...]:
        """The method and the refinements that were kept, in order."""
        return (*(() if self.kept is None else (self.kept,)), *self.refined)

    def facts(self) -> list[Fact]:
        """A fact for each method."""
        before = self.before.held if self.before else 0.0
        tried = ((EQUALIZE, self.equalized), (PRODUCTS, self.products))
        first = [Fact(name, str(found), "calibrated", self.judges) for name, found in tried if found is not None]
        return first + [
            Fact(
                attempt.method,
                f"{attempt.held:.2f} dB, {before:.2f} dB without; " + self._end(attempt),
                "calibrated",
                self.judges,
            )
            for attempt in self.attempts
        ]

    def _end(self, attempt: Attempt) -> str:
        """The end of a fact: whether a method was kept, and why not, or whether it was fitted again."""
        if self.refit and attempt.method in self._fitted_again:
            return f"kept, after this figure fitted again to {self.refit} samples, these included"
        return _end(attempt.method in self.all_kept, attempt.objection)

    @property
    def _fitted_again(self) -> list[str]:
        """The methods and refinements of the second fit: those that depend on the samples."""
        return [name for name in self.all_kept if name not in REFINEMENTS or REFINEMENTS[name].is_refitted]

    def warnings(self) -> list[str]:
        """A warning if the outputs are far from float on the samples that the program was judged on."""
        after = self.after
        if after is None or after.held >= FAR or self.counted:
            return []
        return [
            f"found {after.held:.1f} dB at the worst output on {self.judges}, expected {FAR:g} dB or more; `zeropoint "
            f"sensitivity` shows which kernels cause the loss; `--budget quality={FAR:g}` keeps some of them in float"
        ]

    def summary(self) -> str:
        """One line: the SQNR of the worst output, and which methods were kept or undone."""
        after, before = self.after, self.uncorrected
        if after is None or before is None:
            tried = ((EQUALIZE, self.equalized), (PRODUCTS, self.products))
            found = "; ".join(f"{name}: {made}, on {self.judges}" for name, made in tried if made is not None)
            return found or "no corrections"
        done = [] if self.equalized is None else [(EQUALIZE, self.equalized.kept)]
        done += [] if self.products is None else [(PRODUCTS, self.products.kept)]
        done += [(attempt.method, attempt.method in self.all_kept) for attempt in self.attempts]
        tried = ", ".join(f"{name} {'kept' if kept else 'undone'}" for name, kept in done) or "nothing to correct"
        tried += self._again
        if self.counted:
            now, then = (100 * (1 - 10 ** (-each.held / 10)) for each in (after, before))
            return f"{now:.2f} % of the worst output equal on {self.judges} ({then:.2f} % without corrections); {tried}"
        those = "one that was" if self.fitted == 1 else f"{self.fitted} that were"
        fitted = f", {after.calibration:.1f} dB on the {those} fitted ({before.calibration:.1f})"
        return (
            f"worst output {after.held:.1f} dB on {self.judges} ({before.held:.1f} without corrections)"
            f"{fitted if self.fitted else ''}; {tried}"
        )

    @property
    def _again(self) -> str:
        """A note on the second fit."""
        return f"; after these figures, {self._named} fitted again to {self.refit} samples" if self.refit else ""

    @property
    def _named(self) -> str:
        *others, last = self._fitted_again
        return f"{', '.join(others)} and {last} were" if others else f"{last} was"
