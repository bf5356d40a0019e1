"""A progress bar on a terminal; no output on a pipe."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from operator import length_hint
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

T = TypeVar("T")
WIDE = 60
"""Columns of a terminal below which the count and the remaining time are shown, without bar and elapsed time."""
SHARE, LONG = 0.1, 10.0
"""The share of the items, or the seconds, that are measured before a remaining time is shown."""
SHORT = 0.5
"""Seconds after which a bar inside of a bar appears."""


class Progress(Protocol):
    """Passes the items of an iterable on and shows progress."""

    def __call__(self, items: Iterable[T], description: str) -> Iterator[T]:
        """The same items; `description` labels the progress display."""
        ...


def silent(items: Iterable[T], description: str) -> Iterator[T]:
    """The items, with nothing shown."""
    return iter(items)


def display(progress: Progress | bool) -> Progress:
    """The bar for True, nothing for False, or the given function."""
    return progress if callable(progress) else bar if progress else silent


@dataclass
class Pace:
    """The time that the items of a bar take, and what it says about the items left.

    The first item is not counted: it often includes work that is done once, such as compilation.
    """

    total: int
    done: int = 0
    begun: float = 0.0
    latest: float = 0.0

    def count(self, now: float) -> None:
        """One more item is done, at the time `now` in seconds."""
        self.begun = self.begun if self.done else now
        self.done, self.latest = self.done + 1, now

    def left(self, now: float) -> float | None:
        """The estimated seconds that are left; None as long as too little has been measured."""
        measured = self.latest - self.begun
        if self.done < 2 or (self.done < SHARE * self.total and measured < LONG):
            return None
        each = measured / (self.done - 1)
        # The item that is running may take longer than the mean, but those after it are not done either.
        return max(each * (self.total - self.done) - (now - self.latest), each * (self.total - self.done - 1), 0.0)


_shown: ContextVar[Progress] = ContextVar("progress", default=silent)
"""The progress of the command or call that runs: what loads models is called from many places."""


@contextmanager
def showing(progress: Progress) -> Generator[None]:
    """Within it, `shown` and `phase` use this progress. Threads and processes begun within it show nothing."""
    before = _shown.set(progress)
    try:
        yield
    finally:
        _shown.reset(before)


def shown(items: Iterable[T], description: str) -> Iterator[T]:
    """The items, with the progress that is set by `showing`; by default, nothing is shown."""
    return _shown.get()(items, description)


@contextmanager
def phase(description: str) -> Generator[None]:
    """Work that has no items to count: a bar of one step, by `shown`."""
    steps = shown([None], description)
    next(steps, None)
    try:
        yield
    finally:
        for _ in steps:
            pass


_displays: list[RichProgress] = []
"""The display on the terminal while there is one: rich draws one at a time, so bars inside of a bar are its lines."""


@contextmanager
def _display() -> Generator[RichProgress]:
    """The display on the terminal, begun if there is none."""
    if _displays:
        yield _displays[-1]
        return
    # Heavy, and only needed on a terminal.
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Left(ProgressColumn):
        """The time left, by the pace of the bar."""

        def render(self, task: Task) -> Text:
            left = task.fields["pace"].left(perf_counter())
            return Text("-:--:--" if left is None else str(timedelta(seconds=ceil(left))), style="progress.remaining")

    class Bars(RichProgress):
        """Bars inside of a bar appear only if they last: most are over at once."""

        def get_renderables(self) -> Iterable[RenderableType]:
            shown = [task for task in self.tasks if task is self.tasks[0] or (task.elapsed or 0.0) > SHORT]
            yield self.make_tasks_table(shown)

    console = Console(stderr=True)
    text, count = TextColumn("{task.description}"), MofNCompleteColumn()
    columns = (
        (text, BarColumn(), count, TimeElapsedColumn(), Left()) if console.width >= WIDE else (text, count, Left())
    )
    with Bars(*columns, console=console, transient=True) as shown:
        _displays.append(shown)
        try:
            yield shown
        finally:
            _displays.pop()


def bar(items: Iterable[T], description: str) -> Iterator[T]:
    """The items, with a bar on stderr that shows count, elapsed and remaining time, and is removed when done.

    A bar inside of another one is a line below it. The remaining time is shown when a tenth of the items were measured,
    or `LONG` seconds. If stderr is not a terminal, nothing is shown and rich is not imported. For an iterable without a
    length hint (`operator.length_hint`), the bar is indeterminate.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    total = length_hint(items, -1)
    with _display() as shown:
        pace = Pace(total)
        task = shown.add_task(description, total=total if total >= 0 else None, pace=pace)
        try:
            for item in items:
                yield item
                pace.count(perf_counter())
                shown.advance(task)
        finally:
            shown.remove_task(task)
