"""Compare the inputs and outputs of an exported file with those of its program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from zeropoint.export.errors import ExportError
from zeropoint.ir.program import Program


class ExportedPorts(Protocol):
    """A file that a runtime has loaded."""

    @property
    def inputs(self) -> Sequence[str]:
        """The names of the inputs."""
        ...

    @property
    def outputs(self) -> Sequence[str]:
        """The names of the outputs."""
        ...


def check_ports(path: Path, file: ExportedPorts, program: Program) -> None:
    """Raise ExportError if the file's input or output names differ from the program's."""
    for kind, found, ports in (("inputs", file.inputs, program.inputs), ("outputs", file.outputs, program.outputs)):
        expected = [port.name for port in ports]
        if sorted(found) != sorted(expected):
            raise ExportError(f"{path}: found {kind} {list(found)}, expected {expected}")
