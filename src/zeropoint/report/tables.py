"""Tables for the terminal."""

from __future__ import annotations

from io import StringIO
from typing import Any

from zeropoint.targets import TARGETS, Target, port_text, relation_text, target


def rendered(table: Any, width: int = 120) -> str:
    """A rich table as plain text."""
    from rich.console import Console

    stream = StringIO()
    Console(file=stream, width=width).print(table)
    return stream.getvalue().rstrip("\n")


def target_list() -> str:
    """Every built-in target, a line each."""
    return "\n".join(
        f"{found.name:13s}{found.description}; profile {found.profile}, {len(found.by_kernel)} kernels"
        for found in map(target, TARGETS)
    )


def target_table(target: Target) -> str:
    """The kernel table of a target, in the words of its file."""
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
            port_text(row.output),
            relation_text(row.relation),
            f"{accumulator} {row.intermediate}".strip(),
            row.checked or "-",
        )
    return rendered(table, width=140)
