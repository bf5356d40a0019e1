"""Try the corrections of an effort, judge each on samples that it has not seen, keep the one that is nearest to float.

What was tried, and what it gained, is an attribute of the module:

```mlir
builtin.module attributes {zeropoint.corrections = [{name = "empirical_bias", salience = "calibrated",
    source = "16 samples held back", value = "22.40 dB, 15.50 dB without; kept"}], ...}
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr

from zeropoint.calibrate import Progress, silent
from zeropoint.correct.contractions import give_biases
from zeropoint.correct.judge import Judge
from zeropoint.correct.methods import METHODS, PRESETS, Platform, Samples
from zeropoint.ir.annotations import CORRECTIONS, Fact
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array

PARTS = 4
"""One of so many samples is held back."""
JUDGED = 16
"""The most samples of either part that outputs are compared on."""


@dataclass(frozen=True)
class Parts:
    """The samples that corrections are found on, and those that they are judged on; `apart` where none is in both."""

    fitted: Samples
    held: Samples
    apart: bool = True
    validation: bool = False

    @staticmethod
    def of(samples: Samples, validation: Samples = ()) -> Parts:
        """Every fourth sample held back, unless there is data for validation; of fewer than four, all in both parts."""
        if validation:
            return Parts(samples, validation, validation=True)
        if len(samples) < PARTS:
            return Parts(samples, samples, apart=False)
        held = samples[PARTS - 1 :: PARTS]
        return Parts([sample for number, sample in enumerate(samples) if number % PARTS != PARTS - 1], held)

    @property
    def judges(self) -> str:
        """What corrections are judged on, for people."""
        count = min(len(self.held), JUDGED)
        samples = f"{count} sample{'' if count == 1 else 's'}"
        kind = "of the validation data" if self.validation else "held back" if self.apart else "of the calibration data"
        return f"{samples} {kind}"


@dataclass(frozen=True)
class Figures:
    """SQNR of the outputs in dB on samples that were fitted, and on those that were held back."""

    calibration: float
    held: float


@dataclass(frozen=True)
class Attempt:
    """A method that was tried."""

    method: str
    figures: Figures


@dataclass(frozen=True)
class Corrections:
    """What an effort tried: `before` without corrections, `attempts` in order, and which of them was kept."""

    effort: str
    judges: str
    before: Figures | None = None
    attempts: tuple[Attempt, ...] = field(default=())
    kept: str | None = None

    @property
    def after(self) -> Figures | None:
        """The figures of the program as it is."""
        return next((a.figures for a in self.attempts if a.method == self.kept), self.before)

    def facts(self) -> list[Fact]:
        """A fact for each method."""
        before = self.before.held if self.before else 0.0
        return [
            Fact(
                attempt.method,
                f"{attempt.figures.held:.2f} dB, {before:.2f} dB without; "
                + ("kept" if attempt.method == self.kept else "undone"),
                "calibrated",
                self.judges,
            )
            for attempt in self.attempts
        ]

    def summary(self) -> str:
        """One line: the figures of the program, and what was kept or undone."""
        after, before = self.after, self.before
        if after is None or before is None:
            return "no corrections"
        tried = ", ".join(f"{a.method} {'kept' if a.method == self.kept else 'undone'}" for a in self.attempts)
        return (
            f"{after.held:.1f} dB on {self.judges} ({before.held:.1f} without corrections), "
            f"{after.calibration:.1f} dB on those that were fitted ({before.calibration:.1f}); {tried}"
        )


def check_methods(effort: str, methods: Sequence[str] | None) -> tuple[str, ...]:
    """The methods that an effort, or a list of names, stands for. Raises ValueError for names that do not exist."""
    if effort not in PRESETS:
        raise ValueError(f"found effort '{effort}', expected one of: {', '.join(PRESETS)}")
    for method in methods or ():
        if method not in METHODS:
            raise ValueError(f"found correction '{method}', expected one of: {', '.join(METHODS)}")
    return PRESETS[effort] if methods is None else tuple(methods)


def correct(
    program: Program,
    parts: Parts,
    platform: Platform,
    *,
    effort: str,
    methods: Sequence[str] | None = None,
    progress: Progress = silent,
) -> tuple[Program, Corrections]:
    """The propagated program with the corrections that bring it nearest to float on other samples; what was tried.

    Raises ValueError for an effort or a method that does not exist, and what the engines raise.
    """
    names = check_methods(effort, methods)
    if not names or not parts.fitted:
        return program, Corrections(effort, parts.judges)
    fitted, held = (Judge(program, _some(samples), platform.programs) for samples in (parts.fitted, parts.held))
    best, kept, least = program, None, held.noise(program)
    before = Figures(fitted.sqnr(program), least.sqnr)
    attempts: list[Attempt] = []
    for name in names:
        made = program.clone()
        give_biases(made, platform.target)
        METHODS[name].run(made, parts.fitted, platform, progress)
        noise = held.noise(made)
        attempts.append(Attempt(name, Figures(fitted.sqnr(made), noise.sqnr)))
        if noise.is_less(least):
            best, kept, least = made, name, noise
    done = Corrections(effort, parts.judges, before, tuple(attempts), kept)
    best = best.clone()
    best.module.attributes[CORRECTIONS] = ArrayAttr([fact.attribute() for fact in done.facts()])
    return best, done


def _some(samples: Sequence[Mapping[str, Array]]) -> Samples:
    """At most `JUDGED` samples, spread evenly."""
    count = min(len(samples), JUDGED)
    return [samples[index * len(samples) // count] for index in range(count)]
