"""Try the corrections of an effort, judge each on held-back samples, and keep the best.

The methods tried and their results are an attribute of the module:

```mlir
builtin.module attributes {zeropoint.corrections = [{name = "empirical_bias", salience = "calibrated",
    source = "16 samples held back", value = "22.40 dB, 15.50 dB without; kept"}], ...}
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from zeropoint.calibrate import Progress, silent
from zeropoint.correct.contractions import give_biases
from zeropoint.correct.judge import Judge
from zeropoint.correct.methods import EQUALIZE, METHODS, PRESETS, Platform, Samples, distinct
from zeropoint.errors import OptionError
from zeropoint.ir.annotations import CORRECTIONS, EQUALIZED, Fact, facts_of, state_facts
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array

PARTS = 4
"""One of every this many samples is held back."""
JUDGED = 16
"""The maximum number of samples of each part for comparing outputs."""


FAR = 20.0
"""An SQNR of the outputs below this, in dB, is worth a warning."""


@dataclass(frozen=True)
class Parts:
    """The samples that corrections are fitted on, and those they are judged on; `apart` if the two are disjoint."""

    fitted: Samples
    held: Samples
    apart: bool = True
    validation: bool = False

    @staticmethod
    def of(samples: Samples, validation: Samples = ()) -> Parts:
        """Hold back one of every four samples, unless there is validation data. Fewer than four are in both parts.

        The choice among four is random, and the same for the same number of samples. Every fourth sample could be all
        of one kind, if the kinds take turns in the data.
        """
        if validation:
            return Parts(samples, validation, validation=True)
        if len(samples) < PARTS:
            return Parts(samples, samples, apart=False)
        starts = range(0, len(samples) - PARTS + 1, PARTS)
        # Seeded by the number of samples, so that the same data always gives the same program.
        chosen = np.random.default_rng(len(samples)).integers(0, PARTS, len(starts))
        held = {start + int(offset) for start, offset in zip(starts, chosen, strict=True)}
        return Parts(
            [sample for number, sample in enumerate(samples) if number not in held],
            [samples[number] for number in sorted(held)],
        )

    @property
    def judges(self) -> str:
        """A description of the samples that corrections are judged on."""
        count = min(len(self.held), JUDGED)
        samples = f"{count} sample{'' if count == 1 else 's'}"
        kind = "of the validation data" if self.validation else "held back" if self.apart else "of the calibration data"
        return f"{samples} {kind}"


@dataclass(frozen=True)
class Figures:
    """The least SQNR of an output in dB, on all fitted samples and on the held-back ones."""

    calibration: float
    held: float


@dataclass(frozen=True)
class Attempt:
    """A method that was tried, and the least SQNR of an output in dB on the held-back samples."""

    method: str
    held: float


@dataclass(frozen=True)
class Equalized:
    """The least SQNR of an output on the held-back samples, in dB, without corrections: before and after."""

    before: float
    after: float
    kept: bool

    def __str__(self) -> str:
        return f"{self.after:.2f} dB, {self.before:.2f} dB without; {'kept' if self.kept else 'undone'}"


@dataclass(frozen=True)
class Corrections:
    """The result of an effort: figures `before` and `after`, `attempts` in order, and the name of the one kept."""

    effort: str
    judges: str
    before: Figures | None = None
    after: Figures | None = None
    attempts: tuple[Attempt, ...] = field(default=())
    kept: str | None = None
    equalized: Equalized | None = None
    """The result of equalization; None if it was not tried or changes nothing."""
    fitted: int = 0
    """The number of fitted samples; 0 if they are those that judge."""
    counted: bool = False
    """Whether the outputs are positions or classes: `held` is then the share of elements that differ, in dB."""

    def facts(self) -> list[Fact]:
        """A fact for each method."""
        before = self.before.held if self.before else 0.0
        first = [] if self.equalized is None else [Fact(EQUALIZE, str(self.equalized), "calibrated", self.judges)]
        return first + [
            Fact(
                attempt.method,
                f"{attempt.held:.2f} dB, {before:.2f} dB without; "
                + ("kept" if attempt.method == self.kept else "undone"),
                "calibrated",
                self.judges,
            )
            for attempt in self.attempts
        ]

    def warnings(self) -> list[str]:
        """A line if the outputs are far from float on the samples that the program was judged on."""
        after = self.after
        if after is None or after.held >= FAR or self.counted:
            return []
        return [
            f"found {after.held:.1f} dB at the least output on {self.judges}, expected {FAR:g} dB or more; `zeropoint "
            f"sensitivity` shows which kernels cost it, and `--budget quality={FAR:g}` keeps some of them in float"
        ]

    def summary(self) -> str:
        """One line: the least SQNR of an output, and which methods were kept or undone."""
        after, before = self.after, self.before
        if after is None or before is None:
            return "no corrections" if self.equalized is None else f"{EQUALIZE}: {self.equalized}, on {self.judges}"
        done = [] if self.equalized is None else [(EQUALIZE, self.equalized.kept)]
        done += [(attempt.method, attempt.method == self.kept) for attempt in self.attempts]
        tried = ", ".join(f"{name} {'kept' if kept else 'undone'}" for name, kept in done)
        if self.counted:
            now, then = (100 * (1 - 10 ** (-each.held / 10)) for each in (after, before))
            return f"{now:.2f} % of the least output equal on {self.judges} ({then:.2f} % without corrections); {tried}"
        fitted = f", {after.calibration:.1f} dB on the {self.fitted} that were fitted ({before.calibration:.1f})"
        return (
            f"least output {after.held:.1f} dB on {self.judges} ({before.held:.1f} without corrections)"
            f"{fitted if self.fitted else ''}; {tried}"
        )


def check_methods(effort: str, methods: Sequence[str] | None) -> tuple[str, ...]:
    """The methods of an effort, or the given `methods`. Raises OptionError for unknown names."""
    if effort not in PRESETS:
        raise OptionError(f"found effort '{effort}', expected one of: {', '.join(PRESETS)}")
    for method in methods or ():
        if method not in (EQUALIZE, *METHODS):
            raise OptionError(f"found correction '{method}', expected one of: {', '.join((EQUALIZE, *METHODS))}")
    return PRESETS[effort] if methods is None else tuple(methods)


def correct(
    program: Program,
    parts: Parts,
    platform: Platform,
    *,
    effort: str,
    methods: Sequence[str] | None = None,
    progress: Progress = silent,
    reference: Program | None = None,
    equalized: Equalized | None = None,
) -> tuple[Program, Corrections]:
    """The propagated program with the correction that brings it closest to float on the held-back samples.

    Also returns a record of what was tried. `reference` is the propagated program whose float form gives the expected
    outputs, `program` by default; equalization changes the float form slightly where a clamp cuts. `equalized` is the
    result of equalization, for the record. Raises OptionError for an unknown effort or method, and what the engines
    raise.
    """
    names = [name for name in check_methods(effort, methods) if name in METHODS]
    if not parts.fitted or not (names or equalized):
        return program, Corrections(effort, parts.judges)
    if not names:
        return _recorded(program, Corrections(effort, parts.judges, equalized=equalized))
    exact = reference or program
    judge = Judge(exact, some(parts.held), platform.programs)
    before = least = judge.noise(program)
    best, kept = program, None
    attempts: list[Attempt] = []
    # Kernels without a bias get one of zeros, so that a correction has something to move.
    biased = program.clone()
    give_biases(biased, platform.target)
    for name in distinct(names, biased, platform.target):
        # Each method starts from the uncorrected program; they would hide each other's effect otherwise.
        made = biased.clone()
        METHODS[name].run(made, parts.fitted, platform, progress)
        held = judge.noise(made)
        attempts.append(Attempt(name, held.sqnr))
        # Strictly better: on a tie, the earlier and simpler method stays, or none at all.
        if held.is_less(least):
            best, kept, least = made, name, held
    first, last, count = Figures(before.sqnr, before.sqnr), Figures(least.sqnr, least.sqnr), 0
    if parts.apart:
        # All of them, so that the two parts make up the samples that took part: a hard one must not be in neither.
        fitted, count = Judge(exact, parts.fitted, platform.programs), len(parts.fitted)
        first = replace(first, calibration=fitted.sqnr(program))
        last = first if kept is None else replace(last, calibration=fitted.sqnr(best))
    figures = (first, last, tuple(attempts), kept, equalized, count, judge.counts)
    return _recorded(best, Corrections(effort, parts.judges, *figures))


def _recorded(program: Program, done: Corrections) -> tuple[Program, Corrections]:
    """A copy with the record on its module, and a fact on every region that was equalized."""
    program = program.clone()
    program.module.attributes[CORRECTIONS] = ArrayAttr([fact.attribute() for fact in done.facts()])
    for op in program.entry.ops:
        text = op.attributes.pop(EQUALIZED, None)
        if isinstance(text, StringAttr):
            state_facts(op, [*facts_of(op), Fact("equalized", text.data, "calibrated", EQUALIZE)])
    return program, done


def some(samples: Sequence[Mapping[str, Array]]) -> Samples:
    """At most `JUDGED` samples, spread evenly."""
    count = min(len(samples), JUDGED)
    return [samples[index * len(samples) // count] for index in range(count)]
