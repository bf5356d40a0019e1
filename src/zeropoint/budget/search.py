"""Choose a prefix of the steps that meets a budget, with few measurements."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from zeropoint.budget.budget import Budget, BudgetError, Figures
from zeropoint.budget.steps import AROUND, FLOAT, NIBBLE, WideningStep, final
from zeropoint.ir.annotations import BUDGET, Fact, state_facts
from zeropoint.ir.program import Program


@dataclass(frozen=True)
class Spent:
    """The result of a search: the kernels that were widened, with the figures before and after.

    `between` has the positions and names of the kernels that stay float only because all kernels around them do.
    `narrow` has those of the kernels with 4-bit weights. `tried` has the figures of every prefix that was measured, by
    its length. `available` is the number of steps, and `kernels` the number of kernels that they widen.
    """

    budget: Budget
    steps: tuple[WideningStep, ...]
    before: Figures
    after: Figures
    tried: Mapping[int, Figures] = field(default_factory=dict[int, Figures])
    available: int = 0
    kernels: int = 0
    between: Mapping[int, str] = field(default_factory=dict[int, str])
    narrow: Mapping[int, str] = field(default_factory=dict[int, str])

    @property
    def taken(self) -> dict[int, WideningStep]:
        """The step that decides each kernel, by the kernel's position."""
        return {index: step for index, step in final(self.steps).items() if index not in self.between}

    def facts(self) -> list[Fact]:
        """A fact for each kernel that was widened, with its last width."""
        widened = [
            (step.name, f"{step.width}; {step.share:.1%} of the noise at the outputs")
            for step in dict.fromkeys(self.taken.values())
        ]
        around = [(name, f"{FLOAT}; {AROUND}") for name in self.between.values()]
        nibbles = [(name, f"{NIBBLE} weights; the budget has no room for more") for name in self.narrow.values()]
        return [Fact(name, text, "calibrated", str(self)) for name, text in (*widened, *around, *nibbles)]

    def __str__(self) -> str:
        widths = Counter(step.width for step in self.taken.values())
        widths[FLOAT] += len(self.between)
        widths[NIBBLE] += len(self.narrow)
        ordered = sorted(widths, key=lambda width: width == FLOAT)
        counts = " and ".join(f"{widths[width]} {width}" for width in ordered if widths[width])
        tried = f"{len(self.tried)} program{'s' if len(self.tried) != 1 else ''} measured"
        if not counts:
            return f"budget {self.budget}: {self.after}; no kernel has to change; {tried}"
        return f"budget {self.budget}: {self.after} with {counts} kernels, {self.before} without; {tried}"


class Missed(BudgetError):
    """No measured prefix meets the budget. `best` is the prefix with the best quality."""

    def __init__(self, message: str, best: Spent):
        super().__init__(message)
        self.best = best


Rank = Callable[[Sequence[WideningStep]], Sequence[WideningStep]]
"""Maps the steps taken to the remaining steps, the most important first."""


class Estimate(Protocol):
    """The SQNR of the worst output in dB, and how much lower it may be on other samples."""

    @property
    def least(self) -> float: ...
    @property
    def margin(self) -> float: ...


Verify = Callable[[Sequence[WideningStep]], Estimate]
"""Maps the steps taken to the SQNR of the worst output on all samples."""


class Ahead(Protocol):
    """A callback with the lists of steps that may be measured next, the most likely first, so that workers can start.

    With `ranked`, the other lists may be ranked again after the first one.
    """

    def __call__(self, lists: Iterable[Sequence[WideningStep]], *, ranked: bool = False) -> None: ...


def _alone(lists: Iterable[Sequence[WideningStep]], *, ranked: bool = False) -> None:
    """Does nothing: lists are measured one after the other."""


NEAR = 3.0
"""How far below the minimum the best prefix may be, in dB, for unmeasured lengths to be tried as well."""
MORE = 8
"""The maximum number of such lengths."""


