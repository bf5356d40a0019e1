"""Choose a prefix of the steps that meets a budget, with few measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zeropoint.budget.budget import Budget, BudgetError, Figures
from zeropoint.budget.steps import Step
from zeropoint.ir.annotations import BUDGET, Fact, state_facts
from zeropoint.ir.program import Program


@dataclass(frozen=True)
class Spent:
    """The result of a search: the kernels that were widened, with the figures before and after.

    `tried` has the figures of every prefix that was measured, by its length.
    """

    budget: Budget
    steps: tuple[Step, ...]
    before: Figures
    after: Figures
    tried: Mapping[int, Figures] = field(default_factory=dict[int, Figures])

    def facts(self) -> list[Fact]:
        """A fact for each kernel that was widened."""
        return [
            Fact(step.name, f"{step.width}; {step.share:.1%} of the noise at the outputs", "calibrated", str(self))
            for step in self.steps
        ]

    def __str__(self) -> str:
        widths = [f"{sum(step.width == width for step in self.steps)} {width}" for width in self._widths()]
        return (
            f"budget {self.budget}: {self.after} with {' and '.join(widths) or 'no'} kernels, {self.before} without; "
            f"{len(self.tried)} programs measured"
        )

    def _widths(self) -> list[str]:
        return list(dict.fromkeys(step.width for step in self.steps))


Rank = Callable[[Sequence[Step]], Sequence[Step]]
"""From the steps taken to the others, the most important first."""


@dataclass
class _Prefixes:
    """The figures of prefixes of a list of steps, each measured once.

    The steps after a prefix are ranked again once it has been measured at one of `lengths`: noise that hid behind that
    of the first kernels shows when they are wide.
    """

    steps: Sequence[Step]
    measure: Callable[[Sequence[Step]], Figures]
    rank: Rank
    budget: Budget
    tried: dict[int, Figures] = field(default_factory=dict[int, Figures])

    def __getitem__(self, count: int) -> Figures:
        if count not in self.tried:
            self.tried[count] = self.measure(self.steps[:count])
        return self.tried[count]

    def lengths(self) -> Iterator[int]:
        """0, 1, 2, 4, ... and the length of the list; before each but the first two, the steps behind are ranked."""
        found = 0
        yield found
        while found < len(self.steps):
            if found:
                taken = self.steps[:found]
                self.steps = [*taken, *self.rank(taken)]
            found = min(max(2 * found, 1), len(self.steps))
            yield found

    def shortest(self, least: float) -> int:
        """The shortest prefix whose quality is at least `least`; bisection assumes that longer ones have it too."""
        low = -1
        for high in self.lengths():
            if self[high].quality >= least:
                break
            low = high
        else:
            best = max(self.tried, key=lambda count: self.tried[count].quality)
            raise BudgetError(
                f"found at most {self[best]}, at {best} of {len(self.steps)} steps, expected {self.budget}; "
                "ask for less"
            )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self[middle].quality >= least else (middle, high)
        return high

    def best_within(self) -> int:
        """The prefix of best quality among those measured while looking for the longest one within the limits."""
        low, high = 0, len(self.steps) + 1
        for length in self.lengths():
            if not self.budget.allows(self[length]):
                high = length
                break
            low = length
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.budget.allows(self[middle]) else (low, middle)
        fitting = [count for count, found in self.tried.items() if self.budget.allows(found)]
        return max(fitting, key=lambda count: (self[count].quality, -count), default=0)


def spend(rank: Rank, measure: Callable[[Sequence[Step]], Figures], budget: Budget) -> Spent:
    """Choose a prefix of the ranked steps that meets the budget, and measure as few as possible.

    Raises BudgetError, with the best figures found, if there is none.
    """
    prefixes = _Prefixes(rank(()), measure, rank, budget)
    before = prefixes[0]
    count = prefixes.best_within() if budget.quality is None else prefixes.shortest(budget.quality)
    after = prefixes[count]
    if not budget.allows(after):
        raise BudgetError(f"found {after}, at {count} of {len(prefixes.steps)} steps, expected {budget}; ask for less")
    return Spent(budget, tuple(prefixes.steps[:count]), before, after, dict(sorted(prefixes.tried.items())))


def record(program: Program, spent: Spent) -> Program:
    """The program with the result of the search on its module, which `explain` reads."""
    program = program.clone()
    state_facts(
        program.module, spent.facts() or [Fact("none", "no kernel was widened", "calibrated", str(spent))], BUDGET
    )
    return program
