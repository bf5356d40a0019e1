"""Compare the inputs and outputs of an exported file with those of its program, and arrays with its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from zeropoint.export.errors import ExportError
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array


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


def check_dtype(name: str, value: Array, wanted: npt.DTypeLike) -> None:
    """Raise ExportError if the array for an input of a file has another dtype than the input."""
    if value.dtype != wanted:
        raise ExportError(
            f"input '{name}': found {value.dtype}, expected {np.dtype(wanted)}; export with io float (--io)"
        )
