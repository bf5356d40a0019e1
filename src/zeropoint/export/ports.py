"""The inputs and outputs of an exported file: compared with those of its program, checked, and as real numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from xdsl.ir import Attribute

from zeropoint.errors import port_parameters
from zeropoint.export.errors import ExportError
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import Array
from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize


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


class ExportedFile(ExportedPorts, Protocol):
    """A file that a runtime runs, whose integer ports take and return stored integers."""

    @property
    def dtypes(self) -> Mapping[str, np.dtype[Any]]:
        """The dtypes of the inputs by name, as far as NumPy has them."""
        ...

    def __call__(self, inputs: Mapping[str, Array], *, observe: object = None) -> dict[str, Array]:
        """The outputs for one sample, by name."""
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


def stated_parameters(name: str, kind: Attribute) -> dict[str, object]:
    """The scale and zero point of a port of storage integers, for the metadata of a file; empty for other ports."""
    if not isinstance(kind, UniformQuantizedType) or not kind.is_per_layer:
        return {}
    return {name: {"scale": kind.scale, "zero_point": int(kind.zero_point)}}


class RealPorts:
    """An exported file that takes and returns real numbers. Its metadata has the parameters of its integer ports."""

    def __init__(self, file: ExportedFile, metadata: Mapping[str, Any]):
        self._file, self._parameters = file, port_parameters(metadata)

    @property
    def inputs(self) -> Sequence[str]:
        """The names of the inputs."""
        return self._file.inputs

    @property
    def outputs(self) -> Sequence[str]:
        """The names of the outputs."""
        return self._file.outputs

    def __call__(self, inputs: Mapping[str, Array], *, observe: object = None) -> dict[str, Array]:
        """The outputs for one sample, by name. Arrays of integers are taken as stored integers."""
        given = dict(inputs)
        for name, dtype in self._file.dtypes.items():
            if name in given and name in self._parameters and dtype.kind in "iu" and given[name].dtype.kind == "f":
                limits, before = np.iinfo(dtype.type), QuantizeBehaviour.RNE_BEFORE_ZERO_POINT
                pair = self._parameters[name]
                given[name] = quantize(given[name], *pair, limits.min, limits.max, behaviour=before, dtype=dtype.type)
        found = self._file(given, observe=observe)
        return {name: self._real(name, value) for name, value in found.items()}

    def _real(self, name: str, value: Array) -> Array:
        has_real = name in self._parameters and value.dtype.kind in "iu"
        return dequantize(value, *self._parameters[name]) if has_real else value
