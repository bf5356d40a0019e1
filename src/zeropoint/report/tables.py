"""Tables for the terminal."""

from __future__ import annotations

import html
import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Collection, Sequence
from io import StringIO

from zeropoint.targets import TARGETS, Target, port_text, relation_text, target

LEAST_WIDTH, LEAST_COLUMN = 60, 9
"""Smallest line width and smallest mean column width, in characters. If a table has less, its rows become blocks."""


def line_width(without_terminal: int) -> int:
    """The number of characters of a line: from `COLUMNS`, else of the terminal, else `without_terminal`."""
    if not (sys.stdout.isatty() or os.environ.get("COLUMNS")):
        return without_terminal
    return max(shutil.get_terminal_size((without_terminal, 24)).columns, 20)


def text_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str | None = None,
    right: Collection[str] = (),
    width: int = 120,
) -> str:
    """A table as plain text, as wide as the terminal, or `width` characters without one. Long cells are folded.

    The columns in `right` are aligned to the right. If the terminal is too narrow for columns, each row becomes a
    block: its first cell, and a line for each other cell that is not empty.
    """
    from rich import box  # heavy, and only needed here
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = line_width(width)
    table = Table(box=box.SIMPLE, title=title)
    for name in columns:
        table.add_column(name, overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    stream = StringIO()
    # Plain text: in a notebook, rich would write escape sequences.
    console = Console(file=stream, width=width, force_jupyter=False, color_system=None)
    if console.measure(table, options=console.options.update(width=10**6)).maximum > width:
        if width < max(LEAST_WIDTH, LEAST_COLUMN * len(columns)):
            return _blocks(columns, rows, title, width)
        table.collapse_padding, table.pad_edge = True, False
    console.print(table)
    return stream.getvalue().rstrip("\n")


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None, width: int) -> str:
    """A table for narrow terminals: its rows as blocks of lines."""
    label = max(map(len, columns[1:]), default=0)
    blocks = [] if title is None else [[title]]
    for name, *cells in rows:
        lines = [
            f"  {column:{label}s}  {'; '.join(cell.splitlines())}"
            for column, cell in zip(columns[1:], cells, strict=True)
            if cell
        ]
        blocks.append([name, *lines])
    return "\n\n".join(folded("\n".join(block), width, indent=label + 4) for block in blocks)


def folded(text: str, width: int | None = None, indent: int | None = None) -> str:
    """The text with lines of at most `width` characters (by default, the width of the terminal), broken at spaces.

    Continuation lines are indented by `indent`, by default two more than their line. Words longer than a line are
    broken, too.
    """
    width = line_width(sys.maxsize) if width is None else width
    lines: list[str] = []
    for line in text.splitlines():
        further = len(line) - len(line.lstrip()) + 2 if indent is None else indent
        hanging = " " * min(further, width // 2)
        wrapped = textwrap.wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False)
        lines += wrapped if len(line) > width else [line]
    return "\n".join(lines)


def preformatted(text: str) -> str:
    """A text as preformatted HTML for notebooks, without line wrapping."""
    return f'<pre style="line-height:1.2;white-space:pre;overflow-x:auto">{html.escape(text)}</pre>'


NAMES = max(map(len, TARGETS)) + 1
"""The width of the names of targets in their list, with a space."""


def target_list() -> str:
    """All built-in targets, one per line."""
    return "\n".join(
        f"{found.name:{NAMES}s}{found.description}; profile {found.profile}, {len(found.by_kernel)} kernels, "
        f"{_checked_count(found)}"
        for found in map(target, TARGETS)
    )


def _checked_count(target: Target) -> str:
    return f"{sum(bool(row.checked) for row in target.rows)} of {len(target.rows)} rows checked"


def checked_text(target: Target) -> str:
    """How many rows were checked against the real runtime, with the runtime version and the tests."""
    by = Counter(row.checked for row in target.rows if row.checked)
    found = (f"{count} by {runtime}{f' in{test}' if test else ''}" for runtime, test, count in map(_parts, by.items()))
    return "; ".join([_checked_count(target), *found])


def _parts(item: tuple[str, int]) -> tuple[str, str, int]:
    runtime, _, test = item[0].partition(":")
    return runtime, test, item[1]


def target_table(target: Target) -> str:
    """The kernel table of a target, in the syntax of its file, and which rows were checked."""
    columns = "kernel", "inputs", "output", "relation", "accumulator", "checked"
    rows: list[tuple[str, ...]] = []
    for row in target.rows:
        accumulator = "" if row.accumulator_bits is None else f"i{row.accumulator_bits}"
        rows.append(
            (
                row.kernel,
                ", ".join(port_text(rule) for rule in row.inputs),
                ", ".join(port_text(rule) for rule in row.outputs),
                relation_text(row.relation),
                f"{accumulator} {row.intermediate}".strip(),
                row.checked.partition(":")[0] or "-",
            )
        )
    title = f"{target.name}: {target.description} (profile {target.profile})"
    return f"{text_table(columns, rows, title=title, width=140)}\n{folded(checked_text(target))}"
