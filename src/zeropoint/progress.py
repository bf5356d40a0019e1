"""A progress bar on a terminal; no output on a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from operator import length_hint
from typing import Protocol, TypeVar

T = TypeVar("T")
WIDE = 60
"""Columns of a terminal below which the count and the remaining time are shown, without bar and elapsed time."""


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
    return progress if not isinstance(progress, bool) else bar if progress else silent


def bar(items: Iterable[T], description: str) -> Iterator[T]:
    """The items, with a bar on stderr that shows count, elapsed and remaining time, and is removed when done.

    If stderr is not a terminal, nothing is shown and rich is not imported. For an iterable without a length hint
    (`operator.length_hint`), the bar is indeterminate.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    # Heavy, and only needed on a terminal.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    total = length_hint(items, -1)
    console = Console(stderr=True)
    text, count, left = TextColumn("{task.description}"), MofNCompleteColumn(), TimeRemainingColumn()
    columns = (text, BarColumn(), count, TimeElapsedColumn(), left) if console.width >= WIDE else (text, count, left)
    with RichProgress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(description, total=total if total >= 0 else None)
        for item in items:
            yield item
            shown.advance(task)
