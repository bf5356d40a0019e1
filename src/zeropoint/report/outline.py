"""The ports and the counts of a program: what a `Model` prints."""

from __future__ import annotations

from zeropoint.ir.program import Port, Program
from zeropoint.report.counts import Ops, constant_bytes, count_ops, counted, size_text


def outline(program: Program) -> list[str]:
    """The inputs, the outputs, the profile, and the numbers of integer and float ops, one a line."""
    rows = [("inputs", program.inputs), ("outputs", program.outputs)]
    lines = [f"{kind:8s}{port.name}: {port.type}" for kind, ports in rows for port in ports]
    if program.profile:
        lines.append(f"profile {program.profile}")
    if program.profile is not None:
        return [*lines, str(Ops.of(program))]
    counts = count_ops(program)
    return [*lines, f"float model, {counted(counts.integer + counts.floats, 'op')}"]


def summary_line(program: Program) -> str:
    """The signature of a program, its numbers of integer and float ops, and the size of its constants."""
    counts = count_ops(program)
    profile = f", profile {program.profile}" if program.profile else ""
    return (
        f"({_listed(program.inputs)}) -> ({_listed(program.outputs)}): "
        f"{counted(counts.integer, 'integer op')}, {counted(counts.floats, 'float op')}, "
        f"{size_text(constant_bytes(program))} of constants{profile}"
    )


def _listed(ports: list[Port]) -> str:
    return ", ".join(f"{port.name}: {port.type}" for port in ports)
