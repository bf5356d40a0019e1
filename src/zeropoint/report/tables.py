"""Tables for the terminal."""

from __future__ import annotations

from io import StringIO
from typing import Any

from zeropoint.targets import TARGETS, FixedScale, KernelRow, MultiplierAccumulatorScale, SameScale, Target


def rendered(table: Any, width: int = 120) -> str:
    """A rich table as plain text."""
    from rich.console import Console

    stream = StringIO()
    Console(file=stream, width=width).print(table)
    return stream.getvalue().rstrip("\n")


def target_list() -> str:
    """Every target, a line each."""
    return "\n".join(
        f"{target.name:12s}{target.description}; profile {target.profile}, {len(target.rows)} kernels"
        for target in TARGETS.values()
    )


def _relation(row: KernelRow) -> str:
    match row.relation:
        case FixedScale(scale, zero_point):
            return f"fixed ({scale:g}, {zero_point})"
        case SameScale():
            return "same scale"
        case MultiplierAccumulatorScale():
            return "bias = in * weight"
        case _:
            return "free"


def target_table(target: Target) -> str:
    """The kernel table of a target."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, title=f"{target.name}: {target.description} (profile {target.profile})")
    for column in ("kernel", "inputs", "output", "relation", "accumulator", "checked"):
        table.add_column(column)
    for row in target.rows:
        inputs = ", ".join(
            f"{rule.role.value} {rule.storage}{' per channel' if rule.per_channel else ''}" for rule in row.inputs
        )
        accumulator = "" if row.accumulator_bits is None else f"i{row.accumulator_bits}"
        table.add_row(row.kernel, inputs, str(row.output.storage), _relation(row), accumulator, row.checked or "-")
    return rendered(table)
