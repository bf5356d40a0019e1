"""Run exported TOSA text with TOSA's reference model, after its validator.

The tools are programs of the package `tosa-tools`: `tosa-opt` and `tosa_reference_model`. The package requires other
versions of NumPy and flatbuffers than zeropoint, so it is installed in a separate environment.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from zeropoint.errors import port_order, reading
from zeropoint.export.errors import ExportError
from zeropoint.export.tosa.builder import HEADER
from zeropoint.ir.outputs import temporary_folder
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize

ENVIRONMENT = "ZEROPOINT_TOSA"
"""The environment variable that names the folder of the tools' Python environment."""
TOOLS = ("tosa-opt", "tosa_reference_model")
TARGET = "--tosa-attach-target=profiles=pro_int,pro_fp extensions=doubleround level=8k"
"""What files are validated against: TOSA 1.0's integer and floating-point profiles, level 8K, and DOUBLE_ROUND."""
SECONDS = 600
LINES_SHOWN = 3
FIELDS = ("inputs", "outputs", "orders", "quantization")
"""The keys of a file's header."""


@functools.cache
def tools() -> tuple[Path, Path] | None:
    """The paths of both programs, in the environment that ZEROPOINT_TOSA names, else in PATH; None if not installed."""
    root = os.environ.get(ENVIRONMENT)
    folders = list(Path(root).glob("lib/python*/site-packages/bin")) if root else list[Path]()
    for folder in folders:
        found = folder / TOOLS[0], folder / TOOLS[1]
        if all(tool.is_file() for tool in found):
            return found
    paths = [shutil.which(tool) for tool in TOOLS]
    return None if paths[0] is None or paths[1] is None else (Path(paths[0]), Path(paths[1]))


def tosa_version(_package: str = "tosa-tools") -> str:
    """The version of the tools; empty if they are not installed."""
    found = tools()
    if found is None:
        return ""
    names = [path.name for path in found[0].parents[1].glob("tosa_tools-*.dist-info")]
    return names[0].removeprefix("tosa_tools-").removesuffix(".dist-info") if names else "of PATH"


def _required() -> tuple[Path, Path]:
    found = tools()
    if found is None:
        raise ExportError(
            "found no tosa-tools, expected them to run .tosa.mlir files; python -m venv tosa && "
            f"tosa/bin/pip install tosa-tools && export {ENVIRONMENT}=$PWD/tosa"
        )
    return found


def _succeeding(folder: str, *command: str | Path) -> None:
    """Run a tool. If it fails, raises ExportError with the first lines of its message."""
    try:
        done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExportError(f"{Path(command[0]).name}: found no result: {error}") from error
    if done.returncode != 0:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise ExportError(f"{Path(command[0]).name}: {' '.join(said[:LINES_SHOWN])[:1000]}")


class TosaFile:
    """A file with named inputs and outputs that takes and returns arrays in the layout of the original model.

    The file's header records how the exporter moved dimensions, and the scales of integer inputs and outputs.
    """

    def __init__(self, path: Path):
        """Validate and serialize the file. Raises ExportError if a tool rejects it, or if there are no tools."""
        optimizer, self._model = _required()
        self._folder = temporary_folder()
        with reading(path, ExportError):
            header = _header(path.read_text(encoding="utf-8"), path)
            self.inputs, self.outputs = (tuple(map(str, header[kind])) for kind in ("inputs", "outputs"))
            self._header = header
            self._unsigned = frozenset(header.get("unsigned", ()))
            self._stored: Mapping[str, tuple[np.float32, int]] = {
                name: (np.float32(kind["scale"]), int(kind["zero_point"]))
                for name, kind in header["quantization"].items()
            }
        passes = (TARGET, "--tosa-validate", "--tosa-serialize", "--tosa-flatbuffer-filename=program.tosa")
        _succeeding(self._folder.name, optimizer, *passes, path.resolve(), "-o", "valid.mlir")

    def __call__(self, inputs: Mapping[str, Array], *, observe: object = None) -> dict[str, Array]:
        """The outputs for one sample, by name. `observe` is ignored, because a runtime does not show inner values."""
        folder = Path(self._folder.name)
        for index, name in enumerate(self.inputs):
            if name not in inputs:
                raise ExportError(f"found no array for input '{name}', expected arrays for {', '.join(self.inputs)}")
            value = inputs[name].transpose(port_order(self._header, "inputs", name, inputs[name].ndim))
            np.save(folder / f"x{index}.npy", np.ascontiguousarray(self._integers(name, value)))
        options_of = {
            "ifm_name": [f"TosaInput_{i}" for i in range(len(self.inputs))],
            "ifm_file": [f"x{i}.npy" for i in range(len(self.inputs))],
            "ofm_name": [f"TosaOutput_{i}" for i in range(len(self.outputs))],
            "ofm_file": [f"y{i}.npy" for i in range(len(self.outputs))],
        }
        options = [part for name, values in options_of.items() if values for part in (f"--{name}", ",".join(values))]
        folders = ("--flatbuffer_dir", ".", "--output_dir", ".")
        _succeeding(
            self._folder.name, self._model, "--tosa_file", "program.tosa", *folders, "--tosa_level", "EIGHTK", *options
        )
        found: dict[str, Array] = {}
        for index, name in enumerate(self.outputs):
            value = self._reals(name, np.load(folder / f"y{index}.npy"))
            found[name] = value.transpose(np.argsort(port_order(self._header, "outputs", name, value.ndim)))
        return found

    def _integers(self, name: str, value: Array) -> Array:
        """The storage integers of an input that is given as real numbers."""
        kind = self._stored.get(name)
        if value.dtype.kind == "u":  # the same bits: TOSA's types have no sign
            return value.view(value.dtype.name.removeprefix("u"))
        if kind is None or value.dtype.kind != "f":
            return value.astype(np.int32) if value.dtype == np.int64 else value
        scale, zero_point = kind
        return quantize(value, scale, zero_point, -128, 127, behaviour=QuantizeBehaviour.RNE_RECIPROCAL, dtype=np.int8)

    def _reals(self, name: str, value: Array) -> Array:
        kind = self._stored.get(name)
        if name in self._unsigned:
            return value.view(f"u{value.dtype.name}")
        if kind is None:
            return value
        scale, zero_point = kind
        return dequantize(value, scale, zero_point)


@dataclass(frozen=True)
class TosaEngine:
    """An engine that runs a program from its exported file with TOSA's reference model."""

    path: Path

    def prepare(self, program: Program) -> TosaFile:
        """The file, ready to run. Raises ExportError if its input or output names differ from the program's."""
        file = TosaFile(self.path)
        for kind, found, ports in (("inputs", file.inputs, program.inputs), ("outputs", file.outputs, program.outputs)):
            expected = [port.name for port in ports]
            if sorted(found) != sorted(expected):
                raise ExportError(f"{self.path}: found {kind} {list(found)}, expected {expected}")
        return file


def _header(text: str, path: Path) -> Mapping[str, Any]:
    """The first line, as JSON. Raises ExportError for a file that zeropoint did not write."""
    line = text.partition("\n")[0]
    try:
        found: Any = json.loads(line.removeprefix(HEADER)) if line.startswith(HEADER) else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or any(name not in found for name in FIELDS):
        raise ExportError(f"{path}: found no first line '{HEADER}...', expected a file that zeropoint exported")
    return cast("Mapping[str, Any]", found)
