"""A progress bar on a terminal. Nothing is printed to a pipe."""

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
"""On a terminal with fewer columns, only the count and the remaining time are shown, without bar and elapsed time."""
SHARE, LONG = 0.1, 10.0
"""The share of the items, or the number of seconds, that is measured before a remaining time is shown."""
SHORT = 0.5
"""The seconds after which a bar inside a bar appears."""


class Progress(Protocol):
    """Passes on the items of an iterable and shows the progress."""

    def __call__(self, items: Iterable[T], description: str) -> Iterator[T]:
        """The same items. `description` labels the progress display."""
        ...


def silent(items: Iterable[T], description: str) -> Iterator[T]:
    """The items, without a display."""
    return iter(items)


def display(progress: Progress | bool) -> Progress:
    """The bar for True, no display for False, or the given function."""
    return progress if callable(progress) else bar if progress else silent


@dataclass
class Pace:
    """The time that the items of a bar take, and the estimate for the remaining items.

    The first item is not counted, because it often includes work that is done once, such as compilation.
    """

    total: int
    done: int = 0
    begun: float = 0.0
    latest: float = 0.0

    def count(self, now: float) -> None:
        """Count an item that is done at the time `now`, in seconds."""
        self.begun = self.begun if self.done else now
        self.done, self.latest = self.done + 1, now

    def left(self, now: float) -> float | None:
        """The estimated remaining seconds; None as long as too little has been measured."""
        measured = self.latest - self.begun
        if self.done < 2 or (self.done < SHARE * self.total and measured < LONG):
            return None
        each = measured / (self.done - 1)
        # The running item may take longer than the mean, but the items after it still have to be done.
        return max(each * (self.total - self.done) - (now - self.latest), each * (self.total - self.done - 1), 0.0)


_shown: ContextVar[Progress] = ContextVar("progress", default=silent)
"""The progress of the running command or call. It is not a parameter, because models are loaded from many places."""


@contextmanager
def showing(progress: Progress) -> Generator[None]:
    """A context in which `shown` and `phase` use this progress. Threads and processes started in it show nothing."""
    before = _shown.set(progress)
    try:
        yield
    finally:
        _shown.reset(before)


def shown(items: Iterable[T], description: str) -> Iterator[T]:
    """The items, with the progress that `showing` sets. By default, nothing is shown."""
    return _shown.get()(items, description)


@contextmanager
def phase(description: str) -> Generator[None]:
    """A context for work without items to count: a bar of one step, by `shown`."""
    steps = shown([None], description)
    next(steps, None)
    try:
        yield
    finally:
        for _ in steps:
            pass


_displays: list[RichProgress] = []
"""The display on the terminal, while there is one. rich draws one at a time, so bars inside a bar are lines of it."""


@contextmanager
def _display() -> Generator[RichProgress]:
    """The display on the terminal. It is started if there is none."""
    if _displays:
        yield _displays[-1]
        return
    # a slow import that is needed only on a terminal
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Left(ProgressColumn):
        """The remaining time, estimated by the bar's `Pace`."""

        def render(self, task: Task) -> Text:
            left = task.fields["pace"].left(perf_counter())
            return Text("-:--:--" if left is None else str(timedelta(seconds=ceil(left))), style="progress.remaining")

    class Bars(RichProgress):
        """Bars inside a bar appear only after a while, because most are finished at once."""

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
    """The items, with a bar on stderr that shows count, elapsed and remaining time. It is removed at the end.

    A bar inside another one is a line below it. The remaining time is shown once a tenth of the items, or `LONG`
    seconds, have been measured. If stderr is not a terminal, nothing is shown and rich is not imported. For an iterable
    without a length hint (`operator.length_hint`), the bar is indeterminate.
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
