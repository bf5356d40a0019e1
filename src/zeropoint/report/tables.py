"""Tables for the terminal."""

from __future__ import annotations

import html
import shutil
import sys
from collections import Counter
from io import StringIO
from typing import Any

from zeropoint.targets import TARGETS, Target, port_text, relation_text, target

LEAST_WIDTH = 60
"""Columns of a table on a very narrow terminal; lines wrap instead of words."""


def rendered(table: Any, width: int = 120) -> str:
    """A rich table as plain text, as wide as the terminal if standard output is one, else `width`."""
    from rich.console import Console

    stream = StringIO()
    shown = shutil.get_terminal_size((width, 24)).columns if sys.stdout.isatty() else width
    # Plain text: in a notebook, rich would write escape sequences.
    Console(file=stream, width=max(shown, LEAST_WIDTH), force_jupyter=False, color_system=None).print(table)
    return stream.getvalue().rstrip("\n")


def preformatted(text: str) -> str:
    """A text as preformatted HTML for notebooks, without line wrapping."""
    return f'<pre style="line-height:1.2;white-space:pre;overflow-x:auto">{html.escape(text)}</pre>'


def target_list() -> str:
    """All built-in targets, one per line."""
    return "\n".join(
        f"{found.name:13s}{found.description}; profile {found.profile}, {len(found.by_kernel)} kernels, "
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
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, title=f"{target.name}: {target.description} (profile {target.profile})")
    for column in ("kernel", "inputs", "output", "relation", "accumulator", "checked"):
        table.add_column(column, overflow="fold")
    for row in target.rows:
        accumulator = "" if row.accumulator_bits is None else f"i{row.accumulator_bits}"
        table.add_row(
            row.kernel,
            ", ".join(port_text(rule) for rule in row.inputs),
            ", ".join(port_text(rule) for rule in row.outputs),
            relation_text(row.relation),
            f"{accumulator} {row.intermediate}".strip(),
            row.checked.partition(":")[0] or "-",
        )
    return f"{rendered(table, width=140)}\n{checked_text(target)}"