@dataclass
class _Prefixes:
    """The figures of prefixes of a list of steps. Each prefix is measured once.

    The steps after a prefix are ranked again once it has been measured at one of `lengths`, because the first kernels
    may hide noise until they are wide.
    """

    steps: Sequence[WideningStep]
    measure: Callable[[Sequence[WideningStep]], Figures]
    rank: Rank
    budget: Budget
    verify: Verify | None = None
    ahead: Ahead = _alone
    tried: dict[int, Figures] = field(default_factory=dict[int, Figures])

    def __getitem__(self, count: int) -> Figures:
        if count not in self.tried:
            self.tried[count] = self.measure(self.steps[:count])
        return self.tried[count]

    def lengths(self) -> Iterator[int]:
        """0, 1, 2, 4, ... and the length of the list. Before each but the first two, the remaining steps are ranked
        again."""
        found = 0
        yield found
        while found < len(self.steps):
            if found:
                taken = self.steps[:found]
                self.steps = [*taken, *self.rank(taken)]
            found = min(max(2 * found, 1), len(self.steps))
            yield found

    def prepare(self, counts: Iterable[int], *, ranked: bool = False) -> None:
        """Announce the lengths that may be measured next. The first one certainly will be."""
        self.ahead((self.steps[:count] for count in counts), ranked=ranked)

    def verified(self, count: int) -> Figures:
        """The figures of a prefix, on all samples if the search has to verify them."""
        found = self[count]
        # All samples take long, so only a prefix that may be the result is verified, and only once.
        if self.verify is not None and found.verified is None:
            estimate = self.verify(self.steps[:count])
            found = self.tried[count] = replace(found, verified=estimate.least, margin=estimate.margin)
        return found

    def reaches(self, count: int, least: float) -> bool:
        """Whether the quality of a prefix, minus the margin, reaches `least`. Such prefixes are verified."""
        found = self[count]
        # The empty prefix is always verified, because it may reach on all samples what it misses on a few.
        return (self.verified(count) if not count or found.quality >= least else found).sure >= least

    def shortest(self, least: float) -> int:
        """The shortest prefix whose quality is at least `least`. Bisection assumes that longer prefixes reach it."""
        low = -1
        for high in self.lengths():
            self.prepare([high, *_halves(low, high)], ranked=True)
            if self.reaches(high, least):
                break
            low = high
        else:
            return self._between(least)
        while high - low > 1:
            middle = (low + high) // 2
            self.prepare(_halves(low, high))
            low, high = (low, middle) if self.reaches(middle, least) else (middle, high)
        return high

    def _between(self, least: float) -> int:
        """An unmeasured prefix of that quality, if none of the measured ones has it. Raises Missed.

        A longer prefix may be worse, because kernels of different widths need rescales between them. The lengths
        nearest to the best one are tried, if that one is near enough.
        """
        best = self._best()
        left = [count for count in range(len(self.steps)) if count not in self.tried]
        # Neighbouring lengths differ in few kernels, so they are the most likely to be better.
        near = sorted(left, key=lambda count: abs(count - best))[:MORE]
        for number, count in enumerate(near if self[best].sure >= least - NEAR else ()):
            self.prepare(near[number:])
            if self.reaches(count, least):
                return count
        best = self._best()
        if self.verified(best).sure >= least:
            return best
        # Without the margin: the minimum holds on this data, and the result says that it may not hold on other data.
        if met := [count for count, found in self.tried.items() if self._holds(found, least)]:
            return max(met, key=lambda count: self.tried[count].sure)
        steps, advice = f"{best} of {len(self.steps)} steps", self.budget.relaxed(self[best])
        raise Missed(f"found at most {self[best]}, at {steps}, expected {self.budget}; {advice}", self.spent(best))

    def _best(self) -> int:
        return max(self.tried, key=lambda count: self.tried[count].sure)

    def _holds(self, found: Figures, least: float) -> bool:
        known = self.verify is None or found.verified is not None
        return known and found.reached >= least

    def spent(self, count: int) -> Spent:
        """The result of a search that ends with a prefix."""
        tried = dict(sorted(self.tried.items()))
        kernels = len({region for step in self.steps for region in step.regions})
        return Spent(self.budget, tuple(self.steps[:count]), self[0], self[count], tried, len(self.steps), kernels)

    def best_within(self) -> int:
        """The prefix of best quality among those measured during the search for the longest one within the limits."""
        low, high = 0, len(self.steps) + 1
        for length in self.lengths():
            self.prepare([length, *_halves(low, length)], ranked=True)
            if not self.budget.allows(self[length]):
                high = length
                break
            low = length
        while high - low > 1:
            middle = (low + high) // 2
            self.prepare(_halves(low, high))
            low, high = (middle, high) if self.budget.allows(self[middle]) else (low, middle)
        fitting = [count for count, found in self.tried.items() if self.budget.allows(found)]
        # Of equal quality the shortest, because every step costs bytes or time.
        return max(fitting, key=lambda count: (self[count].quality, -count), default=0)


def _halves(low: int, high: int) -> Iterator[int]:
    """The lengths that bisection may measure between two: that of its first step, the two of its second step, and so
    on."""
    parts = deque([(low, high)])
    while parts:
        low, high = parts.popleft()
        if high - low > 1:
            middle = (low + high) // 2
            yield middle
            parts += [(low, middle), (middle, high)]


def spend(
    rank: Rank,
    measure: Callable[[Sequence[WideningStep]], Figures],
    budget: Budget,
    verify: Verify | None = None,
    ahead: Ahead = _alone,
) -> Spent:
    """Choose a prefix of the ranked steps that meets the budget, with few measurements.

    `ahead` is told which prefixes may be measured next. The result does not depend on what it does. With `verify`, the
    quality of the chosen prefix is that on all samples. Raises BudgetError, with the best figures found, if no prefix
    meets the budget.
    """
    prefixes = _Prefixes(rank(()), measure, rank, budget, verify, ahead)
    count = prefixes.best_within() if budget.quality is None else prefixes.shortest(budget.quality)
    found = prefixes.spent(count)
    if not budget.allows(found.after):
        steps = f"{count} of {found.available} steps"
        message = f"found {found.after}, at {steps}, expected {budget}; {budget.relaxed(found.after)}"
        raise Missed(message, found)
    return found


def record(program: Program, spent: Spent) -> Program:
    """The program with the result of the search on its module, where `explain` reads it."""
    program = program.clone()
    state_facts(
        program.module, spent.facts() or [Fact("none", "no kernel was widened", "calibrated", str(spent))], BUDGET
    )
    return program
